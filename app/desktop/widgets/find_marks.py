"""FindMarks: shows all places of a text in the conversation, the one that is looked at stronger, and drafts."""

import re
from collections.abc import Iterator

from PySide6.QtGui import QTextCharFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QTextEdit

from app.desktop.session.turns import words_of
from app.desktop.theme.theme import Theme
from app.desktop.widgets.conversation_column import ConversationColumn
from app.desktop.widgets.draft_tints import DraftTints
from app.desktop.widgets.message_rows import MessageRow, TextWidget, UserRow, shown_text
from app.desktop.widgets.reply_contents import Part
from app.desktop.widgets.reply_row import ReplyRow
from app.desktop.widgets.shown_turn import ShownTurn

_MAX_MARKS = 300
_OPACITY = 70


class FindMarks:
    """Marks a text, whatever its case, in all messages that have rows, over the tints of what was drafted."""

    def __init__(self, theme: Theme, column: ConversationColumn) -> None:
        self._theme = theme
        self._column = column
        self._tints = DraftTints(theme)
        self._text = ""
        self._strong: tuple[ShownTurn, Part | None, int] | None = None

    @property
    def text(self) -> str:
        """What is marked; empty for nothing."""
        return self._text

    def set_text(self, text: str) -> None:
        """Mark another text from now on."""
        self._text, self._strong = text, None

    def set_tinted(self, is_on: bool) -> None:
        """Tint what came from accepted drafts from now on, or do not."""
        if is_on != self._tints.is_on:
            self._tints.is_on = is_on
            self.mark_all()

    def choose(self, shown: ShownTurn, text: str, number: int) -> Part | None:
        """Look at the `number`-th place of `text` in a message that has a row, and return its segment.

        A place in the folded end of a message is unfolded.
        """
        if self._text != text:
            self.set_text(text)
        row, part = self._column.row(shown), None
        begin = _place_of(words_of(shown.turn), text, number)
        if begin is not None and isinstance(row, ReplyRow):
            part = self._column.part_with(shown, begin)
            if part is not None:
                row.body.unfold(part)
        elif begin is not None and isinstance(row, UserRow) and begin + len(text) > len(shown_text(shown)):
            row.unfold()
        if part is not None:
            number -= _count_in(shown.turn.text[: part.begin], text)
        self._strong = (shown, part, number)
        return part

    def y_of_chosen(self) -> int | None:
        """Return where in the column the place is that is looked at."""
        if self._strong is None:
            return None
        shown, part, number = self._strong
        row = self._column.row(shown)
        widget = dict(row.texts()).get(part) if row is not None else None
        cursors = list(_find_all(widget.document(), self._text)) if widget is not None else []
        if widget is None or not 0 <= number < len(cursors):
            return None
        area = widget.viewport()
        return area.mapTo(self._column, widget.cursorRect(cursors[number]).center()).y()

    def mark_all(self) -> None:
        """Show the marks in all messages that have rows."""
        for shown, row in self._column.realised():
            self.mark_row(shown, row)

    def mark_row(self, shown: ShownTurn, row: MessageRow) -> None:
        """Show the marks in one message."""
        for part, text in row.texts():
            self.mark(shown, part, text)

    def mark(self, shown: ShownTurn, part: Part | None, widget: TextWidget) -> None:
        """Show the marks in a widget, or remove them."""
        selections = self._tints.selections(shown, part, widget)
        if self._text:
            strong = self._strong[2] if self._strong is not None and self._strong[:2] == (shown, part) else -1
            for number, cursor in enumerate(_find_all(widget.document(), self._text)):
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


def _find_all(document: QTextDocument, text: str) -> Iterator[QTextCursor]:
    """Give the places of a text, whatever its case."""
    cursor = document.find(text, 0)
    for _ in range(_MAX_MARKS):
        if cursor.isNull():
            return
        yield QTextCursor(cursor)
        cursor = document.find(text, cursor)


def _place_of(source: str, text: str, number: int) -> int | None:
    """Return where the `number`-th place of `text` is in `source`, from 0."""
    for found, match in enumerate(re.finditer(re.escape(text), source, re.IGNORECASE)):
        if found == number:
            return match.start()
    return None


def _count_in(source: str, text: str) -> int:
    """Return how often `text` is in `source`."""
    return sum(1 for _ in re.finditer(re.escape(text), source, re.IGNORECASE))
