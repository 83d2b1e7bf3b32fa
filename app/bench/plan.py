"""What a measuring run is to do."""

import msgspec

from app.errors import UsageError
from engine import DraftMode, SamplingParams

MAX_REPEATS, MIN_PROMPT, MAX_PROMPT = 1000, 16, 1_000_000
SHORT_TOKENS = 48  # about what a short question is with its chat format
PARALLEL = (2, 4, 8)
GROWTH = (1024, 2048, 4096, 8192)  # tokens of history
_MIN_REPLY, _MAX_REPLY = 8, 64


class BenchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a run.

    Attributes:
        prompt_tokens: about how long the long prompt is.
        reply_tokens: of the replies whose decode is measured; 0 chooses by the length of the prompt.
        is_busy: whether all is measured again beside a program that keeps one core busy.
        is_growing: whether the next message is measured in a chat that grows to 8,000 tokens.
        draft_mode: what drafts where drafting is measured; OFF measures nothing of it.
        draft_path: of the draft model; empty for none.
        draft_gpu_layers: of the draft model; None places it as the model.
        seed: of every reply; they are greedy, so it changes nothing but the record.

    Raises:
        UsageError: a number is out of range.
    """

    repeats: int = 5
    prompt_tokens: int = 1024
    reply_tokens: int = 0
    is_busy: bool = False
    is_growing: bool = False
    draft_mode: DraftMode = DraftMode.OFF
    draft_path: str = ""
    draft_gpu_layers: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.repeats <= MAX_REPEATS:
            raise UsageError(f"--repeats is {self.repeats}.", f"Give a number from 1 to {MAX_REPEATS}.")
        if not MIN_PROMPT <= self.prompt_tokens <= MAX_PROMPT:
            raise UsageError(
                f"--prompt-tokens is {self.prompt_tokens}.", f"Give a number from {MIN_PROMPT} to {MAX_PROMPT:,}."
            )

        if not 1 <= self.reply_tokens <= MAX_PROMPT:
            chosen = min(_MAX_REPLY, max(_MIN_REPLY, self.prompt_tokens // 8))
            msgspec.structs.force_setattr(self, "reply_tokens", chosen)

    @property
    def is_drafting(self) -> bool:
        """Whether drafting is measured."""
        return self.draft_mode is not DraftMode.OFF

    @property
    def sampling(self) -> SamplingParams:
        """How every reply is sampled, but for its length."""
        return SamplingParams(temperature=0, seed=self.seed)

    @property
    def n_ctx(self) -> int:
        """The context that holds every chat of one repeat, so that none is evicted: a multiple of 256."""
        chats = 3 * (self.prompt_tokens + 3 * self.reply_tokens)
        parallel = max(PARALLEL) * (SHORT_TOKENS + self.reply_tokens)
        return -(-(chats + parallel + 256) // 256) * 256
