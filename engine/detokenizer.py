"""Bytes to text across token borders: half a character is never shown."""

import codecs
from collections.abc import Container, Sequence

_new_decoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """Joins the pieces of sampled tokens into text.

    Args:
        pieces: bytes of each token.
        control_ids: tokens that are no text and not shown.
        shown_ids: those of them that are shown all the same.
    """

    def __init__(
        self, pieces: Sequence[bytes], control_ids: Container[int] = (), shown_ids: Container[int] = ()
    ) -> None:
        self._pieces = pieces
        self._control_ids = control_ids
        self._shown_ids = shown_ids
        self._decoder = _new_decoder("replace")

    def push(self, token: int) -> str:
        """Return the text that `token` completes; bytes that are no UTF-8 become U+FFFD."""
        if token in self._control_ids and token not in self._shown_ids:
            return ""
        return self._decoder.decode(self._pieces[token])

    def flush(self) -> str:
        """Return U+FFFD for a character that was never completed, else nothing."""
        return self._decoder.decode(b"", final=True)
