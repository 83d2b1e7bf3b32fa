"""CompareBoard: a comparison as it is lived: who has said what so far, as conversations beside each other."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.compare.analysis import TIMED
from app.compare.events import CellText
from app.compare.plan import Place
from app.compare.results import MEASURES, Cell, Column, Comparison, Mode, PromptItem
from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, UserTurn
from engine import ErrorInfo, Role


@dataclasses.dataclass(eq=False)
class ComparedReply(ReplyTurn):
    """A reply of a comparison.

    Attributes:
        cell: its numbers, once it has ended.
    """

    cell: Cell | None = None

    def end(self, cell: Cell) -> None:
        """Take all of it."""
        self.cell = cell
        self.text, self.thinking = cell.text, cell.thinking
        self.finish_reason = cell.finish_reason
        self.state = ReplyState.FAILED if cell.error else ReplyState.DONE
        if cell.error:
            self.error = ErrorInfo("CellFailed", cell.error, "")


class LaneKey(NamedTuple):
    """Whose replies stand below each other.

    Attributes:
        sample: the number of the sample; None where the shown repeat counts.
    """

    column: str
    sample: int | None = None


class Shown(NamedTuple):
    """What of a comparison is looked at: the prompt that begins a chat, and the repeat."""

    prompt: str = ""
    repeat: int = 0


class CompareBoard:
    """See above.

    Args:
        comparison: what is planned, with what is done already.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.columns: dict[str, Column] = {}
        self.replies: dict[Place, ComparedReply] = {}
        self._said: dict[tuple[str, ...], Turn] = {}
        self._prompts: dict[str, PromptItem] = {}
        self._next: dict[str, PromptItem] = {}
        self.renew(comparison)

    def renew(self, comparison: Comparison) -> None:
        """Take the plan anew, with prompts that came later."""
        self.comparison = comparison
        self.columns = {column.id: column for column in comparison.columns}
        self._prompts = {prompt.id: prompt for prompt in comparison.prompts}
        self._next = {prompt.follows: prompt for prompt in comparison.prompts if prompt.follows}
        for cell in comparison.cells:
            known = self.replies.get(Place(cell.column, cell.prompt, cell.repeat))
            if known is None or known.cell is not cell:
                self.end(cell)

    @property
    def lanes(self) -> Sequence[LaneKey]:
        """The conversations that stand beside each other."""
        if self.comparison.mode is Mode.SAMPLES:
            repeats = range(self.comparison.repeats)
            return [LaneKey(column, repeat) for column in self.columns for repeat in repeats]
        return [LaneKey(column) for column in self.columns]

    @property
    def roots(self) -> Sequence[PromptItem]:
        """The prompts that begin a chat."""
        return [prompt for prompt in self.comparison.prompts if not prompt.follows]

    @property
    def has_repeats(self) -> bool:
        """Whether there is more than one repeat to look at."""
        return self.comparison.repeats > 1 and self.comparison.mode is not Mode.SAMPLES

    def label(self, lane: LaneKey) -> str:
        """Return what a lane is called."""
        label = self.columns[lane.column].label
        return label if lane.sample is None else f"{lane.sample + 1} · {label}"

    def chain(self, root: str) -> Sequence[PromptItem]:
        """Return the prompt that begins a chat and those that go on from it."""
        found = [self._prompts[root]] if root in self._prompts else []
        while found and found[-1].id in self._next:
            found.append(self._next[found[-1].id])
        return found

    def root_of(self, prompt: str) -> str:
        """Return the prompt that begins the chat of another one."""
        while prompt in self._prompts and self._prompts[prompt].follows:
            prompt = self._prompts[prompt].follows
        return prompt

    def place(self, lane: LaneKey, prompt: str, repeat: int) -> Place:
        """Return where the reply of a lane stands."""
        return Place(lane.column, prompt, repeat if lane.sample is None else lane.sample)

    def shows(self, lane: LaneKey, place: Place) -> bool:
        """Tell whether a reply is one of a lane."""
        return place.column == lane.column and lane.sample in (None, place.repeat)

    def chat(self, lane: LaneKey, shown: Shown) -> list[Turn]:
        """Return the conversation of a lane, as far as it is."""
        turns: list[Turn] = []
        for prompt in self.chain(shown.prompt):
            turns += self._messages(lane, prompt)
            reply = self.replies.get(self.place(lane, prompt.id, shown.repeat))
            if reply is not None:
                turns.append(reply)
        return turns

    def reply(self, lane: LaneKey, shown: Shown) -> ComparedReply | None:
        """Return the newest reply of a lane in the chat that is looked at."""
        for prompt in reversed(self.chain(shown.prompt)):
            reply = self.replies.get(self.place(lane, prompt.id, shown.repeat))
            if reply is not None:
                return reply
        return None

    def begin(self, place: Place) -> ComparedReply:
        """Note that a reply was asked for."""
        label = self.columns[place.column].label if place.column in self.columns else ""
        reply = self.replies[place] = ComparedReply(label)
        return reply

    def grow(self, piece: CellText) -> ComparedReply:
        """Take in a piece of a reply."""
        reply = self.replies.get(piece.place) or self.begin(piece.place)
        reply.state = ReplyState.WRITING
        if piece.was_thinking:
            reply.take_text_back()
        reply.thinking += piece.thinking
        reply.text += piece.text
        return reply

    def end(self, cell: Cell) -> ComparedReply:
        """Take a reply that has ended."""
        place = Place(cell.column, cell.prompt, cell.repeat)
        reply = self.replies.get(place) or self.begin(place)
        reply.end(cell)
        return reply

    def drop_open(self) -> None:
        """Forget the replies that were in progress when the run was stopped."""
        self.replies = {place: reply for place, reply in self.replies.items() if not reply.is_open}

    def fail(self, column: str, message: str, hint: str) -> None:
        """Note why nothing more comes of a column."""
        self.columns[column] = msgspec.structs.replace(self.columns[column], error=message, hint=hint)

    def best(self, shown: Shown, names: Sequence[str]) -> dict[str, str]:
        """Return the column that is the best in each measure, where that can be said of the shown replies."""
        found: dict[str, str] = {}
        if self.comparison.mode is Mode.SAMPLES:
            return found
        lanes = [lane for lane in self.lanes if not self.columns[lane.column].error]
        replies = {lane.column: self.reply(lane, shown) for lane in lanes}
        cells = {column: reply.cell for column, reply in replies.items() if reply is not None and reply.cell}
        if len(cells) < 2 or len(cells) < len(lanes):
            return found
        for name in names:
            measure = MEASURES[name]
            values = {column: cell.values[name] for column, cell in cells.items() if name in cell.values}
            is_unfair = self.comparison.mode is Mode.RACE and name in TIMED
            if len(values) < len(cells) or measure.is_higher_better is None or is_unfair:
                continue
            order = sorted(values, key=lambda column: values[column], reverse=measure.is_higher_better)
            if measure.number(values[order[0]]) != measure.number(values[order[1]]):
                found[name] = order[0]
        return found

    def _messages(self, lane: LaneKey, prompt: PromptItem) -> list[Turn]:
        turns: list[Turn] = []
        for number, message in enumerate(prompt.messages):
            key = (lane.column, str(lane.sample), prompt.id, str(number))
            if key not in self._said and message.role is not Role.SYSTEM:
                is_reply = message.role is Role.ASSISTANT
                self._said[key] = (
                    ReplyTurn(self.columns[lane.column].label, state=ReplyState.DONE, text=message.content)
                    if is_reply
                    else UserTurn(message.content)
                )
            if key in self._said:
                turns.append(self._said[key])
        return turns
