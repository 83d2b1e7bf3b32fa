"""What some values of one measure say together."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

_NOISY_SPREAD = 0.25  # of the median; quiet runs here stay under a tenth
_MIN_VALUES = 3  # below, a spread says nothing


class Summary(NamedTuple):
    """The middle of some values, and how far they lie apart."""

    median: float
    minimum: float
    maximum: float
    num_values: int

    @property
    def spread(self) -> float:
        """The distance from the lowest to the highest value as a share of the median; 0 where that is 0."""
        return (self.maximum - self.minimum) / abs(self.median) if self.median else 0.0

    @property
    def is_noisy(self) -> bool:
        """Whether the values lie too far apart to be compared with others."""
        return self.num_values >= _MIN_VALUES and self.spread > _NOISY_SPREAD


def summarise(values: Sequence[float]) -> Summary | None:
    """Return the summary of some values, None of none."""
    if not values:
        return None
    return Summary(statistics.median(values), min(values), max(values), len(values))


def median_ratio(values: Sequence[float], others: Sequence[float]) -> float | None:
    """Return the median of the ratios of pairs measured one after the other; None where there are none.

    A machine that changes its speed changes both of a pair, so their ratio is steadier than that of two medians.
    """
    ratios = [value / other for value, other in zip(values, others, strict=False) if other]
    return statistics.median(ratios) if ratios else None


def is_within_noise(one: Summary, other: Summary) -> bool:
    """Whether two summaries may be of the same thing: their ranges meet, or neither was measured more than once."""
    if min(one.num_values, other.num_values) < 2:
        return True
    return one.minimum <= other.maximum and other.minimum <= one.maximum
