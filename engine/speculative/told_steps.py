"""What steps of the target took and brought, told to the referees of the replies in them, and to the step times."""

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import NamedTuple

from engine.backend import BatchPart
from engine.sampled_rows import Sampled
from engine.scheduler import PlannedPart
from engine.sequence import Sequence
from engine.speculative.account import Company
from engine.speculative.drafting import Drafting
from engine.speculative.step_times import StepTimes


class _Noted(NamedTuple):
    """What a step brought one reply."""

    sequence: Sequence
    drafting: Drafting
    num_drafted: int
    sampled: Sampled


class ToldSteps:
    """The step that is computed, of which each reply is told once.

    Args:
        times: learns from steps that tell something.
        clock: seconds.

    Attributes:
        drafting_s: what choosing and drafting took before the step, for all of its replies.
    """

    def __init__(self, times: StepTimes, clock: Callable[[], float]) -> None:
        self._times = times
        self._clock = clock
        self.drafting_s = 0.0
        self._num_rows = 0  # of the step, where it tells something
        self._num_tokens = self._num_replies = 0
        self._began_at = 0.0
        self._noted: list[_Noted] = []  # replies whose rows were sampled, while those of others are not

    def begin(self, planned: Items[PlannedPart]) -> None:
        """Note that a step begins, and whether it tells what steps of its kind take."""
        self._num_rows = 0
        self._noted.clear()
        if any(sequence.drafting for sequence, _ in planned):
            is_prefill = any(len(part.tokens) != 1 + part.num_drafted for _, part in planned)
            self._num_rows = 0 if is_prefill else sum(1 + part.num_drafted for _, part in planned)
            self._num_replies = self._num_tokens = len(planned)
            self._began_at = self._clock()

    def note_sampled(self, sequence: Sequence, part: BatchPart, sampled: Sampled) -> None:
        """Take what came of the rows of one reply."""
        drafting = sequence.drafting
        if drafting is None or drafting.referee is None or not self._num_rows:
            return
        drafting.count(part.num_drafted, sampled.num_accepted)
        self._num_tokens += sampled.num_sampled - 1
        self._noted.append(_Noted(sequence, drafting, part.num_drafted, sampled))

    def end(self, *, num_threads: int) -> None:
        """Learn what the step took, now that all of its rows were sampled."""
        if self._num_rows:
            seconds = self._clock() - self._began_at
            for noted in self._noted:
                self._tell(noted, seconds, num_threads)
            self._times.observe(self._num_rows, seconds, num_threads=num_threads, num_replies=self._num_replies)
            self.drafting_s = 0.0
        self._noted.clear()

    def end_reply(self, sequence: Sequence, *, num_threads: int) -> None:
        """Tell the referee of a reply that ends within the step; its account is asked for now."""
        for noted in [item for item in self._noted if item.sequence is sequence]:
            self._noted.remove(noted)
            self._tell(noted, self._clock() - self._began_at, num_threads)

    def _tell(self, noted: _Noted, step_s: float, num_threads: int) -> None:
        """Tell a reply's referee what the step brought and took, and what a plain one would have taken all of them."""
        drafting = noted.drafting
        assert drafting.referee is not None
        tokens = noted.sequence.generated[drafting.num_generated :]
        plain_s = None
        if self._num_rows > self._num_replies:  # otherwise this one was plain
            plain_s = self._times.plain(num_threads=num_threads, num_replies=self._num_replies)
        drafting.referee.note(
            drafting.choice,
            tokens,
            step_s=step_s,
            draft_s=drafting.draft_s,
            num_drafted=noted.num_drafted,
            num_accepted=noted.sampled.num_accepted,
            num_sampled=noted.sampled.num_sampled,
            confidences=drafting.confidences[: noted.num_drafted],
            num_draft_read=drafting.num_read,
            company=Company(
                plain_s=step_s if plain_s is None else plain_s,
                others_s=max(self.drafting_s - drafting.draft_s, 0.0),
                num_other_rows=self._num_rows - noted.num_drafted - 1,
                num_other_tokens=self._num_tokens - noted.sampled.num_sampled,
            ),
        )
