"""AdapterPanel: which LoRA adapters a chat uses, and how strongly; those that do not fit, each with its reason."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.adapter_files import FoundAdapter
from app.desktop.rendering.plain import BREAK, breakable, isolated
from app.desktop.session.chat_adapters import MAX_IN_USE, ChatAdapter
from app.desktop.theme.theme import Theme
from app.desktop.widgets.adapter_row import AdapterRow
from app.desktop.widgets.figures import count_text
from app.desktop.widgets.limited_rows import LimitedRows
from app.desktop.widgets.param_row import new_note, place_in_tab_order

_FIRST_USABLE, _FIRST_OTHERS = 12, 4
_ROWS_AT_ONCE = 2  # so that the window is never held up


class AdapterPanel(QWidget):
    """The adapters that are there, and those that the chat uses.

    Signals:
        changed: the user chose otherwise, see `chosen`.
        let_go: a slider is no longer dragged.
        add_requested: a file is to be looked for.
        summary_changed: `summary` is another one.
        seen: it came into view.
    """

    changed = Signal()
    let_go = Signal()
    add_requested = Signal()
    summary_changed = Signal(str)
    seen = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._found: dict[str, FoundAdapter] = {}
        self._chosen: dict[str, ChatAdapter] = {}
        self._entries: dict[str, FoundAdapter] = {}
        self._rows: dict[str, AdapterRow] = {}
        self._state = new_note("meta")
        self._fault = new_note("error")
        for note in (self._state, self._fault):
            note.setMinimumWidth(1)
        self._usable = LimitedRows(theme, _FIRST_USABLE)
        self._others = LimitedRows(theme, _FIRST_OTHERS)
        self._others_title = new_note("meta")
        self._others_title.setText(self.tr("These do not fit the model:"))
        self.add_button = QPushButton(self.tr("Add file …"))
        self.add_button.setProperty("kind", "outline")
        self.add_button.setToolTip(self.tr("Use a LoRA adapter in GGUF format that lies elsewhere"))
        self.add_button.clicked.connect(self.add_requested)
        self._box = box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        for widget in (self._state, self._usable, self._fault, self.add_button, self._others_title, self._others):
            box.addWidget(widget)
        for group in (self._usable, self._others):
            group.limit_changed.connect(self._refresh)
        # Rows are built when they are first seen, a few at a time.
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._fill)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def chosen(self) -> tuple[ChatAdapter, ...]:
        """The adapters of the chat."""
        return tuple(self._chosen.values())

    @property
    def found(self) -> tuple[FoundAdapter, ...]:
        """What is offered."""
        return tuple(self._found.values())

    @property
    def rows(self) -> list[AdapterRow]:
        """The rows that are there, from the top."""
        wanted = (*self._usable.wanted, *self._others.wanted)
        return [self._rows[path] for path in wanted if path in self._rows]

    @property
    def is_filled(self) -> bool:
        """Whether all rows that are to be seen are there."""
        return not self._timer.isActive()

    @property
    def summary(self) -> str:
        """How many are in use; empty for none."""
        count = len(self._in_use)
        return self.tr("{count} in use").format(count=count_text(count)) if count else ""

    @property
    def state_text(self) -> str:
        """What is said above the rows."""
        return self._state.text().replace(BREAK, "")

    @property
    def fault(self) -> str:
        """Why the last thing that the user wanted could not be done."""
        return self._fault.text().replace(BREAK, "")

    def set_state(self, text: str) -> None:
        """Say something above the rows; nothing for an empty text."""
        self._state.setText(breakable(text))
        self._state.setVisible(bool(text))

    def show_fault(self, text: str) -> None:
        """Say why something could not be done; nothing for an empty text."""
        self._fault.setText(breakable(isolated(text)))
        self._fault.setVisible(bool(text))

    def set_found(self, adapters: Iterable[FoundAdapter]) -> None:
        """Offer these."""
        self._found = {adapter.path: adapter for adapter in adapters}
        self._refresh()

    def set_chosen(self, chosen: Sequence[ChatAdapter]) -> None:
        """Show what another chat uses."""
        self.show_fault("")
        self._chosen = {adapter.path: adapter for adapter in chosen}
        self._refresh()

    def use(self, path: str) -> None:
        """Take an adapter in use, as if its box had been pressed."""
        self._choose(path, is_on=True, scale=self._chosen[path].scale if path in self._chosen else 1.0)
        self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        """See QWidget; builds what was not seen before."""
        super().showEvent(event)
        self._timer.start()
        self.seen.emit()

    @property
    def _in_use(self) -> set[str]:
        return {path for path, adapter in self._chosen.items() if adapter.is_on}

    def _refresh(self) -> None:
        entries = dict(self._found)
        for path in self._in_use:  # not found any more, or not yet
            entries.setdefault(path, FoundAdapter(path=path, label=PurePath(path).stem))
        self._entries, in_use = entries, self._in_use
        # One that is in use is seen, whatever has become of it.
        usable = [path for path, adapter in entries.items() if path in in_use or not adapter.misfit]
        self._usable.set_paths(usable, always=in_use)
        self._others.set_paths([path for path in entries if path not in set(usable)], always=set())
        self._others_title.setVisible(bool(self._others.wanted))
        wanted = {*self._usable.wanted, *self._others.wanted}
        for path in [path for path in self._rows if path not in wanted]:
            row = self._rows.pop(path)
            row.hide()
            row.deleteLater()
        for path, row in self._rows.items():
            row.show_adapter(entries[path])
            self._show_choice(row)
        self.summary_changed.emit(self.summary)
        self._timer.start()

    def _fill(self) -> None:
        """Build some of the rows that are to be seen, and go on a moment later."""
        if not self.isVisible():
            return
        missing = [path for path in (*self._usable.wanted, *self._others.wanted) if path not in self._rows]
        for path in missing[:_ROWS_AT_ONCE]:
            self._rows[path] = self._new_row(self._entries[path])
        for group in (self._usable, self._others):
            group.place([self._rows[path] for path in group.wanted if path in self._rows])
        if len(missing) > _ROWS_AT_ONCE:
            self._timer.start()
            return
        inputs = [control for path in self._usable.wanted for control in self._rows[path].inputs]
        others = [control for path in self._others.wanted for control in self._rows[path].inputs]
        chain = [*inputs, self._usable.more_button, self.add_button, *others, self._others.more_button]
        place_in_tab_order(chain[0], chain[1:])

    def _new_row(self, adapter: FoundAdapter) -> AdapterRow:
        row = AdapterRow(self._theme, adapter)
        self._show_choice(row)
        row.changed.connect(lambda: self._on_row_changed(row))
        row.let_go.connect(self.let_go)
        return row

    def _show_choice(self, row: AdapterRow) -> None:
        chosen = self._chosen.get(row.adapter.path)
        row.set_choice(is_on=chosen is not None and chosen.is_on, scale=chosen.scale if chosen is not None else 1.0)

    def _on_row_changed(self, row: AdapterRow) -> None:
        path, was_on = row.adapter.path, row.adapter.path in self._in_use
        if row.is_on and not was_on and len(self._in_use) >= MAX_IN_USE:
            self._show_choice(row)
            self.show_fault(self.tr("More than {count} at once cannot be used.").format(count=MAX_IN_USE))
            return
        self._choose(path, is_on=row.is_on, scale=row.scale)
        if row.is_on != was_on:
            self._refresh()

    def _choose(self, path: str, *, is_on: bool, scale: float) -> None:
        before = self._chosen.get(path)
        found = self._found.get(path)
        stamp = found.stamp if found is not None else before.stamp if before is not None else ""
        self._chosen[path] = ChatAdapter(path=path, scale=scale, is_on=is_on, stamp=stamp)
        if not is_on and scale == 1.0:
            del self._chosen[path]
        self.show_fault("")
        self.summary_changed.emit(self.summary)
        self.changed.emit()

    def _on_theme_changed(self) -> None:
        self._box.setSpacing(self._theme.px(6))
        self._others_title.setContentsMargins(0, self._theme.px(8), 0, 0)
