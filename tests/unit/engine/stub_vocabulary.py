"""A vocabulary for tests: bytes, and the special tokens a test asks for."""

from engine.backend_fake_vocabulary import FakeVocabulary

CHATML = FakeVocabulary().chat_template or ""


class StubVocabulary:
    """Bytes and special tokens; notes what it was asked to tokenise.

    Args:
        controls: texts of control tokens; they are found only where special tokens are parsed.
        user_defined: texts of tokens that are found everywhere.
        bos: text of the begin token, one of `controls`.
        adds_space: put a space in front of text, as some vocabularies do.
    """

    def __init__(
        self,
        *,
        template: str | None = CHATML,
        controls: tuple[str, ...] = ("<|im_start|>", "<|im_end|>"),
        user_defined: tuple[str, ...] = (),
        bos: str | None = None,
        adds_bos: bool = False,
        adds_space: bool = False,
    ) -> None:
        specials = (*controls, *user_defined)
        self.ids = {text: 256 + number for number, text in enumerate(specials)}
        self.pieces = [bytes([value]) for value in range(256)] + [text.encode() for text in specials]
        self.control_ids = frozenset(self.ids[text] for text in controls)
        self.end_ids: frozenset[int] = frozenset()
        self.special_texts = tuple(sorted(specials, key=len, reverse=True))
        self.bos_id = self.ids[bos] if bos else None
        self.bos_text = bos or ""
        self.eos_text = ""
        self.adds_bos = adds_bos
        self.adds_space = adds_space
        self.chat_template = template
        self.seen: list[str] = []
        self._user_defined = set(user_defined)

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """See Vocabulary."""
        self.seen.append(text)
        found = [special for special in self.special_texts if parse_special or special in self._user_defined]
        tokens: list[int] = []
        position = 0
        if self.adds_space and text and not any(text.startswith(special) for special in found):
            tokens.append(32)
        while position < len(text):
            special = next((special for special in found if text.startswith(special, position)), None)
            if special is not None:
                tokens.append(self.ids[special])
                position += len(special)
            else:
                following = [at for special in found if (at := text.find(special, position + 1)) >= 0]
                end = min(following, default=len(text))
                tokens += text[position:end].encode()
                position = end
        return tokens

    def text_of(self, tokens: list[int]) -> str:
        """Return the text of tokens, special ones included."""
        return b"".join(self.pieces[token] for token in tokens).decode()
