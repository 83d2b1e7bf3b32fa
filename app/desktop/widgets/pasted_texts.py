"""PastedTexts: long pasted texts and documents as chips beside the text edit, with their part in undo and redo."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QAbstractButton, QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import shortened, tool_tip_text
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer_draft import can_be_edited
from app.desktop.widgets.composer_text import is_blank_text
from app.desktop.widgets.document_chips import NUM_TIP_CHARS, document_line, document_tip, num_utf8_bytes
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.figures import bytes_text, count_text, tokens_text
from app.desktop.widgets.reading_row import ReadingRow
from app.desktop.widgets.scrolled_rows import ScrolledRows
from app.document_text import Document, beginning_of, document, join_documents

_NUM_TIP_LINES = 8
_MAX_TIP_LINE = 100
_MAX_NAME = 40


class _Pasted:
    """One pasted text and what is known of it; found out once, for it may be megabytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.num_bytes = num_utf8_bytes(text)

    @functools.cached_property
    def num_lines(self) -> int:
        return self.text.count("\n") + 1

    @functools.cached_property
    def is_blank(self) -> bool:
        return is_blank_text(self.text)

    @functools.cached_property
    def can_be_shown(self) -> bool:
        return can_be_edited(self.text)

    @functools.cached_property
    def document(self) -> Document | None:
        """How the document begins that the text is; None where it is none."""
        return beginning_of(self.text, NUM_TIP_CHARS + 1)

    @property
    def as_document(self) -> str:
        """The text as a document, called by its first words: the same text begins every message in the same way."""
        first = self.text.lstrip()[: 2 * _MAX_NAME].split("\n")[0]
        return join_documents([document(shortened(first, _MAX_NAME), self.text)], "")

    @property
    def preview(self) -> str:
        head = self.text[: _NUM_TIP_LINES * _MAX_TIP_LINE].split("\n")[:_NUM_TIP_LINES]
        lines = [shortened(line, _MAX_TIP_LINE) for line in head]
        return "\n".join([*lines, "…"] if self.num_lines > len(lines) else lines)


class _Step(NamedTuple):
    """What the chips were before a change.

    Attributes:
        num_edits: edits of the text edit that could be undone then; it tells which of the two comes first.
    """

    num_edits: int
    texts: tuple[_Pasted, ...]


