"""ModelsHead: the line above the models: the way back, the search, their order, and the folders."""

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QFrame, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.desktop.itemmodels.model_rows import Sort
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.still_combo_box import StillComboBox

_SEARCH = 240
# With less room than this the search has a line of its own; the title is left out where it would be cut.
_ONE_ROW, _WITH_TITLE, _TITLE_ALONE = 430, 500, 260
_ANY_WIDTH = 16_777_215  # Qt's own largest


class ModelsHead(QFrame):
    """Parts that the page connects; it only places them."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("pageHead")
        self.back_button = GlyphButton(theme, "back", self.tr("Back (Esc)"), size=32)
        self.search = QLineEdit()
        self.search.setPlaceholderText(self.tr("Search models"))
        self.search.setAccessibleName(self.tr("Search models"))
        self.search.setClearButtonEnabled(True)
        self.sort = StillComboBox(theme)
        self.sort.setAccessibleName(self.tr("Order"))
        self.sort.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        for order, label in self._orders():
            self.sort.addItem(label, order)
        self.rescan_button = GlyphButton(theme, "retry", self.tr("Look through the folders again"), size=28)
        self.folders_button = QPushButton(self.tr("Folders"))
        self.folders_button.setProperty("kind", "outline")
        self.folders_button.setCheckable(True)
        self._title = plain_label(self.tr("Models"), role="title")
        self._title.setWordWrap(False)
        self._rows = QVBoxLayout(self)
        self._first, self._second = QHBoxLayout(), QHBoxLayout()
        self._rows.addLayout(self._first)
        self._rows.addLayout(self._second)
        self._first.addWidget(self.back_button)
        self._first.addWidget(self._title)
        self._first.addStretch(1)
        for part in (self.search, self.sort, self.rescan_button, self.folders_button):
            self._first.addWidget(part)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._arrange()

    def _orders(self) -> tuple[tuple[Sort, str], ...]:
        return (
            (Sort.NAME, self.tr("By name")),
            (Sort.SIZE, self.tr("By size")),
            (Sort.TYPE, self.tr("By type")),
            (Sort.USED, self.tr("By last use")),
        )

    def _arrange(self) -> None:
        width, px = self.width(), self._theme.px
        has_two_rows = width < px(_ONE_ROW)
        self._title.setVisible(width >= px(_TITLE_ALONE if has_two_rows else _WITH_TITLE))
        self.search.setMaximumWidth(px(_SEARCH) if width >= px(_WITH_TITLE) else _ANY_WIDTH)
        if has_two_rows == (self._second.count() > 0):
            return
        old, new = (self._first, self._second) if has_two_rows else (self._second, self._first)
        for number, part in enumerate((self.search, self.sort)):
            old.removeWidget(part)
            new.insertWidget(number if has_two_rows else number + 3, part, 1 if part is self.search else 0)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._rows.setContentsMargins(px(8), px(4), px(8), px(4))
        self._rows.setSpacing(px(4))
        self._first.setSpacing(px(8))
        self._second.setSpacing(px(8))
        self.sort.ensurePolished()
        self.search.setFixedHeight(self.sort.sizeHint().height())  # side by side, both end at the same lines
        self._arrange()
