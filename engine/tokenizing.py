"""From the messages of a chat to the tokens of a prompt, in such a way that no message can forge a control token."""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from engine.backend import Vocabulary
from engine.chat_formats import COMPLETION_FORMAT, FILE_FORMAT, find_format, usable_formats
from engine.chat_template import TRIAL_CHAT, ChatTemplate
from engine.errors import ChatTemplateError, EngineError, RequestError, overflow_error
from engine.grammar import Matcher, TokenTable, new_matcher
from engine.message_places import message_ends
from engine.messages import ChatMessage, PromptMode, PromptOptions, Role
from engine.params import SamplingParams
from engine.reasoning import ThinkingFormat, ThinkingStart, begin_reply
from engine.special_texts import RenderedPrompt
from engine.template_renderer import TemplateRenderer
from engine.text import is_blank
from engine.text_tokens import TextTokenizer

# Some vocabularies join what stands in front of a message with how it begins.
_MESSAGES_BEGUN = ("a", "The", "1", "(", "\u4f60")

_USUAL = PromptOptions()


class EncodedPrompt(NamedTuple):
    """A chat as the model will read it.

    Attributes:
        num_system_tokens: tokens at the beginning that belong to the system prompt.
        num_settled_tokens: tokens before the last user's message: what a later prompt of this chat begins with too.
        reply: the half answer that is to be continued.
        thinking: how its reply marks thinking, None where it does not.
        next_turn_tokens: what the prompt of the next message has behind the reply, whatever the user writes.
        message_ends: how many tokens there are up to the end of each message, about.
        rewritten_from: tokens before what the template writes anew once another message follows; None where it does
            not.
    """

    tokens: list[int]
    num_system_tokens: int = 0
    num_settled_tokens: int = 0
    reply: str = ""
    thinking: ThinkingStart | None = None
    next_turn_tokens: tuple[int, ...] = ()
    message_ends: tuple[int, ...] = ()
    rewritten_from: int | None = None


class _Composed(NamedTuple):
    """A prompt as text, and what is known of the reply to it."""

    rendered: RenderedPrompt
    reply: str = ""
    thinking: ThinkingFormat | None = None
    is_thinking: bool = False
    user_lead: str = ""
    turn_change: str = ""
    moves_system: bool = False


class _Markers(NamedTuple):
    """What a thinking format is in tokens."""

    closing_tokens: tuple[int, ...]
    shown_ids: frozenset[int]


