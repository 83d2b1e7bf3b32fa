"""Loading a draft model beside the model it drafts for, on a thread of its own: replies go on meanwhile.

A load touches nothing of the model it is for but what was described of it. Other loads and measurements, which read
llama.cpp's one log as it does, have to wait: see `finish`.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.backend import Loader, Vocabulary, new_loader
from engine.core import Engine
from engine.errors import DraftMismatch
from engine.failures import shown
from engine.measuring import no_model
from engine.messages import DraftDescription, DraftSet, Event, Failed, LoadCancelled, ModelDescription, SetDraft
from engine.speculative.draft_model import ModelDrafter, check_vocabulary
from engine.speculative.speculator import Speculator

_CALIBRATION_S = 1.0  # part of what setting a draft model takes; the rest is done while nothing is asked


class DraftLoad:
    """One load, and what came of it.

    Attributes:
        is_wanted: until it is given up.
        drafter, description: None where there is none.
        error: why there is none; None where it was given up.
    """

    def __init__(self, command: SetDraft) -> None:
        self.command = command
        self.is_wanted = True
        self.drafter: ModelDrafter | None = None
        self.description: DraftDescription | None = None
        self.error: Exception | None = None

    def close(self) -> None:
        """Free what was loaded."""
        if self.drafter is not None:
            self.drafter.close()
            self.drafter = None


class DraftLoading:
    """Obeys SetDraft for one worker: loads one draft model at a time, the latest that was asked for.

    Args:
        emit: takes the answers, one for each SetDraft.
        fake: load for the backend without weights.
        on_done: takes a load that ended, on its thread, also one that was given up meanwhile; it is to come to `take`.
    """

    def __init__(self, emit: Callable[[Event], None], *, fake: bool, on_done: Callable[[DraftLoad], None]) -> None:
        self._emit = emit
        self._fake = fake
        self._on_done = on_done
        self._loader: Loader | None = None  # not the target's: what that measures is what it loaded last
        self._thread: threading.Thread | None = None
        self._current: DraftLoad | None = None
        self._speculator: Speculator | None = None  # that it is for

    def set(self, command: SetDraft, engine: Engine | None) -> None:
        """Begin to load what a command names, in place of what is being loaded or there."""
        self.give_up()
        try:
            if engine is None:
                raise no_model()
            engine.speculator.set_model(None)  # before the next one: there may not be memory for both
            if command.path is None:
                self._emit(DraftSet(request_id=command.request_id, draft=None))
                return
            engine.speculator.check()
        except Exception as error:
            self._emit(Failed(request_id=command.request_id, error=shown(error).info()))
            return
        self._speculator, load = engine.speculator, DraftLoad(command)
        self._speculator.awaits_model, self._current = True, load
        described, vocabulary = engine.backend.description, engine.backend.vocabulary
        arguments = (load, described, vocabulary, self._thread)
        self._thread = threading.Thread(target=self._run, args=arguments, name="engine-draft-loader", daemon=True)
        self._thread.start()

    def give_up(self, request_id: str | None = None) -> None:
        """Give up the load that is going on, or only that of a request."""
        load = self._current
        if load is not None and request_id in (None, load.command.request_id):
            load.is_wanted = False
            self._end()
            self._emit(LoadCancelled(request_id=load.command.request_id))

    def take(self, load: DraftLoad, engine: Engine | None, *, is_idle: bool) -> None:
        """Let a draft model that was loaded draft.

        Args:
            is_idle: whether nothing was asked that the engine does not know yet; then there is time to measure.
        """
        if not load.is_wanted or engine is None:
            load.close()  # it was answered when it was given up
            return
        self._end()
        if load.error is not None:
            self._emit(Failed(request_id=load.command.request_id, error=shown(load.error).info()))
            return
        is_idle = is_idle and not engine.has_requests
        engine.speculator.set_model(load.drafter, is_idle=is_idle)
        engine.speculator.calibration.want()
        if is_idle:
            engine.speculator.calibration.run(_CALIBRATION_S)
        self._emit(DraftSet(request_id=load.command.request_id, draft=load.description))

    def finish(self) -> None:
        """Wait until nothing is being loaded."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _end(self) -> None:
        if self._speculator is not None:
            self._speculator.awaits_model = False
        self._current = self._speculator = None

    def _run(
        self, load: DraftLoad, target: ModelDescription, vocabulary: Vocabulary, before: threading.Thread | None
    ) -> None:
        if before is not None:
            before.join()
        try:
            if load.is_wanted:
                self._loader = self._loader or new_loader(fake=self._fake)
                _load(self._loader, target, vocabulary, load)
        except Exception as error:
            load.error = error
        self._on_done(load)


def _load(loader: Loader, target: ModelDescription, vocabulary: Vocabulary, load: DraftLoad) -> None:
    """Load the draft model that a command names.

    Raises:
        SpeculativeError: it cannot draft for this model.
        ModelLoadError: it cannot be loaded.
    """
    command = load.command
    assert command.path is not None
    began = time.perf_counter()
    params = msgspec.structs.replace(
        command.params, n_ctx=target.n_ctx, n_seq_max=target.n_seq_max, n_batch=target.n_batch
    )
    backend = loader.load(command.path, params, lambda share: load.is_wanted)
    if backend is None:
        return
    try:
        if backend.description.n_ctx < target.n_ctx:
            raise DraftMismatch(
                f"{Path(command.path).name} has too little room for a draft beside this model.",
                "Load the model with a smaller context.",
            )
        check_vocabulary(vocabulary, backend.vocabulary)
        drafter = ModelDrafter(backend, vocabulary_size=len(vocabulary.pieces), n_threads=command.params.n_threads)
    except Exception:
        backend.close()
        raise
    loaded = backend.description
    load.drafter = drafter
    load.description = DraftDescription(
        path=command.path,
        name=loaded.name,
        type_name=loaded.type_name,
        device=loaded.device,
        weight_bytes=loaded.weight_bytes,
        total_bytes=loaded.weight_bytes + loaded.cache_bytes + loaded.compute_bytes,
        load_s=time.perf_counter() - began,
    )
