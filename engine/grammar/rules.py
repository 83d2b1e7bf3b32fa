"""Rules of a grammar as values, and the checks that a reply can follow them to an end."""

from collections.abc import Iterable
from typing import NamedTuple

from engine.errors import GrammarError

LAST_CODE_POINT = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)

Ranges = tuple[tuple[int, int], ...]
"""Code points: sorted ranges with both ends, none touching another, without surrogates."""


class Literal(NamedTuple):
    """This text."""

    text: str


class CharClass(NamedTuple):
    """One character of these."""

    ranges: Ranges


class TokenRef(NamedTuple):
    """One token of the vocabulary, named by number or as text, or any other than it."""

    token: int | str
    is_negated: bool


class RuleRef(NamedTuple):
    """What the rule of this name stands for."""

    name: str


class Group(NamedTuple):
    """One of several sequences."""

    alternatives: tuple[tuple["Item", ...], ...]


class Repeat(NamedTuple):
    """An item `minimum` to `maximum` times, without a limit where that is None."""

    item: "Item"
    minimum: int
    maximum: int | None


Item = Literal | CharClass | TokenRef | RuleRef | Group | Repeat
Rules = dict[str, Group]


def code_point_ranges(ranges: list[tuple[int, int]], *, is_negated: bool = False) -> Ranges:
    """Return ranges in normal form, or those of all other characters."""
    others = _gaps([*ranges, SURROGATES] if is_negated else ranges)
    return others if is_negated else _gaps([*others, SURROGATES])


def _gaps(ranges: Iterable[tuple[int, int]]) -> Ranges:
    gaps, start = [], 0
    for low, high in sorted(ranges):
        if start < low:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    if start <= LAST_CODE_POINT:
        gaps.append((start, LAST_CODE_POINT))
    return tuple(gaps)


_Symbol = str | int
"""A rule by name, or a group or repetition by number; 0 stands for what takes a character."""
_TAKES = 0


class _Productions:
    """The rules with a symbol for every group and repetition, so that each check is one pass over all of them."""

    def __init__(self, rules: Rules) -> None:
        self.heads: list[_Symbol] = []
        self.bodies: list[tuple[_Symbol, ...]] = []
        self.owner: dict[_Symbol, str] = {}
        self.endless: list[tuple[_Symbol, _Symbol]] = []  # a repetition without a limit, and what it repeats
        self.references: list[tuple[str, str]] = []
        self._num_symbols = 0
        for name, group in rules.items():
            self.owner[name] = name
            for sequence in group.alternatives:
                self._add(name, sequence, name)

    def _add(self, head: _Symbol, sequence: tuple[Item, ...], owner: str) -> None:
        body = tuple(self._symbol(item, owner) for item in sequence if item != Literal(""))
        self.heads.append(head)
        self.bodies.append(body)

    def _symbol(self, item: Item, owner: str) -> _Symbol:
        if isinstance(item, RuleRef):
            self.references.append((owner, item.name))
            return item.name
        if not isinstance(item, Group | Repeat):
            return _TAKES
        self._num_symbols += 1
        symbol = self._num_symbols
        self.owner[symbol] = owner
        if isinstance(item, Group):
            for sequence in item.alternatives:
                self._add(symbol, sequence, owner)
            return symbol
        if item.maximum != 0:
            inner = self._symbol(item.item, owner)
            self.heads.append(symbol)
            self.bodies.append((inner,))
            if item.maximum is None:
                self.endless.append((symbol, inner))
        if item.minimum == 0:
            self._add(symbol, (), owner)
        return symbol

    def closed_over(self, known: set[_Symbol]) -> set[_Symbol]:
        """Return the symbols with a production all of whose symbols are of the set, and those that follow."""
        found = set(known)
        missing = [len(body) for body in self.bodies]
        uses: dict[_Symbol, list[int]] = {}
        for number, body in enumerate(self.bodies):
            for symbol in body:
                uses.setdefault(symbol, []).append(number)
        todo = list(known)
        for number, head in enumerate(self.heads):
            if not missing[number] and head not in found:
                found.add(head)
                todo.append(head)
        while todo:
            for number in uses.get(todo.pop(), ()):
                missing[number] -= 1
                if not missing[number] and self.heads[number] not in found:
                    found.add(self.heads[number])
                    todo.append(self.heads[number])
        return found

    def first_cycle(self, empty: set[_Symbol]) -> _Symbol | None:
        """Return a symbol that can begin with itself."""
        edges: dict[_Symbol, list[_Symbol]] = {}
        for head, body in zip(self.heads, self.bodies, strict=True):
            for symbol in body:
                if symbol != _TAKES:
                    edges.setdefault(head, []).append(symbol)
                if symbol not in empty:
                    break
        done: set[_Symbol] = set()
        on_path: set[_Symbol] = set()
        for root in edges:
            if root in done:
                continue
            path = [(root, iter(edges[root]))]
            on_path.add(root)
            while path:
                top, following = path[-1]
                first = next((symbol for symbol in following if symbol not in done), None)
                if first is None:
                    done.add(top)
                    on_path.remove(top)
                    path.pop()
                elif first in on_path:
                    return first
                else:
                    path.append((first, iter(edges.get(first, ()))))
                    on_path.add(first)
        return None


def check_rules(rules: Rules, lines: dict[str, int]) -> None:
    """Refuse rules that are missing, never end, or go round without taking a character.

    Args:
        lines: where each rule begins.

    Raises:
        GrammarError: with the line.
    """
    if "root" not in rules:
        raise GrammarError("The grammar has no rule named `root`.", "Name the rule that it begins with `root`.")
    productions = _Productions(rules)

    def fault(name: str, what: str, hint: str) -> GrammarError:
        return GrammarError(f"In line {lines[name]} of the grammar the rule `{name}` {what}.", hint)

    for owner, name in productions.references:
        if name not in rules:
            hint = f"Add the rule `{name}`, or put the name in quotes if it is text."
            raise fault(owner, f"uses `{name}`, which is not there", hint)
    ending = productions.closed_over({_TAKES})
    for name in rules:
        if name not in ending:
            raise fault(name, "can never come to its end", "Give it a choice that does not lead back to itself.")
    empty = productions.closed_over(set())
    for symbol, inner in productions.endless:
        if inner in empty:
            hint = "Let what is repeated without a limit take at least one character."
            raise fault(productions.owner[symbol], "repeats something that may be empty", hint)
    if (cycle := productions.first_cycle(empty)) is not None:
        hint = "Put what it takes first in front of the rule that it uses, or write it with `*`."
        raise fault(productions.owner[cycle], "begins with itself", hint)
