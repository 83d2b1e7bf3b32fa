"""The tokens of a vocabulary as a grammar sees them: text by its bytes, and the few that a grammar names."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.errors import GrammarError
from engine.grammar.rules import TokenRef

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

    def ids_of(self, reference: TokenRef) -> frozenset[int]:
        """Return the tokens that a reference means; any other than one means text tokens only.

        Raises:
            GrammarError: there is no such token.
        """
        name = reference.token if isinstance(reference.token, str) else f"<[{reference.token}]>"
        token = self._named(name) if isinstance(reference.token, str) else reference.token
        if token is None or token >= len(self.pieces):
            raise GrammarError(f"The grammar names the token {name}, which this model does not have.", "Leave it out.")
        return self._text_ids - {token} if reference.is_negated else frozenset((token,))

    def _named(self, name: str) -> int | None:
        piece = name.encode("utf-8", "replace")
        found = [token for token, other in enumerate(self.pieces) if other == piece]
        return next((token for token in found if token in self._controls), found[0] if found else None)
