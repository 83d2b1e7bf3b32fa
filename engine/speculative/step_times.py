"""What a step costs by the tokens in it, learned from the steps themselves; the draft model's times likewise.

No clock in here: whoever runs a step tells how long it took. One object serves all replies of a model.
"""

import itertools
import math
from typing import NamedTuple

MAX_ROWS = 64
STRICT_THREADS = 0  # by which times of strict replies are known: their steps with drafts take more than plain ones
# Rows worth measuring before the first reply, the most telling first; between them is interpolated.
CALIBRATION_ROWS = (1, 2, 4, 8, 1, 3, 6, 16, 1, 5, 12, 33)

# Times one row costs, before anything is known: the median of seven models on one and two threads, and from 16 on as
# much for each further row as a prompt's tokens cost.
_USUAL = ((1, 1.0), (2, 2.3), (3, 3.1), (4, 3.2), (6, 4.5), (8, 4.6), (16, 5.5), (33, 9.5), (64, 17.0))
_GAIN = 0.2  # of a step that differs from what was expected: its share in what is expected next
_LASTING, _JUMP_GAIN = 3, 0.6  # so many in a row that differ much the same way: this share
_MUCH = 0.2  # logarithm of a ratio; one step that differs more counts as if by this much
_FIRST_MOST = 0.7  # a first step of so many rows differs from its neighbours by this much at most
_FIRM = 3  # steps of so many rows, after which they also tell the speed of the machine
_SHARED = 0.8  # of a difference at known rows is put down to the machine
_TO_BASELINE = 0.5  # of that reaches what a plain step is taken to cost, until the next plain step tells
_STALE_STEPS = 8.0  # without a step of one kind, after which the other kind tells for it
_MOST_URGENT = 1.5  # as much more is a plain step believed after a long time without one
_REDRAW = 0.01


