"""How tokens are chosen without weights: the backend computes them, so there is nothing to draw."""

import hashlib
from typing import Protocol

import numpy as np

from engine.backend import Distribution, Proposal

_NUM_BYTES = 256  # tokens that are one byte of text


class FakeLogits(Protocol):
    """Where the tokens come from."""

    def next_token(self, row: int) -> int:
        """Return the token that follows the sequence of a row."""

    def row_digest(self, row: int) -> bytes:
        """See Backend."""


class FakeSampler:
    """Hands out the token the backend computed."""

    def __init__(self, logits: FakeLogits) -> None:
        self._logits = logits

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        """See Sampler."""
        return self._logits.next_token(row)

    @property
    def is_complete(self) -> bool:
        """See Sampler."""
        return False

    def end_thinking(self) -> None:
        """See Sampler."""

    def close(self) -> None:
        """See Sampler."""


class FakeDraftSampler:
    """Drafts what follows in every fake backend, but for some positions that everything before them decides.

    Args:
        right: share of the tokens that are right; it is what `look` says of each.
        is_drawn: whether a token counts as drawn; all of its source is the token, too.
    """

    def __init__(self, logits: FakeLogits, *, right: float, is_drawn: bool) -> None:
        self._logits = logits
        self._right = right
        self._is_drawn = is_drawn
        self._token: int | None = None

    def look(self, row: int) -> float:
        """See DraftSampler."""
        token = self._logits.next_token(row)
        digest = hashlib.sha256(b"draft" + self._logits.row_digest(row)).digest()
        is_right = int.from_bytes(digest[:4], "big") < self._right * 2**32
        self._token = token if is_right else (token + 1) % _NUM_BYTES
        return self._right

    def draw(self) -> Proposal:
        """See DraftSampler."""
        assert self._token is not None, "nothing was looked at"
        token, self._token = self._token, None
        source = Distribution(np.array([token], np.int32), np.array([1.0])) if self._is_drawn else None
        return Proposal(token, source)

    def close(self) -> None:
        """See DraftSampler."""
