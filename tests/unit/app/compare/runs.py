"""Runs of a comparison on engines without a model, for tests."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from app.compare.events import RunEvent
from app.compare.plan import fair_sampling, new_comparison
from app.compare.results import Column, Comparison, Mode, PromptItem
from app.compare.run_folder import begin_run, resume_run
from app.compare.runner import CompareRun, FindLack, Services
from app.paths import Paths, find_paths
from app.settings import Settings
from engine import (
    ChatMessage,
    Command,
    EngineClient,
    Event,
    Finished,
    Generate,
    InprocClient,
    LoadModel,
    ModelParams,
    Role,
    SetThreads,
)
from tests.unit.app.cli.scripted_client import ScriptedClient

MAX_TOKENS = 40


def column(path: str = "fake:n_words=4", **changes: Any) -> Column:
    """Return a column of the engine without a model."""
    usual = Column(
        id="",
        label=path,
        path=path,
        params=ModelParams(n_ctx=2048, n_seq_max=4),
        sampling=fair_sampling(MAX_TOKENS),
        vocabulary_hash="v",
        values={"file_bytes": 1000.0},
    )
    return msgspec.structs.replace(usual, **changes)


def prompts(count: int = 2) -> tuple[PromptItem, ...]:
    """Return some prompts."""
    return tuple(
        PromptItem(id=f"p{number}", messages=(ChatMessage(Role.USER, f"Tell me about number {number}."),))
        for number in range(1, count + 1)
    )


def plan(*columns: Column, num_prompts: int = 2, repeats: int = 1, mode: Mode = Mode.FAIR) -> Comparison:
    """Return a plan."""
    return new_comparison(columns, prompts(num_prompts), mode=mode, repeats=repeats)


def paths_in(folder: Path) -> Paths:
    """Return a data folder that is there."""
    found = find_paths(str(folder / "data"))
    found.create()
    return found


class Told:
    """Hears a run, and acts at the given events."""

    def __init__(self, act: Callable[[RunEvent], None] = lambda event: None) -> None:
        self.events: list[RunEvent] = []
        self._act = act

    def __call__(self, event: RunEvent) -> None:
        """Take an event."""
        self.events.append(event)
        self._act(event)

    def of(self, kind: type[Any]) -> list[Any]:
        """Return what came of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


class EchoClient(ScriptedClient):
    """Answers at once with what it was asked, its model in front."""

    def __init__(self) -> None:
        super().__init__()
        self._path = ""

    def _answer(self, command: Command) -> Iterable[Event]:
        return () if isinstance(command, SetThreads) else super()._answer(command)

    def _answer_load(self, command: LoadModel) -> Iterable[Event]:
        self._path = command.path
        return super()._answer_load(command)

    def _answer_generate(self, command: Generate) -> Iterable[Event]:
        words = " ".join((self._path, *(message.content for message in command.messages)))
        self._replies.append(words)
        for event in super()._answer_generate(command):
            if isinstance(event, Finished):
                metrics = msgspec.structs.replace(
                    event.metrics, num_prompt_tokens=len(words), peak_memory_bytes=1 << 20
                )
                event = msgspec.structs.replace(event, metrics=metrics)
            yield event


def fake_client() -> EngineClient:
    """Return an engine without a model, as slow to start as a real one."""
    return InprocClient(fake=True)


def begin(
    comparison: Comparison,
    folder: Path,
    told: Told | None = None,
    *,
    clients: Iterable[EngineClient] | None = None,
    settings: Settings | None = None,
    find_lack: FindLack = lambda columns: {},
) -> CompareRun:
    """Return a run that can be started.

    Args:
        clients: handed out in turn instead of those that answer at once.
    """
    make_client = EchoClient if clients is None else functools.partial(next, iter(clients))
    services = Services(make_client, settings or Settings(), told or Told(), find_lack)
    return begin_run(comparison, paths_in(folder), services)[0]


def resume(name: str, folder: Path, told: Told | None = None) -> CompareRun:
    """Return an interrupted run that can be gone on with."""
    return resume_run(name, paths_in(folder), Services(EchoClient, Settings(), told or Told()))[0]


def finish(run: CompareRun) -> Comparison:
    """Run to the end, close, and return the record."""
    try:
        assert run.run()
    finally:
        run.close()
    return run.comparison()


def fake_clients() -> Iterator[EngineClient]:
    """Yield engines without a model."""
    while True:
        yield fake_client()


def places(comparison: Comparison) -> list[tuple[str, str, int]]:
    """Return where the replies stand, in the order they were made."""
    return [(cell.column, cell.prompt, cell.repeat) for cell in comparison.cells]


def all_places(columns: Sequence[str], num_prompts: int, repeats: int) -> set[tuple[str, str, int]]:
    """Return where replies have to stand in the end."""
    ids = [f"p{number}" for number in range(1, num_prompts + 1)]
    return set(itertools.product(columns, ids, range(repeats)))
