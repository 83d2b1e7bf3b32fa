"""ReplyBody: the text, tables and code of one reply, one widget for each segment.

While a reply streams only its last segments are touched; what is settled keeps its widgets.
"""

import dataclasses
from collections.abc import Callable, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.desktop.rendering.blocks import Block, BlockKind, BlockParser, normalized
from app.desktop.rendering.code_block import CodeBlock
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.reply_stream import ReplyStream
from app.desktop.rendering.safe_browser import SafeBrowser, TableBrowser
from app.desktop.theme.theme import Theme

# What streams is laid out and painted as a whole segment, so its length is the cost of one update.
MAX_SEGMENT_CHARS = 1_600
_GAP = 10

Segment = SafeBrowser | CodeBlock


def join_blocks(blocks: Sequence[Block], last: Block | None = None) -> list[Block]:
    """Return what the segments show: neighbouring text blocks together, each table and each code block alone.

    Args:
        last: what the segment before shows; it may take in the first of the blocks.
    """
    segments = [last] if last is not None else []
    for block in blocks:
        before = segments[-1] if segments else None
        fits = before is not None and before.size + block.size <= MAX_SEGMENT_CHARS
        if before is not None and fits and before.kind is block.kind is BlockKind.TEXT:
            segments[-1] = dataclasses.replace(before, size=before.size + block.size, html=before.html + block.html)
        else:
            segments.append(block)
    return segments


class ReplyBody(QWidget):
    """Shows Markdown that may still grow; takes no place while it is empty.

    Args:
        parser: gives the parser when the first text comes; it is not loaded before.

    Signals:
        height_changed: the height for the present width is another one.
        link_activated, link_hovered: see SafeBrowser.
    """

    height_changed = Signal()
    link_activated = Signal(str)
    link_hovered = Signal(str)

    def __init__(
        self, theme: Theme, parser: Callable[[], BlockParser], lexer: CodeLexer, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._parser = parser
        self._lexer = lexer
        self._name = ""
        self._stream: ReplyStream | None = None
        self._settled: list[Block] = []
        self._segments: list[Segment] = []
        self._heights: list[int] = []
        self._shown: list[Block] = []
        self._growing_index: int | None = None
        self._width = 0

    @property
    def segments(self) -> Sequence[Segment]:
        """The widgets, top to bottom."""
        return self._segments

    @property
    def shown(self) -> Sequence[Block]:
        """What the widgets show."""
        return self._shown

    @property
    def code_blocks(self) -> Sequence[CodeBlock]:
        """The code blocks, top to bottom."""
        return [segment for segment in self._segments if isinstance(segment, CodeBlock)]

    def set_name(self, name: str) -> None:
        """Name the speaker for screen readers."""
        self._name = name
        for segment in self._segments:
            if isinstance(segment, SafeBrowser):
                segment.setAccessibleName(name)

    @property
    def is_growing(self) -> bool:
        """Whether it waits for more of the reply."""
        return self._stream is not None

    def clear(self) -> None:
        """Remove everything."""
        self._stream = None
        self._settled = []
        self._show(0, [], is_growing=False)

    def append(self, text: str) -> None:
        """Take in a piece of the reply."""
        if self._stream is None:
            self._stream = ReplyStream(self._parser())
        growth = self._stream.append(text)
        self._show_growth(growth.settled, growth.tail, is_growing=True)

    def resume(self, text: str) -> None:
        """Begin to grow again after `text`, which it shows: its end was settled, and can mean something else now."""
        self._stream = None
        self._settled = []
        if text:
            self.append(text)

    def finish(self) -> None:
        """Settle the end of the reply."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        growth = stream.finish_tail()
        if growth is not None:
            self._show_growth(growth.settled, (), is_growing=False)
        else:
            self._settled = join_blocks(stream.finish())
            self._show(0, self._settled, is_growing=False)

    def set_text(self, text: str) -> None:
        """Show a whole reply."""
        self._stream = None
        self._settled = join_blocks(self._parser().blocks(normalized(text)))
        self._show(0, self._settled, is_growing=False)

    def restyle(self) -> None:
        """Take the theme's present look."""
        for segment in self._segments:
            segment.restyle()
        self._heights = [-1] * len(self._segments)
        if self._width:
            self.fit(self._width)

    def fit(self, width: int) -> int:
        """Lay out for `width` and return the height."""
        if width != self._width:
            self._width = width
            self._heights = [-1] * len(self._segments)
        return self._place(0)

    def _show_growth(self, settled: Sequence[Block], tail: Sequence[Block], *, is_growing: bool) -> None:
        first = max(0, len(self._settled) - 1)
        self._settled[first:] = join_blocks(settled, self._settled[-1] if self._settled else None)
        open_end = self._settled[first:]
        contents = join_blocks(tail, open_end.pop() if open_end else None)
        self._show(first, [*open_end, *contents], is_growing=is_growing)

    def _show(self, first: int, contents: Sequence[Block], *, is_growing: bool) -> None:
        begin = None
        for index, content in enumerate(contents, first):
            may_grow = is_growing and index == first + len(contents) - 1
            is_same = index < len(self._shown) and self._shown[index] == content
            if is_same and (may_grow or index != self._growing_index):
                continue
            begin = index if begin is None else begin
            self._growing_index = index if may_grow else None
            self._show_segment(index, content, is_growing=may_grow)
        for segment in self._segments[first + len(contents) :]:
            segment.hide()
            segment.deleteLater()
        end = first + len(contents)
        has_shrunk = end < len(self._segments)
        del self._segments[end:], self._heights[end:], self._shown[end:]
        if (begin is not None or has_shrunk) and self._width:
            self._place(end if begin is None else begin)
            self.height_changed.emit()

    def _show_segment(self, index: int, content: Block, *, is_growing: bool) -> None:
        if index < len(self._segments) and self._shown[index].kind is not content.kind:
            old = self._segments[index]
            old.hide()
            old.deleteLater()
            self._segments[index] = self._new_segment(content.kind)
        elif index == len(self._segments):
            self._segments.append(self._new_segment(content.kind))
            self._heights.append(-1)
            self._shown.append(content)
        segment = self._segments[index]
        self._shown[index] = content
        self._heights[index] = -1
        if isinstance(segment, CodeBlock):
            segment.set_code(content.code, content.language, is_growing=is_growing)
        else:
            segment.set_html(content.html)

    def _new_segment(self, kind: BlockKind) -> Segment:
        if kind is BlockKind.CODE:
            block = CodeBlock(self._theme, self._lexer, self)
            block.show()
            return block
        browser = (TableBrowser if kind is BlockKind.TABLE else SafeBrowser)(self._theme, self)
        browser.setAccessibleName(self._name)
        browser.link_activated.connect(self.link_activated)
        browser.link_hovered.connect(self.link_hovered)
        browser.show()
        return browser

    def _place(self, first: int) -> int:
        gap = self._theme.px(_GAP)
        top = sum(self._heights[:first]) + gap * first
        for index in range(first, len(self._segments)):
            segment = self._segments[index]
            if self._heights[index] < 0:
                self._heights[index] = segment.fit(self._width)
            segment.setGeometry(0, top, self._width, self._heights[index])
            top += self._heights[index] + gap
        height = max(0, top - gap) if self._segments else 0
        self.resize(self._width, height)
        return height
