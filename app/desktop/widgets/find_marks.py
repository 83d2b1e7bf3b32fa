"""FindMarks: shows all places of a text in the conversation, and the one that is looked at stronger."""

import re
from collections.abc import Iterator

from PySide6.QtGui import QTextCharFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit

from app.desktop.theme.theme import Theme
from app.desktop.widgets.message_rows import TextWidget
from app.desktop.widgets.reply_contents import Part
from app.desktop.widgets.shown_turn import ShownTurn

_MAX_MARKS = 300
_OPACITY = 70


class FindMarks:
    """Marks a text, whatever its case, in the text widgets it is told of."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._text = ""
        self._strong: tuple[ShownTurn, Part | None, int] | None = None

    @property
    def text(self) -> str:
        """What is marked; empty for nothing."""
        return self._text

    def set_text(self, text: str) -> None:
        """Mark another text from now on."""
        self._text, self._strong = text, None

    def set_strong(self, shown: ShownTurn, part: Part | None, number: int) -> None:
        """Tell which place is looked at: its number in its segment."""
        self._strong = (shown, part, number)

    def mark(self, shown: ShownTurn, part: Part | None, widget: TextWidget) -> None:
        """Show the marks in a widget, or remove them."""
        selections = []
        if self._text:
            strong = self._strong[2] if self._strong is not None and self._strong[:2] == (shown, part) else -1
            for number, cursor in enumerate(find_all(widget.document(), self._text)):
                selection = QTextEdit.ExtraSelection()
                selection.cursor = cursor
                selection.format = self._format(is_strong=number == strong)
                selections.append(selection)
        if selections or widget.extraSelections():
            widget.setExtraSelections(selections)

    def _format(self, *, is_strong: bool) -> QTextCharFormat:
        mark = QTextCharFormat()
        if is_strong:
            mark.setBackground(self._theme.colour("accent"))
            mark.setForeground(self._theme.colour("on_accent"))
        else:
            colour = self._theme.colour("warn")
            colour.setAlpha(_OPACITY)
            mark.setBackground(colour)
        return mark


def find_all(document: QTextDocument, text: str) -> Iterator[QTextCursor]:
    """Give the places of a text, whatever its case."""
    cursor = document.find(text, 0)
    for _ in range(_MAX_MARKS):
        if cursor.isNull():
            return
        yield QTextCursor(cursor)
        cursor = document.find(text, cursor)


def place_of(source: str, text: str, number: int) -> int | None:
    """Return where the `number`-th place of `text` is in `source`, from 0."""
    for found, match in enumerate(re.finditer(re.escape(text), source, re.IGNORECASE)):
        if found == number:
            return match.start()
    return None


def count_in(source: str, text: str) -> int:
    """Return how often `text` is in `source`."""
    return sum(1 for _ in re.finditer(re.escape(text), source, re.IGNORECASE))


def cursor_y(widget: TextWidget, cursor: QTextCursor) -> int:
    """Return how far below the top of a text widget a cursor is."""
    rect = widget.cursorRect(cursor)
    return rect.center().y() + (widget.viewport().y() if isinstance(widget, QPlainTextEdit) else 0)
