"""What happens to a chat that is longer than the context: whole turns are left out, oldest first, in blocks.

A chat is cut where its own text says, and not where the last cut was: the places depend on what comes before them only.
So the same turns stay away while the chat grows, several turns pass before the next block goes, and until then nothing
is read again.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from engine.errors import ContextOverflow, overflow_error
from engine.messages import ChatMessage, Overflow, PromptMode, PromptOptions, Role, TurnsDropped
from engine.tokenizing import EncodedPrompt

Encode = Callable[[Sequence[ChatMessage], PromptOptions], EncodedPrompt]

_REPLY_SHARE = 8  # one part of the context in so many is kept free for the reply


class Fitted(NamedTuple):
    """A chat that fits.

    Attributes:
        num_messages: messages that were left out.
        num_tokens: about how many tokens their text has.
        is_reply_cut: whether the reply that is continued lost its beginning.
        messages: what is left.
    """

    encoded: EncodedPrompt
    num_messages: int = 0
    num_tokens: int = 0
    is_reply_cut: bool = False
    messages: tuple[ChatMessage, ...] = ()


def turns_dropped(request_id: str, fitted: Fitted) -> TurnsDropped | None:
    """Return what a request is told of the messages that were left out, None where there are none."""
    if not fitted.num_messages and not fitted.is_reply_cut:
        return None
    return TurnsDropped(
        request_id=request_id,
        num_messages=fitted.num_messages,
        num_tokens=fitted.num_tokens,
        is_reply_cut=fitted.is_reply_cut,
    )


class _Cut(NamedTuple):
    """A way to shorten a chat: messages from `start` on follow the system prompt, the last one from `offset` on.

    Its thinking comes before its content.
    """

    start: int
    offset: int = 0


def fit_chat(encode: Encode, messages: Sequence[ChatMessage], options: PromptOptions, *, n_ctx: int) -> Fitted:
    """Return the prompt of a chat, with as much left out as the context asks for, where the options allow it.

    The system prompt and the last turn stay. Of a reply that is to go on and is too long by itself, the end stays.

    Raises:
        ContextOverflow: it does not fit, and may not or cannot be cut.
        As `encode`.
    """
    if options.overflow is Overflow.REFUSE or options.mode is PromptMode.COMPLETION or not messages:
        return Fitted(encode(messages, options), messages=tuple(messages))
    chat = _Chat(encode, tuple(messages), options, n_ctx)
    limit = n_ctx - n_ctx // _REPLY_SHARE
    cuts = chat.cuts()
    fewest, most = 0, len(cuts) - 1
    if chat.length(cuts[0]) > limit:  # else, as nearly always, nothing is left out
        while fewest < most:
            middle = (fewest + most) // 2
            fewest, most = (fewest, middle) if chat.length(cuts[middle]) <= limit else (middle + 1, most)
    chosen = cuts[fewest]
    if chat.length(chosen) > n_ctx:
        raise chat.overflow or overflow_error(chat.length(chosen), n_ctx)
    return chat.fitted(chosen)


class _Chat:
    """One chat on its way into the context; remembers the prompts of the cuts that were tried."""

    def __init__(self, encode: Encode, messages: tuple[ChatMessage, ...], options: PromptOptions, n_ctx: int) -> None:
        self._encode = encode
        self._messages = messages
        self._options = options
        self._n_ctx = n_ctx
        self._tried: dict[_Cut, EncodedPrompt | None] = {}
        self._num_system = next((i for i, m in enumerate(messages) if m.role is not Role.SYSTEM), len(messages))
        self.overflow: ContextOverflow | None = None

    def cuts(self) -> list[_Cut]:
        """Return the cuts to try, from nothing left out on.

        A block is about as many bytes as the context has cells, a quarter of it in most languages.
        """
        first = self._num_system
        users = [i for i, message in enumerate(self._messages) if message.role is Role.USER and i > first]
        cuts, num_bytes, block = [_Cut(first)], 0, 1
        position = first
        for start in users:
            num_bytes += sum(len(message.content.encode("utf-8")) for message in self._messages[position:start])
            position = start
            if num_bytes >= block * self._n_ctx or start == users[-1]:
                cuts.append(_Cut(start))
                block = num_bytes // self._n_ctx + 1
        if self._options.mode is PromptMode.CONTINUE:
            last, reply = cuts[-1].start, self._messages[-1]
            text = reply.content or reply.thinking
            before = len(reply.thinking) if reply.content else 0  # what led to an answer goes first, and whole
            ends = [_after_word(text, end) for end in _block_ends(text, max(self._n_ctx // 2, 1))]
            cuts += [_Cut(last, before + end) for end in ([0, *ends] if before else ends)]
        return cuts

    def length(self, cut: _Cut) -> int:
        """Return the tokens of a cut's prompt; more than the context holds where it was not even tokenised."""
        encoded = self._encoded(cut)
        return self._n_ctx + 1 if encoded is None else len(encoded.tokens)

    def fitted(self, cut: _Cut) -> Fitted:
        """Return a cut that fits, with what it leaves out."""
        encoded = self._encoded(cut)
        assert encoded is not None
        left_out = self._messages[self._num_system : cut.start]
        last = self._messages[-1]
        text = "".join(message.content for message in left_out) + (last.thinking + last.content)[: cut.offset]
        kept = sum(len(message.content) for message in self._cut(cut))
        num_tokens = len(text) * len(encoded.tokens) // max(kept, 1)
        if cut.offset:
            encoded = encoded._replace(reply=last.content)
        return Fitted(encoded, len(left_out), num_tokens, cut.offset > 0, self._cut(cut))

    def _encoded(self, cut: _Cut) -> EncodedPrompt | None:
        if cut not in self._tried:
            try:
                self._tried[cut] = self._encode(self._cut(cut), self._options)
            except ContextOverflow as error:
                self.overflow = error
                self._tried[cut] = None
        return self._tried[cut]

    def _cut(self, cut: _Cut) -> tuple[ChatMessage, ...]:
        messages = (*self._messages[: self._num_system], *self._messages[cut.start :])
        if not cut.offset:
            return messages
        last = messages[-1]
        thinking = last.thinking[cut.offset :]
        content = last.content[max(cut.offset - len(last.thinking), 0) :]
        return (*messages[:-1], msgspec.structs.replace(last, content=content, thinking=thinking))


def _block_ends(text: str, num_bytes: int) -> list[int]:
    """Return where blocks of at least so many bytes end: a token may be one byte in a script the model hardly knows."""
    ends, size = [], 0
    for end, character in enumerate(text[:-1], start=1):
        size += len(character.encode("utf-8"))
        if size >= num_bytes:
            ends.append(end)
            size = 0
    return ends


def _after_word(text: str, position: int) -> int:
    """Return where the word at `position` has ended, if it ends soon."""
    space = text.find(" ", position, position + 100)
    return position if space < 0 else space
