"""What the sampled tokens of a reply say: text, stop strings, and what of it is thinking; with what is still unsent."""

import time
from typing import NamedTuple

from engine.backend import Vocabulary
from engine.detokenizer import Detokenizer
from engine.messages import TextSpan
from engine.params import SamplingParams
from engine.reasoning import Part, ThinkingSplitter, ThinkingStart
from engine.stopping import StopMatcher


class UnsentText(NamedTuple):
    """Text that came since the last Delta; see Delta."""

    text: str
    thinking: str
    was_thinking: bool


class ReplyText:
    """Tokens in, answer and thinking out. Stop strings are looked for in all of the text, thinking too.

    Args:
        thinking: how the reply begins; None for a model that marks no thinking.
        has_begun: whether the prompt ends inside the answer.

    Attributes:
        num_thinking_tokens: tokens of thinking so far, tags included.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        sampling: SamplingParams,
        thinking: ThinkingStart | None,
        *,
        has_begun: bool = False,
    ) -> None:
        shown_ids = thinking.shown_ids if thinking else frozenset()
        self.num_thinking_tokens = 0
        self._detokenizer = Detokenizer(vocabulary.pieces, vocabulary.control_ids, shown_ids)
        self._stop = StopMatcher(sampling.stop)
        self._start = thinking
        self._splitter = ThinkingSplitter(
            thinking.format if thinking else None,
            is_open=thinking is not None and thinking.is_open,
            has_begun=has_begun,
        )
        self._budget = sampling.thinking_budget
        self._answer: list[str] = []
        self._thinking: list[str] = []
        self._unsent = UnsentText("", "", was_thinking=False)
        self._num_tokens = 0
        self._num_chars = 0  # of all text, held back or not
        self._drafted: list[TextSpan] = []  # of all text
        self._began_at: float | None = None
        self._thought_until: float | None = None

    @property
    def answer(self) -> str:
        """The answer so far."""
        return "".join(self._answer)

    @property
    def thinking(self) -> str:
        """What was thought so far."""
        return "".join(self._thinking)

    @property
    def stop_string(self) -> str | None:
        """The stop string that was met."""
        return self._stop.matched

    @property
    def is_thinking(self) -> bool:
        """Whether the model thinks, and has not begun its answer."""
        return self._splitter.is_thinking

    @property
    def is_before_answer(self) -> bool:
        """Whether what comes next is not the answer yet: thinking, or the frame that some models put around it."""
        return self._splitter.is_before_answer

    @property
    def has_unsent(self) -> bool:
        """Whether there is something to send."""
        return self._unsent != ("", "", False)

    @property
    def thinking_s(self) -> float | None:
        """Seconds from the first token until thinking ended, or until now; None where there was no thinking."""
        if self._thought_until is None or self._began_at is None:
            return None
        return self._thought_until - self._began_at

    @property
    def drafted_spans(self) -> tuple[TextSpan, ...]:
        """What of the answer so far is text that a drafted token completed, rising and apart from each other."""
        spans: list[TextSpan] = []
        drafted = iter(self._drafted)
        span = next(drafted, None)
        num_before = 0  # characters of the answer
        for part in self._splitter.answer_spans:
            while span is not None and span.start < part.end:
                start, end = max(span.start, part.start), min(span.end, part.end)
                if start < end:
                    _extend(spans, num_before + start - part.start, num_before + end - part.start)
                if span.end > part.end:
                    break
                span = next(drafted, None)
            num_before += part.end - part.start
        return tuple(spans)

    def push(self, token: int, *, is_drafted: bool = False) -> None:
        """Take a sampled token.

        Args:
            is_drafted: whether it is an accepted token of a draft.
        """
        now = time.perf_counter()
        if self._began_at is None:
            self._began_at = now
        self._num_tokens += 1
        was_thinking = self.is_thinking
        text = self._detokenizer.push(token)
        if is_drafted and text:
            _extend(self._drafted, self._num_chars, self._num_chars + len(text))
        self._num_chars += len(text)
        self._show(self._stop.push(text))
        if was_thinking or self.is_thinking:
            self.num_thinking_tokens += 1
            self._thought_until = now

    def finish(self) -> None:
        """Take what was held back, at the end of the reply."""
        if self._stop.matched is None:
            self._show(self._stop.push(self._detokenizer.flush()))
        if self._stop.matched is None:
            self._show(self._stop.flush())
        self._add(self._splitter.flush())

    def take_unsent(self) -> UnsentText:
        """Return what is to be sent, which is sent from now on."""
        unsent, self._unsent = self._unsent, UnsentText("", "", was_thinking=False)
        return unsent

    def close_thinking(self, max_tokens: int | None) -> list[int]:
        """End thinking, once, when its budget is used up, and return the tokens that do it.

        Their text is known, so it is not searched for stop strings: nobody chose it.

        Args:
            max_tokens: return no more than these; the thinking ends all the same, and the reply with it.
        """
        is_used_up = self._budget is not None and self.num_thinking_tokens >= self._budget
        if not is_used_up or not self.is_thinking or self._start is None:
            return []
        self._budget = None
        tokens = list(self._start.closing_tokens[:max_tokens])
        rest = self._detokenizer.flush()
        self._num_chars += len(rest) + len(self._start.format.closing_text)
        self._show(self._stop.push(rest) + self._stop.flush())
        self._splitter.expect_closing()
        self._show(self._start.format.closing_text)
        now = time.perf_counter()
        self._began_at = self._began_at or now
        self._thought_until = now
        self._num_tokens += len(tokens)
        self.num_thinking_tokens += len(tokens)
        return tokens

    def _show(self, text: str) -> None:
        if text:
            self._add(self._splitter.push(text))

    def _add(self, part: Part) -> None:
        text, thinking, was_thinking = self._unsent
        if part.was_thinking:
            self._thinking += self._answer
            self._answer = []
            text, thinking, was_thinking = "", thinking + text, True
            self.num_thinking_tokens, self._thought_until = self._num_tokens, time.perf_counter()
        self._answer.append(part.answer)
        self._thinking.append(part.thinking)
        self._unsent = UnsentText(text + part.answer, thinking + part.thinking, was_thinking)


def _extend(spans: list[TextSpan], start: int, end: int) -> None:
    """Add a span that does not begin before the last one ends."""
    if spans and spans[-1].end == start:
        start = spans.pop().start
    spans.append(TextSpan(start, end))
