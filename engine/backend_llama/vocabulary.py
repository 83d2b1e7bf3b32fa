"""A model's tokens: read once at load, then plain lookups."""

import ctypes
import functools
from typing import Any

from engine.backend_llama.library import library

_ATTR_UNKNOWN, _ATTR_CONTROL, _ATTR_USER_DEFINED = 1 << 0, 1 << 3, 1 << 4
_ATTR_SPECIAL = _ATTR_UNKNOWN | _ATTR_CONTROL | _ATTR_USER_DEFINED
_MARKER_BEGINNINGS = ("<|", "<｜")
_SPM = 1  # the vocabulary type that may put a space in front of text


class LlamaVocabulary:
    """See Vocabulary.

    Args:
        model: pointer to a loaded model, which must outlive this object's use of `tokenize`.

    Attributes:
        handle: llama.cpp's pointer.
    """

    def __init__(self, model: Any) -> None:
        self._library = library()
        self.handle = self._library.llama_model_get_vocab(model)
        size = self._library.llama_vocab_n_tokens(self.handle)
        self.pieces = self._read_pieces(size)
        get_attribute = self._library.llama_vocab_get_attr
        attributes = {token: get_attribute(self.handle, token) for token in range(size)}
        special = {token: value for token, value in attributes.items() if value & _ATTR_SPECIAL}
        self.control_ids = frozenset(t for t, value in special.items() if not value & _ATTR_USER_DEFINED)
        bos, eos = self._library.llama_vocab_bos(self.handle), self._library.llama_vocab_eos(self.handle)
        candidates = {*special, eos, self._library.llama_vocab_eot(self.handle)}
        self.end_ids = frozenset(t for t in candidates if t >= 0 and self._library.llama_vocab_is_eog(self.handle, t))
        template = self._library.llama_model_chat_template(model, None)
        self.chat_template = template.decode("utf-8", "replace") if template else None
        self.special_texts = self._special_texts(special)
        self.bos_id = bos if 0 <= bos < size else None
        self.bos_text = self._text(bos)
        self.eos_text = self._text(eos)
        self.adds_bos = bool(self._library.llama_vocab_get_add_bos(self.handle))
        self.adds_space = self._library.llama_vocab_type(self.handle) == _SPM and self._adds_space()

    @functools.cached_property
    def layout_ids(self) -> frozenset[int]:
        """Tokens that are line breaks and nothing else, and those that end a reply."""
        return self.end_ids.union(t for t, piece in enumerate(self.pieces) if piece and not piece.strip(b"\r\n"))

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """See Vocabulary."""
        data = text.encode("utf-8")
        capacity = len(data) + 2  # never more tokens than bytes, and a space in front
        tokens = (ctypes.c_int32 * capacity)()
        count = self._library.llama_tokenize(self.handle, data, len(data), tokens, capacity, False, parse_special)
        if count < 0:
            capacity = -count
            tokens = (ctypes.c_int32 * capacity)()
            count = self._library.llama_tokenize(self.handle, data, len(data), tokens, capacity, False, parse_special)
        return tokens[: max(count, 0)]

    def _read_pieces(self, size: int) -> list[bytes]:
        capacity = 256
        buffer = ctypes.create_string_buffer(capacity)
        to_piece, vocab = self._library.llama_token_to_piece, self.handle
        pieces = []
        for token in range(size):
            length = to_piece(vocab, token, buffer, capacity, 0, True)
            if length < 0:
                capacity = -length
                buffer = ctypes.create_string_buffer(capacity)
                length = to_piece(vocab, token, buffer, capacity, 0, True)
            pieces.append(ctypes.string_at(buffer, length))
        return pieces

    def _text(self, token: int) -> str:
        return self.pieces[token].decode("utf-8", "replace") if 0 <= token < len(self.pieces) else ""

    def _adds_space(self) -> bool:
        tokens = self.tokenize("a", parse_special=False)
        return bool(tokens) and self.pieces[tokens[0]].startswith(b" ")

    def _special_texts(self, special: dict[int, int]) -> tuple[str, ...]:
        """Return the texts that could forge a turn: all control tokens, and of the user-defined ones the markers.

        The other user-defined tokens are ordinary text (runs of spaces or line breaks, tags of HTML), which has to
        be tokenised as the model learned it.

        Args:
            special: attributes by token.
        """
        texts = set()
        for token, attribute in special.items():
            text = self._text(token)
            is_marker = text.startswith(_MARKER_BEGINNINGS) or text in (self.chat_template or "")
            if text.strip() and (is_marker or not attribute & _ATTR_USER_DEFINED):
                texts.add(text)
        return tuple(sorted(texts, key=len, reverse=True))
