"""Strict mode: how many tokens a model computes in one step to the same bits as one at a time.

Kernels differ with the number of tokens: which ones a model uses depends on its quant types, so it is tried.
"""

import time
from collections.abc import Callable

from engine.backend import Backend
from engine.errors import DecodeFailed
from engine.params import MAX_DRAFT

_FIRST_TRIES = (MAX_DRAFT + 1, 2, 5, 16)  # where the first holds, the others look at the kernels of shorter steps
_TIME_LIMIT_S = 0.3
_NUM_CONTEXT = 4  # tokens in front of the step that is tried


def strict_max(
    backend: Backend,
    *,
    seq_id: int,
    n_threads: int,
    time_limit_s: float = _TIME_LIMIT_S,
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """Return the most tokens whose logits are those of single steps to the bit; 1 where no more are.

    The single steps are taken with one thread: with more, attention over long contexts is summed up in another order.

    Args:
        n_threads: of steps with several tokens, and of all after this.
        time_limit_s: after which what was found so far is returned; the step that is under way is finished.
    """
    trial = _Trial(backend, clock() + time_limit_s, clock)
    try:
        backend.set_threads(1, n_threads)
        return trial.run()
    except DecodeFailed:
        return 1
    finally:
        backend.set_threads(n_threads, n_threads)
        backend.seq_rm(0, 0)


class _Trial:
    """Tries steps of several lengths; the sequence must be empty and is not emptied."""

    def __init__(self, backend: Backend, end: float, clock: Callable[[], float]) -> None:
        self._backend = backend
        self._end = end
        self._clock = clock
        description = backend.description
        self._most = min(
            MAX_DRAFT + 1,
            backend.max_step_tokens,
            description.n_ubatch,
            backend.max_step_logits,
            description.n_ctx - _NUM_CONTEXT,
        )
        # Any tokens will do, as long as they are not all the same.
        count = max(len(backend.vocabulary.pieces), 1)
        self._tokens = [(7 + 31 * number) % count for number in range(_NUM_CONTEXT + self._most)]

    def run(self) -> int:
        """Return the most tokens that are the same."""
        if self._most < 2 or not self._decode(0, _NUM_CONTEXT, num_rows=0):
            return 1
        began = self._clock()
        self._is_same(1)
        single_s = self._clock() - began
        if self._clock() + (self._most * single_s) < self._end and self._is_same(self._most):
            tries = [number for number in _FIRST_TRIES if 1 < number < self._most]
            failed = next((number for number in tries if not self._is_same(number)), None)
            if failed is None:
                return self._most
            return self._between(1, failed)
        return self._between(1, self._most + 1)
