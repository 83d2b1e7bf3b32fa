"""Student's t distribution: what a few values allow to say of their mean."""

import functools
import math

_MAX_STEPS = 300
_TINY = 1e-300
_PRECISION = 1e-14


def t_tail(t: float, degrees: float) -> float:
    """Return the probability of a value above `t`, with so many degrees of freedom."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    # Abramowitz and Stegun 26.5.27: both tails are the incomplete beta function at degrees / (degrees + t^2).
    both = _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)
    return both / 2 if t >= 0 else 1 - both / 2


@functools.lru_cache(maxsize=1024)
def t_quantile(confidence: float, degrees: float) -> float:
    """Return the t that a value stays within, on both sides, with a probability of `confidence`."""
    wanted = (1 - confidence) / 2
    low, high = 0.0, 1.0
    while t_tail(high, degrees) > wanted:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        if t_tail(middle, degrees) > wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function (Abramowitz and Stegun 26.5.8, by Lentz's method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for step in range(1, _MAX_STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for part in (even, odd):
            d = 1 / _not_zero(1 + part * d)
            c = _not_zero(1 + part / c)
            fraction *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return front * fraction / a


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
