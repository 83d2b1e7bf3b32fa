"""LimitedRows: rows below each other, of which so many are shown at first."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import count_text

_MORE = 24


class LimitedRows(QWidget):
    """Knows which rows are to be seen; whoever builds them puts them in.

    Signals:
        limit_changed: more of them are to be shown.
    """

    limit_changed = Signal()

    def __init__(self, theme: Theme, limit: int) -> None:
        super().__init__()
        self._theme = theme
        self._limit = limit
        self.wanted: list[str] = []
        self.more_button = QPushButton()
        self.more_button.setProperty("kind", "small")
        self.more_button.hide()
        self.more_button.clicked.connect(self._on_more)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.addWidget(self.more_button)
        self.set_paths((), always=set())

    def set_paths(self, paths: Sequence[str], *, always: set[str]) -> None:
        """Choose which rows are to be seen."""
        self.wanted = [path for number, path in enumerate(paths) if number < self._limit or path in always]
        num_left = len(paths) - len(self.wanted)
        self.more_button.setText(self.tr("Show more ({count})").format(count=count_text(num_left)))
        self.more_button.setVisible(num_left > 0)
        self.setVisible(bool(paths))

    def place(self, rows: Iterable[QWidget]) -> None:
        """Put rows into their places."""
        for number, row in enumerate(rows):
            item = self._box.itemAt(number)
            if item is None or item.widget() is not row:
                self._box.insertWidget(number, row)
                row.show()
        self._box.setSpacing(self._theme.px(2))

    def _on_more(self) -> None:
        self._limit += _MORE
        self.limit_changed.emit()