class PastedTexts(QWidget):
    """The chips; takes no place while there are none.

    Signals:
        changed: there are others.
        show_requested: number of a text that is wanted in the text edit.
        change_requested: the texts that are wanted in the place of these.
    """

    changed = Signal()
    show_requested = Signal(int)
    change_requested = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._texts: tuple[_Pasted, ...] = ()
        self._undo: list[_Step] = []
        self._redo: list[_Step] = []
        self._labels: dict[str, ElidedLabel] = {}  # of documents, by text
        self._counts: Mapping[str, int | None] = {}
        self.rows = ScrolledRows(theme)
        self.reading = ReadingRow(theme)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.addWidget(self.rows)
        self._box.addWidget(self.reading)
        self.reading.shown.connect(self._on_reading_shown)
        theme.changed.connect(self._build)
        self.hide()

    @property
    def texts(self) -> tuple[str, ...]:
        """The pasted texts, oldest first."""
        return tuple(pasted.text for pasted in self._texts)

    @property
    def documents(self) -> tuple[str, ...]:
        """Those of them that are documents."""
        return tuple(pasted.text for pasted in self._texts if pasted.document is not None)

    @property
    def buttons(self) -> list[QAbstractButton]:
        """All buttons, in their order."""
        return [*self.rows.buttons, *self.reading.buttons]

    def set_counts(self, counts: Mapping[str, int | None]) -> None:
        """Tell how many tokens documents have, by text; None where one is longer than the context."""
        self._counts = dict(counts)
        for pasted in self._texts:
            if pasted.text in self._labels:
                self._labels[pasted.text].set_whole(self._words(pasted))

    @property
    def is_blank(self) -> bool:
        """Whether a person would see nothing of any of them."""
        return all(pasted.is_blank for pasted in self._texts)

    def put(self, texts: Sequence[str], *, num_edits: int) -> None:
        """Show other texts, as a change that can be undone after the first `num_edits` edits."""
        if tuple(texts) != self.texts:
            self._undo.append(_Step(num_edits, self._texts))
            self._redo.clear()
            self._set(self._made_of(texts))

    def reset(self, texts: Sequence[str]) -> None:
        """Show other texts and forget what could be undone."""
        self._undo.clear()
        self._redo.clear()
        if tuple(texts) != self.texts:
            self._set(self._made_of(texts))

    def undo(self, num_edits: int) -> bool:
        """Undo the last change, unless one of the present `num_edits` edits is newer; tell whether it was done."""
        return self._exchange(self._undo, self._redo, lambda step: step.num_edits >= num_edits)

    def redo(self, num_edits: int) -> bool:
        """Redo the change that was undone, unless edits come before it; tell whether it was done."""
        return self._exchange(self._redo, self._undo, lambda step: step.num_edits <= num_edits)

    def forget_redo(self) -> None:
        """Forget what could be redone: something else was done."""
        self._redo.clear()

    def set_max_rows(self, num_rows: int) -> None:
        """Choose how many chips are seen at a time."""
        self.rows.set_max_rows(num_rows)

    def _exchange(self, taken: list[_Step], given: list[_Step], is_next: Callable[[_Step], bool]) -> bool:
        if not taken or not is_next(taken[-1]):
            return False
        step = taken.pop()
        given.append(_Step(step.num_edits, self._texts))
        self._set(step.texts)
        return True

    def _made_of(self, texts: Sequence[str]) -> tuple[_Pasted, ...]:
        known = {id(pasted.text): pasted for pasted in self._texts}
        return tuple(known.get(id(text)) or _Pasted(text) for text in texts)

    def _set(self, texts: tuple[_Pasted, ...]) -> None:
        self._texts = texts
        self._build()
        self.changed.emit()

    def _build(self) -> None:
        self._labels = {}
        self.rows.set_rows([self._chip(number, pasted) for number, pasted in enumerate(self._texts)])
        self.reading.set_wanted(bool(self.documents))
        self._box.setSpacing(self._theme.px(4))
        self.setVisible(bool(self._texts) or self.reading.is_wanted)

    def _on_reading_shown(self) -> None:
        self.setVisible(bool(self._texts) or self.reading.is_wanted)
        self.changed.emit()

    def _words(self, pasted: _Pasted) -> str:
        """Return what stands on a chip."""
        if pasted.document is None:
            one, many = self.tr("Pasted text · 1 line · {size}"), self.tr("Pasted text · {count} lines · {size}")
            return (one if pasted.num_lines == 1 else many).format(
                count=count_text(pasted.num_lines), size=bytes_text(pasted.num_bytes)
            )
        words = document_line(pasted.document.name, pasted.num_bytes)
        if pasted.text not in self._counts:
            return words
        num_tokens = self._counts[pasted.text]
        count = self.tr("longer than the context") if num_tokens is None else tokens_text(num_tokens)
        return f"{words} · {count}"

    def _removal(self, pasted: _Pasted) -> str:
        return self.tr("Remove the document") if pasted.document else self.tr("Remove the pasted text")

    def _chip(self, number: int, pasted: _Pasted) -> QWidget:
        px = self._theme.px
        chip = QFrame()
        chip.setObjectName("pasteChip")
        what = self._words(pasted)
        label = ElidedLabel()
        label.set_whole(what)
        label.setProperty("role", "meta")
        if pasted.document is not None:
            self._labels[pasted.text] = label
        label.setToolTip(document_tip(pasted.document) if pasted.document else tool_tip_text(pasted.preview))
        row = QHBoxLayout(chip)
        row.setContentsMargins(px(10), px(3), px(4), px(3))
        row.setSpacing(px(2))
        row.addWidget(label, 1)
        if pasted.document is None and pasted.can_be_shown:
            show = QPushButton(self.tr("Show"))
            show.setProperty("kind", "small")
            show.setToolTip(self.tr("Put the pasted text into the message, to edit it"))
            show.setAccessibleName(self.tr("Show: {what}").format(what=what))
            show.clicked.connect(lambda: self.show_requested.emit(number))
            row.addWidget(show)
        if pasted.document is None and not pasted.is_blank:
            row.addWidget(self._document_button(number, what))
        remove = GlyphButton(self._theme, "close", self._removal(pasted), size=22)
        remove.setAccessibleName(self.tr("Remove: {what}").format(what=what))
        remove.clicked.connect(lambda: self._ask_for(number))
        row.addWidget(remove)
        return chip

    def _document_button(self, number: int, what: str) -> QPushButton:
        button = QPushButton(self.tr("As document"))
        button.setProperty("kind", "small")
        button.setToolTip(self.tr("Put the pasted text before the message, where the model can read it ahead"))
        button.setAccessibleName(self.tr("As document: {what}").format(what=what))
        button.clicked.connect(lambda: self._ask_for(number, self._texts[number].as_document))
        return button

    def _ask_for(self, number: int, *instead: str) -> None:
        self.change_requested.emit((*self.texts[:number], *instead, *self.texts[number + 1 :]))
