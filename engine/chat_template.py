"""Messages to prompt text by the model's own template, which runs in a warm child with limited memory and time."""

import itertools
import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

import msgspec

from engine.backend import Vocabulary
from engine.errors import ChatTemplateError
from engine.messages import ChatMessage, Role

_RENDER_LIMIT_S = 1.0
_START_LIMIT_S = 20.0
_HINT = "Choose another model file: this one's chat template cannot be used."
# Private-use characters that stand for a control token's text while a template runs.
_MARK_CANDIDATES = range(0xE000, 0xF8FF)

# Nothing in this chat is unusual but that it has a system message.
TRIAL_CHAT = (
    ChatMessage(Role.SYSTEM, "Be brief."),
    ChatMessage(Role.USER, "Hello"),
    ChatMessage(Role.ASSISTANT, "Hello!"),
    ChatMessage(Role.USER, "How are you?"),
)

_NO_SYSTEM = "{% if m.role == 'system' %}{{ raise_exception('no system messages') }}{% endif %}"
# Name -> markers that a vocabulary must have as single tokens, and the template, for files that bring none.
_KNOWN_FORMATS: dict[str, tuple[tuple[str, ...], str]] = {
    "ChatML": (
        ("<|im_start|>", "<|im_end|>"),
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    ),
    "Llama 3": (
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>"
        "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
    ),
    "Gemma": (
        ("<start_of_turn>", "<end_of_turn>"),
        "{% for m in messages %}" + _NO_SYSTEM + "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
        "{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    ),
    "Phi": (
        ("<|user|>", "<|assistant|>", "<|end|>"),
        "{% for m in messages %}" + _NO_SYSTEM + "<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    ),
}


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
    """One model's template, or a known format where the file has none and the vocabulary has the format's markers.

    A chat that the template refuses is put in other forms: see `_forms`.

    Args:
        renderer: where it runs.
        vocabulary: of the model; its special texts cannot be forged by a message.

    Attributes:
        notices: what the user should know about this template; complete after `try_out`.

    Raises:
        ChatTemplateError: (from `try_out` and `render`) the template is missing, fails, or takes too long.
    """

    def __init__(self, renderer: "TemplateRenderer", vocabulary: Vocabulary) -> None:
        self.notices: list[str] = []
        self._renderer = renderer
        self._vocabulary = vocabulary
        self._takes_system = True
        self._template = vocabulary.chat_template
        special_texts = vocabulary.special_texts
        if self._template is None and (name := _known_format(vocabulary)) is not None:
            markers, self._template = _KNOWN_FORMATS[name]
            special_texts = sorted({*special_texts, *markers}, key=len, reverse=True)
            self.notices.append(
                f"This file has no chat template; the {name} format is used, because its markers are in the vocabulary."
            )
        self._specials = _SpecialTexts(special_texts)

    def try_out(self) -> None:
        """Render a usual chat to find out, once, whether the template takes system messages."""
        _, form = self._render(TRIAL_CHAT)
        if self._takes_system and form[0].role is not Role.SYSTEM:
            self._takes_system = False
            self.notices.append(
                "This model's template takes no system prompt: it is put in front of the first message."
            )

    def render(self, messages: Sequence[ChatMessage]) -> RenderedPrompt:
        """Return the prompt of a chat, up to where the assistant's reply begins."""
        return self._render(messages)[0]

    def _render(self, messages: Sequence[ChatMessage]) -> tuple[RenderedPrompt, list[ChatMessage]]:
        """Return the prompt, and the first form of the chat that the template takes."""
        template = self._template
        if template is None:
            raise ChatTemplateError("This model file has no chat template.", "Choose a chat (instruct) model.")
        opening, closing = _unused_characters(template, *(message.content for message in messages))
        first_error: ChatTemplateError | None = None
        limit_s = _RENDER_LIMIT_S  # for all forms together
        for form, _ in itertools.groupby(_forms(messages, takes_system=self._takes_system)):  # equal ones only once
            variables = {
                "messages": [
                    {"role": message.role.value, "content": self._specials.hide(message.content, opening, closing)}
                    for message in form
                ],
                "add_generation_prompt": True,
                "bos_token": self._vocabulary.bos_text,
                "eos_token": self._vocabulary.eos_text,
            }
            try:
                text = self._renderer.render(template, variables, limit_s)
            except ChatTemplateError as error:
                first_error = first_error or error
                limit_s = self._renderer.spare_s
                if limit_s <= 0:
                    break
            else:
                return RenderedPrompt(self._specials.reveal(text, opening, closing)), form
        assert first_error is not None
        raise first_error


class TemplateRenderer:
    """The warm child process; started on first use, and again after it was killed for being late.

    Attributes:
        spare_s: how much of its time the last template left; 0 when the child was ended.
    """

    def __init__(self) -> None:
        self.spare_s = 0.0
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._is_ready = False

    def warm_up(self) -> None:
        """Start the child without waiting for it."""
        if self._process is not None and not self._process.is_alive():
            self.close()
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe(duplex=True)
            process = context.Process(target=_run_child, args=(theirs,), name="fireside-template", daemon=True)
            process.start()
            theirs.close()
            self._process, self._connection, self._is_ready = process, ours, False

    def render(self, template: str, variables: dict[str, Any], limit_s: float = _RENDER_LIMIT_S) -> str:
        """Return what `template` prints.

        Raises:
            ChatTemplateError: it raised, took longer than `limit_s`, or killed its process.
        """
        try:
            self.warm_up()
            assert self._connection is not None
            if not self._is_ready:
                self._receive(_START_LIMIT_S)
                self._is_ready = True
            began = time.monotonic()
            self._connection.send_bytes(msgspec.msgpack.encode(RenderJob(template, variables)))
            result = msgspec.msgpack.decode(self._receive(limit_s), type=RenderResult)
            self.spare_s = limit_s - (time.monotonic() - began)
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
        self.spare_s = 0.0
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


def _known_format(vocabulary: Vocabulary) -> str | None:
    """Return the name of the first format whose markers are all single tokens."""
    for name, (markers, _) in _KNOWN_FORMATS.items():
        if all(len(vocabulary.tokenize(marker, parse_special=True)) == 1 for marker in markers):
            return name
    return None


def _forms(messages: Sequence[ChatMessage], *, takes_system: bool) -> Iterator[list[ChatMessage]]:
    """Yield a chat in the forms that a template may take: as it is; with neighbours of one role joined; with system
    messages as the user's too; and at last without an assistant's turn that begins it."""
    if takes_system or all(message.role is not Role.SYSTEM for message in messages):
        yield list(messages)
        yield _joined(messages)
    folded = _joined([ChatMessage(Role.USER, m.content) if m.role is Role.SYSTEM else m for m in messages])
    yield folded
    if len(folded) > 1 and folded[0].role is Role.ASSISTANT:
        yield folded[1:]


def _joined(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    turns = itertools.groupby(messages, key=lambda message: message.role)
    return [ChatMessage(role, "\n\n".join(m.content for m in turn if m.content.strip())) for role, turn in turns]


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
