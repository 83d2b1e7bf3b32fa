"""Follows a grammar through a reply: which tokens may come next, byte by byte, in time that is bounded for any grammar.

A way through the grammar is a stack of what is still to come; a reply that can be read in several ways has several.
Stacks are cells of (frame, cell below), each of which exists once, so that two ways that have met count as one: that
is what keeps an ambiguous grammar from growing without bound, token by token and within a token.
"""

import numpy as np
import numpy.typing as npt

from engine.errors import GrammarError
from engine.grammar.compiled import DONE, END, Bytes, Choice, CompiledGrammar, Loop, Tokens
from engine.grammar.tokens import Indices, TokenTable

MAX_CELLS = 500_000  # of one reply, about a hundred MiB; those that a long reply no longer needs are dropped before
_TIDY_CELLS = 200_000
_TIDY_KNOWN = 2_000_000  # cells in what is remembered of the ways between them
MAX_WORK = 150_000  # cells visited for one token: about a quarter of a second, in which neighbours wait
_MAX_HALF_ANSWER_WORK = 10 * MAX_WORK
_NUM_MASKS = 16
_FEW_TOKENS = 4096

_Frame = int | tuple[int, int, int | None]
"""A position; a node of bytes as the complement of its number; or a loop with the counts that are left."""


class Matcher:
    """Where a reply stands in its grammar.

    Raises:
        GrammarError: the grammar allows no text, or there are too many ways through it.
    """

    def __init__(self, grammar: CompiledGrammar, table: TokenTable) -> None:
        self._grammar = grammar
        self._table = table
        self._frames: list[_Frame] = [END]
        self._below: list[int] = [END]
        self._cells: dict[tuple[_Frame, int], int] = {}
        self._ready: dict[int, tuple[int, ...]] = {}
        self._steps: dict[tuple[int, int], tuple[int, ...]] = {}
        self._masks: dict[tuple[int, ...], Indices] = {}
        self._num_known = 0
        self._work = 0
        self._state = self._ready_cells(self._cell(grammar.root, END))
        if self.is_complete:
            raise GrammarError("The grammar allows no text.", "Let it take at least one character.")

    @property
    def may_end(self) -> bool:
        """Whether the reply may end here."""
        return END in self._state

    @property
    def is_complete(self) -> bool:
        """Whether nothing more can follow."""
        return self._state == (END,)

    def take_text(self, data: bytes) -> bool:
        """Take text in that is there already; False, and nothing changed, where it does not fit."""
        state, spent = self._state, 0
        for byte in data:
            self._work = 0
            state = self._step(state, byte)
            spent += self._work
            if spent > _MAX_HALF_ANSWER_WORK:
                raise _too_ambiguous()
        if state:
            self._state = state
        return bool(state)

    def take(self, token: int) -> bool:
        """Take a token in; False, and nothing changed, where the grammar does not allow it."""
        self._work = 0
        state = self._after(token)
        if state:
            self._state = state
            if len(self._frames) > _TIDY_CELLS or self._num_known > _TIDY_KNOWN:
                self._tidy()
        return bool(state)

    def allowed(self) -> Indices:
        """Return the tokens that may come next, sorted."""
        if (known := self._masks.get(self._state)) is None:
            while len(self._masks) >= _NUM_MASKS:
                del self._masks[next(iter(self._masks))]
            self._work = 0
            known = self._masks[self._state] = self._find_allowed()
        return known

    def _after(self, token: int) -> tuple[int, ...]:
        if token in self._table.end_ids and self.may_end:
            return self._state
        found: set[int] = set()
        for cell in self._state:
            frame = self._frames[cell]
            item = self._grammar.positions[frame].item if isinstance(frame, int) and frame > 0 else None
            if isinstance(item, Tokens) and self._fits(item, token):
                assert isinstance(frame, int)
                found.update(self._ready_cells(self._rest(frame, self._below[cell])))
        if text := self._table.text_of(token):
            state = self._state
            for byte in text:
                state = self._step(state, byte)
            found.update(state)
        return tuple(sorted(found))

    def _fits(self, item: Tokens, token: int) -> bool:
        return (token != item.token and self._table.is_text(token)) if item.is_negated else token == item.token

    def _step(self, state: tuple[int, ...], byte: int) -> tuple[int, ...]:
        if len(state) == 1:
            return self._cell_after(state[0], byte)
        found: set[int] = set()
        for cell in state:
            found.update(self._cell_after(cell, byte))
        return tuple(sorted(found))

    def _cell_after(self, cell: int, byte: int) -> tuple[int, ...]:
        if (known := self._steps.get((cell, byte))) is not None:
            self._spend(1 + len(known))
            return known
        known = ()
        frame = self._frames[cell]
        if isinstance(frame, int) and frame < 0:
            for low, high, node in self._grammar.edges[~frame]:
                if low <= byte <= high:
                    known = self._arrive(node, self._below[cell])
        self._spend(1 + len(known))
        self._steps[cell, byte] = known
        self._num_known += 1 + len(known)
        return known

    def _arrive(self, node: int, below: int) -> tuple[int, ...]:
        return self._ready_cells(below) if node == DONE else (self._cell(~node, below),)

    def _find_allowed(self) -> Indices:
        table = self._table
        is_allowed = np.zeros(len(table.pieces), bool)
        if self.may_end:
            is_allowed[list(self._table.end_ids)] = True
        level: dict[int, list[Indices]] = {}
        for cell in self._state:
            frame = self._frames[cell]
            if isinstance(frame, int) and frame < 0:
                for low, high, node in self._grammar.edges[~frame]:
                    self._go_on(level, is_allowed, (node, self._below[cell]), table.beginning_with(low, high), 1)
            elif isinstance(frame, int) and frame > 0:
                item = self._grammar.positions[frame].item
                assert isinstance(item, Tokens)
                self._spend(10)
                is_allowed[table.others_than(item.token) if item.is_negated else item.token] = True
        depth = 1
        while level:
            following: dict[int, list[Indices]] = {}
            for cell, found in level.items():
                tokens = _merged(found, len(is_allowed))
                tokens = tokens[~is_allowed[tokens]]
                frame = self._frames[cell]
                assert isinstance(frame, int)
                data = table.data[table.offsets[tokens] + depth]
                for low, high, node in self._grammar.edges[~frame]:
                    chosen = tokens[(data >= low) & (data <= high)]
                    self._go_on(following, is_allowed, (node, self._below[cell]), chosen, depth + 1)
            level = following
            depth += 1
        return np.flatnonzero(is_allowed).astype(np.int32)

    def _go_on(
        self,
        level: dict[int, list[Indices]],
        is_allowed: npt.NDArray[np.bool_],
        target: tuple[int, int],
        tokens: Indices,
        depth: int,
    ) -> None:
        """Allow the tokens that end here, and put the others where their next byte is looked at."""
        self._spend(1)
        if not len(tokens):
            return
        lengths = self._table.lengths[tokens]
        is_allowed[tokens[lengths == depth]] = True
        longer = tokens[lengths > depth]
        if len(longer):
            for cell in self._arrive(*target):
                frame = self._frames[cell]
                if isinstance(frame, int) and frame < 0:
                    self._spend(10)  # array operations cost as much as this many visits
                    level.setdefault(cell, []).append(longer)

    def _ready_cells(self, start: int) -> tuple[int, ...]:
        """Return the cells that look at the next byte or token, of all that a cell leads to; `END` may be one."""
        if (known := self._ready.get(start)) is not None:
            self._spend(len(known))
            return known
        ready: set[int] = set()
        seen = {start}
        todo = [start]
        while todo:
            self._spend(1)
            cell = todo.pop()
            frame = self._frames[cell]
            is_ready = cell == END or (isinstance(frame, int) and frame < 0)
            if not is_ready:
                following = self._expand(frame, self._below[cell])
                is_ready = following is None
                for other in following or ():
                    if other not in seen:
                        seen.add(other)
                        todo.append(other)
            if is_ready:
                ready.add(cell)
        known = self._ready[start] = tuple(sorted(ready))
        self._num_known += 1 + len(known)
        return known

    def _expand(self, frame: _Frame, below: int) -> list[int] | None:
        """Return what a stack leads to without taking anything; None where it waits for a token."""
        if not isinstance(frame, int):
            return self._turn(*frame, below)
        rest = self._rest(frame, below)
        match self._grammar.positions[frame].item:
            case Bytes(node):
                return [self._cell(~node, rest)]
            case Choice(number):
                return [self._cell(first, rest) if first else rest for first in self._grammar.choices[number]]
            case Loop(body, minimum, maximum):
                return self._turn(body, minimum, maximum, rest)
            case Tokens():
                return None

    def _turn(self, body: int, minimum: int, maximum: int | None, below: int) -> list[int]:
        """Return the stacks for a loop: to leave it, and to take its body once more."""
        found = [below] if minimum == 0 else []
        if maximum is None or maximum > 0:
            left = None if maximum is None else maximum - 1
            again = below if left == 0 else self._cell((body, max(minimum - 1, 0), left), below)
            found.append(self._cell(body, again) if body else again)
        return found

    def _rest(self, frame: int, below: int) -> int:
        following = self._grammar.positions[frame].following
        return self._cell(following, below) if following else below

    def _cell(self, frame: _Frame, below: int) -> int:
        if (known := self._cells.get((frame, below))) is not None:
            return known
        if len(self._frames) >= MAX_CELLS:
            raise _too_ambiguous()
        self._frames.append(frame)
        self._below.append(below)
        known = self._cells[frame, below] = len(self._frames) - 1
        return known

    def _tidy(self) -> None:
        """Keep only the cells that the present state stands on."""
        frames, below = self._frames, self._below
        kept = set(self._state)
        for cell in self._state:
            while (cell := below[cell]) not in kept:
                kept.add(cell)
        self._frames, self._below = [END], [END]
        for known in (self._cells, self._ready, self._steps, self._masks):
            known.clear()
        self._num_known = 0
        new = {END: END}
        for cell in sorted(kept - {END}):  # the cell below is always the older one
            new[cell] = self._cell(frames[cell], new[below[cell]])
        self._state = tuple(sorted(new[cell] for cell in self._state))
        if 2 * len(kept) > _TIDY_CELLS:  # it would be tidied at every token
            raise _too_ambiguous()

    def _spend(self, amount: int) -> None:
        self._work += amount
        if self._work > MAX_WORK:
            raise _too_ambiguous()


def _merged(parts: list[Indices], size: int) -> Indices:
    """Return the tokens of all parts; a few may be there twice, which is cheaper than to look for them."""
    if len(parts) == 1:
        return parts[0]
    tokens = np.concatenate(parts)
    if len(tokens) <= _FEW_TOKENS:
        return tokens
    is_there = np.zeros(size, bool)
    is_there[tokens] = True
    return np.flatnonzero(is_there).astype(np.int32)


def _too_ambiguous() -> GrammarError:
    return GrammarError(
        "The grammar can be read in too many ways at once.",
        "Give it fewer choices that begin alike, and smaller repetitions.",
    )
