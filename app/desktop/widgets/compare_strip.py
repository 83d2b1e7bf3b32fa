"""LaneStrip: lanes beside each other, as wide as there is room; in a narrow window one at a time, chosen by tabs."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.desktop.rendering.plain import action_text, shortened
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_lane import CompareLane

_LEAST, _ONE_BELOW = 280, 560
_TAB_CHARS = 24


class LaneStrip(QWidget):
    """See above."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._lanes: list[CompareLane] = []
        self._tabs = QWidget()
        self._tab_row = QHBoxLayout(self._tabs)
        self._tab_row.addStretch(1)
        self._tab_area = _SidewaysArea(self._tabs)
        self._tab_area.setObjectName("laneTabs")
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self._group.idClicked.connect(self.go_to)
        self._inner = QWidget()
        self._inner.setObjectName("laneStrip")
        self._area = QScrollArea()
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setWidget(self._inner)
        self._area.horizontalScrollBar().valueChanged.connect(self._on_scrolled)
        self._area.viewport().installEventFilter(self)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self._tab_area)
        box.addWidget(self._area, 1)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def tabs(self) -> Sequence[QPushButton]:
        """The tabs; visible where not all lanes are."""
        buttons = [self._group.button(number) for number in range(len(self._lanes))]
        return [button for button in buttons if isinstance(button, QPushButton)]

    @property
    def has_tabs(self) -> bool:
        """Whether not all lanes are in view."""
        return not self._tab_area.isHidden()

    def set_lanes(self, lanes: Sequence[CompareLane]) -> None:
        """Show other lanes; those before are deleted."""
        for lane in self._lanes:
            lane.hide()
            lane.setParent(None)
            lane.deleteLater()
        for button in self._group.buttons():
            self._group.removeButton(button)
            button.hide()
            button.deleteLater()
        self._lanes = list(lanes)
        for number, lane in enumerate(lanes):
            tab = QPushButton(action_text(shortened(lane.label, _TAB_CHARS)))
            tab.setCheckable(True)
            tab.setAccessibleName(lane.label)
            tab.setChecked(number == 0)
            self._group.addButton(tab, number)
            self._tab_row.insertWidget(number, tab)
            lane.setParent(self._inner)
            lane.show()
        self._area.horizontalScrollBar().setValue(0)
        self._arrange()

    def go_to(self, number: int) -> None:
        """Bring a lane into view."""
        if 0 <= number < len(self._lanes):
            self._area.horizontalScrollBar().setValue(self._lanes[number].x())

    def is_in_view(self, lane: CompareLane) -> bool:
        """Tell whether anything of a lane is seen."""
        left = self._area.horizontalScrollBar().value()
        return lane.x() + lane.width() > left and lane.x() < left + self._area.viewport().width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._arrange()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrange again when the room for the lanes changes."""
        if event.type() == QEvent.Type.Resize:
            self._arrange()
        return False

    def _arrange(self) -> None:
        count, width = len(self._lanes), self._area.viewport().width()
        if not count:
            self._tab_area.hide()
            self._inner.resize(0, 0)
            return
        least = self._theme.px(_LEAST)
        is_one = width < self._theme.px(_ONE_BELOW) and count > 1
        lane_width = width if is_one else max(least, width // count)
        all_fit = lane_width * count <= width
        self._tab_area.setVisible(not all_fit)
        policy = Qt.ScrollBarPolicy.ScrollBarAlwaysOff if is_one else Qt.ScrollBarPolicy.ScrollBarAsNeeded
        self._area.setHorizontalScrollBarPolicy(policy)
        height = self._area.viewport().height()
        total = max(width, lane_width * count) if all_fit else lane_width * count
        now = self._group.checkedId()
        self._inner.resize(total, height)
        for number, lane in enumerate(self._lanes):
            left = total * number // count
            lane.setGeometry(left, 0, total * (number + 1) // count - left, height)
        if is_one:
            self.go_to(max(0, now))

    def _on_scrolled(self) -> None:
        left = self._area.horizontalScrollBar().value()
        nearest = min(range(len(self._lanes)), key=lambda number: abs(self._lanes[number].x() - left), default=-1)
        if nearest >= 0 and not self._group.button(nearest).isChecked():
            self._group.button(nearest).setChecked(True)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._tab_row.setContentsMargins(px(8), px(4), px(8), px(4))
        self._tab_row.setSpacing(px(4))
        self._tab_area.setFixedHeight(px(42))
        self._arrange()


class _SidewaysArea(QScrollArea):
    """Scrolls sideways what is too wide, without a bar."""

    def __init__(self, inner: QWidget) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(inner)
