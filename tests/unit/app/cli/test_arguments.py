"""Numbers and flags on a command line."""

import argparse

import pytest

from app.cli.arguments import ArgumentParser, NotBuilt, number, whole_number, whole_number_or
from app.errors import UsageError


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("0.7", 0.7), (".5", 0.5), ("1e-3", 0.001), ("-2", -2.0)])
def test_number_is_read(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "x", "0,7", "nan", "inf", "-inf", "1_0", " 1", "1 ", "٣", "0x10", "1e", "--1"])
def test_nonsense_is_no_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no number"):
        number(text)


@pytest.mark.parametrize("text", ["", "1.0", "1e3", "1_000", "٣", "9" * 30, "+"])
def test_nonsense_is_no_whole_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no whole number"):
        whole_number(text)


def test_word_stands_for_none() -> None:
    read = whole_number_or("auto")
    assert (read("auto"), read("7")) == (None, 7)
    with pytest.raises(argparse.ArgumentTypeError, match="neither a whole number nor `auto`"):
        read("all")


def test_complaint_is_an_error_with_a_hint() -> None:
    parser = ArgumentParser(prog="fireside chat")
    parser.add_argument("--seed", type=whole_number)
    with pytest.raises(UsageError, match=r"^Argument --seed: 'x' is no whole number\.$") as caught:
        parser.parse_args(["--seed", "x"])
    assert "fireside chat --help" in caught.value.hint


def test_flags_are_not_abbreviated() -> None:
    parser = ArgumentParser(prog="fireside")
    parser.add_argument("--temperature")
    with pytest.raises(UsageError, match="--temp"):
        parser.parse_args(["--temp", "1"])


def test_flag_of_an_unbuilt_part_is_refused() -> None:
    parser = ArgumentParser(prog="fireside")
    parser.add_argument("--lora", action=NotBuilt, nargs=1)
    with pytest.raises(UsageError, match=r"^--lora is not built yet\.$"):
        parser.parse_args(["--lora", "x"])
