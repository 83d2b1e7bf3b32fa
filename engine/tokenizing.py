"""The tokeniser thread: renders and tokenises prompts beside a running reply, on a stack that long words cannot
overflow, so that no message can forge a control token."""

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from engine.backend import Vocabulary
from engine.chat_template import TRIAL_CHAT, ChatTemplate, RenderedPrompt, TemplateRenderer
from engine.errors import EngineError, RequestError, overflow_error
from engine.messages import ChatMessage, PromptOptions, Role

_LOG = logging.getLogger(__name__)

# Some vocabularies split text with a recursive matcher: 30,000 letters in a row overflow 8 MiB. Runs are cut at
# _MAX_RUN characters, for which this stack is four times what was measured. Only touched pages take memory.
_STACK_BYTES = 128 * 1024 * 1024
_MAX_RUN = 50_000

_USUAL = PromptOptions()

Job = Callable[[], None]


class TokenizerThread:
    """Runs jobs in order on one thread with a large stack; owns the template child."""

    def __init__(self) -> None:
        self.renderer = TemplateRenderer()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        previous = threading.stack_size(_STACK_BYTES)
        try:
            self._thread = threading.Thread(target=self._run, name="engine-tokenizer", daemon=True)
            self._thread.start()
        finally:
            threading.stack_size(previous)

    def submit(self, job: Job) -> None:
        """Queue a job; it must handle its own errors."""
        self._jobs.put(job)

    def finish_jobs(self) -> None:
        """Wait until everything queued so far is done."""
        done = threading.Event()
        self._jobs.put(done.set)
        done.wait()

    def close(self) -> None:
        """Finish the queued jobs and end thread and child."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:  # a thread that is gone would leave every later request without an answer
                _LOG.exception("a job of the tokeniser failed")
        self.renderer.close()


class EncodedPrompt(NamedTuple):
    """A chat as the model will read it.

    Attributes:
        num_system_tokens: tokens at the beginning that belong to the system prompt.
        num_settled_tokens: tokens before the last user's message: what a later prompt of this chat begins with too.
        reply: the half reply that is to be continued.
    """

    tokens: list[int]
    num_system_tokens: int = 0
    num_settled_tokens: int = 0
    reply: str = ""


class PromptEncoder:
    """Chats to tokens for one loaded model.

    Args:
        vocabulary: of the model.
        renderer: where its template runs.
        n_ctx: the most tokens a prompt may have.
    """

    def __init__(self, vocabulary: Vocabulary, renderer: TemplateRenderer, *, n_ctx: int) -> None:
        self._vocabulary = vocabulary
        self._template = ChatTemplate(renderer, vocabulary)
        self._n_ctx = n_ctx
        self._longest_piece = max(map(len, vocabulary.pieces), default=1) or 1

    def try_out(self) -> list[str]:
        """Encode a first chat, so that the first real one finds everything warm; return what the user should know."""
        try:
            self._template.try_out()
            self.encode(TRIAL_CHAT)
        except EngineError as error:
            return [error.message]
        return self._template.notices

    def render(self, messages: Sequence[ChatMessage]) -> RenderedPrompt:
        """Return the prompt text of a chat.

        Raises:
            RequestError: there are no messages.
            ChatTemplateError: the template cannot render them.
            ContextOverflow: the text is too long for the context whatever its tokens are.
        """
        if not messages:
            raise RequestError("The request has no messages.", "Write something first.")
        self._check_length(*(message.content for message in messages))
        rendered = self._template.render(messages)
        self._check_length(rendered.text)  # a template can make much of little
        return rendered

    def _check_length(self, *texts: str) -> None:
        """Refuse huge texts without the work of tokenising them: no token is longer than the longest piece."""
        num_bytes = sum(len(text.encode("utf-8")) for text in texts)
        at_least = -(-num_bytes // self._longest_piece)
        if at_least > self._n_ctx:
            raise overflow_error(at_least, self._n_ctx, is_estimate=True)

    def encode(self, messages: Sequence[ChatMessage], options: PromptOptions = _USUAL) -> EncodedPrompt:
        """Return the prompt of a chat.

        Raises:
            As `render`.
        """
        rendered = self.render(messages)
        tokens = self.tokenize(rendered)
        if not tokens:
            raise RequestError("The prompt is empty.", "Write something first.")
        return EncodedPrompt(tokens, self._num_system_tokens(messages, rendered, tokens))

    def tokenize(self, rendered: RenderedPrompt) -> list[int]:
        """Return the tokens of a rendered prompt, with exactly one begin token where the model wants one."""
        tokens: list[int] = []
        for text, is_plain in rendered.pieces:
            for part in _cut_runs(text):
                if is_plain:
                    tokens += self._plain(part, is_first=not tokens)
                else:
                    tokens += self._continued(part, parse_special=True, is_first=not tokens)
        bos_id = self._vocabulary.bos_id
        if self._vocabulary.adds_bos and bos_id is not None and tokens[:1] != [bos_id]:
            tokens.insert(0, bos_id)
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

    def _num_system_tokens(
        self, messages: Sequence[ChatMessage], rendered: RenderedPrompt, tokens: Sequence[int]
    ) -> int:
        if messages[0].role is not Role.SYSTEM:
            return 0
        content = messages[0].content.strip()
        start = rendered.text.find(content)
        if start < 0:
            return 0
        num_bytes = len(rendered.text[: start + len(content)].encode("utf-8"))
        pieces, seen = self._vocabulary.pieces, 0
        for index, token in enumerate(tokens):
            if seen >= num_bytes:
                return index
            seen += len(pieces[token])
        return len(tokens)


def _cut_runs(text: str) -> Iterator[str]:
    """Cut text so that no unbroken run is longer than the tokeniser's stack allows; most text stays whole."""
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
