"""DraftTints: what to mark in a finished reply as text that came from accepted drafts."""

from collections.abc import Iterable, Iterator

from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit

from app.desktop.rendering.source_places import source_places
from app.desktop.session.turns import ReplyTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.message_rows import TextWidget
from app.desktop.widgets.reply_contents import Part
from app.desktop.widgets.shown_turn import ShownTurn
from engine import TextSpan

_MAX_CHARS = 8_000  # of a segment; to find the places in a longer one would hold up the window
_LEAST_FOUND = 0.8  # share of the letters whose place is known; below, the source is of something else


class DraftTints:
    """Finds the drafted text in the segments of replies: tinted in prose, underlined in code, whose colours stay."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self.is_on = False

    def selections(self, shown: ShownTurn, part: Part | None, widget: TextWidget) -> list[QTextEdit.ExtraSelection]:
        """Return the marks for one segment; none where nothing of it was drafted, or while the reply grows."""
        turn = shown.turn
        if not self.is_on or part is None or shown.contents is None or not isinstance(turn, ReplyTurn):
            return []
        if turn.is_open or not turn.drafted_spans or part.end - part.begin > _MAX_CHARS:
            return []
        source = shown.contents.text[part.begin : part.end]
        spans = _within(_normalized(turn.drafted_spans, turn.text), part)
        look = self._format(is_code=isinstance(widget, QPlainTextEdit))
        found = []
        for start, end in _runs(widget.document().toPlainText(), source, list(spans)):
            selection = QTextEdit.ExtraSelection()
            cursor = QTextCursor(widget.document())
            cursor.setPosition(start)
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            selection.cursor, selection.format = cursor, look
            found.append(selection)
        return found

    def _format(self, *, is_code: bool) -> QTextCharFormat:
        look = QTextCharFormat()
        if is_code:
            look.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
            look.setUnderlineColor(self._theme.colour("accent"))
        else:
            look.setBackground(self._theme.colour("drafted"))
        return look


def _normalized(spans: Iterable[TextSpan], text: str) -> Iterator[tuple[int, int]]:
    """Give the spans of a text as they are in the normalized one, which has one character for each line break."""
    has_pairs = "\r\n" in text
    for span in spans:
        if has_pairs:
            yield span.start - text.count("\r\n", 0, span.start), span.end - text.count("\r\n", 0, span.end)
        else:
            yield span.start, span.end


def _within(spans: Iterable[tuple[int, int]], part: Part) -> Iterator[tuple[int, int]]:
    """Give what of some spans is in a part, counted from its beginning."""
    for start, end in spans:
        if start < part.end and end > part.begin:
            yield max(start, part.begin) - part.begin, min(end, part.end) - part.begin


def _runs(shown: str, source: str, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Give the parts of a document that `spans` of its source are shown as, in the positions of QTextDocument."""
    if not spans:
        return
    is_drafted = [False] * len(source)
    for start, end in spans:
        is_drafted[start:end] = [True] * (end - start)
    places = source_places(shown, source)
    letters = [place for letter, place in zip(shown, places, strict=True) if not letter.isspace()]
    if sum(place >= 0 for place in letters) < _LEAST_FOUND * len(letters):
        return
    begin: int | None = None
    end = position = 0  # of the run: blanks at its ends, and breaks between blocks and cells, are no part of it
    for letter, place in zip(shown, places, strict=True):
        width = 2 if letter > "\uffff" else 1
        is_over = letter == "\n" or (place >= 0 and not is_drafted[place])
        if begin is not None and is_over:
            yield begin, end
            begin = None
        elif place >= 0 and is_drafted[place] and not letter.isspace():
            begin, end = position if begin is None else begin, position + width
        position += width
    if begin is not None:
        yield begin, end
