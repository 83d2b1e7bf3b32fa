"""What is measured, in which order: each repeat begins with a load, and what is compared with the bare loop stands
beside a run of it."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from app.bench.cache_round import SHORT_REPLY, CacheRound, measure_growth
from app.bench.draft_round import DraftRound
from app.bench.driver import BenchDriver, Timed
from app.bench.measures import BUSY, Values
from app.bench.neighbour import busy_neighbour
from app.bench.plan import GROWTH, PARALLEL, BenchPlan
from app.bench.prompts import Messages, Prompts
from app.bench.record import Measure
from app.known_models import KnownModels
from app.speculation import draft_params
from engine import BareLoopRun, ModelDescription, ModelParams, bandwidth_share, decode_bytes

OnProgress = Callable[[str, float], None]
"""Told what is measured now, and the share that is done."""


_STOP_AFTER = 0.3  # of the time the prompt takes
_NUMBERS_A_ROUND = 100  # of chats, so that none begins as one of another round
_CACHE_CHATS = 50  # the first number of theirs in a round
_GROWTH_CHAT, _DRAFT_CHATS = 80, 90
_STAGES = ("load", "short prompt", "long prompt", "follow-up", "another chat", "stop", "several at once")
_ALL_STAGES = len(_STAGES) + len(CacheRound.stages)


def run_scenarios(
    driver: BenchDriver,
    path: str,
    params: ModelParams,
    plan: BenchPlan,
    *,
    known: KnownModels | None = None,
    folder: Path | None = None,
    on_progress: OnProgress = lambda text, share: None,
) -> tuple[tuple[Measure, ...], ModelDescription]:
    """Measure everything, and return it with what the model is.

    Args:
        folder: on the disk that chats are written to.

    Raises:
        EngineError: the model cannot be loaded, or a request failed.
    """
    on_progress("first load", 0.0)
    model = driver.load(path, params, known)  # tries the file out, and fills the system's cache
    if plan.draft_path:
        # One that cannot be used is told at once.
        driver.set_draft(plan.draft_path, draft_params(params, plan.draft_gpu_layers))
    prompts = Prompts(driver.count_tokens)
    values = Values()
    rounds = plan.repeats * (2 if plan.is_busy else 1)
    number = 0
    for prefix in ("", BUSY) if plan.is_busy else ("",):
        with busy_neighbour() if prefix else contextlib.nullcontext():
            for _ in range(plan.repeats):
                stage = _Round(driver, prompts, plan, values, prefix=prefix, number=number)
                for step, text in enumerate(stage.run(path, params, known, folder)):
                    beside = ", beside a busy program" if prefix else ""
                    done = (number + min(step / _ALL_STAGES, 1.0)) / rounds
                    on_progress(f"repeat {number % plan.repeats + 1} of {plan.repeats}{beside}: {text}", done)
                number += 1
    return values.measures(plan), model


class _Round:
    """One repeat."""

    def __init__(
        self, driver: BenchDriver, prompts: Prompts, plan: BenchPlan, values: Values, *, prefix: str, number: int
    ) -> None:
        self._driver = driver
        self._prompts = prompts
        self._plan = plan
        self._values = values
        self._prefix = prefix
        self._number = number
        self._first = number * _NUMBERS_A_ROUND

    def run(self, path: str, params: ModelParams, known: KnownModels | None, folder: Path | None) -> Iterator[str]:
        """Measure, yielding what comes next."""
        yield from self._replies(path, params)
        cache = CacheRound(
            self._driver, self._prompts, self._plan, self._note, number=self._first + _CACHE_CHATS, known=known
        )
        yield from cache.run(path, params, folder)
        if self._plan.is_growing:
            self._grow(path, params, known)
        if self._plan.is_drafting:
            yield DraftRound.stage
            self._draft(path, params, known)

    def _replies(self, path: str, params: ModelParams) -> Iterator[str]:
        yield _STAGES[0]
        model = self._driver.load(path, params, None)
        self._note("load", model.load_s)
        speed = self._driver.measure_machine()
        self._note("bandwidth", speed.read_bandwidth)
        self._note("matmul", speed.matmul_rate)
        yield _STAGES[1]
        reply, _, _ = self._compare("short", self._prompts.short(self._first))
        if model.active_weight_bytes and not model.n_gpu_layers and reply.decode_rate:
            context = reply.finished.metrics.num_prompt_tokens + self._plan.reply_tokens / 2
            size = decode_bytes(model.active_weight_bytes, model.kv_bytes_per_token, context)
            self._note("bandwidth_share", bandwidth_share(speed.read_bandwidth, size, reply.decode_rate))
        yield _STAGES[2]
        chat = self._prompts.long(self._first + 1, self._plan.prompt_tokens)
        reply, bare, _ = self._compare("long", chat)
        self._note("cold_ttft", reply.ttft_s, bare.prefill_s)
        cold_s = reply.ttft_s
        yield _STAGES[3]
        chat = self._prompts.follow_up(chat, reply.finished.text)
        reply = self._ask(chat)
        self._note("follow_ttft", reply.ttft_s)
        yield _STAGES[4]
        self._ask(self._prompts.long(self._first + 2, self._plan.prompt_tokens // 2))
        self._note("switch_ttft", self._ask(self._prompts.follow_up(chat, reply.finished.text)).ttft_s)
        yield _STAGES[5]
        stopped = self._prompts.long(self._first + 3, self._plan.prompt_tokens)
        self._note("stop_in_prefill", self._driver.stop_in_prefill(stopped, _STOP_AFTER * cold_s, self._plan.sampling))
        yield _STAGES[6]
        self._several_at_once()

    def _draft(self, path: str, params: ModelParams, known: KnownModels | None) -> None:
        DraftRound(
            self._driver,
            self._prompts,
            self._plan,
            self._note,
            number=self._first + _DRAFT_CHATS,
            is_drafted_first=self._number % 2 == 1,
            known=known,
        ).run(path, params)

    def _grow(self, path: str, params: ModelParams, known: KnownModels | None) -> None:
        model = self._driver.load(path, msgspec.structs.replace(params, n_ctx=GROWTH[-1]), known)
        n_ctx = min(model.n_ctx, model.n_ctx_train or model.n_ctx)
        measure_growth(
            self._driver, self._prompts, self._plan, self._note, number=self._first + _GROWTH_CHAT, n_ctx=n_ctx
        )

    def _compare(self, length: str, chat: Messages) -> tuple[Timed, BareLoopRun, int]:
        """Ask with the bare loop before or after it, in turns: whichever comes second finds a warmer machine."""
        num_tokens = self._prompts.num_tokens(chat)
        is_bare_first = self._number % 2 == 0
        bare = self._driver.run_bare_loop(num_tokens, self._plan.reply_tokens) if is_bare_first else None
        reply = self._driver.ask(chat, self._plan.reply_tokens, self._plan.sampling)
        bare = bare or self._driver.run_bare_loop(num_tokens, self._plan.reply_tokens)
        self._note(f"prefill_{length}", reply.finished.metrics.prefill_rate, num_tokens / bare.prefill_s)
        self._note(f"decode_{length}", reply.decode_rate, _rate(bare))
        return reply, bare, num_tokens

    def _several_at_once(self) -> None:
        for place, count in enumerate(PARALLEL):
            chats = [self._prompts.short(self._first + 10 * (place + 1) + index) for index in range(count)]
            num_prompt = self._prompts.num_tokens(chats[0])
            bare = self._driver.run_bare_loop(num_prompt, self._plan.reply_tokens, count)
            replies, seconds = self._driver.ask_at_once(chats, self._plan.reply_tokens, self._plan.sampling)
            num_tokens = sum(reply.finished.metrics.num_generated_tokens for reply in replies)
            bare_s = bare.prefill_s + sum(bare.step_s)
            self._note(f"parallel_{count}", num_tokens / seconds, count * self._plan.reply_tokens / bare_s)

    def _ask(self, chat: Messages) -> Timed:
        return self._driver.ask(chat, SHORT_REPLY, self._plan.sampling)

    def _note(self, name: str, value: float | None, bare: float | None = None) -> None:
        self._values.note(self._prefix + name, value, bare)


def _rate(bare: BareLoopRun) -> float | None:
    return len(bare.step_s) / sum(bare.step_s) if bare.step_s else None
