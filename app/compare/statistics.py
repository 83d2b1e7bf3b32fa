"""Estimators of a comparison: middle, spread, intervals, differences of pairs, and what many tests at once may say.

Each is described, with its source, in docs/measuring.md. numpy is imported where it is used only: it takes a while.
"""

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from app.bench.statistics import summarise
from app.compare.student_t import t_quantile, t_tail

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE = 0.95
NUM_RESAMPLES = 2000
SEED = 20_240_601
FEW = 6  # below, the bootstrap has too few values to draw from
_CHUNK = 4_000_000  # drawn numbers that are held at once
_RESOLUTION = 1e-3  # no change of a thousandth is more than how finely things are measured
_RULE_OF_THREE = 3.0  # -ln 0.05: what was not seen in n tries happens in less than 3 of n


class Interval(NamedTuple):
    """A value and between what it lies with a confidence of 95 %; both None where nothing can be said.

    Attributes:
        num_values: that it was computed from.
    """

    value: float
    low: float | None
    high: float | None
    num_values: int


class Change(NamedTuple):
    """How one column differs from another, over pairs.

    Attributes:
        value, low, high: a ratio less one (0.1 is a tenth more), or for shares the difference; with its interval,
            None where there are too few pairs.
        mean, standard_error: of what is averaged, a logarithm of ratios or a difference.
        num_pairs: how many there were.
    """

    value: float
    low: float | None
    high: float | None
    mean: float
    standard_error: float | None
    num_pairs: int
    is_ratio: bool

    @property
    def p_value(self) -> float:
        """How likely such a difference, or a larger one, is by chance alone: Student's t of the pairs, both sides."""
        if self.standard_error is None:
            return 1.0
        return 2 * t_tail(abs(self.mean) / self.standard_error, self.num_pairs - 1)

    def p_worse(self, margin: float, *, is_higher_better: bool) -> float:
        """Return how likely such pairs are where the change is worse than `margin`, one side."""
        if self.standard_error is None:
            return 1.0
        gain = self.mean if is_higher_better else -self.mean
        slack = math.log1p(margin) if self.is_ratio else margin
        return t_tail((gain + slack) / self.standard_error, self.num_pairs - 1)


def median_deviation(values: Sequence[float]) -> float:
    """Return the median distance from the median."""
    middle = statistics.median(values)
    return statistics.median([abs(value - middle) for value in values])


def quartile_range(values: Sequence[float]) -> float:
    """Return the distance from the first to the third quartile; between two values it is interpolated."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


def is_too_noisy(groups: Sequence[Sequence[float]]) -> bool:
    """Whether repeats of the same thing lie too far apart to be compared: so it is in more than half of the groups."""
    summaries = [summary for group in groups if (summary := summarise(group)) is not None and summary.num_values > 2]
    return 2 * sum(summary.is_noisy for summary in summaries) > len(summaries)


def median_interval(groups: Sequence[Sequence[float]]) -> Interval | None:
    """Return the median over prompts of the median over repeats, and how far repeating it would move it.

    Args:
        groups: the values of the repeats, one group for each prompt; empty groups are left out.
    """
    groups = [group for group in groups if group]
    if not groups:
        return None
    value = statistics.median(statistics.median(group) for group in groups)
    num_values = sum(len(group) for group in groups)
    if 2 * sum(len(group) > 1 for group in groups) <= len(groups):
        return Interval(value, None, None, num_values)
    if len(groups) > 1:
        low, high = _percentiles(_repeated_medians(groups), num_values - len(groups))
    elif num_values < FEW:  # what a bootstrap would find, without the chance of its draws
        low, high = min(groups[0]), max(groups[0])
    else:
        low, high = _percentiles(_resampled_medians(groups[0]), num_values - 1)
    return Interval(value, min(low, value), max(high, value), num_values)


def share_interval(values: Sequence[float]) -> Interval | None:
    """Return the mean of shares from 0 to 1, one for each prompt, and where that of prompts like these would lie."""
    if not values:
        return None
    count, value = len(values), statistics.fmean(values)
    if count < 2:
        return Interval(value, None, None, count)
    if max(values) - min(values) < 1e-12:  # a bootstrap of equal values would be sure of them
        reach = min(1.0, _RULE_OF_THREE / count)
        return Interval(value, value * (1 - reach), value + (1 - value) * reach, count)
    low, high = _mean_percentiles(values)
    return Interval(value, max(0.0, min(low, value)), min(1.0, max(high, value)), count)


def paired_ratio(pairs: Sequence[tuple[float, float]]) -> Change | None:
    """Return how much more the first of each pair is than the second, as a ratio less one: the median over pairs."""
    logs = [math.log(one / other) for one, other in pairs if one > 0 and other > 0]
    if not logs:
        return None
    middle = statistics.median(logs)
    mean, error = _mean_and_error(logs)
    low: float | None = None
    high: float | None = None
    if error is not None:
        if len(logs) < FEW:
            low, high = _around(mean, error, len(logs))
        else:
            low, high = _percentiles(_resampled_medians(logs), len(logs) - 1)
        low, high = math.expm1(min(low, middle)), math.expm1(max(high, middle))
    return Change(math.expm1(middle), low, high, mean, error, len(logs), True)


def paired_difference(pairs: Sequence[tuple[float, float]]) -> Change | None:
    """Return how much the first of each pair is above the second: the mean over pairs, for shares from 0 to 1."""
    differences = [one - other for one, other in pairs]
    if not differences:
        return None
    mean, error = _mean_and_error(differences)
    low: float | None = None
    high: float | None = None
    if error is not None:
        is_flat = max(differences) - min(differences) < 1e-12
        if is_flat:  # what was not seen in n prompts can still be so in 3 of n
            error = _RULE_OF_THREE / len(differences) / t_quantile(CONFIDENCE, len(differences) - 1)
        if len(differences) < FEW or is_flat:
            low, high = _around(mean, error, len(differences))
        else:
            low, high = _mean_percentiles(differences)
        low, high = max(-1.0, min(low, mean)), min(1.0, max(high, mean))
    return Change(mean, low, high, mean, error, len(differences), False)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for being many (Holm 1979): below 0.05, all of them are right with 95 %."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def _mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean, and its standard error, None of less than three values."""
    mean = statistics.fmean(values)
    if len(values) < 3:
        return mean, None
    return mean, max(statistics.stdev(values), _RESOLUTION) / math.sqrt(len(values))


