"""Numbers and flags on a command line."""

import argparse

import pytest

from app.cli.arguments import ArgumentParser, number, whole_number, whole_number_or
from app.errors import UsageError


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("0.7", 0.7), (".5", 0.5), ("1e-3", 0.001), ("-2", -2.0)])
def test_number_is_read(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "x", "0,7", "nan", "inf", "-inf", "1_0", " 1", "1 ", "٣", "0x10", "1e", "--1"])
def test_nonsense_is_no_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no number"):
        number(text)


@pytest.mark.parametrize("text", ["", "1.0", "1e3", "1_000", "٣", "+"])
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


@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        ("--document -x.txt", "--document has no value.", "`--document=VALUE`"),
        ("-m -x.gguf", "-m/--model has no value.", "`--model=VALUE`"),
        ("-hello", "There is no option -hello.", "stands behind `--`"),
        ("-x", "There is no option -x.", "stands behind `--`"),
        ("--nothing hi", "There is no option --nothing.", "stands behind `--`"),
        ("two words", "There is too much: words.", "stand in quotes"),
        ("--seed 99999999999999999999", "Argument --seed: the number has too many digits.", "--help"),
    ],
)
def test_complaint_says_what_was_most_likely_meant(arguments: str, sentence: str, hint: str) -> None:
    parser = ArgumentParser(prog="fireside chat")
    parser.add_argument("--document")
    parser.add_argument("-m", "--model")
    parser.add_argument("--seed", type=whole_number)
    parser.add_argument("prompt", nargs="?")
    with pytest.raises(UsageError) as caught:
        parser.parse_args(arguments.split())
    assert caught.value.message == sentence
    assert hint in caught.value.hint
