"""AdapterPanel: which LoRA adapters a chat uses, and how strongly; those that do not fit, each with its reason."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.adapter_files import FoundAdapter
from app.desktop.rendering.plain import BREAK, isolated
from app.desktop.session.chat_adapters import MAX_IN_USE, ChatAdapter
from app.desktop.theme.theme import Theme
from app.desktop.widgets.adapter_row import AdapterRow
from app.desktop.widgets.figures import count_text
from app.desktop.widgets.file_panel import FilePanel, say
from app.desktop.widgets.param_row import new_note

_NUM_FIRST = 12


class AdapterPanel(FilePanel[AdapterRow]):
    """The adapters that are there, and those that the chat uses.

    Signals:
        changed: the user chose otherwise, see `chosen`.
        let_go: a slider is no longer dragged.
    """

    changed = Signal()
    let_go = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, num_first=_NUM_FIRST, parent=parent)
        self._found: dict[str, FoundAdapter] = {}
        self._chosen: dict[str, ChatAdapter] = {}
        self._entries: dict[str, FoundAdapter] = {}
        self._state = new_note("meta")
        self._fault = new_note("error")
        for note in (self._state, self._fault):
            note.setMinimumWidth(1)
        self._others_title.setText(self.tr("These do not fit the model:"))
        self.add_button.setToolTip(self.tr("Use a LoRA adapter in GGUF format that lies elsewhere"))
        for widget in (self._state, self._usable, self._fault, self.add_button, self._others_title, self._others):
            self._box.addWidget(widget)
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
        say(self._state, text)

    def show_fault(self, text: str) -> None:
        """Say why something could not be done; nothing for an empty text."""
        say(self._fault, isolated(text))

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

    @property
    def _in_use(self) -> set[str]:
        return {path for path, adapter in self._chosen.items() if adapter.is_on}

    def _refresh(self) -> None:
        entries = dict(self._found)
        for path in self._in_use:  # not found any more, or not yet
            entries.setdefault(path, FoundAdapter(path=path, label=PurePath(path).stem))
        self._entries, in_use = entries, self._in_use
        # One that is in use is seen, whatever has become of it.
        usable = {path: path in in_use or not adapter.misfit for path, adapter in entries.items()}
        self._offer(usable, always=in_use)
        self.summary_changed.emit(self.summary)

    def _new_row(self, path: str) -> AdapterRow:
        row = AdapterRow(self._theme, self._entries[path])
        row.changed.connect(lambda: self._on_row_changed(row))
        row.let_go.connect(self.let_go)
        return row

    def _show_row(self, row: AdapterRow) -> None:
        row.show_adapter(self._entries[row.adapter.path])
        self._show_choice(row)

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
