"""ScrolledRows: a stack of small rows of which a few are seen at a time."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QAbstractButton, QFrame, QScrollArea, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme


class ScrolledRows(QScrollArea):
    """Rows of the same height; takes no place while there are none."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: list[QWidget] = []
        self._max_rows = 3
        self._body = QWidget()
        self._box = QVBoxLayout(self._body)
        self._box.setContentsMargins(0, 0, 0, 0)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(self._body)
        for surface in (self._body, self.viewport()):
            surface.setAutoFillBackground(False)
        self.hide()

    @property
    def rows(self) -> Sequence[QWidget]:
        """All rows, from the top."""
        return self._rows

    @property
    def num_hidden(self) -> int:
        """How many rows are reached by scrolling only."""
        return max(0, len(self._rows) - self._max_rows)

    @property
    def buttons(self) -> list[QAbstractButton]:
        """The buttons of all rows, in their order."""
        return [button for row in self._rows for button in row.findChildren(QAbstractButton)]

    def set_rows(self, rows: Sequence[QWidget]) -> None:
        """Show other rows; a button that has the focus hands it on to the one in its place."""
        before = self.buttons
        focused = next((i for i, button in enumerate(before) if button.hasFocus()), None)
        for row in self._rows:
            self._box.removeWidget(row)
            row.hide()
            row.deleteLater()
        self._rows = []
        self.add_rows(rows)
        after = self.buttons
        if focused is not None and after:
            # From the end, for the row of the pressed button is the one that has gone.
            place = focused if focused < len(after) else len(after) - (len(before) - focused)
            after[max(0, min(place, len(after) - 1))].setFocus()

    def add_rows(self, rows: Sequence[QWidget]) -> None:
        """Show more rows below the others."""
        self._rows += rows
        for row in rows:
            self._box.addWidget(row)
            row.show()  # a layout does it a moment later, and is too low until then
            for button in row.findChildren(QAbstractButton):
                button.installEventFilter(self)
        self._update_height()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Bring a button that gets the focus into view."""
        if event.type() == QEvent.Type.FocusIn and isinstance(watched, QWidget):
            self.ensureWidgetVisible(watched, 0, 0)
        return False

    def set_max_rows(self, num_rows: int) -> None:
        """Choose how many rows are seen at a time."""
        if num_rows != self._max_rows:
            self._max_rows = num_rows
            self._update_height()

    def _update_height(self) -> None:
        spacing = self._theme.px(4)
        self._box.setSpacing(spacing)
        heights = [row.sizeHint().height() for row in self._rows]
        self._body.setMinimumHeight(_stacked(heights, spacing))
        self.setFixedHeight(_stacked(heights[: self._max_rows], spacing))
        self.setVisible(bool(self._rows))


def _stacked(heights: Sequence[int], spacing: int) -> int:
    return sum(heights) + spacing * max(0, len(heights) - 1)
