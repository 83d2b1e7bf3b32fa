"""Text to tokens of one vocabulary, piece by piece: no piece can forge a control token or overflow a stack."""

import re
from collections.abc import Iterator, Sequence

from engine.backend import Vocabulary
from engine.special_texts import Piece

# Some vocabularies split text with a recursive matcher: 30,000 letters in a row overflow 8 MiB. Runs are cut at this
# many characters, for which the stack of the tokeniser thread is four times what was measured.
_MAX_RUN = 50_000
# One family of vocabularies groups digits from the right and looks at the rest of a number for each of them: 12,000 in
# a row take seconds. Most others group three from the left, so that a cut at a multiple changes nothing for them.
_MAX_DIGITS = 999
_DIGITS = re.compile(r"\d+")


class TextTokenizer:
    """Makes tokens of the pieces of a prompt."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        """Return the tokens of a prompt, with exactly one begin token where the model wants one."""
        tokens: list[int] = []
        for text, is_plain in pieces:
            tokens += self._piece(text, is_plain=is_plain, is_first=not tokens)
        bos_id = self._vocabulary.bos_id
        if self._vocabulary.adds_bos and bos_id is not None and tokens[:1] != [bos_id]:
            tokens.insert(0, bos_id)
        return tokens

    def tokenize_text(self, text: str) -> list[int]:
        """Return the tokens of a text that is no prompt: none in front, and control tokens in it are mere letters."""
        tokens: list[int] = []
        for part in _cut_runs(text):
            tokens += self._continued(part, parse_special=False, is_first=not tokens)
        return tokens

    def tokenize_marker(self, text: str) -> list[int]:
        """Return the tokens of a marker in the middle of a text."""
        return self._continued(text, parse_special=True, is_first=False) if text else []

    def _piece(self, text: str, *, is_plain: bool, is_first: bool) -> list[int]:
        tokens: list[int] = []
        for part in _cut_runs(text):
            is_beginning = is_first and not tokens
            if is_plain:
                tokens += self._plain(part, is_first=is_beginning)
            else:
                tokens += self._continued(part, parse_special=True, is_first=is_beginning)
        return tokens

    def _plain(self, text: str, *, is_first: bool) -> list[int]:
        """Tokenise text that spells a special token so that it does not become one.

        User-defined tokens are matched even where control tokens are not, so the text is taken apart.
        """
        head = self._continued(text[:1], parse_special=False, is_first=is_first)
        return head + (self._continued(text[1:], parse_special=False, is_first=False) if len(text) > 1 else [])

    def _continued(self, text: str, *, parse_special: bool, is_first: bool) -> list[int]:
        """Tokenise text that follows other text: the space that some vocabularies put in front must not come again."""
        tokenize = self._vocabulary.tokenize
        if is_first or not self._vocabulary.adds_space:
            return tokenize(text, parse_special=parse_special)
        if text.startswith(" "):
            return tokenize(text[1:], parse_special=parse_special)
        lead = tokenize("\n", parse_special=False)
        tokens = tokenize("\n" + text, parse_special=parse_special)
        return tokens[len(lead) :] if tokens[: len(lead)] == lead else tokenize(text, parse_special=parse_special)


def _cut_runs(text: str) -> Iterator[str]:
    """Cut text so that no unbroken run is longer than the tokeniser takes well; most text stays whole."""
    done = 0
    for run in _DIGITS.finditer(text) if len(text) > _MAX_DIGITS else ():
        for end in range(run.start() + _MAX_DIGITS, run.end(), _MAX_DIGITS):
            yield from _cut_words(text[done:end])
            done = end
    yield from _cut_words(text[done:])


def _cut_words(text: str) -> Iterator[str]:
    """Cut text so that no run without blanks, or of them, is longer than the tokeniser's stack allows."""
    if len(text) <= _MAX_RUN:
        yield text
        return
    start = run_start = 0
    was_space = text[0].isspace()
    for position, character in enumerate(text):
        is_space = character.isspace()
        if is_space != was_space:
            run_start, was_space = position, is_space
        elif position - run_start >= _MAX_RUN:
            yield text[start:position]
            start = run_start = position
    yield text[start:]
