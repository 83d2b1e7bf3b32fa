"""Colours of code: one lexing pass for a block, put on the document a few lines at a time.

Pygments is imported when the first code block is coloured, never at start-up.
"""

import functools
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QColor, QFont, QSyntaxHighlighter, QTextBlock, QTextCharFormat, QTextDocument

from app.desktop.bridge.background import Background
from app.desktop.theme.tokens import Colours

# (start, length, token type name) in Python characters of the line
Span = tuple[int, int, str]
LineSpans = Sequence[Sequence[Span]]

# So little costs a millisecond or two.
_MAX_INLINE_LINES = 25
_MAX_INLINE_CHARS = 1_500
_MAX_LINE_CHARS = 2_000
_MAX_CHARS = 400_000
_SLICE_LINES = 20
_MAX_READY = 500


def lex(code: str, language: str) -> LineSpans:
    """Return the coloured spans of each line; none for an unknown language or code too long to be read by a person."""
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    lines = code.split("\n")
    if not language or len(code) > _MAX_CHARS or any(len(line) > _MAX_LINE_CHARS for line in lines):
        return [() for _ in lines]
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return [() for _ in lines]
    spans: list[list[Span]] = [[] for _ in lines]
    row = column = 0
    for kind, text in lexer.get_tokens(code):
        for number, piece in enumerate(text.split("\n")):
            if number:
                row, column = row + 1, 0
            if piece and row < len(spans):
                spans[row].append((column, len(piece), str(kind)))
            column += len(piece)
    return spans


class CodeHighlighter(QSyntaxHighlighter):
    """Formats the lines of one code block from spans that are handed in."""

    def __init__(self, document: QTextDocument, colours: Colours) -> None:
        super().__init__(document)
        self._colours = colours
        self._spans: LineSpans = ()
        self._next_line = 0
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._format_slice)

    def set_spans(self, spans: LineSpans) -> None:
        """Colour by `spans`; only lines whose spans differ are formatted again, a slice now and the rest when idle."""
        old = self._spans
        self._spans = spans
        shared = min(len(old), len(spans))
        self._next_line = next((i for i in range(shared) if old[i] != spans[i]), shared)
        self._format_slice()
        if self._next_line < len(self._spans):
            self._timer.start()

    def set_colours(self, colours: Colours) -> None:
        """Colour in another look."""
        if colours is not self._colours:
            self._colours = colours
            self._next_line = 0
            self._timer.start()

    def highlightBlock(self, text: str) -> None:
        """See QSyntaxHighlighter."""
        number = self.currentBlock().blockNumber()
        if number >= len(self._spans):
            return
        is_plain = text.isascii()
        for start, length, kind in self._spans[number]:
            style = _format(self._colours.code_style, kind)
            if style is not None:
                if not is_plain:  # Qt counts UTF-16 units
                    prefix = _utf16_length(text[:start])
                    start, length = prefix, _utf16_length(text[start : start + length])
                self.setFormat(start, length, style)

    def _format_slice(self) -> None:
        block: QTextBlock = self.document().findBlockByNumber(self._next_line)
        for _ in range(_SLICE_LINES):
            if not block.isValid():
                break
            self.rehighlightBlock(block)
            block = block.next()
            self._next_line += 1
        if not block.isValid() or self._next_line >= len(self._spans):
            self._timer.stop()


class CodeLexer(QObject):
    """Lexes code: short blocks at once, long ones beside the window's thread.

    So is the first block of each language: its rules are loaded and compiled then, which takes up to 80 ms.
    """

    def __init__(self, background: Background) -> None:
        super().__init__(background)
        self._background = background
        self._ready = {""}  # languages whose rules are there

    def request(self, code: str, language: str, on_spans: Callable[[LineSpans], None]) -> None:
        """Call `on_spans` with the spans of `code`, perhaps before returning."""
        is_short = len(code) <= _MAX_INLINE_CHARS and code.count("\n") <= _MAX_INLINE_LINES
        if is_short and language in self._ready:
            on_spans(lex(code, language))
            return

        def take(spans: LineSpans) -> None:
            if len(self._ready) < _MAX_READY:
                self._ready.add(language)
            on_spans(spans)

        self._background.run(lambda: lex(code, language), take, _raise)


def _raise(error: Exception) -> None:
    raise error


def _utf16_length(text: str) -> int:
    return len(text) + sum(1 for character in text if character > "\uffff")


@functools.lru_cache(maxsize=512)
def _format(style_name: str, kind: str) -> QTextCharFormat | None:
    from pygments.styles import get_style_by_name
    from pygments.token import string_to_tokentype

    style = get_style_by_name(style_name).style_for_token(string_to_tokentype(kind.removeprefix("Token.")))
    if not (style["color"] or style["bold"] or style["italic"]):
        return None
    char_format = QTextCharFormat()
    if style["color"]:
        char_format.setForeground(QColor(f"#{style['color']}"))
    if style["bold"]:
        char_format.setFontWeight(QFont.Weight.DemiBold)
    char_format.setFontItalic(bool(style["italic"]))
    return char_format
