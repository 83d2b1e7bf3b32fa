"""One engine as a measuring run uses it: every event with the time it came, on this process's clock."""

import itertools
import logging
import queue
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self, TypeVar

import msgspec

from app.bench.prompts import Messages
from app.known_models import KnownModels
from engine import (
    Abort,
    BareLoopRun,
    CacheParams,
    Command,
    Counted,
    CountTokens,
    Delta,
    DescribeEngine,
    DraftDescription,
    DraftSet,
    EngineClient,
    EngineDescribed,
    EngineDescription,
    Event,
    Failed,
    Finished,
    Generate,
    LoadCancelled,
    LoadModel,
    LogLine,
    MachineMeasured,
    MachineSpeed,
    MeasureMachine,
    ModelDescription,
    ModelLoaded,
    ModelParams,
    OpenChat,
    PrefillProgress,
    RunBareLoop,
    SamplingParams,
    SetCache,
    SetDraft,
    SpeculativeParams,
    error_from_info,
)

_ENGINE_LOG = logging.getLogger("engine.worker")
_POLL_S = 0.2  # where a wait cannot be interrupted by a signal (Windows), Ctrl-C is seen after at most this long
_SLICE_S = 0.002
_PLAIN = SpeculativeParams()
_NO_COPIES = CacheParams(ram_mib=0)  # of earlier chats: they would count as memory of the model, and cost time
_Event = TypeVar("_Event", ModelLoaded, Counted, EngineDescribed, MachineMeasured, BareLoopRun, DraftSet, Finished)


class Timed(NamedTuple):
    """A reply with its times, in seconds on this process's clock.

    Attributes:
        ttft_s: from the question to the first text.
        decode_rate: tokens a second after the first text; None where nothing came after it.
        ended_at, first_at: of the clock: its end, and its first text.
        longest_gap_s: between two pieces of its text; None where there was but one.
    """

    finished: Finished
    ttft_s: float
    decode_rate: float | None
    ended_at: float
    longest_gap_s: float | None = None
    first_at: float = 0.0

    @property
    def wall_s(self) -> float:
        """Seconds from the question to the end."""
        return self.ended_at - self.first_at + self.ttft_s


