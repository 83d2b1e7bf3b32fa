"""Numbers between two bounds as grammar."""

import math

MAX_DIGITS = 15  # what a double holds exactly
_FRACTION = f'"." [0-9]{{0,{MAX_DIGITS}}} [1-9]'  # never zero: between two whole numbers, and on neither

Bound = int | float | None


def integers(low: Bound, high: Bound) -> str:
    """Return the grammar of the whole numbers from `low` to `high`, both included; empty where there are none."""
    return " | ".join(_integers(low, high))


def numbers(low: Bound, high: Bound, *, is_low_open: bool = False, is_high_open: bool = False) -> str:
    """Return a grammar of numbers between two bounds; empty where there are no whole numbers between them.

    It is not all of them: what lies between a bound that is no whole number and the next whole number is left out.

    Args:
        is_low_open, is_high_open: whether the bound itself is left out.
    """
    first, last = first_integer(low, is_open=is_low_open), last_integer(high, is_open=is_high_open)
    choices = _integers(first, last)
    bottom = None if low is None else math.ceil(low)
    top = None if high is None else math.floor(high)
    # i.5 lies between i and i + 1, and -i.5 between -i - 1 and -i.
    if (top is None or top > 0) and (upward := _digits(max(bottom or 0, 0), None if top is None else top - 1)):
        choices.append(f"({' | '.join(upward)}) {_FRACTION}")
    if (bottom is None or bottom < 0) and (
        downward := _digits(max(-(top or 0), 0) if top is not None else 0, None if bottom is None else -bottom - 1)
    ):
        choices.append(f'"-" ({" | ".join(downward)}) {_FRACTION}')
    return " | ".join(choices)


def first_integer(low: Bound, *, is_open: bool) -> int | None:
    """Return the first whole number above a bound, or on it."""
    if low is None:
        return None
    return math.floor(low) + 1 if is_open else math.ceil(low)


def last_integer(high: Bound, *, is_open: bool) -> int | None:
    """Return the last whole number below a bound, or on it."""
    if high is None:
        return None
    return math.ceil(high) - 1 if is_open else math.floor(high)


def _integers(low: Bound, high: Bound) -> list[str]:
    bottom = None if low is None else math.ceil(low)
    top = None if high is None else math.floor(high)
    choices = []
    if top is None or top >= 0:
        choices += _digits(max(bottom or 0, 0), top)
    if bottom is None or bottom < 0:
        least = 1 if top is None else max(-top, 1)
        negative = _digits(least, None if bottom is None else -bottom)
        if negative:
            choices.append(f'"-" ({" | ".join(negative)})')
    return choices


def _digits(low: int, high: int | None) -> list[str]:
    """Return the ways to write the whole numbers from `low`, not below zero, to `high`."""
    if high is not None and high < low:
        return []
    length = len(str(low))
    if high is None:
        longer = [f"[1-9] [0-9]{{{length},{MAX_DIGITS - 1}}}"] if length < MAX_DIGITS else []
        return _same_length(str(low), "9" * length) + longer
    choices = []
    while length < len(str(high)):
        choices += _same_length(str(low), "9" * length)
        low, length = 10**length, length + 1
    return choices + _same_length(str(low), str(high))


def _same_length(low: str, high: str) -> list[str]:
    """Return the ways to write numbers of one length, digit by digit."""
    if not low:
        return [""]
    rest = len(low) - 1
    if set(low[1:]) <= {"0"} and set(high[1:]) <= {"9"}:
        digit = f'"{low[0]}"' if low[0] == high[0] else f"[{low[0]}-{high[0]}]"
        return [digit + (f" [0-9]{{{rest}}}" if rest else "")]
    if low[0] == high[0]:
        return [f'"{low[0]}" {way}' for way in _same_length(low[1:], high[1:])]
    choices = [f'"{low[0]}" {way}' for way in _same_length(low[1:], "9" * rest)]
    if int(high[0]) - int(low[0]) > 1:
        choices.append(f"[{int(low[0]) + 1}-{int(high[0]) - 1}] [0-9]{{{rest}}}")
    return choices + [f'"{high[0]}" {way}' for way in _same_length("0" * rest, high[1:])]
