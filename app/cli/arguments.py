"""How command lines are read: numbers and flags that say in one sentence what is wrong with them."""

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

from app.errors import UsageError

_WHOLE = re.compile(r"[+-]?[0-9]+")
_MAX_DIGITS = 19
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")

# What argparse says, of which we know better what to do.
_NO_VALUE = re.compile(r"argument (\S+): expected (?:one|at least one) argument")
_GLUED = re.compile(r"argument (-\w)\S*: ignored explicit argument '(.*)'", re.DOTALL)
_UNKNOWN = re.compile(r"unrecognized arguments: (.*)", re.DOTALL)
_BEHIND_DASHES = "what begins with `-` and is no option stands behind `--`."
_QUOTES = "several words that belong together stand in quotes."


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print, with what is most likely meant."""
        sentence, hint = message[:1].upper() + message[1:], f"See `{self.prog} --help`."
        if (found := _NO_VALUE.fullmatch(message)) is not None:
            flag = found[1].rpartition("/")[2]
            equals = f"`{flag}=VALUE`" if flag.startswith("--") else f"`{flag} VALUE`"
            sentence, hint = f"{found[1]} has no value", f"Write {equals}, with `=` where the value begins with `-`."
        elif (found := _GLUED.fullmatch(message)) is not None:
            sentence, hint = (
                f"There is no option {found[1].partition('/')[0]}{found[2]}",
                f"See `{self.prog} --help`; {_BEHIND_DASHES}",
            )
        elif (found := _UNKNOWN.fullmatch(message)) is not None:
            is_flag = found[1].startswith("-")
            sentence = f"There is no option {found[1]}" if is_flag else f"There is too much: {found[1]}"
            hint = f"See `{self.prog} --help`; {_BEHIND_DASHES if is_flag else _QUOTES}"
        raise UsageError(f"{sentence.rstrip('.')}.", hint)


def whole_number(text: str) -> int:
    """Return the whole number in `text`; digits of other scripts, blanks and underscores are none."""
    if not _WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    if len(text) > _MAX_DIGITS:
        raise argparse.ArgumentTypeError("the number has too many digits")
    return int(text)


def number(text: str) -> float:
    """Return the number in `text`, which is written with a point whatever the locale says."""
    if not _NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number such as 0.7")
    return float(text)


def whole_number_or(word: str) -> Callable[[str], int | None]:
    """Return a reader of a whole number, or of `word`, which becomes None."""

    def read(text: str) -> int | None:
        if text == word:
            return None
        if not _WHOLE.fullmatch(text):
            raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor `{word}`")
        return whole_number(text)

    return read


def add_shared_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that may stand before or after the command."""
    parser.add_argument("--data-dir", metavar="DIR", help="keep all data in this folder")
    parser.add_argument("--debug", action="store_true", help="show tracebacks, and log in detail")
    parser.add_argument(
        "-m",
        "--model",
        metavar="MODEL",
        help="a .gguf file, a name from `fireside models list`, or `starter`; default: the last one, else `starter`",
    )
    parser.add_argument("--fake-engine", action="store_true", help="answer without a model, to try the program out")