def _around(mean: float, error: float, count: int) -> tuple[float, float]:
    reach = t_quantile(CONFIDENCE, count - 1) * error
    return mean - reach, mean + reach


def _repeated_medians(groups: Sequence[Sequence[float]]) -> "NDArray[np.float64]":
    """Return what the median of the groups' medians could have been, had all been measured again.

    Each value is the middle of its group and a deviation drawn from those of all groups together: a few repeats of one
    prompt tell little of how far they scatter, those of all prompts do. Deviations are relative, and made larger by
    n / (n - 1) under the root, as they are from the mean of the n themselves (Davison and Hinkley 1997, section 3.3).
    """
    import numpy as np

    state = np.random.RandomState(SEED)  # its stream is the same in every version of numpy
    is_relative = all(value > 0 for group in groups for value in group)
    scaled = [np.log(group) if is_relative else np.asarray(group, dtype=np.float64) for group in groups]
    deviations = [
        (group - group.mean()) * math.sqrt(len(group) / (len(group) - 1)) for group in scaled if len(group) > 1
    ]
    pool, middles = np.concatenate(deviations), np.array([np.median(group) for group in scaled])
    sizes = np.array([len(group) for group in scaled])
    moved = np.empty((NUM_RESAMPLES, len(groups)))
    for size in sorted(set(sizes.tolist())):
        places = np.flatnonzero(sizes == size)
        rows = max(1, _CHUNK // (len(places) * size))
        for begin in range(0, NUM_RESAMPLES, rows):
            count = min(rows, NUM_RESAMPLES - begin)
            drawn = pool[state.randint(0, len(pool), (count, len(places), size))]
            moved[begin : begin + count, places] = middles[places] + np.median(drawn, axis=2)
    result: NDArray[np.float64] = np.median(moved, axis=1)
    return np.exp(result) if is_relative else result


def _resampled_medians(values: Sequence[float]) -> "NDArray[np.float64]":
    """Return the medians of n - 1 values drawn from the n.

    One less than there are: with n the spread comes out too small (Davison and Hinkley 1997, section 3.8).
    """
    import numpy as np

    state = np.random.RandomState(SEED)
    held = np.asarray(values, dtype=np.float64)
    medians = np.empty(NUM_RESAMPLES)
    rows = max(1, _CHUNK // len(held))
    for begin in range(0, NUM_RESAMPLES, rows):
        count = min(rows, NUM_RESAMPLES - begin)
        drawn = held[state.randint(0, len(held), (count, len(held) - 1))]
        medians[begin : begin + count] = np.median(drawn, axis=1)
    return medians


def _percentiles(resampled: "NDArray[np.float64]", degrees: int) -> tuple[float, float]:
    """Return the percentiles that hold 95 %, moved out as Student's t is wider than the normal distribution.

    (Hesterberg 2015: the expanded percentile interval; without it the interval of a few values is too narrow.)
    """
    import numpy as np

    tail = statistics.NormalDist().cdf(-t_quantile(CONFIDENCE, max(1, degrees)))
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return float(low), float(high)


def _mean_percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Return percentiles of means of n - 1 values drawn from n."""
    import numpy as np

    state = np.random.RandomState(SEED)
    count = len(values)
    held: Any = np.asarray(values, dtype=np.float64)
    means = np.empty(NUM_RESAMPLES)
    rows = max(1, _CHUNK // count)
    for begin in range(0, NUM_RESAMPLES, rows):
        size = min(rows, NUM_RESAMPLES - begin)
        means[begin : begin + size] = held[state.randint(0, count, (size, count - 1))].mean(axis=1)
    return _percentiles(means, count - 1)
