"""Strict mode: how many tokens a model computes in one step to the same bits as one at a time.

Kernels differ with the number of tokens, and which ones a model uses depends on its quant types: so it is tried.
"""

import time
from collections.abc import Callable

from engine.backend import Backend, BatchPart, DecodeStatus
from engine.errors import DecodeFailed
from engine.params import MAX_DRAFT

_SHORTER = (16, 5, 2)  # where the longest step holds, these look at the kernels of shorter ones
_TIME_LIMIT_S, _LIMIT_STEPS = 0.3, 60  # the longer of the two, in steps of one token
_NUM_CONTEXT = 2  # tokens in front of the steps
_NUM_SINGLES, _NUM_COMPARED = 16, 12  # rows: other kernels round some of them alike
NUM_CELLS = _NUM_CONTEXT + _NUM_COMPARED + MAX_DRAFT + 1  # that a trial takes at most


def strict_max(backend: Backend, *, seq_id: int, n_threads: int, clock: Callable[[], float] = time.perf_counter) -> int:
    """Return the most tokens whose logits are those of single steps to the bit; 1 where no more are, or none can be
    taken back.

    All steps take one thread. With more, a single step sums attention over long contexts up in another order; a step of
    several tokens does not. The sequence must be empty, and is so afterwards.

    Args:
        n_threads: of all steps after this.
    """
    trial = _Trial(backend, seq_id, clock)
    try:
        backend.set_threads(1, 1)
        return trial.run()
    except DecodeFailed:
        return 1
    finally:
        backend.set_threads(n_threads, n_threads)
        backend.seq_rm(seq_id, 0)


class _Trial:
    """Tries steps of several lengths in the first sequence."""

    def __init__(self, backend: Backend, seq_id: int, clock: Callable[[], float]) -> None:
        self._backend, self._seq_id = backend, seq_id
        self._clock = clock
        self._end = 0.0
        self._singles: list[bytes] = []  # digests of the rows of single steps
        description = backend.description
        rows, cells = backend.max_step_logits, description.n_ctx - _NUM_CONTEXT - _NUM_COMPARED
        self._most = min(MAX_DRAFT + 1, backend.max_step_tokens, description.n_ubatch, rows, cells)
        count = len(backend.vocabulary.pieces)
        self._tokens = [(7 + 31 * number) % count for number in range(NUM_CELLS)]

    def run(self) -> int:
        """Return the most tokens that are the same."""
        if self._most < 2 or not self._decode(-_NUM_CONTEXT, _NUM_CONTEXT):
            return 1
        began = self._clock()
        for row in range(_NUM_SINGLES):
            if not self._decode(row, 1):
                return 1
            self._singles.append(self._backend.row_digest(0))
        now = self._clock()
        self._end = now + max(_TIME_LIMIT_S, _LIMIT_STEPS * (now - began) / _NUM_SINGLES)
        good, bad = 1, self._most + 1
        if self._is_same(self._most):
            shorter = [number for number in _SHORTER if number < self._most]
            bad = next((number for number in shorter if not self._is_same(number)), bad)
            good = self._most if bad > self._most else 1
        else:
            bad = self._most
        while bad - good > 1 and self._clock() < self._end:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._is_same(middle) else (good, middle)
        return good

    def _is_same(self, number: int) -> bool:
        """Whether steps of so many tokens give the logits of single ones."""
        if not self._cut(0):
            return False
        start = 0
        while start < _NUM_COMPARED:
            if not self._decode(start, number):
                return False
            singles = self._singles[start : start + number]
            if [self._backend.row_digest(row) for row in range(len(singles))] != singles:
                return False
            start += number
        if start <= len(self._singles):
            return True
        last = self._backend.row_digest(number - 1)
        return self._cut(start - 1) and self._decode(start - 1, 1) and self._backend.row_digest(0) == last

    def _cut(self, num_tokens: int) -> bool:
        kept = _NUM_CONTEXT + num_tokens
        return self._backend.can_go_on(self._seq_id, kept) and self._backend.seq_rm(self._seq_id, kept)

    def _decode(self, first: int, number: int) -> bool:
        start = _NUM_CONTEXT + first
        part = BatchPart(
            self._seq_id, start, self._tokens[start : start + number], wants_logits=True, num_drafted=number - 1
        )
        return self._backend.decode([part]) is DecodeStatus.DONE