class _Open:
    """What has come of a reply so far."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._first_at: float | None = None
        self._last_at = began
        self._longest_gap: float | None = None
        self._num_at_first = 0
        self.done: Timed | None = None

    def take(self, at: float, event: Event) -> None:
        if isinstance(event, Delta):
            if self._first_at is None:
                self._first_at, self._num_at_first = at, event.num_generated_tokens
            else:
                self._longest_gap = max(self._longest_gap or 0.0, at - self._last_at)
            self._last_at = at
        elif isinstance(event, Finished):
            first = self._first_at or at
            num_after = event.metrics.num_generated_tokens - self._num_at_first
            is_timed = self._first_at is not None and num_after > 0 and at > first
            rate = num_after / (at - first) if is_timed else None
            self.done = Timed(event, first - self._began, rate, at, self._longest_gap, first)


class BenchDriver:
    """Asks an engine one thing after the other and waits.

    Args:
        client: not started; closed with this object.
        successor: makes the client that comes after it; None where the engine cannot be started again.
    """

    def __init__(self, client: EngineClient, *, successor: Callable[[], EngineClient] | None = None) -> None:
        self._client = client
        self._successor = successor
        self._events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        client.start(self._take)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.close()

    @property
    def can_restart(self) -> bool:
        """Whether the engine can be started again."""
        return self._successor is not None

    def restart(self) -> None:
        """End the engine, and start another one, without a model."""
        if self._successor is None:
            raise RuntimeError("this engine cannot be started again")
        self._client.close()
        self._client = self._successor()
        self._client.start(self._take)

    def describe(self) -> EngineDescription:
        """Return versions and devices of the engine."""
        return self._answer(DescribeEngine(request_id=self._new_id()), EngineDescribed).description

    def load(
        self, path: str, params: ModelParams, known: KnownModels | None = None, *, cache: CacheParams = _NO_COPIES
    ) -> ModelDescription:
        """Load a model, again if need be: nothing is cached afterwards but what `cache` has in its folder.

        Raises:
            EngineError: it cannot be loaded.
        """
        is_known = known is not None and known.has(path, params)
        command = LoadModel(request_id=self._new_id(), path=path, params=params, is_known=is_known, cache=cache)
        description = self._answer(command, ModelLoaded).description
        if known is not None:
            known.add(path, params)
        return description

    def count_tokens(self, messages: Messages) -> int:
        """Return the length of a chat."""
        return self._answer(CountTokens(request_id=self._new_id(), messages=messages), Counted).num_tokens

    def measure_machine(self) -> MachineSpeed:
        """Return how fast the machine reads and multiplies."""
        return self._answer(MeasureMachine(request_id=self._new_id()), MachineMeasured).speed

    def run_bare_loop(self, num_prompt_tokens: int, num_tokens: int, num_sequences: int = 1) -> BareLoopRun:
        """Return the times of the thinnest loop on the same library."""
        command = RunBareLoop(
            request_id=self._new_id(),
            num_prompt_tokens=num_prompt_tokens,
            num_tokens=num_tokens,
            num_sequences=num_sequences,
        )
        return self._answer(command, BareLoopRun)

    def set_cache(self, cache: CacheParams) -> None:
        """Keep to these limits of the prompt cache, and wait until they are in effect."""
        self._client.send(SetCache(params=cache))
        self.describe()

    def set_draft(self, path: str, params: ModelParams) -> DraftDescription | None:
        """Let a model draft for the loaded one.

        Raises:
            EngineError: it cannot.
        """
        return self._answer(SetDraft(request_id=self._new_id(), path=path, params=params), DraftSet).draft

    def open_chat(self, chat_id: str) -> None:
        """Tell the engine that a chat is about to be gone on with."""
        self._client.send(OpenChat(chat_id=chat_id))

    def ask(
        self,
        messages: Messages,
        num_tokens: int,
        sampling: SamplingParams,
        *,
        chat_id: str | None = None,
        speculative: SpeculativeParams = _PLAIN,
    ) -> Timed:
        """Return a reply with its times."""
        asked = self.ask_at_once([messages], num_tokens, sampling, chat_id=chat_id, speculative=speculative)
        return asked[0][0]

    def ask_at_once(
        self,
        chats: Sequence[Messages],
        num_tokens: int,
        sampling: SamplingParams,
        *,
        chat_id: str | None = None,
        speculative: SpeculativeParams = _PLAIN,
    ) -> tuple[list[Timed], float]:
        """Return the replies to some chats asked at once, and the seconds until the last one was there.

        Args:
            chat_id: of a chat that is asked alone and may be kept on disk.
        """
        limited = msgspec.structs.replace(sampling, max_tokens=num_tokens)
        began = time.perf_counter()
        replies = {self._new_id(): _Open(began) for _ in chats}
        for request_id, messages in zip(replies, chats, strict=True):
            self._client.send(
                Generate(
                    request_id=request_id,
                    messages=messages,
                    sampling=limited,
                    chat_id=chat_id,
                    speculative=speculative,
                )
            )
        while any(reply.done is None for reply in replies.values()):
            at, event = self._next()
            reply = replies.get(getattr(event, "request_id", ""))
            if reply is not None:
                self._refuse_failure(event)
                reply.take(at, event)
        done = [reply.done for reply in replies.values() if reply.done is not None]
        return done, max(reply.ended_at for reply in done) - began

    def stop_in_prefill(self, messages: Messages, after_s: float, sampling: SamplingParams) -> float:
        """Ask, stop while the prompt is read, and return the seconds until that was answered."""
        request_id = self._new_id()
        self._client.send(Generate(request_id=request_id, messages=messages, sampling=sampling))
        event: Event | None = None
        while not isinstance(event, PrefillProgress):
            at, event = self._next_of(request_id)
            self._refuse_failure(event)
        ends_at = time.perf_counter() + after_s
        while time.perf_counter() < ends_at:
            time.sleep(_SLICE_S)
        began = time.perf_counter()
        self._client.send(Abort(request_id=request_id))
        while not isinstance(event, Finished):
            at, event = self._next_of(request_id)
            self._refuse_failure(event)
        return max(0.0, at - began)  # a reply can have ended before it was stopped

    def _take(self, event: Event) -> None:
        self._events.put((time.perf_counter(), event))

    def _new_id(self) -> str:
        return f"bench-{next(self._numbers)}"

    def _answer(self, command: Command, kind: type[_Event]) -> _Event:
        request_id = getattr(command, "request_id", "")
        self._client.send(command)
        while True:
            event = self._next_of(request_id)[1]
            self._refuse_failure(event)
            if isinstance(event, kind):
                return event
            if isinstance(event, LoadCancelled):
                raise KeyboardInterrupt

    def _next_of(self, request_id: str) -> tuple[float, Event]:
        while True:
            at, event = self._next()
            if getattr(event, "request_id", None) == request_id:
                return at, event

    def _next(self) -> tuple[float, Event]:
        while True:
            try:
                at, event = self._events.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if isinstance(event, LogLine):
                _ENGINE_LOG.log(event.level, "%s", event.text)
                continue
            return at, event

    def _refuse_failure(self, event: Event) -> None:
        if isinstance(event, Failed):
            raise error_from_info(event.error)
