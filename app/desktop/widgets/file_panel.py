"""FilePanel: the files that a person can take in use, and below them those that cannot be, each with its reason."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import breakable
from app.desktop.theme.theme import Theme
from app.desktop.widgets.file_choice import FileChoice
from app.desktop.widgets.limited_rows import LimitedRows
from app.desktop.widgets.param_row import new_note, place_in_tab_order

_FIRST_OTHERS = 4
_ROWS_AT_ONCE = 2  # so that the window is never held up
_Row = TypeVar("_Row", bound=FileChoice)


class FilePanel(QWidget, Generic[_Row]):
    """What the panels of files have in common; they put its parts into `_box` and word them.

    Args:
        num_first: how many usable files are shown at first.

    Signals:
        add_requested: a file is to be looked for.
        summary_changed: what is chosen, in a word or two, is another one.
        seen: it came into view.
    """

    add_requested = Signal()
    summary_changed = Signal(str)
    seen = Signal()

    def __init__(self, theme: Theme, *, num_first: int, parent: QWidget | None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: dict[str, _Row] = {}
        self._usable, self._others = LimitedRows(theme, num_first), LimitedRows(theme, _FIRST_OTHERS)
        for group in (self._usable, self._others):
            group.limit_changed.connect(self._refresh)
        self._others_title = new_note("meta")
        self.add_button = QPushButton(self.tr("Add file …"))
        self.add_button.setProperty("kind", "outline")
        self.add_button.clicked.connect(self.add_requested)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._timer = QTimer(self)  # rows are built when they are first seen, a few at a time
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._fill)
        theme.changed.connect(self._on_theme_changed)

    @property
    def rows(self) -> list[_Row]:
        """The rows that are there, from the top."""
        return [*self._rows_of(self._usable), *self._rows_of(self._others)]

    @property
    def is_filled(self) -> bool:
        """Whether all rows that are to be seen are there."""
        return not self._timer.isActive()

    def showEvent(self, event: QShowEvent) -> None:
        """See QWidget; builds what was not seen before."""
        super().showEvent(event)
        self._timer.start()
        self.seen.emit()

    def _refresh(self) -> None:
        """Offer what there is, by `_offer`."""
        raise NotImplementedError

    def _new_row(self, path: str) -> _Row:
        """Return a row of a file that is offered."""
        raise NotImplementedError

    def _show_row(self, row: _Row) -> None:
        """Show in a row what became of its file and of the choice."""
        raise NotImplementedError

    def _first_inputs(self) -> Sequence[QWidget]:
        """Return what the Tab key reaches before the rows."""
        return ()

    def _offer(self, usable: Mapping[str, bool], *, always: set[str]) -> None:
        """Show rows for these files, by path, and tell which of them can be used.

        Args:
            always: those that are seen however many there are.
        """
        self._usable.set_paths([path for path, is_usable in usable.items() if is_usable], always=always)
        self._others.set_paths([path for path, is_usable in usable.items() if not is_usable], always=set())
        self._others_title.setVisible(bool(self._others.wanted))
        for path in set(self._rows).difference(self._usable.wanted, self._others.wanted):
            row = self._rows.pop(path)
            row.hide()
            row.deleteLater()
        for row in self._rows.values():
            self._show_row(row)
        self._timer.start()

    def _rows_of(self, group: LimitedRows) -> list[_Row]:
        return [self._rows[path] for path in group.wanted if path in self._rows]

    def _fill(self) -> None:
        """Build some of the rows that are to be seen, and go on a moment later."""
        if not self.isVisible():
            return
        missing = [path for path in (*self._usable.wanted, *self._others.wanted) if path not in self._rows]
        for path in missing[:_ROWS_AT_ONCE]:
            self._rows[path] = self._new_row(path)
            self._show_row(self._rows[path])
        for group in (self._usable, self._others):
            group.place(self._rows_of(group))
        if len(missing) > _ROWS_AT_ONCE:
            self._timer.start()
            return
        usable, others = (
            [control for row in self._rows_of(group) for control in row.inputs]
            for group in (self._usable, self._others)
        )
        above = (*self._first_inputs(), *usable)
        chain = [*above, self._usable.more_button, self.add_button, *others, self._others.more_button]
        place_in_tab_order(chain[0], chain[1:])

    def _on_theme_changed(self) -> None:
        self._box.setSpacing(self._theme.px(6))
        self._others_title.setContentsMargins(0, self._theme.px(8), 0, 0)


def say(label: QLabel, text: str) -> None:
    """Have a note say something; nothing for an empty text."""
    label.setText(breakable(text))
    label.setVisible(bool(text))
