"""What the draws of a sampler are to be distributed like, from the definition of each step, and whether they are."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from engine.backend import Distribution
from engine.params import SamplingParams

_MIN_EXPECTED = 5.0  # draws of a cell; rarer ones are taken together


def expected_distribution(
    logits: npt.NDArray[np.floating], params: SamplingParams, prompt: Sequence[int] = ()
) -> Distribution:
    """Return what penalties, top-k, top-p, min-p and temperature make of logits, in this order."""
    values = logits.astype(np.float64)
    for token, count in Counter(prompt[-params.repeat_last_n :] if params.repeat_last_n else ()).items():
        raised = values[token] <= 0
        values[token] = values[token] * params.repeat_penalty if raised else values[token] / params.repeat_penalty
        values[token] -= count * params.frequency_penalty + params.presence_penalty
    order = np.argsort(-values)
    if params.top_k:
        order = order[: params.top_k]
    if params.top_p < 1.0:
        sums = np.cumsum(_softmax(values[order]))
        order = order[: int(np.searchsorted(sums, params.top_p)) + 1]
    if params.min_p > 0.0:
        order = order[values[order] >= values[order[0]] + math.log(params.min_p)]
    return Distribution(order.astype(np.int32), _softmax(values[order] / params.temperature))


def shuffled(p: Distribution, seed: int) -> Distribution:
    """Return a distribution with its tokens in another order."""
    order = np.random.default_rng(seed).permutation(len(p.ids))
    return Distribution(p.ids[order], p.probabilities[order])


def overlap(p: Distribution, q: Distribution) -> float:
    """Return how often a token of `q` should be accepted for `p`: the sum of the smaller probabilities."""
    of_p, of_q = (dict(zip(x.ids.tolist(), x.probabilities.tolist(), strict=True)) for x in (p, q))
    return math.fsum(min(value, of_q.get(token, 0.0)) for token, value in of_p.items())


def chance_of(drawn: Iterable[int], p: Distribution) -> float:
    """Return how probable it is that draws from `p` differ from it as much as these: Pearson's chi-square test.

    The tail is that of the normal distribution for the cube root, after Wilson and Hilferty.
    """
    counts = Counter(drawn)
    num_drawn = counts.total()
    expected = dict(zip(p.ids.tolist(), (p.probabilities * num_drawn).tolist(), strict=True))
    if any(expected.get(token, 0.0) == 0.0 for token in counts):
        return 0.0
    cells, rest = [], (0, 0.0)
    for token, number in expected.items():
        if number >= _MIN_EXPECTED:
            cells.append((counts[token], number))
        else:
            rest = (rest[0] + counts[token], rest[1] + number)
    if rest[1] >= _MIN_EXPECTED:
        cells.append(rest)
    freedom = len(cells) - 1
    if freedom < 1:
        return 1.0
    square = sum((found - number) ** 2 / number for found, number in cells)
    spread = 2 / (9 * freedom)
    return 0.5 * math.erfc(((square / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(2 * spread))


def _softmax(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    weights = np.exp(values - values.max())
    return np.asarray(weights / weights.sum())
