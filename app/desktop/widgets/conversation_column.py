"""ConversationColumn: all turns one below the other, of which only those near the view are widgets.

Heights of what was never seen are estimates. An Anchor names a place in the text, which stays where it is in the view
when anything above it turns out to be higher or lower.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.desktop.rendering.blocks import BlockParser
from app.desktop.session.turns import ReplyTurn, Turn, words_of
from app.desktop.theme.theme import Theme
from app.desktop.widgets.document_chips import CHIP_HEIGHT
from app.desktop.widgets.height_estimates import TextMeasures
from app.desktop.widgets.message_rows import MessageRow, is_long, shown_text
from app.desktop.widgets.reply_contents import Part, ReplyContents
from app.desktop.widgets.reply_row import ReplyRow
from app.desktop.widgets.shown_turn import ShownTurn

MAX_COLUMN = 760
_GAP = 22
_TOP = 20
# Blocks of replies that are out of view are kept up to this much source.
_MAX_KEPT_CHARS = 2_000_000


@dataclasses.dataclass(frozen=True)
class Anchor:
    """A place: so many pixels below the beginning of a turn, or of one segment of it."""

    shown: ShownTurn
    part: Part | None
    offset: int


class ConversationColumn(QWidget):
    """The rows of a conversation; moved by its scroll area.

    Args:
        parser: gives the parser of replies, when the first one is seen.
        make_row: makes the row of a turn that comes near the view.
    """

    def __init__(
        self,
        theme: Theme,
        parser: Callable[[], BlockParser],
        make_row: Callable[[ShownTurn], MessageRow],
    ) -> None:
        super().__init__()
        self._theme = theme
        self._measures = TextMeasures(theme)
        self._parser = parser
        self._make_row = make_row
        self._by_id: dict[str, ShownTurn] = {}
        self._rows: dict[ShownTurn, MessageRow] = {}
        self._text_width = 0
        self._left = 0
        self.turns: list[ShownTurn] = []
        self.setObjectName("conversation")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)

    @property
    def rows(self) -> Sequence[MessageRow]:
        """The rows there are, oldest first."""
        return [row for _, row in sorted(self._rows.items(), key=lambda pair: pair[0].index)]

    @property
    def text_width(self) -> int:
        """Width of the rows."""
        return self._text_width

    def shown(self, turn_id: str) -> ShownTurn | None:
        """Return what is remembered of a turn."""
        return self._by_id.get(turn_id)

    def row(self, shown: ShownTurn) -> MessageRow | None:
        """Return the row of a turn, if there is one at present."""
        return self._rows.get(shown)

    def realised(self) -> Iterator[tuple[ShownTurn, MessageRow]]:
        """Give the turns that have rows, in no order."""
        return iter(list(self._rows.items()))

    def set_turns(self, turns: Sequence[Turn]) -> int:
        """Show other turns; those that are there already keep their rows.

        Returns:
            How many stay at the beginning.
        """
        before, old = self.turns, self._by_id
        same: list[ShownTurn] = []
        for turn in turns:
            known = old.get(turn.turn_id)
            same.append(known if known is not None and known.turn is turn else self._new_shown(turn))
        self.turns = same
        self._by_id = {shown.turn.turn_id: shown for shown in same}
        kept = set(same)
        for shown in [shown for shown in self._rows if shown not in kept]:
            self._drop(shown)
        self._number(0)
        num_kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], zip(before, same, strict=False)))
        self._mark_last()
        self.restack()
        return num_kept

    def add(self, turn: Turn) -> ShownTurn:
        """Add a turn at the end."""
        shown = self._new_shown(turn)
        shown.index = len(self.turns)
        self.turns.append(shown)
        self._by_id[turn.turn_id] = shown
        self._mark_last()
        self.restack(shown.index)
        return shown

    def fit(self, left: int, text_width: int) -> None:
        """Take another width; what is not in view keeps its height until it is."""
        self._left, self._text_width = left, text_width
        self._measures.update(text_width)
        for shown, row in self.realised():
            shown.height = row.fit(text_width)

    def realise_turn(self, shown: ShownTurn) -> MessageRow:
        """Return the row of a turn, made if need be."""
        row = self._rows.get(shown)
        if row is None:
            if isinstance(shown.turn, ReplyTurn) and shown.contents is None:
                shown.contents = ReplyContents(shown.turn, self._parser, self._measures)
            row = self._rows[shown] = self._make_row(shown)
            row.set_is_last(shown.index == len(self.turns) - 1)
            shown.height = row.fit(self._text_width)
            row.setGeometry(self._left, shown.top, self._text_width, shown.height)
            row.show()
        return row

    def realise(self, top: int, bottom: int, deadline: float = float("inf")) -> bool:
        """Make widgets of what lies between `top` and `bottom`.

        Args:
            deadline: of `time.perf_counter`; after it no further one is begun.

        Returns:
            Whether any height changed.
        """
        first: int | None = None
        index = self._index_at(top)
        while index < len(self.turns):
            shown = self.turns[index]
            if shown.top >= bottom or time.perf_counter() > deadline:
                break
            before = shown.height
            row = self.realise_turn(shown)
            row.realise(top - shown.top, bottom - shown.top, deadline)
            shown.height = row.fit(self._text_width)
            # A row that is new may have been placed with another height than it has once it is styled.
            if first is None and (shown.height != before or row.height() != shown.height):
                first = index
            index += 1
            if first is not None and index < len(self.turns):
                # The next one begins elsewhere now; those below are moved at the end.
                self.turns[index].top = shown.top + shown.height + self._theme.px(_GAP)
        if first is not None:
            self.restack(first)
        return first is not None

    def is_realised(self, top: int, bottom: int) -> bool:
        """Tell whether all between `top` and `bottom` are widgets."""
        for index in range(self._index_at(top), len(self.turns)):
            shown = self.turns[index]
            if shown.top >= bottom:
                break
            row = self._rows.get(shown)
            if row is None or not row.is_realised(top - shown.top, bottom - shown.top):
                return False
        return True

    def drop_outside(self, top: int, bottom: int) -> None:
        """Remove the widgets that are neither between `top` and `bottom` nor held by the user."""
        for shown, row in list(self._rows.items()):
            is_outside = shown.top + shown.height < top or shown.top > bottom
            if is_outside and not row.is_held and not any(text.property("held") for _, text in row.texts()):
                self._drop(shown)
            else:
                row.drop_outside(top - shown.top, bottom - shown.top)

    def refit(self, shown: ShownTurn) -> None:
        """Take a row's present height."""
        row = self._rows.get(shown)
        if row is not None and self._text_width:
            height = row.fit(self._text_width)
            if height != shown.height or row.height() != height:
                shown.height = height
                self.restack(shown.index)

    def grow_unseen(self, shown: ShownTurn, text: str) -> None:
        """Let a reply grow that has no row."""
        if shown.contents is not None:
            shown.contents.append(text, is_seen=False)
        shown.height += self._measures.of_length(len(text))
        self.restack(shown.index)

    def reread(self, turn_id: str) -> None:
        """Take the text of a reply anew that has no row."""
        shown = self._by_id.get(turn_id)
        if shown is None or not isinstance(shown.turn, ReplyTurn):
            return
        if shown.turn.is_open and shown.turn.text:
            return
        if shown.contents is not None and not shown.turn.is_open:
            shown.contents.finish()
            return
        if shown.contents is not None:
            shown.contents.read()
        shown.height = self._new_shown(shown.turn).height
        self.restack(shown.index)

    def last_code(self, shown: ShownTurn) -> str | None:
        """Return the last code block of a turn."""
        if not isinstance(shown.turn, ReplyTurn):
            return None
        contents = shown.contents or ReplyContents(shown.turn, self._parser, self._measures)
        return contents.last_code()

    def part_with(self, shown: ShownTurn, position: int) -> Part | None:
        """Return the segment of a reply whose source holds `position`, parsed."""
        contents = shown.contents
        while contents is not None:
            part = next((p for p in contents.parts if p.begin <= position < p.end), None)
            if part is None or part.block is not None:
                return part
            contents.parse(part)
        return None

    def restack(self, first: int = 0) -> None:
        """Place all from `first` on below one another."""
        gap = self._theme.px(_GAP)
        y = self.turns[first - 1].top + self.turns[first - 1].height + gap if first else self._theme.px(_TOP)
        rows = self._rows
        for shown in itertools.islice(self.turns, first, None):
            shown.top = y
            y += shown.height + gap
            if shown in rows:
                rows[shown].setGeometry(self._left, shown.top, self._text_width, shown.height)
        parent = self.parentWidget()
        self.resize(parent.width() if parent is not None else self.width(), y if self.turns else 1)

    def anchor_at(self, y: int, page: int) -> Anchor | None:
        """Return the first place at or below `y` that is a widget, within a page; else what is at `y`."""
        index = self._index_at(y)
        for shown in itertools.islice(self.turns, index, None):
            if shown.top > y + page:
                break
            row = self._rows.get(shown)
            part = row.part_at(y - shown.top) if row is not None else None
            top = row.top_of(part) if row is not None and part is not None else None
            if top is not None and shown.top + top < y + page:
                return Anchor(shown, part, y - shown.top - top)
            if row is not None and not isinstance(row, ReplyRow):
                return Anchor(shown, None, y - shown.top)
        if index >= len(self.turns):
            return None
        shown = self.turns[index]
        return Anchor(shown, None, y - shown.top)

    def y_of(self, anchor: Anchor) -> int | None:
        """Return where an anchor is now; None where its turn is gone."""
        shown = anchor.shown
        if self._by_id.get(shown.turn.turn_id) is not shown:
            return None
        row = self._rows.get(shown)
        if anchor.part is None or row is None:
            return shown.top + anchor.offset
        top = row.top_of(anchor.part)
        return shown.top + top + anchor.offset if top is not None else None

    def restyle(self) -> None:
        """Take the theme's present look."""
        self._measures.update(self._text_width)
        for _, row in self.realised():
            row.restyle()

    def turn_at(self, y: int) -> ShownTurn | None:
        """Return the turn at `y`, or the next below; the last one below all."""
        if not self.turns:
            return None
        return self.turns[min(self._index_at(y), len(self.turns) - 1)]

    def _index_at(self, y: int) -> int:
        """Return the index of the first turn that ends below `y`."""
        low, high = 0, len(self.turns)
        while low < high:
            middle = (low + high) // 2
            if self.turns[middle].top + self.turns[middle].height <= y:
                low = middle + 1
            else:
                high = middle
        return low

    def _new_shown(self, turn: Turn) -> ShownTurn:
        shown = ShownTurn(turn)
        px, measures = self._theme.px, self._measures
        if isinstance(turn, ReplyTurn):
            body = measures.of_source(turn.text) + px(6) if turn.text else 0
            shown.was_open = turn.is_open
            shown.height = px(22) + body + px(26) + (px(28) if turn.thinking else 0)
            if turn.thinking and not turn.text.strip() and not turn.is_open:
                shown.is_fold_open = True
        else:
            chips = px(CHIP_HEIGHT) * len(turn.parts[0])
            fold = px(30) if is_long(words_of(turn)) else 0
            shown.height = px(42) + chips + measures.of_plain(shown_text(shown)) + fold
        return shown

    def _number(self, first: int) -> None:
        for index in range(first, len(self.turns)):
            self.turns[index].index = index

    def _mark_last(self) -> None:
        last = self.turns[-1] if self.turns else None
        for shown, row in self.realised():
            row.set_is_last(shown is last)

    def _drop(self, shown: ShownTurn) -> None:
        row = self._rows.pop(shown, None)
        if row is not None:
            row.hide()
            row.deleteLater()

    def forget_blocks(self) -> None:
        """Let go of the blocks of replies that are out of view, the farthest first, where there are too many."""
        parsed = [shown for shown in self.turns if shown.contents is not None and shown not in self._rows]
        if len(parsed) < 2:
            return
        sizes = {shown: shown.contents.num_parsed_chars for shown in parsed if shown.contents is not None}
        excess = sum(sizes.values()) - _MAX_KEPT_CHARS
        near = next((shown.index for shown in self._rows), 0)
        for shown in sorted(parsed, key=lambda shown: -abs(shown.index - near)):
            if excess <= 0:
                break
            if shown.contents is not None:
                shown.contents.forget()
            excess -= sizes[shown]
