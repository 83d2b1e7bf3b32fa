"""The worker's loop: drains what has come, steps the engine, emits what it brought; knows no pipe and no process."""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import assert_never

import msgspec

from engine.backend import Backend, Loader, new_loader
from engine.cache_commands import CacheCommand, CacheSettled, described, forgets, obey
from engine.core import Engine
from engine.errors import EngineError, EngineUnavailable
from engine.failures import event_of, shown
from engine.importance import build_importance
from engine.measuring import measure, no_model
from engine.messages import (
    PROTOCOL_VERSION,
    Abort,
    BuildImportance,
    CacheRefused,
    CancelLoad,
    ClearCache,
    Command,
    CountTokens,
    DescribeCache,
    DescribeEngine,
    EngineDescribed,
    Event,
    Failed,
    ForgetChats,
    ForgetNamed,
    Generate,
    Hello,
    ImportanceProgress,
    LoadCancelled,
    LoadModel,
    LoadProgress,
    MeasureCacheTypes,
    MeasureMachine,
    ModelLoaded,
    ModelUnloaded,
    OpenChat,
    Prepare,
    RenderPrompt,
    RunBareLoop,
    SetCache,
    SetDraft,
    SetThreads,
    Shutdown,
    UnloadModel,
)
from engine.params import CacheParams
from engine.peak_memory import peak_memory_bytes, reset_peak_memory
from engine.preparing import Preparation
from engine.prompt_cache import PromptCache
from engine.prompt_making import Encoded, counted, prompt_of, rendered
from engine.speculative.loading import DraftLoad, DraftLoading
from engine.threads import StepThreads
from engine.tokenizer_thread import TokenizerThread
from engine.tokenizing import PromptEncoder
from engine.version import engine_version

_PROGRESS_INTERVAL_S = 0.05
_NEEDS_CONTEXT = (
    *(
        Generate,
        LoadModel,
        UnloadModel,
        MeasureCacheTypes,
        BuildImportance,
        ClearCache,
        ForgetChats,
        ForgetNamed,
        Shutdown,
    ),
)

Emit = Callable[[Event], None]


