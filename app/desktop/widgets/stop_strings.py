"""How stop strings are written as lines of text: what a line cannot hold is written with a backslash."""

import re

_ESCAPED = re.compile(r"\\(?:(n|r|t|\\)|u([0-9a-fA-F]{4}))")
# What a text field makes a line break or a blank of.
_SPECIAL = re.compile("[\\\\\n\r\t\x00\xa0\u2028\u2029\ufdd0\ufdd1]")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
_NAMES = {value: key for key, value in _LETTERS.items()}


def stop_lines(strings: tuple[str, ...]) -> str:
    """Return stop strings as lines of text."""
    return "\n".join(_SPECIAL.sub(lambda found: _escaped(found[0]), text) for text in strings)


def stop_strings(lines: str) -> tuple[str, ...]:
    """Return the stop strings of lines of text; empty lines are none."""
    return tuple(_ESCAPED.sub(_unescaped, line) for line in lines.split("\n") if line)


def _escaped(character: str) -> str:
    return f"\\{_NAMES[character]}" if character in _NAMES else f"\\u{ord(character):04x}"


def _unescaped(found: re.Match[str]) -> str:
    return _LETTERS[found[1]] if found[1] else chr(int(found[2], 16))