class PromptEncoder:
    """Chats to tokens for one loaded model.

    Args:
        vocabulary: of the model.
        renderer: where its template runs.
        n_ctx: the most tokens a prompt may have.

    Attributes:
        chat_formats: names that a request may choose from.
    """

    def __init__(self, vocabulary: Vocabulary, renderer: TemplateRenderer, *, n_ctx: int) -> None:
        self._vocabulary = vocabulary
        self._renderer = renderer
        self.n_ctx = n_ctx
        self._default = ChatTemplate(renderer, vocabulary)
        self._templates: dict[str, ChatTemplate] = {}  # those that were chosen for a request, tried out
        self._markers: dict[ThinkingFormat, _Markers] = {}
        self._turn_changes: dict[str, tuple[int, ...]] = {"": ()}
        self._tokenizer = TextTokenizer(vocabulary)
        self._longest_piece = max(map(len, vocabulary.pieces), default=1) or 1
        own = (FILE_FORMAT,) if vocabulary.chat_template is not None else ()
        self.chat_formats: tuple[str, ...] = (*own, *usable_formats(vocabulary), COMPLETION_FORMAT)

    @property
    def chat_format(self) -> str | None:
        """What makes a chat into a prompt by default: "file", a known format's name, or None."""
        return self._default.name

    @property
    def can_think(self) -> bool:
        """Whether the default format marks thinking."""
        return self._default.thinking is not None

    def try_out(self) -> list[str]:
        """Encode a first chat, so that the first real one finds everything warm; return what the user should know.

        A file's own template that fails gives way to a known format whose markers the vocabulary has.
        """
        try:
            self._default.try_out()
        except EngineError as error:
            return self._fall_back(error)
        try:
            self.encode(TRIAL_CHAT[1:2])
        except EngineError as error:
            return [error.message]
        return self._default.notices

    def _fall_back(self, error: EngineError) -> list[str]:
        known = next((name for name in self.chat_formats if name not in (FILE_FORMAT, COMPLETION_FORMAT)), None)
        # A late template may be the machine's fault: it gets another chance with the first request.
        if self.chat_format != FILE_FORMAT or known is None or self._renderer.spare_s <= 0:
            return [error.message]
        template = ChatTemplate(self._renderer, self._vocabulary, known)
        try:
            template.try_out()
        except EngineError:
            return [error.message]
        self._default = template
        notice = f"{error.message.rstrip('.')}. The {known} format is used instead of the file's own template."
        return [notice, *template.notices]

    def render(self, messages: Sequence[ChatMessage], options: PromptOptions = _USUAL) -> RenderedPrompt:
        """Return the prompt text of a chat.

        Raises:
            RequestError: there is nothing to say, or the options do not fit the chat.
            ChatTemplateError: the template cannot render it, or there is no such format.
            ContextOverflow: the text is too long for the context whatever its tokens are.
        """
        return self._compose(messages, options).rendered

    def encode(self, messages: Sequence[ChatMessage], options: PromptOptions = _USUAL) -> EncodedPrompt:
        """Return the prompt of a chat.

        Raises:
            As `render`.
        """
        composed = self._compose(messages, options)
        tokens = self.tokenize(composed.rendered)
        if not tokens:
            raise RequestError("The prompt is empty.", "Write something first.")
        ends = self._message_ends(messages, composed, tokens)
        if composed.moves_system:
            num_system, num_settled = 0, _before_last_question(messages, ends)
        else:
            num_system = self._num_system_tokens(messages, composed.rendered, tokens)
            num_settled = self._num_settled_tokens(messages, composed, tokens)
        rewritten_from = None if composed.thinking is None else ends[-1]
        return EncodedPrompt(
            tokens,
            num_system_tokens=num_system,
            num_settled_tokens=num_settled,
            reply=composed.reply,
            thinking=self._thinking_start(composed),
            next_turn_tokens=self._next_turn_tokens(composed.turn_change),
            message_ends=ends,
            rewritten_from=num_settled if composed.moves_system else rewritten_from,
        )

    def matcher(self, sampling: SamplingParams, reply: str) -> Matcher | None:
        """Return what a reply has to follow, with the half `reply` taken in; None where it is free.

        Here and not where the model computes: a large grammar takes a second.

        Raises:
            GrammarError: the grammar or schema cannot be used.
        """
        if sampling.grammar is None and sampling.json_schema is None:
            return None
        return new_matcher(sampling, self._token_table, reply)

    @functools.cached_property
    def _token_table(self) -> TokenTable:
        return TokenTable(self._vocabulary)

    def tokenize(self, rendered: RenderedPrompt) -> list[int]:
        """Return the tokens of a rendered prompt, with exactly one begin token where the model wants one."""
        return self._tokenizer.tokenize(rendered.pieces)

    # --- text ---

    def _compose(self, messages: Sequence[ChatMessage], options: PromptOptions) -> _Composed:
        if not messages:
            raise RequestError("The request has no messages.", "Write something first.")
        self._check_length(*(text for message in messages for text in (message.content, message.thinking)))
        is_continued = options.mode is PromptMode.CONTINUE
        if is_continued and messages[-1].role is not Role.ASSISTANT:
            raise RequestError("There is no reply to go on with.", "The last message has to be the assistant's.")
        if options.mode is PromptMode.COMPLETION or self._named(options.chat_format) == COMPLETION_FORMAT:
            composed = self._completion(messages, is_continued=is_continued)
        else:
            template = self._template(options.chat_format)
            composed = self._chat(template, messages, options, is_continued=is_continued)
        self._check_length(composed.rendered.text)  # a template can make much of little
        return composed

    def _named(self, chat_format: str | None) -> str | None:
        """Return the format that a request names, None where it names none.

        Raises:
            ChatTemplateError: it cannot be used with this model.
        """
        if chat_format is None:
            return None
        found = find_format(chat_format, self.chat_formats)
        if found is None:
            raise ChatTemplateError(
                f"This model cannot use the chat format {chat_format!r}.",
                f"The formats it can use are {', '.join(self.chat_formats)}.",
            )
        return found

    def _template(self, chat_format: str | None) -> ChatTemplate:
        name = self._named(chat_format)
        if name is None and self.chat_format is None:
            raise ChatTemplateError(
                "This model file has no chat template.",
                f"Choose one of these chat formats: {', '.join(self.chat_formats)}; or load a chat (instruct) model.",
            )
        if name is None or name == self.chat_format:
            return self._default
        template = self._templates.get(name)
        if template is None:
            template = ChatTemplate(self._renderer, self._vocabulary, name)
            template.try_out()
            self._templates[name] = template
        return template

    def _completion(self, messages: Sequence[ChatMessage], *, is_continued: bool) -> _Composed:
        """Return the plain text of messages; only those that no reply touches are set apart by a blank line."""
        text, previous = "", None
        for message in messages:
            is_apart = previous is not None and Role.ASSISTANT not in (previous.role, message.role)
            text += ("\n\n" if is_apart and text and message.content else "") + message.content
            previous = message
        if is_blank(text):
            raise RequestError("There is no text to go on with.", "Write something first.")
        specials = self._default.specials
        reply = messages[-1].content if is_continued else ""
        before = text[: len(text) - len(reply)]
        return _Composed(RenderedPrompt([*specials.split(before), *specials.split(reply)]), reply)

    def _chat(
        self, template: ChatTemplate, messages: Sequence[ChatMessage], options: PromptOptions, *, is_continued: bool
    ) -> _Composed:
        half = messages[-1] if is_continued else None
        chat = messages[:-1] if is_continued else messages
        if not chat:
            raise RequestError("The reply that is to go on answers nothing.", "Put the question in front of it.")
        rendered = template.render(chat, options)
        thinking = template.thinking
        moves_system = template.moves_system and chat[0].role is Role.SYSTEM
        lead, change = template.user_lead, "" if moves_system else template.turn_change
        is_thinking = thinking is not None and _ends_open(rendered.text, thinking, chat[-1].content)
        if thinking is not None and is_thinking and options.enable_thinking is False:
            # This template opens a block whatever it is asked.
            rendered = RenderedPrompt([*rendered.pieces, (thinking.closing_text.lstrip("\n"), False)])
            is_thinking = False
        if half is None:
            return _Composed(rendered, "", thinking, is_thinking, lead, change, moves_system)
        begun = begin_reply(thinking, rendered.text, half.thinking, half.content, is_open=is_thinking)
        pieces = list(rendered.pieces)
        for text, is_marker in begun.pieces:
            pieces += [(text, False)] if is_marker else template.specials.split(text)
        going_on = RenderedPrompt(pieces)
        return _Composed(going_on, half.content, thinking, begun.is_thinking, lead, change, moves_system)

    def _check_length(self, *texts: str) -> None:
        """Refuse huge texts without the work of tokenising them: no token is longer than the longest piece."""
        num_bytes = sum(len(text.encode("utf-8")) for text in texts)
        at_least = -(-num_bytes // self._longest_piece)
        if at_least > self.n_ctx:
            raise overflow_error(at_least, self.n_ctx, is_estimate=True)

    # --- tokens ---

    def _thinking_start(self, composed: _Composed) -> ThinkingStart | None:
        thinking = composed.thinking
        if thinking is None:
            return None
        if thinking not in self._markers:
            pieces, texts = self._vocabulary.pieces, "\n".join(thinking.all_texts).encode()
            controls = ((token, pieces[token].strip()) for token in self._vocabulary.control_ids)
            self._markers[thinking] = _Markers(
                tuple(self._tokenizer.tokenize_marker(thinking.closing_text)),
                frozenset(token for token, piece in controls if piece and piece in texts),
            )
        return ThinkingStart(thinking, composed.is_thinking, *self._markers[thinking])

    def _next_turn_tokens(self, turn_change: str) -> tuple[int, ...]:
        """Return the tokens of the text between two turns up to where the next message may change them."""
        if turn_change not in self._turn_changes:
            found = [self._tokenizer.tokenize_marker(turn_change + begun) for begun in _MESSAGES_BEGUN]
            shared = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*found, strict=False))
            self._turn_changes[turn_change] = tuple(column[0] for column in shared)
        return self._turn_changes[turn_change]

    def _message_ends(
        self, messages: Sequence[ChatMessage], composed: _Composed, tokens: Sequence[int]
    ) -> tuple[int, ...]:
        text = composed.rendered.text
        front = self._num_front_bytes(text, tokens)
        in_place = messages[1:] if composed.moves_system else messages
        ends = message_ends(in_place, text, tokens, self._vocabulary.pieces, num_front_bytes=front)
        return (0, *ends) if composed.moves_system else ends

    def _num_system_tokens(
        self, messages: Sequence[ChatMessage], rendered: RenderedPrompt, tokens: Sequence[int]
    ) -> int:
        if messages[0].role is not Role.SYSTEM:
            return 0
        content = messages[0].content.strip()
        start = rendered.text.find(content)
        return 0 if start < 0 else self._num_tokens_before(rendered.text, start + len(content), tokens)

    def _num_settled_tokens(self, messages: Sequence[ChatMessage], composed: _Composed, tokens: Sequence[int]) -> int:
        """Return the number of tokens before the last user's turn, 0 where it is not found."""
        content = next((m.content.strip() for m in reversed(messages) if m.role is Role.USER), "")
        text = composed.rendered.text
        place = text.rfind(composed.user_lead + content) if composed.user_lead and content else -1
        if place <= 0:
            return 0
        num_tokens = self._num_tokens_before(text, place, tokens)
        return min(num_tokens, len(tokens) - 1)

    def _num_tokens_before(self, text: str, end: int, tokens: Sequence[int]) -> int:
        """Return how many tokens the beginning of a prompt takes, about."""
        num_bytes = self._num_front_bytes(text, tokens) + len(text[:end].encode("utf-8"))
        pieces, seen = self._vocabulary.pieces, 0
        for index, token in enumerate(tokens):
            if seen >= num_bytes:
                return index
            seen += len(pieces[token])
        return len(tokens)

    def _num_front_bytes(self, text: str, tokens: Sequence[int]) -> int:
        """Return the bytes of a begin token that the text does not have."""
        has_more = tokens[:1] == [self._vocabulary.bos_id] and not text.startswith(self._vocabulary.bos_text)
        return len(self._vocabulary.pieces[tokens[0]]) if has_more else 0


def _ends_open(text: str, thinking: ThinkingFormat, last_content: str) -> bool:
    """Whether a prompt ends inside a block that the template, not the last message, has opened."""
    text, last_content = text.rstrip(), last_content.rstrip()
    return text.endswith(thinking.opening) and not (last_content and text.endswith(last_content))


def _before_last_question(messages: Sequence[ChatMessage], ends: Sequence[int]) -> int:
    """Return how many tokens there are up to the end of the message before the user's last one."""
    place = max((place for place, message in enumerate(messages) if message.role is Role.USER), default=0)
    return ends[place - 1] if place else 0