class WorkerLoop:
    """One engine and what feeds it.

    Args:
        emit: takes events, from any thread.
        fake: use the backend without weights.
    """

    def __init__(self, emit: Emit, *, fake: bool) -> None:
        self._emit = emit
        self._fake = fake
        self._inbox: queue.SimpleQueue[tuple[float, Command | Encoded | DraftLoad | CacheSettled]] = queue.SimpleQueue()
        self._tokenizer = TokenizerThread()
        self._loader: Loader | None = None
        self._drafts = DraftLoading(emit, fake=fake, on_done=lambda load: self._inbox.put((time.perf_counter(), load)))
        self._engine: Engine | None = None
        self._encoder: PromptEncoder | None = None
        self._kept = PromptCache(CacheParams(), on_refused=lambda refusal: emit(CacheRefused(error=refusal.info())))
        self._is_ending = False
        self._most_threads = 0
        self._at_tokenizer: dict[str, Generate | Prepare] = {}
        self._lock = threading.Lock()  # guards the engine and the three below: Abort arrives on another thread
        self._pending: set[str] = set()  # requests that are not in the engine yet
        self._aborted: set[str] = set()
        self._cancelled_loads: set[str] = set()
        self._building: str | None = None  # the importance matrix that is being built

    def submit(self, command: Command) -> None:
        """Take a command from any thread; what must not wait for a step or a load acts at once."""
        with self._lock:
            if isinstance(command, Generate | Prepare | BuildImportance):
                self._pending.add(command.request_id)
            elif isinstance(command, Abort):
                self._abort(command.request_id)
                return
            elif isinstance(command, CancelLoad):
                self._cancelled_loads.add(command.request_id)
            elif isinstance(command, Shutdown):
                self._is_ending = True
                if self._engine is not None:
                    self._engine.backend.raise_abort()
        self._inbox.put((time.perf_counter(), command))
        if isinstance(command, _NEEDS_CONTEXT):
            self._make_way()

    def run(self) -> None:
        """Work until Shutdown."""
        self._emit(Hello(protocol_version=PROTOCOL_VERSION, pid=os.getpid(), engine_version=engine_version()))
        try:
            while not self._is_ending:
                self._drain()
                if self._engine is not None and not self._is_ending:
                    self._send_all(self._engine.step()) if self._engine.has_work else self._engine.room.saver.rest()
        finally:
            self._unload(EngineUnavailable("The engine was shut down.", "Load the model again."))
            self._tokenizer.close()
            self._kept.close()

    # --- inbox ---

    def _make_way(self) -> None:
        """Break off what is read meanwhile: something has come, and is looked at before the next step."""
        with self._lock:
            if self._engine is not None:
                self._engine.drop_read_ahead()

    def _abort(self, request_id: str) -> None:
        if request_id in self._pending:
            self._aborted.add(request_id)
            if request_id == self._building and self._engine is not None:
                self._engine.backend.raise_abort()
        elif self._engine is not None:
            self._engine.request_abort(request_id)

    def _drain(self) -> None:
        """Handle what has come; wait for something when there is nothing to compute."""
        is_idle = self._engine is None or not self._engine.has_work
        rest_s = self._engine.room.rest_s if self._engine is not None else None
        with contextlib.suppress(queue.Empty):
            while not self._is_ending:
                received_at, item = self._inbox.get(block=is_idle, timeout=rest_s)
                if isinstance(item, Encoded):
                    self._add(item)
                elif isinstance(item, DraftLoad):
                    self._kept.responses.expect_nothing()
                    self._drafts.take(item, self._engine, is_idle=not self._at_tokenizer)
                elif isinstance(item, CacheSettled):
                    self._emit(described(item.request_id, self._kept, self._engine))
                else:
                    self._handle(item, received_at)
                is_idle = False

    def _handle(self, command: Command, received_at: float) -> None:
        match command:
            case LoadModel():
                self._load(command)
            case CancelLoad():
                with self._lock:
                    self._cancelled_loads.discard(command.request_id)
                self._drafts.give_up(command.request_id)
            case UnloadModel():
                self._unload(EngineUnavailable("The model was unloaded.", "Load a model."))
                self._emit(ModelUnloaded())
            case Generate() | Prepare():
                self._generate(command, received_at)
            case CountTokens() | RenderPrompt():
                self._answer(command)
            case DescribeEngine():
                self._emit(event_of(command.request_id, lambda: self._described(command)))
            case MeasureCacheTypes() | MeasureMachine() | RunBareLoop() | BuildImportance():
                self._measure(command)
            case SetCache() | DescribeCache() | ClearCache() | ForgetChats() | ForgetNamed() | OpenChat():
                self._forget_at_tokenizer(command)
                obey(command, self._kept, self._engine)
                if isinstance(command, DescribeCache | ClearCache):
                    settled = (received_at, CacheSettled(command.request_id))
                    self._kept.when_forgotten(lambda: self._inbox.put(settled))
            case SetThreads() | SetDraft():
                self._set(command)
            case Abort() | Shutdown():
                pass  # acted on in submit()
            case _:
                assert_never(command)

    def _set(self, command: SetThreads | SetDraft) -> None:
        if isinstance(command, SetDraft):
            self._kept.responses.expect_nothing()
            self._drafts.set(command, self._engine)
            return
        self._most_threads = command.most
        if self._engine is not None:
            self._engine.threads.set_most(command.most)

    # --- models ---

    def _get_loader(self) -> Loader:
        if self._loader is None:
            self._loader = new_loader(fake=self._fake)
        return self._loader

    def _load(self, command: LoadModel) -> None:
        self._unload(EngineUnavailable("Another model was loaded.", "Send the message again."))
        self._tokenizer.submit(self._tokenizer.renderer.warm_up)
        if command.cache is not None:
            self._kept.set_params(command.cache)
        reset_peak_memory()
        began, shown_at = time.perf_counter(), 0.0

        def on_progress(share: float) -> bool:
            nonlocal shown_at
            now = time.perf_counter()
            if now - shown_at >= _PROGRESS_INTERVAL_S:
                shown_at = now
                self._emit(LoadProgress(request_id=command.request_id, progress=share))
            return not (self._is_ending or command.request_id in self._cancelled_loads)

        try:
            backend = self._get_loader().load(command.path, command.params, on_progress, is_known=command.is_known)
        except Exception as error:
            self._emit(Failed(request_id=command.request_id, error=shown(error).info()))
            return
        if backend is None:
            self._emit(LoadCancelled(request_id=command.request_id))
            return
        encoder = PromptEncoder(backend.vocabulary, self._tokenizer.renderer, n_ctx=backend.description.n_ctx)
        notices: list[str] = []
        self._tokenizer.submit(lambda: notices.extend(encoder.try_out()))
        self._tokenizer.finish_jobs()
        self._encoder = encoder
        threads = StepThreads(
            backend.set_threads,
            count=backend.description.n_threads,
            is_fixed=self._fake or command.params.n_threads > 0,
        )
        threads.set_most(self._most_threads)
        threads.calibrate(backend)
        with self._lock:
            self._engine = Engine(backend, peak_memory=peak_memory_bytes, threads=threads, prompt_cache=self._kept)
        if command.drafts:
            self._engine.speculator.calibration.want()
        description = msgspec.structs.replace(
            backend.description,
            notices=(*backend.description.notices, *notices),
            chat_format=encoder.chat_format,
            chat_formats=encoder.chat_formats,
            can_think=encoder.can_think,
            load_s=time.perf_counter() - began,
        )
        self._emit(ModelLoaded(request_id=command.request_id, description=description))

    def _unload(self, error: EngineError) -> None:
        self._drafts.give_up()
        self._drafts.finish()
        with self._lock:
            engine, self._engine = self._engine, None
        self._encoder = None
        if engine is None:
            return
        for request_id in sorted(self._at_tokenizer):
            self._add(Encoded(self._at_tokenizer[request_id], None, error))
        self._send_all(engine.fail_all(error))
        # The tokeniser may be reading the vocabulary: the model goes when its last job is done.
        self._tokenizer.finish_jobs()
        engine.close()

    # --- requests ---

    def _generate(self, command: Generate | Prepare, received_at: float) -> None:
        encoder = self._encoder
        request_id = command.request_id
        self._at_tokenizer[request_id] = command
        if encoder is None:
            self._add(Encoded(command, None, no_model()))
            return

        def encode_prompt() -> None:
            prompt, failure = None, None
            try:
                prompt = prompt_of(encoder, command, received_at)
            except Exception as error:
                failure = shown(error)
            self._inbox.put((received_at, Encoded(command, prompt, failure)))
            if isinstance(command, Generate):
                self._make_way()

        self._tokenizer.submit(encode_prompt)

    def _forget_at_tokenizer(self, command: CacheCommand) -> None:
        for request_id, item in self._at_tokenizer.items():
            if forgets(command, item.chat_id):
                self._at_tokenizer[request_id] = msgspec.structs.replace(item, is_private=True)
                if isinstance(item, Prepare):
                    self.submit(Abort(request_id=request_id))

    def _add(self, item: Encoded) -> None:
        request_id, engine = item.command.request_id, self._engine
        if request_id not in self._at_tokenizer:
            return  # it failed, and was taken off the books, when its model was unloaded
        command = self._at_tokenizer.pop(request_id)
        if item.prompt is None or engine is None:
            self._emit(Failed(request_id=request_id, error=(item.error or no_model()).info()))
        elif isinstance(item.prompt, Preparation):
            prompt = item.prompt.prompt._replace(is_private=command.is_private)
            self._send_all(engine.idle.preparations.add(item.prompt._replace(prompt=prompt)))
        elif isinstance(command, Generate):
            prompt = item.prompt._replace(is_private=command.is_private)
            draft = engine.speculator.model_keys
            stored = self._kept.responses.answer(command, prompt, engine.backend, draft=draft)
            self._send_all(stored or engine.add(prompt))
        with self._lock:
            self._pending.discard(request_id)
            was_aborted = request_id in self._aborted
            self._aborted.discard(request_id)
        if was_aborted and engine is not None:
            engine.request_abort(request_id)

    def _described(self, command: DescribeEngine) -> EngineDescribed:
        return EngineDescribed(request_id=command.request_id, description=self._get_loader().describe())

    def _measure(self, command: MeasureCacheTypes | MeasureMachine | RunBareLoop | BuildImportance) -> None:
        event = event_of(command.request_id, lambda: self._measured(command))
        with self._lock:
            self._pending.discard(command.request_id)
            self._aborted.discard(command.request_id)
        self._emit(event)

    def _measured(self, command: MeasureCacheTypes | MeasureMachine | RunBareLoop | BuildImportance) -> Event:
        engine = self._engine
        if engine is not None:
            engine.drop_read_ahead()
        self._drafts.finish()  # it would be measured as well, and reads the same log
        if engine is not None and (engine.has_requests or self._at_tokenizer):
            raise EngineUnavailable("The engine is computing a reply.", "Measure again when it is done.")
        with self._lock:
            if engine is not None and not self._is_ending:
                engine.backend.clear_abort()  # one that came too late for its request is still raised
        backend = engine.backend if engine else None
        if isinstance(command, BuildImportance):
            return self._build_importance(command, backend)
        return measure(command, self._get_loader(), backend)

    def _build_importance(self, command: BuildImportance, backend: Backend | None) -> Event:
        request_id = command.request_id

        def on_chunk(num_done: int, num_chunks: int) -> bool:
            self._emit(ImportanceProgress(request_id=request_id, num_chunks_done=num_done, num_chunks=num_chunks))
            return not (self._is_ending or request_id in self._aborted)

        with self._lock:
            self._building = request_id
        try:
            return build_importance(command, self._get_loader(), backend, self._tokenizer.run, on_chunk)
        finally:
            with self._lock:
                self._building = None
                if backend is not None and not self._is_ending:
                    backend.clear_abort()

    def _answer(self, command: CountTokens | RenderPrompt) -> None:
        """Compute an answer on the tokeniser thread and send it, or the failure."""
        encoder = self._encoder
        request_id = command.request_id

        def compute() -> Event:
            return counted(encoder, command) if isinstance(command, CountTokens) else rendered(encoder, command)

        self._tokenizer.submit(lambda: self._emit(event_of(request_id, compute)))

    def _send_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self._kept.responses.note(event)
            self._emit(event)
