"""Reads a grammar in llama.cpp's GBNF notation into rules, and refuses what no reply could follow.

Nothing of it reaches native code: `matcher.py` follows the rules itself, so that a grammar can neither end the
process nor keep it busy without end.
"""

import bisect
import functools
import re
from collections.abc import Callable

from engine.errors import GrammarError
from engine.grammar.rules import (
    LAST_CODE_POINT,
    SURROGATES,
    CharClass,
    Group,
    Item,
    Literal,
    Repeat,
    RuleRef,
    Rules,
    TokenRef,
    check_rules,
    code_point_ranges,
)

MAX_GRAMMAR_BYTES = 1 << 20
MAX_NESTING = 64  # of parentheses
MAX_REPEATS = 1_000_000
MAX_REPEAT_SIGNS = 8  # after one item

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_BREAKS = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_DIGITS = re.compile(r"[0-9]+")
_BREAK = re.compile(r"\r\n|\r|\n")
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_REPEATS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@functools.lru_cache(maxsize=4)
def parse_grammar(text: str) -> Rules:
    """Return the rules of a grammar, which always has one named `root`.

    Raises:
        GrammarError: it is no grammar, or one that no reply could follow; says in which line.
    """
    if len(text.encode("utf-8", "replace")) > MAX_GRAMMAR_BYTES:
        raise GrammarError("The grammar is larger than 1 MiB.", "Make it smaller.")
    parser = _Parser(text)
    rules = parser.parse()
    check_rules(rules, parser.lines)
    return rules


