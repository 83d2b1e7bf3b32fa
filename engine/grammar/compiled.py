"""Rules made ready for following: sequences as numbered positions, texts and classes as bytes of UTF-8."""

from collections.abc import Iterable
from typing import NamedTuple

from engine.grammar.rules import CharClass, Group, Item, Literal, Ranges, Repeat, RuleRef, Rules, TokenRef
from engine.grammar.tokens import TokenTable

END = 0  # the end of a sequence, and of all sequences
DONE = 0  # the byte was the last one of its item

Edges = tuple[tuple[int, int, int], ...]
"""What a node of bytes leads to: (first byte, last byte, next node)."""


class Position(NamedTuple):
    """An item in its sequence, and the position after it."""

    item: "_Compiled"
    following: int


class Bytes(NamedTuple):
    """A text or a character class, as the first of its nodes."""

    node: int


class Tokens(NamedTuple):
    """This token, or any other one that is text."""

    token: int
    is_negated: bool


class Choice(NamedTuple):
    """One of several sequences, by their first positions; a rule is such a choice, in a list that it can refer to."""

    number: int


class Loop(NamedTuple):
    """A sequence to be repeated, by its first position."""

    body: int
    minimum: int
    maximum: int | None


_Compiled = Bytes | Tokens | Choice | Loop


class CompiledGrammar:
    """Rules as numbered positions and nodes, for a vocabulary.

    Args:
        tokens: finds the tokens that a reference to a token means.
    """

    def __init__(self, rules: Rules, tokens: TokenTable) -> None:
        self._tokens = tokens
        self._nodes: dict[Edges, int] = {}
        self._known_edges: dict[tuple[Ranges, int, int], list[tuple[int, int, int]]] = {}
        self.positions: list[Position] = [Position(Bytes(DONE), END)]
        self.edges: list[Edges] = [()]
        self._rules = {name: number for number, name in enumerate(rules)}
        self.choices: list[tuple[int, ...]] = [() for _ in rules]
        for name, group in rules.items():
            self.choices[self._rules[name]] = self._sequences(group)
        self.root = self._position(Choice(self._rules["root"]), END)

    def _sequences(self, group: Group) -> tuple[int, ...]:
        return tuple(self._sequence(sequence) for sequence in group.alternatives)

    def _sequence(self, items: Iterable[Item]) -> int:
        position = END
        for item in reversed([item for item in items if item != Literal("")]):
            position = self._position(self._compile(item), position)
        return position

    def _position(self, item: _Compiled, following: int) -> int:
        self.positions.append(Position(item, following))
        return len(self.positions) - 1

    def _compile(self, item: Item) -> _Compiled:
        match item:
            case Literal(text):
                return Bytes(self._text(text.encode("utf-8")))
            case CharClass(ranges):
                return Bytes(self._char_class(ranges))
            case TokenRef(token, is_negated):
                return Tokens(self._tokens.id_of(token), is_negated)
            case RuleRef(name):
                return Choice(self._rules[name])
            case Repeat(inner, minimum, maximum):
                return Loop(self._sequence((inner,)) if maximum != 0 else END, minimum, maximum)
            case Group():
                self.choices.append(self._sequences(item))
                return Choice(len(self.choices) - 1)

    def _node(self, edges: Edges) -> int:
        if (known := self._nodes.get(edges)) is None:
            self.edges.append(edges)
            known = self._nodes[edges] = len(self.edges) - 1
        return known

    def _text(self, data: bytes) -> int:
        node = DONE
        for byte in reversed(data):
            node = self._node(((byte, byte, node),))
        return node

    def _char_class(self, ranges: Ranges) -> int:
        edges: list[tuple[int, int, int]] = []
        for first, last, mark, num_more in _LENGTHS:
            within = tuple((max(low, first), min(high, last)) for low, high in ranges if low <= last and high >= first)
            if within:
                edges += self._edges(within, mark, num_more)
        return self._node(tuple(edges))

    def _edges(self, ranges: Ranges, mark: int, num_more: int) -> list[tuple[int, int, int]]:
        """Return the edges of the byte that holds the bits above those of `num_more` bytes."""
        if (known := self._known_edges.get((ranges, mark, num_more))) is not None:
            return known
        span = 1 << (6 * num_more)
        edges: list[tuple[int, int, int]] = []
        for bits in range(ranges[0][0] // span, ranges[-1][1] // span + 1):
            base = bits * span
            within = tuple(
                (max(low - base, 0), min(high - base, span - 1))
                for low, high in ranges
                if low < base + span and high >= base
            )
            if not within:
                continue
            node = self._node(tuple(self._edges(within, 0x80, num_more - 1))) if num_more else DONE
            byte = mark | bits
            if edges and edges[-1][1:] == (byte - 1, node):
                edges[-1] = (edges[-1][0], byte, node)
            else:
                edges.append((byte, byte, node))
        self._known_edges[ranges, mark, num_more] = edges
        return edges


# Code points by the length of their UTF-8: first, last, what marks the first byte, how many bytes follow.
_LENGTHS = ((0, 0x7F, 0, 0), (0x80, 0x7FF, 0xC0, 1), (0x800, 0xFFFF, 0xE0, 2), (0x10000, 0x10FFFF, 0xF0, 3))
