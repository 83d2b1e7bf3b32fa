"""Texts of special tokens in what people wrote: found before a template runs, and kept plain in what it prints."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from engine.errors import ChatTemplateError, RequestError

# Private-use characters that stand for a control token's text while a template runs.
_MARK_CANDIDATES = range(0xE000, 0xF8FF)
_MAX_DEPTH = 50

Piece = tuple[str, bool]
"""Text, and whether it spells a special token without being one: then it must be tokenised as plain text."""


class RenderedPrompt(NamedTuple):
    """A prompt as pieces of text.

    Attributes:
        pieces: (text, whether it came from a message and spells a special token: it must be tokenised as plain text).
    """

    pieces: list[Piece]

    @property
    def text(self) -> str:
        """The prompt as the template rendered it."""
        return "".join(text for text, _ in self.pieces)


class Marks(NamedTuple):
    """Two characters that no text of a prompt holds."""

    opening: str
    closing: str


def unused_marks(*texts: str) -> Marks:
    """Return two private-use characters that none of the texts holds.

    Raises:
        ChatTemplateError: all are in use.
    """
    used = {character for text in texts if not text.isascii() for character in set(text)}
    free = (chr(code) for code in _MARK_CANDIDATES if chr(code) not in used)
    try:
        return Marks(next(free), next(free))
    except StopIteration:
        raise ChatTemplateError(
            "A message uses every private character of Unicode.", "Remove the private characters."
        ) from None


class SpecialTexts:
    """Finds the texts of special tokens in messages; some vocabularies have thousands of them.

    Args:
        texts: longest first.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._number_of = {text: number for number, text in enumerate(texts)}
        self._lengths: dict[str, list[int]] = {}  # by first character, longest first
        for text in texts:
            lengths = self._lengths.setdefault(text[0], [])
            if len(text) not in lengths:
                lengths.append(len(text))
        self._candidate = re.compile("[" + re.escape("".join(self._lengths)) + "]") if texts else None

    def split(self, text: str) -> list[Piece]:
        """Return `text` in pieces, special texts alone and marked as plain."""
        pieces: list[Piece] = []
        done = 0
        for start, end in self._find(text):
            pieces += [(text[done:start], False), (text[start:end], True)]
            done = end
        return [piece for piece in [*pieces, (text[done:], False)] if piece[0]]

    def hide(self, text: str, marks: Marks) -> str:
        """Put a numbered mark in the place of every special text."""
        kept: list[str] = []
        done = 0
        for start, end in self._find(text):
            kept += [text[done:start], marks.opening, str(self._number_of[text[start:end]]), marks.closing]
            done = end
        return "".join([*kept, text[done:]])

    def hide_in(self, value: Any, marks: Marks, *, depth: int = 0) -> Any:
        """Return a JSON value with the special texts of all its strings hidden, names of members included.

        Raises:
            RequestError: it is nested too deeply, or holds a number that is too large.
        """
        if depth > _MAX_DEPTH:
            raise RequestError("The tools or template variables are nested too deeply.", "Make them flatter.")
        if isinstance(value, str):
            return self.hide(value, marks)
        if isinstance(value, dict):
            return {self.hide(k, marks): self.hide_in(v, marks, depth=depth + 1) for k, v in value.items()}
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise RequestError("A number in the tools or template variables is too large.", "Write it as text.")
        if isinstance(value, list):
            return [self.hide_in(item, marks, depth=depth + 1) for item in value]
        return value

    def reveal(self, text: str, marks: Marks) -> list[Piece]:
        """Split rendered text at the marks and put the special texts back, marked as plain."""
        first, *rest = text.split(marks.opening)
        pieces = [(first, False)]
        for part in rest:
            number, mark, after = part.partition(marks.closing)
            if mark and number.isascii() and number.isdigit() and int(number) < len(self._texts):
                pieces += [(self._texts[int(number)], True), (after, False)]
            else:  # the template took the mark apart: nothing of it may become a special token
                pieces.append((part, True))
        return [(piece, is_plain) for piece, is_plain in pieces if piece]

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield begin and end of every special text, the longest where several begin at one place."""
        if self._candidate is None:
            return
        done = 0
        for match in self._candidate.finditer(text):
            start = match.start()
            if start < done:
                continue
            for length in self._lengths[match[0]]:
                if text[start : start + length] in self._number_of:
                    done = start + length
                    yield start, done
                    break
