"""Regular expressions of a JSON schema as grammar: what stands between the quotes of a JSON string.

The notation is that of ECMA 262, as far as a grammar can follow it. Characters that JSON writes with a backslash are
written so.
"""

import re

from engine.errors import GrammarError
from engine.grammar.notation import MAX_NESTING, MAX_REPEATS
from engine.grammar.rules import Ranges, code_point_ranges

# Any character of a JSON string, in one way or another; \u without halves of surrogate pairs.
ANY_CHAR = r'[^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2}))'
_SHORT = {0x22: '\\"', 0x5C: "\\\\", 0x08: "b", 0x0C: "f", 0x0A: "n", 0x0D: "r", 0x09: "t"}
_UNWRITABLE = ((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
_DIGIT = ((0x30, 0x39),)
_WORD = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_BLANK = (
    *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _BLANK}
_LINE_ENDS = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CONTROLS = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B}
_COUNTS = re.compile(r"\{([0-9]{1,7})(?:(,)([0-9]{0,7}))?\}")
_HEX = {"x": re.compile("[0-9a-fA-F]{2}"), "u": re.compile("[0-9a-fA-F]{4}")}
_OPENING = re.compile(r"\((?:\?(?::|<[A-Za-z_][A-Za-z0-9_]*>))?")


def pattern_to_grammar(pattern: str) -> str:
    """Return the grammar of the JSON strings, without their quotes, that hold a match of `pattern`.

    It uses the rule `char`.

    Raises:
        GrammarError: it is no regular expression, or one that a grammar cannot follow.
    """
    return _PatternParser(pattern).parse()


class _PatternParser:
    """Recursive descent over the expression."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def parse(self) -> str:
        found = self._choice()
        if self._at < len(self._pattern):
            raise self._error("a `)` closes nothing")
        return found

    def _choice(self) -> str:
        choices = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            choices.append(self._sequence())
        return " | ".join(choices)

    def _sequence(self) -> str:
        """Return a sequence; outermost, what is not tied to the ends of the text may have more around it."""
        parts = []
        is_outermost = self._depth == 0
        if is_outermost:
            if self._peek() == "^":
                self._at += 1
            else:
                parts.append("char*")
        while (char := self._peek()) and char not in "|)":
            if char == "$" and is_outermost and self._peek(1) in ("", "|"):
                self._at += 1
                return " ".join(parts) or '""'
            parts.append(self._quantified(self._atom()))
        if is_outermost:
            parts.append("char*")
        return " ".join(parts) or '""'

    def _atom(self) -> str:
        char = self._peek()
        if char == "(":
            return self._group()
        if char in "^$*+?{}":
            raise self._error(f"`{char}` cannot stand here")
        if char == ".":
            self._at += 1
            return _written(code_point_ranges(list(_LINE_ENDS), is_negated=True))
        if char == "[":
            return self._char_class()
        return self._known(_written(self._one()))

    def _group(self) -> str:
        found = _OPENING.match(self._pattern, self._at)
        assert found is not None
        self._at = found.end()
        if self._peek() == "?":
            raise self._error("it looks ahead or behind, or has flags")
        if self._depth == MAX_NESTING:
            raise self._error("too many parentheses are open")
        self._depth += 1
        inner = self._choice()
        self._depth -= 1
        if self._peek() != ")":
            raise self._error("a `(` is not closed")
        self._at += 1
        return f"({inner})"

    def _quantified(self, atom: str) -> str:
        char = self._peek()
        if char in ("*", "+", "?"):
            self._at += 1
            sign = char
        elif char == "{":
            found = _COUNTS.match(self._pattern, self._at)
            if found is None:
                raise self._error("a repetition is not written as `{2,5}`")
            self._at = found.end()
            if max(int(found[1]), int(found[3] or 0)) > MAX_REPEATS:
                raise self._error("a repetition asks for too many times")
            sign = found[0]
        else:
            return atom
        if self._peek() == "?":  # shortest first: the same texts
            self._at += 1
        if self._peek() in tuple("*+?{"):
            raise self._error("there are two repetitions in a row")
        return atom + sign

    def _char_class(self) -> str:
        self._at += 1
        is_negated = self._peek() == "^"
        self._at += is_negated
        ranges: list[tuple[int, int]] = []
        while (char := self._peek()) != "]":
            if not char:
                raise self._error("a `[` is not closed")
            first = self._one(is_in_class=True)
            if self._peek() == "-" and self._peek(1) not in ("]", ""):
                self._at += 1
                last = self._one(is_in_class=True)
                if len(first) != 1 or len(last) != 1 or first[0][0] > last[0][1] or first[0][0] != first[0][1]:
                    raise self._error("a range of characters is wrong")
                ranges.append((first[0][0], last[0][1]))
            else:
                ranges += first
        self._at += 1
        return self._known(_written(code_point_ranges(ranges, is_negated=is_negated)))

    def _one(self, *, is_in_class: bool = False) -> Ranges:
        """Return the characters that a character or an escape stands for."""
        char = self._peek()
        self._at += 1
        if char != "\\":
            return ((ord(char), ord(char)),)
        kind = self._peek()
        self._at += 1
        if kind.lower() in _CLASSES:
            return code_point_ranges(list(_CLASSES[kind.lower()]), is_negated=kind.isupper())
        if kind in _CONTROLS:
            return ((_CONTROLS[kind], _CONTROLS[kind]),)
        if kind in ("x", "u"):
            found = _HEX[kind].match(self._pattern, self._at)
            if found is None:
                raise self._error(f"`\\{kind}` lacks its digits")
            self._at = found.end()
            return ((int(found[0], 16), int(found[0], 16)),)
        if kind == "b" and is_in_class:
            return ((0x08, 0x08),)
        if not kind or kind.isalnum():
            raise self._error(f"`\\{kind}` is not among the escapes that a grammar can follow")
        return ((ord(kind), ord(kind)),)

    def _known(self, written: str) -> str:
        if not written:
            raise self._error("a character class allows no character that JSON can hold")
        return written

    def _peek(self, ahead: int = 0) -> str:
        return self._pattern[self._at + ahead : self._at + ahead + 1]

    def _error(self, what: str) -> GrammarError:
        return GrammarError(
            f"The pattern {self._pattern[:60]!r} of the JSON schema cannot be followed: {what}.",
            "Write it more simply.",
        )


def _written(ranges: Ranges) -> str:
    """Return how one of these characters is written in a JSON string, empty where none can be."""
    plain = [part for low, high in ranges for part in _without(low, high)]
    short = "".join(letter for code, letter in _SHORT.items() if any(low <= code <= high for low, high in ranges))
    choices = []
    if plain:
        choices.append("[" + "".join(f"\\U{low:08X}-\\U{high:08X}" for low, high in plain) + "]")
    if short:
        choices.append(f'"\\\\" [{short}]')
    if not choices:
        controls = [code for low, high in ranges for code in range(low, min(high, 0x1F) + 1)]
        choices = [f'"\\\\u{code:04x}"' for code in controls]
    return choices[0] if len(choices) == 1 and plain else f"({' | '.join(choices)})" if choices else ""


def _without(low: int, high: int) -> list[tuple[int, int]]:
    """Return the parts of a range that JSON writes as they are."""
    parts = []
    for start, end in _UNWRITABLE:
        if low < start:
            parts.append((low, min(high, start - 1)))
        low = max(low, end + 1)
        if low > high:
            return parts
    return [*parts, (low, high)]
