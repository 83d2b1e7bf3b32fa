"""Numbers between bounds: all whole ones, and none outside."""

import math
import random

import pytest

from engine.grammar.number_range import integers, numbers
from tests.support.byte_vocabulary import fits, grammar_matcher


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 0), (0, 120), (7, 1305), (-12, 5), (-130, -7), (None, 3), (None, -99), (99, None), (None, None), (0.5, 9.5)],
)
def test_whole_numbers_are_those_between_the_bounds(low: float | None, high: float | None) -> None:
    grammar = f"root ::= {integers(low, high)}"
    for value in range(-1400, 1400):
        expected = (low is None or value >= low) and (high is None or value <= high)
        assert fits(grammar_matcher(grammar), str(value)) == expected, value


def test_number_is_written_in_one_way() -> None:
    for text in ("", "-", "00", "01", "-0", "+1", "1.", "1e1"):
        assert not fits(grammar_matcher(f"root ::= {integers(None, None)}"), text)


@pytest.mark.parametrize("seed", range(20))
def test_numbers_lie_between_the_bounds(seed: int) -> None:
    generator = random.Random(seed)
    low, high = sorted(round(generator.uniform(-20, 20), seed % 2) for _ in range(2))
    is_low_open, is_high_open = generator.random() < 0.5, generator.random() < 0.5
    found = numbers(low, high, is_low_open=is_low_open, is_high_open=is_high_open)
    for tenths in range(-250, 251) if found else ():
        value = tenths / 10
        text = str(value) if tenths % 10 else str(tenths // 10)
        if fits(grammar_matcher(f"root ::= {found}"), text):
            assert low <= value <= high and not (value == low and is_low_open) and not (value == high and is_high_open)
        else:
            assert not math.ceil(low) < value < math.floor(high)


@pytest.mark.parametrize(("low", "high"), [(5, 4), (0.2, 0.8)])
def test_nothing_is_left_where_no_whole_number_lies_between(low: float, high: float) -> None:
    assert integers(low, high) == numbers(low, high) == ""
