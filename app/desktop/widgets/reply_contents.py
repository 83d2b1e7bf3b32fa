"""ReplyContents: the segments of one reply, seen or not: their source, what they show, and how high they are.

Holds no widget. What was never in view is neither cut nor parsed; its height is an estimate until it is measured.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from app.desktop.rendering.blocks import Block, BlockKind, BlockParser, Env, normalized
from app.desktop.rendering.reply_stream import Growth, ReplyStream
from app.desktop.session.turns import ReplyTurn
from app.desktop.widgets.height_estimates import TextMeasures
from app.desktop.widgets.source_cuts import CUT_CHARS, cut_ends, has_definitions

# What streams is laid out and painted as a whole segment, so its length is the cost of one update.
MAX_SEGMENT_CHARS = 1_600
# Out of view so much of a growing reply waits to be parsed in one go.
_MAX_HELD_CHARS = 4_000


@dataclasses.dataclass(eq=False, slots=True)
class Part:
    """One segment, or source that is not parsed yet.

    Attributes:
        begin, end: where its source stands in the normalized text of the reply.
        block: what it shows; None while it is not parsed.
        height: in pixels.
        width: for which the height was measured; 0 for an estimate.
        is_exact: whether its source alone gives its block.
        is_unfolded: whether its code was shown whole.
        is_cut: whether nothing before it, nor what may follow, can change where it begins.
    """

    begin: int
    end: int
    block: Block | None = None
    height: int = 0
    width: int = 0
    is_exact: bool = True
    is_cut: bool = False
    is_unfolded: bool = False


# A block with the place of its source.
_Placed = tuple[int, int, Block]


class ReplyContents:
    """The segments of one reply, kept while its widgets come and go.

    Args:
        parser: gives the parser when the first part is parsed.
    """

    def __init__(self, turn: ReplyTurn, parser: Callable[[], BlockParser], measures: TextMeasures) -> None:
        self._turn = turn
        self._parser = parser
        self._measures = measures
        self._stream: ReplyStream | None = None
        self._env: Env | None = None
        self._held = ""  # of the growing end, not parsed yet
        self._raw = ""
        self._text = ""
        self._shown_chars = 0  # of the turn's text that the parts stand for
        self._num_settled = 0  # parts before it do not change while the reply grows
        self._stream_first = self._stream_begin = 0
        self._last_settled: _Placed | None = None
        self.is_growing = False
        self.parts: list[Part] = []
        self.read()

    @property
    def text(self) -> str:
        """The normalized source."""
        raw = self._turn.text
        if raw is not self._raw:
            self._raw, self._text = raw, normalized(raw)
        return self._text

    @property
    def measures(self) -> TextMeasures:
        """What estimates heights."""
        return self._measures

    @property
    def num_parsed_chars(self) -> int:
        """Characters of source whose blocks are kept."""
        return sum(part.end - part.begin for part in self.parts if part.block is not None)

    @property
    def is_streaming(self) -> bool:
        """Whether its end is parsed as it grows."""
        return self._stream is not None

    def read(self) -> None:
        """Take the turn's text anew."""
        self._stream = self._env = self._last_settled = None
        self._num_settled = 0
        self._held = ""
        text = self.text
        self._shown_chars = len(self._turn.text)
        self.is_growing = self._turn.is_open
        self.parts = [self._unparsed(0, len(text))] if text.strip() else []

    def height(self, gap: int) -> int:
        """Return the height of all segments."""
        return sum(part.height for part in self.parts) + gap * max(0, len(self.parts) - 1)

    def parse(self, part: Part) -> None:
        """Put what `part` stands for into its place: smaller parts that are not parsed, else its blocks."""
        index = self.parts.index(part)
        if self._is_open_end(index):
            self._begin_stream(index)
            return
        before = len(self.parts)
        if part.end - part.begin > 2 * CUT_CHARS and len(cut := list(self._cuts(part))) > 1:
            self.parts[index : index + 1] = cut
        else:
            self._parse_whole(index)
        self._stream_first += len(self.parts) - before
        self._num_settled += len(self.parts) - before

    def append(self, text: str, *, is_seen: bool) -> None:
        """Take in a piece of the turn's text, which the turn has already.

        Args:
            is_seen: whether the end is in view; else it only grows.
        """
        self.is_growing = True
        self._shown_chars += len(text)
        if self._shown_chars != len(self._turn.text):
            self.read()
        elif self._stream is None:
            self._grow_unseen()
        else:
            self._held += text
            if is_seen or len(self._held) > _MAX_HELD_CHARS:
                self._flush(self._stream)

    def finish(self) -> bool:
        """Settle the end of the reply; return whether anything changed."""
        stream, self._stream = self._stream, None
        was_growing = self.is_growing
        self.is_growing = False
        self._env = None
        is_other = self._shown_chars != len(self._turn.text)
        if is_other or (was_growing and has_definitions(self._turn.text)):
            self.read()  # a target that is defined at the end counts from the beginning
            return True
        if stream is None:
            return False
        self._flush(stream)
        growth = stream.finish_tail()
        if growth is None:
            self.read()
            return True
        self._show_growth(Growth(growth.settled, ()))
        self._check_places(self._stream_first, len(self.text))
        return True

    def forget(self) -> None:
        """Let go of what can be parsed again."""
        if self._stream is None:
            for part in self.parts:
                if part.is_exact:
                    part.block = None

    def source(self, first: Part, last: Part) -> str:
        """Return the Markdown of the parts from `first` to `last`."""
        return self.text[first.begin : last.end].strip("\n")

    def _flush(self, stream: ReplyStream) -> None:
        held, self._held = self._held, ""
        if held:
            self._show_growth(stream.append(held))

    def last_code(self) -> str | None:
        """Return the last code block of the reply."""
        for part in reversed(self.parts):
            has_marks = any(mark in self.text[part.begin : part.end] for mark in ("```", "~~~", "    "))
            if part.block is None and not has_marks:
                continue
            blocks = [part.block] if part.block else self._parser().blocks(self.text[part.begin : part.end])
            for block in reversed(blocks):
                if block.kind is BlockKind.CODE:
                    return block.code
        return None

    def _unparsed(self, begin: int, end: int) -> Part:
        return Part(begin, end, height=self._measures.of_source(self.text[begin:end]), is_cut=True)

    def _is_open_end(self, index: int) -> bool:
        return self.is_growing and self._stream is None and index == len(self.parts) - 1

    def _cuts(self, part: Part, limit: int | None = None) -> Iterator[Part]:
        begin = part.begin
        for end in cut_ends(self.text, part.begin, part.end, self._parser()):
            if limit is None or end < limit or end >= part.end:
                yield self._unparsed(begin, end)
                begin = end

    def _parse_whole(self, index: int) -> None:
        part = self.parts[index]
        source = self.text[part.begin : part.end]
        env = self._definitions()
        is_exact = not env.get("references")
        blocks = self._parser().blocks(source) if is_exact else self._parser().blocks(source, env)
        placed = _joined(list(_placed(blocks, self.text, part.begin)), None)
        if len(placed) == 1 and part.width:
            part.block = placed[0][2]  # it was measured before, and its blocks were let go
            return
        self.parts[index : index + 1] = [
            Part(begin, end, block, self._measures.of_block(block, self.text[begin:end]), is_exact=is_exact)
            for begin, end, block in placed
        ]
        if placed:
            self.parts[index].is_cut = part.is_cut
            self._check_places(index, part.end, count=len(placed))

    def _check_places(self, first: int, end: int, *, count: int | None = None) -> None:
        """Trust the places of segments only where all of the source is accounted for: a long block may be cut."""
        parts = self.parts[first:] if count is None else self.parts[first : first + count]
        last = parts[-1].end if parts else end
        if last > end or self.text[last:end].strip():
            for part in parts:
                part.is_exact = False

    def _definitions(self) -> Env:
        """Return the targets of links that the whole reply defines."""
        if self._env is None:
            env: Env = {}
            if has_definitions(self.text):
                begin = 0
                for end in cut_ends(self.text, 0, len(self.text), self._parser()):
                    if has_definitions(self.text[begin:end]):
                        self._parser().blocks(self.text[begin:end], env)
                    begin = end
            self._env = env
        return self._env

    def _begin_stream(self, index: int) -> None:
        # Half a line at the end can still mean anything: there is no cut before it.
        *before, last = self._cuts(self.parts[index], self.text.rfind("\n") + 1)
        self.parts[index:] = before
        self._stream = ReplyStream(self._parser())
        self._stream_first = self._num_settled = len(self.parts)
        self._last_settled = None
        raw = self._turn.text
        tail = self.text[last.begin :]
        if raw.endswith("\r"):
            tail = tail.removesuffix("\n") + "\r"
        self._stream_begin = last.begin
        self._show_growth(self._stream.append(tail))

    def _show_growth(self, growth: Growth) -> None:
        text = self.text
        begin = self._last_settled[1] if self._last_settled is not None else self._stream_begin
        first = self._num_settled - (self._last_settled is not None)
        settled = _joined(list(_placed(growth.settled, text, begin)), self._last_settled)
        self._num_settled = first + len(settled)
        before = settled[-1] if settled else None
        end = before[1] if before is not None else begin
        tail = [(start, len(text), block) for start, _, block in _placed(growth.tail, text, end)]
        self._last_settled = before
        self._replace(first, [*settled[:-1], *_joined(tail, before)])

    def _replace(self, first: int, placed: Iterable[_Placed]) -> None:
        count = first
        for count, (begin, end, block) in enumerate(placed, first + 1):
            if count > len(self.parts):
                height = self._measures.of_block(block, self.text[begin:end])
                self.parts.append(Part(begin, end, block, height, is_cut=count - 1 == self._stream_first))
                continue
            part = self.parts[count - 1]
            part.begin, part.end = begin, end
            if part.block != block:
                part.block, part.width = block, 0
        del self.parts[count:]

    def _grow_unseen(self) -> None:
        """Let the end grow as text; it is parsed when it comes into view."""
        if not self.parts:
            self.parts = [Part(0, 0, is_cut=True)]
        elif self.parts[-1].block is not None:
            first = max(index for index, part in enumerate(self.parts) if part.is_cut)
            height = sum(part.height for part in self.parts[first:])
            self.parts[first:] = [Part(self.parts[first].begin, self.parts[-1].end, height=height, is_cut=True)]
        last = self.parts[-1]
        last.height += self._measures.of_length(max(1, self._shown_chars - last.end))
        last.end = self._shown_chars


def _placed(blocks: Iterable[Block], text: str, begin: int) -> Iterator[_Placed]:
    """Give each block with its place; between blocks there are blank lines."""
    position = begin
    for block in blocks:
        while (line_end := text.find("\n", position)) != -1 and not text[position:line_end].strip():
            position = line_end + 1
        end = min(position + block.size, len(text))
        yield position, end, block
        position = end


def _joined(placed: Sequence[_Placed], last: _Placed | None) -> list[_Placed]:
    """Return what the segments show: neighbouring text blocks together, each table and each code block alone.

    Args:
        last: what the segment before shows; it may take in the first of the blocks.
    """
    segments = [last] if last is not None else []
    for begin, end, block in placed:
        before = segments[-1][2] if segments else None
        fits = before is not None and before.size + block.size <= MAX_SEGMENT_CHARS
        if before is not None and fits and before.kind is block.kind is BlockKind.TEXT:
            joined = dataclasses.replace(before, size=before.size + block.size, html=before.html + block.html)
            segments[-1] = (segments[-1][0], end, joined)
        else:
            segments.append((begin, end, block))
    return segments
