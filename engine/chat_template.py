"""Messages to prompt text by the model's own template, which runs in a warm child with limited memory and time."""

import multiprocessing
import re
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

import msgspec

from engine.backend import Vocabulary
from engine.errors import ChatTemplateError
from engine.messages import ChatMessage

_RENDER_LIMIT_S = 1.0
_START_LIMIT_S = 20.0
_HINT = "Choose another model file: this one's chat template cannot be used."
# Private-use characters that stand for a control token's text while a template runs.
_MARK_CANDIDATES = range(0xE000, 0xF8FF)


class RenderJob(msgspec.Struct):
    """What the template child is asked."""

    template: str
    variables: dict[str, Any]


class RenderResult(msgspec.Struct):
    """What it answers: `text`, or else `error`, one line."""

    text: str | None = None
    error: str | None = None


class RenderedPrompt(NamedTuple):
    """A prompt as pieces of text.

    Attributes:
        pieces: (text, whether it came from a message and spells a special token: it must be tokenised as plain text).
    """

    pieces: list[tuple[str, bool]]

    @property
    def text(self) -> str:
        """The prompt as the template rendered it."""
        return "".join(text for text, _ in self.pieces)


class ChatTemplate:
    """One model's template.

    Args:
        renderer: where it runs.
        vocabulary: of the model; its special texts cannot be forged by a message.

    Raises:
        ChatTemplateError: (from `render`) the template is missing, fails, or takes too long.
    """

    def __init__(self, renderer: "TemplateRenderer", vocabulary: Vocabulary) -> None:
        self._renderer = renderer
        self._vocabulary = vocabulary
        self._specials = _SpecialTexts(vocabulary.special_texts)

    def render(self, messages: Sequence[ChatMessage]) -> RenderedPrompt:
        """Return the prompt of a chat, up to where the assistant's reply begins."""
        template = self._vocabulary.chat_template
        if template is None:
            raise ChatTemplateError("This model file has no chat template.", "Choose a chat (instruct) model.")
        opening, closing = _unused_characters(template, *(message.content for message in messages))
        plain = [
            {"role": message.role.value, "content": self._specials.hide(message.content, opening, closing)}
            for message in messages
        ]
        text = self._renderer.render(
            template,
            {
                "messages": plain,
                "add_generation_prompt": True,
                "bos_token": self._vocabulary.bos_text,
                "eos_token": self._vocabulary.eos_text,
            },
        )
        return RenderedPrompt(self._specials.reveal(text, opening, closing))


class TemplateRenderer:
    """The warm child process; started on first use, and again after it was killed for being late."""

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._is_ready = False

    def warm_up(self) -> None:
        """Start the child without waiting for it."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe(duplex=True)
            self._process = context.Process(target=_run_child, args=(theirs,), name="fireside-template", daemon=True)
            self._process.start()
            theirs.close()
            self._is_ready = False

    def render(self, template: str, variables: dict[str, Any]) -> str:
        """Return what `template` prints.

        Raises:
            ChatTemplateError: it raised, took longer than a second, or killed its process.
        """
        self.warm_up()
        assert self._connection is not None
        try:
            if not self._is_ready:
                self._receive(_START_LIMIT_S)
                self._is_ready = True
            self._connection.send_bytes(msgspec.msgpack.encode(RenderJob(template, variables)))
            result = msgspec.msgpack.decode(self._receive(_RENDER_LIMIT_S), type=RenderResult)
        except TimeoutError:
            self.close()
            raise ChatTemplateError("The model's chat template took too long.", _HINT) from None
        except (EOFError, OSError, msgspec.MsgspecError) as error:
            self.close()
            raise ChatTemplateError("The model's chat template ended its process.", _HINT, str(error)) from error
        if result.text is None:
            raise ChatTemplateError(f"The model's chat template failed: {result.error}", _HINT)
        return result.text

    def close(self) -> None:
        """End the child."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None and connection is not None:
            connection.close()
            process.kill()
            process.join()
            process.close()

    def _receive(self, limit_s: float) -> bytes:
        assert self._connection is not None
        if not self._connection.poll(limit_s):
            raise TimeoutError
        return self._connection.recv_bytes()


def _run_child(connection: Connection) -> None:
    from engine.template_child import run_child  # in the child: the worker has no use for the template language

    run_child(connection)


def _unused_characters(*texts: str) -> tuple[str, str]:
    """Return two private-use characters that none of the texts holds."""
    used = {character for text in texts if not text.isascii() for character in set(text)}
    free = (chr(code) for code in _MARK_CANDIDATES if chr(code) not in used)
    try:
        return next(free), next(free)
    except StopIteration:
        raise ChatTemplateError(
            "A message uses every private character of Unicode.", "Remove the private characters."
        ) from None


class _SpecialTexts:
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

    def hide(self, text: str, opening: str, closing: str) -> str:
        """Put a numbered mark in the place of every special text."""
        if self._candidate is None:
            return text
        kept: list[str] = []
        done = 0
        for match in self._candidate.finditer(text):
            start = match.start()
            if start < done:
                continue
            for length in self._lengths[match[0]]:
                number = self._number_of.get(text[start : start + length])
                if number is not None:
                    kept += [text[done:start], opening, str(number), closing]
                    done = start + length
                    break
        return "".join([*kept, text[done:]])

    def reveal(self, text: str, opening: str, closing: str) -> list[tuple[str, bool]]:
        """Split rendered text at the marks and put the special texts back, marked as plain."""
        first, *rest = text.split(opening)
        pieces = [(first, False)]
        for part in rest:
            number, mark, after = part.partition(closing)
            if mark and number.isascii() and number.isdigit() and int(number) < len(self._texts):
                pieces += [(self._texts[int(number)], True), (after, False)]
            else:  # the template took the mark apart: nothing of it may become a special token
                pieces.append((part, True))
        return [(piece, is_plain) for piece, is_plain in pieces if piece]
