"""What a step of several tokens of one sequence costs, by the bare loop: the ground that drafting stands on."""

import statistics
from pathlib import Path
from typing import Any

from benchmarks.bare_loop import BareLoop

COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 33)
_DEPTH = 256  # tokens before them
_TRIES = 7


class _EveryRow(BareLoop):
    """A bare loop that computes the logits of every token, as a check of drafts must."""

    num_outputs = COUNTS[-1]

    def _wants_logits(self, index: int, count: int) -> bool:
        return count <= self.num_outputs or index == count - 1


def step_costs(
    llama: Any, path: Path, *, n_threads: int, counts: tuple[int, ...] = COUNTS, tries: int = _TRIES
) -> dict[int, float]:
    """Return the median seconds of a step by its number of tokens.

    The counts take turns, so that a machine that changes its speed changes all of them.
    """
    loop = _EveryRow(llama, str(path), n_ctx=2 * _DEPTH, n_threads=n_threads)
    times: dict[int, list[float]] = {count: [] for count in counts}
    try:
        tokens = [100 + index % 100 for index in range(_DEPTH + max(counts))]
        loop.read_behind(tokens, _DEPTH)
        for _ in range(tries):
            for count in counts:
                times[count].append(loop.read_behind(tokens[: _DEPTH + count], _DEPTH))
    finally:
        loop.close()
    return {count: statistics.median(values) for count, values in times.items()}
