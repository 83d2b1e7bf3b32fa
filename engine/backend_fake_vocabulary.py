"""The vocabulary of the backend without weights."""

WORDS = """
a the cache holds every token once and reads it again for each step while several replies share one pass of weights
so that small models answer quickly on an ordinary laptop without any network at all
""".split()  # noqa: SIM905 (a list of 37 strings says no more)
_START, END, _TEXT_END = 256, 257, 258
_CONTROLS = {_START: b"<|im_start|>", END: b"<|im_end|>", _TEXT_END: b"<|endoftext|>"}
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class FakeVocabulary:
    """Bytes, control tokens and a few whole words, so that one text can be split in more than one way."""

    def __init__(self) -> None:
        words = [f" {word}".encode() for word in WORDS]
        self.pieces: list[bytes] = [bytes([value]) for value in range(256)] + list(_CONTROLS.values()) + words
        self.control_ids = frozenset(_CONTROLS)
        self.end_ids = frozenset({END, _TEXT_END})
        self.special_texts = tuple(sorted((text.decode() for text in _CONTROLS.values()), key=len, reverse=True))
        self.bos_id: int | None = None
        self.bos_text = ""
        self.eos_text = "<|im_end|>"
        self.adds_bos = False
        self.adds_space = False
        self.chat_template: str | None = _TEMPLATE
        self._words = sorted(((piece, 259 + i) for i, piece in enumerate(words)), key=lambda item: -len(item[0]))

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """See Vocabulary."""
        data, tokens, position = text.encode(), list[int](), 0
        special = [(piece, token) for token, piece in _CONTROLS.items()] if parse_special else []
        while position < len(data):
            for piece, token in (*special, *self._words):
                if data.startswith(piece, position):
                    tokens.append(token)
                    position += len(piece)
                    break
            else:
                tokens.append(data[position])
                position += 1
        return tokens