class _Parser:
    """Recursive descent over the text; `lines` tells where each rule began."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._breaks = [found.end() for found in _BREAK.finditer(text)]
        self.lines: dict[str, int] = {}

    def parse(self) -> Rules:
        rules: Rules = {}
        self._skip(is_over_lines=True)
        while self._at < len(self._text):
            begin = self._at
            name = self._name()
            if name in rules:
                self._at = begin
                raise self._error(f"the rule `{name}` is there twice", "Give each rule a name of its own.")
            self.lines[name] = self._line()
            self._skip()
            if not self._text.startswith("::=", self._at):
                raise self._error(f"`::=` is missing after `{name}`", 'A rule is written as `name ::= "text"`.')
            self._at += 3
            self._skip(is_over_lines=True)
            rules[name] = self._alternatives()
            if self._at < len(self._text) and not _BREAK.match(self._text, self._at):
                raise self._error(f"{self._found()} cannot stand here", "Begin each rule on a line of its own.")
            self._skip(is_over_lines=True)
        return rules

    def _alternatives(self) -> Group:
        sequences = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            self._skip(is_over_lines=True)
            sequences.append(self._sequence())
        return Group(tuple(sequences))

    def _sequence(self) -> tuple[Item, ...]:
        items: list[Item] = []
        while (char := self._peek()) and (read := self._reader(char)) is not None:
            items.append(read())
            self._skip(is_over_lines=self._depth > 0)
            items[-1] = self._repeated(items[-1])
        if self._peek() in tuple("*+?{"):
            raise self._error(f"{self._found()} repeats nothing", "Put what is to be repeated in front of it.")
        return tuple(items)

    def _reader(self, char: str) -> Callable[[], Item] | None:
        if _NAME.match(char):
            return lambda: RuleRef(self._name())
        readers: dict[str, Callable[[], Item]] = {
            '"': self._literal,
            "[": self._char_class,
            "(": self._group,
            ".": self._any_char,
            "<": self._token,
            "!": self._token,
        }
        return readers.get(char)

    def _literal(self) -> Item:
        self._at += 1
        chars = []
        while (char := self._peek()) != '"':
            if not char:
                raise self._error("a text in quotes is not closed", 'Close it with `"`.')
            chars.append(chr(self._char()))
        self._at += 1
        return Literal("".join(chars))

    def _char_class(self) -> Item:
        self._at += 1
        is_negated = self._peek() == "^"
        self._at += is_negated
        ranges = []
        while (char := self._peek()) != "]":
            if not char:
                raise self._error("a character class is not closed", "Close it with `]`.")
            low = high = self._char()
            if self._peek() == "-" and self._peek(1) != "]":
                self._at += 1
                if not self._peek():
                    raise self._error("a character class is not closed", "Close it with `]`.")
                high = self._char()
                if high < low:
                    raise self._error("a range of characters runs backwards", "Write it as `[a-z]`.")
            ranges.append((low, high))
        self._at += 1
        found = code_point_ranges(ranges, is_negated=is_negated)
        if not ranges or not found:
            raise self._error("a character class allows no character", "Put characters between `[` and `]`.")
        return CharClass(found)

    def _any_char(self) -> Item:
        self._at += 1
        return CharClass(code_point_ranges([], is_negated=True))

    def _group(self) -> Item:
        if self._depth == MAX_NESTING:
            raise self._error(f"more than {MAX_NESTING} parentheses are open", "Make rules of the inner ones.")
        self._at += 1
        self._depth += 1
        self._skip(is_over_lines=True)
        group = self._alternatives()
        if self._peek() != ")":
            what = f"{self._found()} stands where" if self._peek() else "the text ends where"
            raise self._error(f"{what} `)` is missing", "Close each `(` with `)`.")
        self._depth -= 1
        self._at += 1
        return group

    def _token(self) -> Item:
        is_negated = self._peek() == "!"
        self._at += is_negated
        end = self._text.find(">", self._at)
        if self._peek() != "<" or end < 0:
            raise self._error("a token has no end", "Write it as `<[42]>` or as its text, `<|name|>`.")
        text, self._at = self._text[self._at : end + 1], end + 1
        if not text.startswith("<["):
            return TokenRef(text, is_negated)
        if not re.fullmatch(r"<\[[0-9]{1,9}\]>", text):
            raise self._error(f"`{text[:40]}` is no token", "Write its number as in `<[42]>`.")
        return TokenRef(int(text[2:-2]), is_negated)

    def _repetition(self) -> tuple[int, int | None]:
        char = self._peek()
        self._at += 1
        if char != "{":
            return _REPEATS[char]
        minimum = self._count()
        maximum: int | None = minimum
        if self._peek() == ",":
            self._at += 1
            self._skip(is_over_lines=self._depth > 0)
            maximum = self._count() if self._peek().isdigit() else None
        if self._peek() != "}":
            raise self._error("a repetition is not closed", "Write it as `{2}`, `{2,}` or `{2,5}`.")
        self._at += 1
        if maximum is not None and maximum < minimum:
            raise self._error("a repetition has a maximum below its minimum", "Write it as `{2,5}`.")
        return minimum, maximum

    def _count(self) -> int:
        self._skip(is_over_lines=self._depth > 0)
        found = _DIGITS.match(self._text, self._at)
        if found is None:
            raise self._error("a repetition has no number", "Write it as `{2}`, `{2,}` or `{2,5}`.")
        self._at = found.end()
        if len(found[0]) > 9 or int(found[0]) > MAX_REPEATS:
            raise self._error(f"a repetition asks for more than {MAX_REPEATS:,} times", "Give a smaller number.")
        self._skip(is_over_lines=self._depth > 0)
        return int(found[0])

    def _repeated(self, item: Item) -> Item:
        for _ in range(MAX_REPEAT_SIGNS):
            if not (char := self._peek()) or char not in "*+?{":
                return item
            if item == Literal(""):
                raise self._error("an empty text is repeated", "Leave the repetition out.")
            item = Repeat(item, *self._repetition())
            self._skip(is_over_lines=self._depth > 0)
        raise self._error("there are too many repetitions in a row", "Leave one.")

    def _char(self) -> int:
        char = self._peek()
        self._at += 1
        if char != "\\":
            if SURROGATES[0] <= ord(char) <= SURROGATES[1]:
                raise self._error("there is half a surrogate pair", "Leave it out.")
            return ord(char)
        kind = self._peek()
        self._at += 1
        if kind in _HEX_ESCAPES:
            digits = self._text[self._at : self._at + _HEX_ESCAPES[kind]]
            if len(digits) < _HEX_ESCAPES[kind] or not re.fullmatch("[0-9a-fA-F]+", digits):
                raise self._error(f"`\\{kind}` needs {_HEX_ESCAPES[kind]} hexadecimal digits", "Write it as `\\x0A`.")
            self._at += len(digits)
            value = int(digits, 16)
            if value > LAST_CODE_POINT or SURROGATES[0] <= value <= SURROGATES[1]:
                raise self._error(f"`\\{kind}{digits}` is no character", "Characters end at `\\U0010FFFF`.")
            return value
        if kind not in _ESCAPES:
            raise self._error(f"`\\{kind}` is no escape", f"The escapes are \\x \\u \\U and {_escape_names()}.")
        return ord(_ESCAPES[kind])

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        if found is None:
            hint = "A rule begins with its name, of letters, digits and `-`."
            if self._peek() == "|":
                hint = "End the line before with `|`, or put the choices in parentheses."
            raise self._error(f"{self._found()} stands where a rule should begin", hint)
        self._at = found.end()
        return found[0]

    def _skip(self, *, is_over_lines: bool = False) -> None:
        found = (_SPACE_AND_BREAKS if is_over_lines else _SPACE).match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _found(self) -> str:
        char = self._peek()
        return f"`{char}`" if char.isprintable() and char else f"the character {ord(char):#x}" if char else "the end"

    def _line(self) -> int:
        return bisect.bisect_right(self._breaks, self._at) + 1

    def _error(self, what: str, hint: str) -> GrammarError:
        return GrammarError(f"In line {self._line()} of the grammar {what}.", hint)


def _escape_names() -> str:
    return " ".join(f"\\{name}" for name in _ESCAPES)
