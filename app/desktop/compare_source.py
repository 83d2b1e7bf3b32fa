"""CompareSource: what the Compare page asks of files and engines; every call takes time and runs beside the window."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from app.compare.again import plan_again
from app.compare.column_words import told_settings
from app.compare.plan import (
    column_of,
    context_for,
    failed_column,
    fair_sampling,
    new_comparison,
)
from app.compare.prompt_sets import PromptSet, bundled_prompts, prompts_of_chats, read_prompts, short_prompts
from app.compare.results import Column, Comparison, Mode, PromptItem
from app.compare.room_check import RoomCheck
from app.compare.run_folder import begin_run, keep, list_runs, resume_run
from app.compare.runner import CompareRun, OnRunEvent, Services
from app.desktop.session.compare_setup import (
    CHATS,
    SHORT,
    TYPED,
    WHOLE,
    ColumnSetup,
    CompareSetup,
    Interrupted,
    ModelOption,
    PastChat,
)
from app.errors import AppError, UsageError
from app.model_choice import choose_model
from app.model_library import open_library
from app.paths import Paths
from app.settings import Settings
from engine import Adapter, ChatMessage, EngineClient, ModelParams, Role, SamplingParams
from models import STARTER_LABEL, STARTER_NAME, ModelKind, ModelsError, find_starter

_TURNS = 4  # for which the context has room, so that the chats can be gone on with


class CompareSource:
    """The files and engines of this user.

    Args:
        settings: tells those that hold now.
        make_client: returns an engine that is not started.
        is_fake: whether engines need no file.
    """

    def __init__(
        self,
        paths: Paths,
        settings: Callable[[], Settings],
        make_client: Callable[[], EngineClient],
        *,
        is_fake: bool = False,
    ) -> None:
        self._paths = paths
        self._settings = settings
        self._make_client = make_client
        self._is_fake = is_fake

    def models(self) -> tuple[ModelOption, ...]:
        """Return the models that can chat, the starter first."""
        library = open_library(self._paths)
        entries = library.entries() or library.scan().entries
        found: dict[str, ModelOption] = {}
        starter = find_starter()
        if starter is not None:
            found[str(starter)] = ModelOption(STARTER_NAME, STARTER_LABEL, starter.stat().st_size)
        for entry in sorted(entries, key=lambda entry: (entry.group_title.lower(), -entry.file_bytes)):
            if entry.kind in (ModelKind.TEXT, None) and entry.problem is None and entry.paths:
                path = str(entry.path)
                found.setdefault(path, ModelOption(path, entry.title, entry.file_bytes, entry.group_key))
        return tuple(found.values())

    def interrupted(self) -> Interrupted | None:
        """Return the latest run that did not come to its end."""
        found = next((run for run in list_runs(self._paths) if not run.is_ended), None)
        return Interrupted(found.id, found.created_at, found.num_done, found.num_total) if found else None

    def plan(self, setup: CompareSetup, chats: Sequence[PastChat] = ()) -> Comparison:
        """Return what is to be done.

        Args:
            chats: what was said in the chats that are chosen.

        Raises:
            UsageError: there is nothing to compare, or too much of it.
        """
        name, prompts = _prompts(setup, chats)
        is_samples = setup.mode is Mode.SAMPLES
        at_once = setup.repeats if is_samples else 1
        turns = _TURNS if len(prompts) == 1 else 1
        n_ctx = context_for(prompts, setup.max_tokens, num_turns=turns, num_at_once=at_once)
        columns = [self._column(column, setup, n_ctx, at_once) for column in setup.columns]
        return new_comparison(
            columns,
            prompts,
            mode=setup.mode,
            repeats=setup.repeats,
            prompts_name=name,
            watts=self._settings().power_watts,
        )

    def plan_again(self, record: Comparison) -> Comparison:
        """Return the plan of a comparison once more, with the files as they are now.

        Raises:
            UsageError: the record holds nothing to compare.
        """
        return plan_again(record, self._settings(), self._paths, is_fake=self._is_fake)

    def begin(self, plan: Comparison, on_event: OnRunEvent) -> tuple[CompareRun, str | None]:
        """Return a new run, and a sentence where it cannot be saved as it goes."""
        return begin_run(plan, self._paths, self._services(on_event))

    def resume(self, run_id: str, on_event: OnRunEvent) -> tuple[CompareRun, str | None]:
        """Return a run that was interrupted, and a sentence where something of it is lost.

        Raises:
            AppError: it cannot be gone on with.
        """
        return resume_run(run_id, self._paths, self._services(on_event))

    def keep(self, comparison: Comparison) -> str | None:
        """Keep a comparison with the chats, and return a sentence where that cannot be."""
        return keep(comparison, self._paths)

    def _services(self, on_event: OnRunEvent) -> Services:
        return Services(self._make_client, self._settings(), on_event, RoomCheck(self._paths, self._make_client))

    def _column(self, column: ColumnSetup, setup: CompareSetup, n_ctx: int, at_once: int) -> Column:
        usual = ModelParams(n_ctx=n_ctx, n_seq_max=at_once)
        params = msgspec.structs.replace(usual, type_k=column.cache, type_v=column.cache, n_threads=column.n_threads)
        is_samples = setup.mode is Mode.SAMPLES
        greedy = sampling = fair_sampling(setup.max_tokens)
        if is_samples or column.temperature:
            sampling = SamplingParams(
                temperature=column.temperature, seed=0, max_tokens=setup.max_tokens, reproducible=not is_samples
            )
        adapters = (Adapter(path=column.adapter, scale=column.scale),) if column.adapter else ()
        told = told_settings(params, sampling, adapters, usual=(usual, sampling if is_samples else greedy))
        if self._is_fake:
            return Column(
                id="",
                label=f"{column.model}{told}",
                path=column.model,
                params=params,
                sampling=sampling,
                adapters=adapters,
            )
        try:
            chosen = choose_model(column.model, self._settings(), self._paths)
            made = column_of(chosen, params=params, sampling=sampling, adapters=adapters)
        except (AppError, ModelsError) as error:
            made = failed_column(column.model, error, params=params, sampling=sampling, adapters=adapters)
        return msgspec.structs.replace(made, label=f"{made.label}{told}")


def _prompts(setup: CompareSetup, chats: Sequence[PastChat]) -> PromptSet:
    if setup.prompts == TYPED:
        if not setup.text.strip():
            raise UsageError("The prompt is empty.", "Write what the models are to be asked.")
        return PromptSet("one prompt", (PromptItem(id="1", messages=(ChatMessage(Role.USER, setup.text),)),))
    if setup.prompts == CHATS:
        found = prompts_of_chats("past chats", list(chats))
        if not found.prompts:
            raise UsageError(
                "No message of yours is in the chosen chats.", "Choose chats in which you asked something."
            )
        return found
    if setup.prompts in (SHORT, WHOLE):
        return short_prompts() if setup.prompts == SHORT else bundled_prompts()
    return read_prompts(Path(setup.prompts))
