"""How command lines are read: numbers and flags that say in one sentence what is wrong with them."""

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

from app.errors import UsageError

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        sentence = message[:1].upper() + message[1:]
        raise UsageError(f"{sentence.rstrip('.')}.", f"See `{self.prog} --help`.")


def whole_number(text: str) -> int:
    """Return the whole number in `text`; digits of other scripts, blanks and underscores are none."""
    if not _WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
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
        return int(text)

    return read


class NotBuilt(argparse.Action):
    """A flag of the contract whose part is not built yet."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Refuse the flag."""
        raise UsageError(f"{option_string} is not built yet.", "Leave it out.")


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
