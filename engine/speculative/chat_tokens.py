"""The tokens that a draft model goes by, looked at where the target keeps them: a step copies none of a long chat."""

from collections.abc import Sequence
from typing import overload


class ChatTokens(Sequence[int]):
    """What a slot holds, from some token on, and the one sampled last.

    Args:
        held: of the slot; it may not change while this is in use.
        last: the token behind them.
        first: of `held` that counts.
    """

    def __init__(self, held: Sequence[int], last: int, *, first: int = 0) -> None:
        self._held, self._last, self._first = held, last, first

    def __len__(self) -> int:
        return len(self._held) - self._first + 1

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        length = len(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            if step != 1:
                return [self[place] for place in range(start, stop, step)]
            found = [*self._held[self._first + start : self._first + min(stop, length - 1)]]
            return [*found, self._last] if start < stop == length else found
        place = index + length if index < 0 else index
        if not 0 <= place < length:
            raise IndexError(index)
        return self._last if place == length - 1 else self._held[self._first + place]
