"""The tokens of a vocabulary as a grammar sees them: text by its bytes, and the few that a grammar names."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.errors import GrammarError

if TYPE_CHECKING:
    from engine.backend import Vocabulary

Indices = npt.NDArray[np.int32]


class TokenTable:
    """The text tokens of a vocabulary, sorted by their bytes; made once for a model.

    Control tokens are no text: a grammar that allows the characters of `<|im_end|>` does not allow the token.

    Attributes:
        data, offsets, lengths: the bytes of all tokens, and where each token's lie.
    """

    def __init__(self, vocabulary: "Vocabulary") -> None:
        self.pieces = vocabulary.pieces
        self.end_ids = vocabulary.end_ids
        self._controls = vocabulary.control_ids | vocabulary.end_ids
        pieces = self.pieces
        order = sorted(
            (t for t, piece in enumerate(pieces) if piece and t not in self._controls), key=pieces.__getitem__
        )
        self._order: Indices = np.array(order, np.int32)
        self._text_ids = frozenset(order)
        self._named: dict[bytes, int] = {}  # made when a grammar first names a token
        self.lengths: Indices = np.array([len(piece) for piece in pieces], np.int32)
        self.offsets: Indices = np.cumsum(self.lengths, dtype=np.int32) - self.lengths
        self.data = np.frombuffer(b"".join(pieces), np.uint8)
        first = self.data[self.offsets[self._order]]
        self._starts = np.searchsorted(first, np.arange(257)).tolist()

    def text_of(self, token: int) -> bytes:
        """Return what a token adds to the text: nothing where it is no text."""
        return self.pieces[token] if token in self._text_ids else b""

    def beginning_with(self, low: int, high: int) -> Indices:
        """Return the text tokens whose first byte lies in a range."""
        return self._order[self._starts[low] : self._starts[high + 1]]

    def others_than(self, token: int) -> Indices:
        """Return all text tokens but one."""
        others: Indices = self._order[self._order != token]
        return others

    def is_text(self, token: int) -> bool:
        """Return whether a token is text and no control token."""
        return token in self._text_ids

    def id_of(self, token: int | str) -> int:
        """Return the number of a token that a grammar names.

        Raises:
            GrammarError: there is no such token.
        """
        found: int | None
        if isinstance(token, str):
            name, found = token, self._find(token.encode("utf-8", "replace"))
        else:
            name, found = f"<[{token}]>", token
        if found is None or found >= len(self.pieces):
            raise GrammarError(
                f"The grammar names the token {name[:60]}, which this model does not have.", "Leave it out."
            )
        return found

    def _find(self, piece: bytes) -> int | None:
        if not self._named:  # the first of its text, a control token before others
            in_order = sorted(range(len(self.pieces)), key=lambda token: (token in self._controls, -token))
            self._named = {self.pieces[token]: token for token in in_order}
        return self._named.get(piece)
