"""Drafting on and off: whole replies to the same prompts in turns, each read from its beginning."""

from collections.abc import Callable

from app.bench.driver import BenchDriver, Timed
from app.bench.measures import DRAFT_KINDS
from app.bench.plan import BenchPlan
from app.bench.prompts import Messages, Prompts
from app.known_models import KnownModels
from app.speculation import draft_params
from engine import CacheParams, ModelParams, SpeculativeParams

_REPLY_TOKENS = 96
_EACH_ANEW = CacheParams(ram_mib=0, reuse=False)

Note = Callable[[str, float | None], None]


class DraftRound:
    """One repeat of it.

    Args:
        number: of its first chat; the order of drafting on and off turns with it.
        note: takes the name and the value of a measure.
        known: models that need not be tried out again.
    """

    stage = "drafting on and off"

    def __init__(
        self,
        driver: BenchDriver,
        prompts: Prompts,
        plan: BenchPlan,
        note: Note,
        *,
        number: int,
        is_drafted_first: bool = False,
        known: KnownModels | None = None,
    ) -> None:
        self._driver = driver
        self._prompts = prompts
        self._plan = plan
        self._note = note
        self._number = number
        self._is_drafted_first = is_drafted_first
        self._known = known

    def run(self, path: str, params: ModelParams) -> None:
        """Load the model and its draft model, and measure."""
        self._driver.load(path, params, self._known, cache=_EACH_ANEW)
        if self._plan.draft_path:
            self._driver.set_draft(self._plan.draft_path, draft_params(params))
        chats = {"story": self._prompts.short(self._number), "copy": self._prompts.copy(self._number)}
        for kind in DRAFT_KINDS:
            self._pair(kind, chats[kind])

    def _pair(self, kind: str, chat: Messages) -> None:
        order = (True, False) if self._is_drafted_first else (False, True)
        replies = {is_drafted: self._ask(chat, is_drafted=is_drafted) for is_drafted in order}
        plain, drafted = replies[False], replies[True]
        self._note(f"{kind}_plain", rate(plain))
        self._note(f"{kind}_drafted", rate(drafted))
        self._note(f"{kind}_speedup", speedup(plain, drafted))
        stats = drafted.finished.speculative
        if stats is not None:
            self._note(f"{kind}_acceptance", stats.acceptance_rate)
            self._note(f"{kind}_length", stats.mean_acceptance_length)
            self._note(f"{kind}_net_speedup", stats.net_speedup)

    def _ask(self, chat: Messages, *, is_drafted: bool) -> Timed:
        how = SpeculativeParams(mode=self._plan.draft_mode) if is_drafted else SpeculativeParams()
        return self._driver.ask(chat, _REPLY_TOKENS, self._plan.sampling, speculative=how)


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
