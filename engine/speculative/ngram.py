"""What a chat said before: the continuation behind the longest earlier occurrence of its last tokens.

The index grows with the chat and is never built again. Memory: about 160 bytes a token (a list entry, a link, and an
entry in each of two dictionaries), so 1.3 MB for 8,000 tokens; it lives as long as its request.
"""

from array import array
from collections.abc import Iterable
from typing import NamedTuple

MIN_MATCH, MAX_MATCH = 3, 64  # tokens; a longer match says no more
LONG_MATCH = 12  # from here on an occurrence is found however many shorter ones are more recent
NUM_CANDIDATES = 8  # most recent occurrences of the last three tokens that are compared
SLICE_TOKENS = 2048  # taken into the index by one call: under 3 ms
_STRIDE = 8
_ID_BITS = 21
_KEY_MASK = (1 << MIN_MATCH * _ID_BITS) - 1


class NgramProposal(NamedTuple):
    """What came after the last tokens when they stood in the chat before.

    Attributes:
        tokens: the continuation.
        match_length: how many of the last tokens stand before it there, MAX_MATCH at most.
    """

    tokens: tuple[int, ...]
    match_length: int


class NgramIndex:
    """An index of one request's tokens by their last three and their last twelve."""

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._tokens: list[int] = []
        self._earlier = array("i")  # for each end of three tokens: where the same three ended before, or -1
        self._latest: dict[int, int] = {}
        self._latest_long: dict[int, int] = {}
        self._key = 0
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def begins(self, tokens: list[int]) -> bool:
        """Return whether `tokens` begin with the ones that are here."""
        return self._tokens == tokens[: len(self._tokens)]

    @property
    def num_unindexed(self) -> int:
        """Tokens that a later call takes into the index."""
        return max(len(self._tokens) - 1 - len(self._earlier), 0)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens, and take some into the index."""
        self._tokens.extend(tokens)
        self.catch_up()

    def catch_up(self) -> None:
        """Take a slice of what is not in the index into it; `extend` and `propose` do so too."""
        tokens, first = self._tokens, len(self._earlier)
        last = min(first + SLICE_TOKENS, len(tokens) - 1)  # the last token has no continuation yet
        key, latest, latest_long, note = self._key, self._latest, self._latest_long, self._earlier.append
        for end in range(first, last):
            # Exact for ids below 2**21; beyond, an occurrence is compared token by token before it counts.
            key = (key << _ID_BITS | tokens[end]) & _KEY_MASK
            if end < MIN_MATCH - 1:
                note(-1)
                continue
            note(latest.get(key, -1))
            latest[key] = end
            if end >= LONG_MATCH - 1:
                latest_long[hash(tuple(tokens[end - LONG_MATCH + 1 : end + 1]))] = end
        self._key = key

    def propose(self, max_tokens: int) -> NgramProposal | None:
        """Return the continuation of the longest match, the most recent of equals; None where there is none.

        A continuation that reaches the end of the chat goes on with itself: a list or a loop repeats its period. Where
        short matches of one length were continued differently, the continuation that most of them have is taken.

        Args:
            max_tokens: length of the continuation, which is only shorter where max_tokens is below one: then None.
        """
        self.catch_up()
        tokens = self._tokens
        if max_tokens < 1 or len(tokens) < MIN_MATCH:
            return None
        length, ends = self._longest()
        if not length:
            return None
        start = (ends[0] if len(ends) == 1 else self._most_usual(ends)) + 1
        period = len(tokens) - start
        continuation = tokens[start : start + max_tokens]
        while len(continuation) < max_tokens:
            continuation.append(continuation[-period])
        return NgramProposal(tuple(continuation), length)

    def _longest(self) -> tuple[int, list[int]]:
        """Return the length of the longest match and the ends of those that have it, the most recent first."""
        tokens, earlier = self._tokens, self._earlier
        best, ends, key = 0, list[int](), 0
        for token in tokens[-MIN_MATCH:]:
            key = (key << _ID_BITS | token) & _KEY_MASK
        end = self._latest.get(key, -1)
        for _ in range(NUM_CANDIDATES):
            if end < 0:
                return best, ends
            length = self._match_length(end)
            if length > best:
                best, ends = length, [end]
                if best == MAX_MATCH:
                    return best, ends
            elif length == best:
                ends.append(end)
            end = earlier[end]
        if best < LONG_MATCH and end >= 0:  # older ones may match longer
            end = self._latest_long.get(hash(tuple(tokens[-LONG_MATCH:])), -1)
            if end >= 0 and (length := self._match_length(end)) > best:
                return length, [end]
        return best, ends

    def _match_length(self, end: int) -> int:
        """Return how many tokens up to `end` equal the last ones; 0 below MIN_MATCH."""
        tokens = self._tokens
        most = min(MAX_MATCH, end + 1)
        at, last, length = end + 1, len(tokens), 0
        while length + _STRIDE <= most and (
            tokens[at - length - _STRIDE : at - length] == tokens[last - length - _STRIDE : last - length]
        ):
            length += _STRIDE
        while length < most and tokens[end - length] == tokens[last - 1 - length]:
            length += 1
        return length if length >= MIN_MATCH else 0

    def _most_usual(self, ends: list[int]) -> int:
        following = [self._tokens[end + 1] for end in ends]
        return ends[following.index(max(following, key=following.count))]
