"""Drafting on and off: whole replies to the same prompts in turns, each read from its beginning."""

import dataclasses
from typing import ClassVar

from app.bench.driver import Timed
from app.bench.measures import DRAFT_KINDS
from app.bench.prompts import Messages
from app.bench.round import BenchRound
from app.speculation import draft_params
from engine import CacheParams, ModelParams, SpeculativeParams

_REPLY_TOKENS = 96
_EACH_ANEW = CacheParams(ram_mib=0, reuse=False)


@dataclasses.dataclass(frozen=True)
class DraftRound(BenchRound):
    """One repeat of it.

    Attributes:
        is_drafted_first: the order of drafting on and off; it is to turn with the repeats.
    """

    stage: ClassVar = "drafting on and off"
    is_drafted_first: bool = dataclasses.field(default=False, kw_only=True)

    def run(self, path: str, params: ModelParams) -> None:
        """Load the model and its draft model, and measure."""
        self.driver.load(path, params, self.known, cache=_EACH_ANEW)
        if self.plan.draft_path:
            self.driver.set_draft(self.plan.draft_path, draft_params(params, self.plan.draft_gpu_layers))
        chats = {"story": self.prompts.short(self.number), "copy": self.prompts.copy(self.number)}
        for kind in DRAFT_KINDS:
            self._pair(kind, chats[kind])

    def _pair(self, kind: str, chat: Messages) -> None:
        order = (True, False) if self.is_drafted_first else (False, True)
        replies = {is_drafted: self._ask(chat, is_drafted=is_drafted) for is_drafted in order}
        plain, drafted = replies[False], replies[True]
        self.note(f"{kind}_plain", rate(plain))
        self.note(f"{kind}_drafted", rate(drafted))
        self.note(f"{kind}_speedup", speedup(plain, drafted))
        stats = drafted.finished.speculative
        if stats is not None:
            self.note(f"{kind}_acceptance", stats.acceptance_rate)
            self.note(f"{kind}_length", stats.mean_acceptance_length)
            self.note(f"{kind}_net_speedup", stats.net_speedup)

    def _ask(self, chat: Messages, *, is_drafted: bool) -> Timed:
        how = SpeculativeParams(mode=self.plan.draft_mode) if is_drafted else SpeculativeParams()
        return self.driver.ask(chat, _REPLY_TOKENS, self.plan.sampling, speculative=how)


def rate(reply: Timed) -> float | None:
    """Return the tokens a second of a whole reply, from the question to its end."""
    return reply.finished.metrics.num_generated_tokens / reply.wall_s if reply.wall_s > 0 else None


def speedup(plain: Timed, drafted: Timed) -> float | None:
    """Return how many times faster a reply was than a plain one of as many tokens; None where one is too short."""
    num_plain, num = (reply.finished.metrics.num_generated_tokens for reply in (plain, drafted))
    if num_plain < 2 or num < 2 or drafted.wall_s <= 0:
        return None
    step_s = (plain.wall_s - plain.ttft_s) / (num_plain - 1)
    return (plain.ttft_s + (num - 1) * step_s) / drafted.wall_s
