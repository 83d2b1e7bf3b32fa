"""KeptColours: colours of code that is scrolled to: lexed when there is time for it, kept for when it comes again."""

import collections
import contextlib
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.desktop.rendering.highlighting import CodeLexer, LineSpans

# A block of so few lines costs less than a millisecond or two, so it never shows without its colours.
_MAX_AT_ONCE_LINES = 25
_MAX_KEPT = 200
_MAX_KEPT_CHARS = 20_000

_OnSpans = Callable[[LineSpans], None]


class KeptColours(CodeLexer):
    """Hands long blocks to `lexer` one at a time, between other events."""

    def __init__(self, lexer: CodeLexer, parent: QObject) -> None:
        QObject.__init__(self, parent)
        self._lexer = lexer
        self._kept: collections.OrderedDict[tuple[str, str], LineSpans] = collections.OrderedDict()
        self._waiting: collections.deque[tuple[str, str, _OnSpans]] = collections.deque()
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._on_timer)

    def request(self, code: str, language: str, on_spans: _OnSpans) -> None:
        """See CodeLexer."""
        spans = self._kept.get((code, language))
        if spans is not None:
            self._kept.move_to_end((code, language))
            on_spans(spans)
        elif not language or code.count("\n") <= _MAX_AT_ONCE_LINES:
            self._ask(code, language, on_spans)
        else:
            self._waiting.append((code, language, on_spans))
            self._timer.start()

    def _on_timer(self) -> None:
        if self._waiting:
            self._ask(*self._waiting.popleft())
        if not self._waiting:
            self._timer.stop()

    def _ask(self, code: str, language: str, on_spans: _OnSpans) -> None:
        def take(spans: LineSpans) -> None:
            if len(code) <= _MAX_KEPT_CHARS:
                self._kept[code, language] = spans
                if len(self._kept) > _MAX_KEPT:
                    self._kept.popitem(last=False)
            with contextlib.suppress(RuntimeError):  # the block was scrolled away meanwhile and is deleted
                on_spans(spans)

        self._lexer.request(code, language, take)
