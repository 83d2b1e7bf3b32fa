"""What a front end may have measured between requests: cache types, the machine, and the bare loop beside our own."""

from typing import assert_never

from engine.backend import Backend, Loader
from engine.errors import EngineError, EngineUnavailable, InvalidParams
from engine.messages import (
    BareLoopRun,
    CacheTypesMeasured,
    MachineMeasured,
    MeasureCacheTypes,
    MeasureMachine,
    RunBareLoop,
)

Measured = CacheTypesMeasured | MachineMeasured | BareLoopRun


def measure(
    command: MeasureCacheTypes | MeasureMachine | RunBareLoop, loader: Loader, backend: Backend | None
) -> Measured:
    """Return the answer to a command; nothing else may be computing.

    Raises:
        EngineError: there is no model, or it could not be measured.
    """
    match command:
        case MeasureCacheTypes():
            return CacheTypesMeasured(request_id=command.request_id, rows=loader.measure_cache_types(_needed(backend)))
        case MeasureMachine():
            n_threads = backend.description.n_threads if backend else 0
            return MachineMeasured(request_id=command.request_id, speed=loader.measure_machine(n_threads))
        case RunBareLoop():
            if min(command.num_prompt_tokens, command.num_tokens, command.num_sequences) < 1:
                raise InvalidParams("A bare loop needs at least one token and one sequence.")
            return loader.run_bare_loop(_needed(backend), command)
        case _:
            assert_never(command)


def no_model() -> EngineError:
    """Return the error of a command that needs a model where there is none."""
    return EngineUnavailable("No model is loaded.", "Load a model first.")


def _needed(backend: Backend | None) -> Backend:
    if backend is None:
        raise no_model()
    return backend