class _Rows:
    """Times at one thread count: `exp(base)` for one row, `exp(level) * shape[n]` for n."""

    def __init__(self, residuals: dict[int, float] | None = None) -> None:
        self.base = self.level = 0.0
        self.numbers: dict[int, int] = {}  # steps seen by rows
        self.residuals = dict(residuals or {})  # logarithm of a row count's cost over the usual
        self.far: dict[int, list[float]] = {}  # the last steps of so many rows, where these differed much one way
        self._since_plain = self._since_longer = 0  # steps since one of one row, since one of more
        self.has_jumped = False  # since the last plain step
        self.shape: list[float] = []
        self._drawn: list[float] = []  # residuals of all row counts, those not seen interpolated
        self._draw()

    def seconds(self, num_rows: int) -> float:
        if num_rows <= 1:
            return math.exp(self.base)
        beyond = max(num_rows / MAX_ROWS, 1.0)
        return math.exp(self.level) * self.shape[min(num_rows, MAX_ROWS)] * beyond

    def observe(self, num_rows: int, seconds: float) -> None:
        rows = min(num_rows, MAX_ROWS)
        value = math.log(seconds * rows / num_rows)
        number = self.numbers.get(rows, 0)
        self.numbers[rows] = number + 1
        if len(self.numbers) == 1 and not number:
            shift = value - math.log(self.seconds(rows))
            self.base += shift
            self.level += shift
            return
        off = value - math.log(self.seconds(rows))
        step = self._gained(rows, number, off)
        # What was just measured itself is not moved by what the other kind of step shows.
        if rows == 1:
            share = min(self._since_longer / _STALE_STEPS, 1.0)
            if len(self.far.get(1, ())) >= _LASTING:  # the machine is another: longer steps may have shown it already
                share = max(share, 1.0 - min(max((self.level - self.base) / step, 0.0), 1.0))
            self.level += step * share
            self.base += step * (1.0 + min(self._since_plain / _STALE_STEPS, _MOST_URGENT))
            self._since_plain, self.has_jumped = 0, False
            self._since_longer += 1
            return
        if number < _FIRM:
            self._move(rows, step)
        else:
            self.level += _SHARED * step
            self.base += _SHARED * _TO_BASELINE * step * min(self._since_plain / _STALE_STEPS, 1.0)
            self._move(rows, (1 - _SHARED) * step)
        self._since_longer = 0
        self._since_plain += 1

    def _move(self, rows: int, step: float) -> None:
        self.residuals[rows] = self.residuals.get(rows, self._drawn[rows]) + step
        if abs(self.residuals[rows] - self._drawn[rows]) > _REDRAW:
            self._draw()

    def _gained(self, rows: int, number: int, off: float) -> float:
        """Return how far a difference moves what is expected: one that stands alone moves it little."""
        far = self.far.setdefault(rows, [])
        if abs(off) <= _MUCH or (far and far[-1] * off < 0):
            far.clear()
        if abs(off) > _MUCH:
            far.append(off)
            del far[:-_LASTING]
        if number < _FIRM:
            off = max(-_FIRST_MOST, min(_FIRST_MOST, off)) if self.residuals else off
            return off / (number + 1)
        if len(far) >= _LASTING:
            self.has_jumped = True
            return _JUMP_GAIN * sorted(far)[_LASTING // 2]
        return _GAIN * max(-_MUCH, min(_MUCH, off))

    def _draw(self) -> None:
        """Interpolate the residuals between the measured row counts, and keep to the nearest beyond them."""
        known = sorted(self.residuals.items()) or [(1, 0.0)]
        first, low = known[0]
        drawn = [low] * (MAX_ROWS + 1)
        for last, high in known[1:]:
            span = _LOG[last] - _LOG[first]
            for n in range(first + 1, last + 1):
                drawn[n] = low + (high - low) * (_LOG[n] - _LOG[first]) / span
            first, low = last, high
        drawn[first + 1 :] = [low] * (MAX_ROWS - first)
        self._drawn = drawn
        self.shape = [usual * math.exp(residual) for usual, residual in zip(_USUAL_SHAPE, drawn, strict=True)]


class _Company(NamedTuple):
    """What the times of steps differ by, beside their rows."""

    num_threads: int
    num_replies: int


class StepTimes:
    """Expected seconds of a step of one model by its rows, at each thread count and for each number of replies.

    A row of another reply has a cache of its own to look at, and is not what a further row of the same one is. So steps
    of several replies are known apart, by the rows beyond one of each: what lone ones take is only where they begin.
    """

    def __init__(self) -> None:
        self._known: dict[_Company, _Rows] = {}
        self._plain_at: dict[tuple[bool, int], int] = {}  # threads of the last plain step, by the number of replies

    def observe(self, num_rows: int, seconds: float, *, num_threads: int = 1, num_replies: int = 1) -> None:
        """Learn from a finished step, once a step; steps with parts of a prompt do not belong here.

        Args:
            num_rows: tokens in the step, of all its replies; each asked for logits.
            seconds: decoding, and choosing a token from each row.
        """
        if seconds <= 0 or not 0 < num_replies <= num_rows:
            return
        company = _Company(num_threads, num_replies)
        if company not in self._known:
            self._known[company] = _Rows(self._first_residuals(company))
        self._known[company].observe(num_rows - num_replies + 1, seconds)
        if num_rows == num_replies:
            self._plain_at[num_threads == STRICT_THREADS, num_replies] = num_threads

    def expected(self, num_rows: int, *, num_threads: int = 1, num_replies: int = 1) -> float | None:
        """Return the seconds a step should take now, None before any step was seen at this thread count."""
        rows = self._known.get(_Company(num_threads, num_replies))
        if rows is not None and rows.numbers:
            return rows.seconds(num_rows - num_replies + 1)
        return self.expected(num_rows, num_threads=num_threads) if num_replies > 1 else None

    def table(self, *, num_threads: int = 1, num_replies: int = 1) -> list[float] | None:
        """Return the expected seconds by rows of all replies, 0 to MAX_ROWS; None as for `expected`."""
        rows = self._known.get(_Company(num_threads, num_replies))
        if rows is None or not rows.numbers:
            return self.table(num_threads=num_threads) if num_replies > 1 else None
        scale = math.exp(rows.level)
        seconds = [scale * ratio for ratio in rows.shape]
        seconds[1] = math.exp(rows.base)
        return (seconds[1:2] * num_replies + seconds[1:])[: MAX_ROWS + 1]

    def has_plain(self, *, num_threads: int = 1, num_replies: int = 1) -> bool:
        """Return whether a step of so many replies was seen in which none had a draft."""
        return (num_threads == STRICT_THREADS, num_replies) in self._plain_at

    def plain(self, *, num_threads: int = 1, num_replies: int = 1) -> float | None:
        """Return the seconds of a step of so many replies in which none has a draft, with the threads such steps take.

        It is one that was seen. Until there was, those of fewer replies tell: that is too little, and what drafts gain
        is told too low.

        Args:
            num_threads: of the step beside which it is put; plain ones may take others.
        """
        is_strict = num_threads == STRICT_THREADS
        for number in range(num_replies, 0, -1):
            threads = self._plain_at.get((is_strict, number))
            if threads is not None:
                return self.expected(number, num_threads=threads, num_replies=number)
        return self.expected(1, num_threads=num_threads)

    def is_unsettled(self, *, num_threads: int = 1, num_replies: int = 1) -> bool:
        """Return whether steps have begun to differ so much that a plain one should tell what is usual now."""
        rows = self._known.get(_Company(num_threads, num_replies))
        return rows is not None and (rows.has_jumped or bool(rows.far.get(1)))

    def is_calibrated(self, *, num_threads: int = 1) -> bool:
        """Return whether plain steps and three other row counts were seen."""
        rows = self._known.get(_Company(num_threads, 1))
        return rows is not None and rows.numbers.get(1, 0) >= 2 and len(rows.numbers) > 3

    def _first_residuals(self, company: _Company) -> dict[int, float] | None:
        """Return what steps of a kind that was not seen have in common with others."""
        same = [known for known in self._known if known.num_replies == company.num_replies]
        if same:
            return self._known[min(same, key=lambda known: abs(known.num_threads - company.num_threads))].residuals
        alone = self.table(num_threads=company.num_threads)
        if alone is None:
            return None
        first = alone[min(company.num_replies, MAX_ROWS)]
        most = MAX_ROWS - company.num_replies + 1
        further = {rows: alone[company.num_replies + rows - 1] / first for rows in CALIBRATION_ROWS if rows <= most}
        return {rows: math.log(ratio / _USUAL_SHAPE[rows]) for rows, ratio in further.items()}


class DraftTimes:
    """What the draft model takes: for each token it drafts, and for each it has to read before.

    Args:
        token_s: a guess until the first draft was seen, None where there is none.
    """

    def __init__(self, token_s: float | None = None) -> None:
        self._token_s = token_s
        self._read_s: float | None = None
        self._num_drafts = self._num_reads = 0

    @property
    def token_s(self) -> float | None:
        """Seconds of a step of one token, None until known."""
        return self._token_s

    @property
    def read_s(self) -> float | None:
        """Seconds of each further token that it reads before it drafts, None until known."""
        return self._token_s / 4 if self._read_s is None and self._token_s is not None else self._read_s

    @property
    def is_calibrated(self) -> bool:
        """Whether both times were measured."""
        return self._num_drafts >= 2 and self._num_reads >= 1

    def expected(self, num_read: int, num_drafted: int) -> float | None:
        """Return the seconds of a draft, None before anything is known.

        Args:
            num_read: tokens the draft model is behind; the first step reads them all.
            num_drafted: each token after the first takes a step.
        """
        if self._token_s is None:
            return None
        return self._token_s * max(num_drafted, 1) + (self.read_s or 0.0) * max(num_read - 1, 0)

    def observe(self, num_read: int, num_drafted: int, seconds: float) -> None:
        """Learn from a finished draft; one that read many tokens tells of reading, another of drafting."""
        if seconds <= 0:
            return
        num_steps, num_more = max(num_drafted, 1), max(num_read - 1, 0)
        if num_more >= 8 and self._token_s is not None:
            measured = max(seconds - num_steps * self._token_s, seconds / 10) / num_more
            self.observe_reading(num_more, measured * num_more)
        elif num_more < 8:
            per_read = self.read_s or 0.0
            measured = max(seconds - per_read * num_more, seconds / 2) / num_steps
            known = self._token_s if self._num_drafts else None
            self._token_s, self._num_drafts = _followed(known, measured, self._num_drafts), self._num_drafts + 1

    def observe_reading(self, num_tokens: int, seconds: float) -> None:
        """Learn from reading alone."""
        if num_tokens > 0 and seconds > 0:
            self._read_s = _followed(self._read_s, seconds / num_tokens, self._num_reads)
            self._num_reads += 1


def _followed(known: float | None, measured: float, number: int) -> float:
    """Return an average that follows slow changes, and single outliers little."""
    if known is None:
        return measured
    measured = min(max(measured, known / 1.5), known * 1.5)
    return known + max(_GAIN, 1 / (number + 1)) * (measured - known)


def _usual_shape() -> list[float]:
    """Return the usual cost of 0 to MAX_ROWS rows, interpolated."""
    shape = [1.0, 1.0]
    for (first, low), (last, high) in itertools.pairwise(_USUAL):
        shape += [low + (high - low) * (n - first) / (last - first) for n in range(first + 1, last + 1)]
    return shape


_USUAL_SHAPE = _usual_shape()
_LOG = [0.0] + [math.log(n) for n in range(1, MAX_ROWS + 1)]
