"""Drafting in the terminal: what `--draft` and `/draft` ask for, the draft model they name, and its figures."""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.cli.arguments import whole_number
from app.cli.outcome import print_event
from app.cli.session import ChatSession
from app.cli.terminal_text import safe_text, wrapped
from app.draft_models import DraftCheck, check_draft, open_draft_files, suggestion_text
from app.errors import ModelFileMissing, UsageError
from app.model_choice import model_path
from app.paths import Paths
from app.room import room_of
from app.settings import Settings
from app.speculation import MAX_GPU_LAYERS, DraftChoice, draft_choice, draft_params
from engine import (
    MAX_DRAFT,
    DraftDescription,
    DraftMode,
    DraftState,
    EngineError,
    EngineUnavailable,
    ModelParams,
    SpeculativeStats,
)

_WORDS = {
    "none": DraftMode.OFF,
    "off": DraftMode.OFF,
    "auto": DraftMode.AUTO,
    "ngram": DraftMode.NGRAM,
    "both": DraftMode.BOTH,
}
_REPRODUCIBLE = "A reproducible reply is not drafted: how much is drafted depends on the time."
_GIVEN_UP = "Loading the draft model was given up."
_EXAMPLE = "Write --draft MODEL, one of ngram, both, auto and none, or both as in `--draft both --draft MODEL`."


def add_draft_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the flags of drafting."""
    group.add_argument(
        "--draft",
        metavar="MODEL|ngram|both|auto|none",
        action="append",
        default=[],
        help="what guesses tokens ahead: a smaller model with the same vocabulary (a .gguf file or a name), the chat's "
        "own text (ngram), both, whatever there is (auto), or nothing; `both` and `auto` take the draft model that the "
        "window remembers for the model, or that of a second --draft; default: as set in the window, else auto",
    )
    group.add_argument(
        "--draft-max", metavar="N", type=whole_number, help=f"most tokens drafted at a time, 1 to {MAX_DRAFT}"
    )
    add_draft_layers_argument(group)
    group.add_argument(
        "--strict",
        action="store_true",
        help="keep the text at temperature 0 equal to that of plain decoding, to the token; slower",
    )


def add_draft_layers_argument(group: argparse._ActionsContainer) -> None:
    """Add the flag that says where a draft model is computed."""
    group.add_argument(
        "--draft-gpu-layers",
        metavar="N",
        type=whole_number,
        help="layers of the draft model computed on the graphics processor where there is one; 0 keeps it on the "
        "processor; default: where its model is",
    )


def with_layers(choice: DraftChoice, layers: int | None) -> DraftChoice:
    """Return a choice with the layers of the draft model that a person asked for; None asks for none.

    Raises:
        UsageError: that many are not possible.
    """
    if layers is None:
        return choice
    if not 0 <= layers <= MAX_GPU_LAYERS:
        raise UsageError(f"--draft-gpu-layers {layers} is not possible.", f"It goes from 0 to {MAX_GPU_LAYERS:,}.")
    return dataclasses.replace(choice, n_gpu_layers=layers)


def chosen_drafting(options: argparse.Namespace, settings: Settings, model: str, paths: Paths | None) -> DraftChoice:
    """Return what the flags ask for, over what the settings hold for a model.

    Raises:
        AppError: the flags contradict each other, or name no file.
    """
    choice = with_words(draft_choice(settings, model), options.draft, paths)
    if options.draft_max is not None:
        if not 1 <= options.draft_max <= MAX_DRAFT:
            raise UsageError(f"--draft-max {options.draft_max} is not possible.", f"It goes from 1 to {MAX_DRAFT}.")
        choice = dataclasses.replace(choice, draft_max=options.draft_max)
    choice = with_layers(choice, options.draft_gpu_layers)
    return dataclasses.replace(choice, strict=True) if options.strict else choice


def with_words(choice: DraftChoice, words: Sequence[str], paths: Paths | None) -> DraftChoice:
    """Return a choice with what a person wrote: the name of a mode, of a draft model, or one of each.

    Raises:
        AppError: there are two of a kind, or there is no such file.
    """
    modes = [_WORDS[word] for word in words if word in _WORDS]
    models = [word for word in words if word not in _WORDS]
    if len(modes) > 1 or len(models) > 1:
        raise UsageError("--draft says two things.", _EXAMPLE)
    if models:
        choice = dataclasses.replace(choice, mode=DraftMode.MODEL, path=_draft_path(models[0], paths))
    if modes:
        choice = dataclasses.replace(choice, mode=modes[0])
    if choice.mode in (DraftMode.MODEL, DraftMode.BOTH) and not choice.path and words:
        raise UsageError("There is no draft model for this model.", _EXAMPLE)
    return choice


def _draft_path(text: str, paths: Paths | None) -> str:
    if not text or paths is None:
        raise UsageError("--draft names no model.", _EXAMPLE)
    hint = f"Give the path of a .gguf file, a name from the library, or one of {', '.join(_WORDS)}."
    try:
        path = model_path(text, paths)
    except ModelFileMissing as error:
        raise UsageError(error.message, hint) from error
    try:
        is_there = path.exists()
    except OSError:  # a name too long
        is_there = False
    if not is_there:
        raise UsageError(f"There is no draft model {text}.", hint)
    return str(path)


class DraftOutcome(NamedTuple):
    """What became of the draft model that was wanted.

    Attributes:
        draft: None where it is not used.
        reason, hint: why not, and what to do.
        notes: what else there is to know of it.
    """

    path: str
    draft: DraftDescription | None
    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()


def load_draft(
    session: ChatSession, target: str, choice: DraftChoice, params: ModelParams, *, is_reproducible: bool = False
) -> DraftOutcome | None:
    """Load the draft model that is wanted, and return what became of it; None where none is wanted.

    One that cannot be used is no error: replies go on without it.

    Args:
        target: path of the loaded model.
        params: how that was loaded.
        is_reproducible: whether all replies are, which nothing drafts for.

    Raises:
        EngineUnavailable: the engine died of it.
        KeyboardInterrupt: it was given up.
    """
    path = choice.wanted_path
    if path is None:
        return None
    if is_reproducible:
        return DraftOutcome(path, None, _REPRODUCIBLE, "Leave --reproducible out to use it.")
    has_file = Path(target).is_file()  # the fake engine has none
    check = DraftCheck()
    if has_file:
        room = room_of(session.engine, read_bandwidth={})
        check = check_draft(
            *(Path(target), Path(path)),
            params=params,
            room=room,
            n_gpu_layers=choice.n_gpu_layers,
            loaded=session.model,
        )
    if check.reason:
        return DraftOutcome(path, None, check.reason, check.hint)
    try:
        return DraftOutcome(path, session.set_draft(path, draft_params(params, choice.n_gpu_layers)), notes=check.notes)
    except EngineUnavailable:
        raise
    except EngineError as error:
        return DraftOutcome(path, None, error.message, error.hint)


def change_draft(
    session: ChatSession, target: str, choice: DraftChoice, params: ModelParams, *, has_one: bool
) -> DraftOutcome | None:
    """Load the draft model that is wanted, as `load_draft`, or free the one that is there.

    One whose load is given up is not used either, and the chat goes on.
    """
    try:
        outcome = load_draft(session, target, choice, params)
        if has_one and (outcome is None or outcome.draft is None):
            session.set_draft(None, params)
    except KeyboardInterrupt:
        path = choice.wanted_path
        return None if path is None else DraftOutcome(path, None, _GIVEN_UP, "`/draft NAME` loads it again.")
    return outcome


def show_refused(outcome: DraftOutcome) -> None:
    """Say on standard error why a draft model is not used, where it is not."""
    if outcome.draft is None:
        print(safe_text(f"fireside: {outcome.reason}"), file=sys.stderr)
        print(safe_text(f"Replies go on without it. {outcome.hint}".rstrip()), file=sys.stderr)


def print_draft_event(outcome: DraftOutcome) -> None:
    """Print what became of a draft model as a line of JSON."""
    known = {"path": outcome.path} if outcome.draft is None else msgspec.to_builtins(outcome.draft)
    why = {"reason": outcome.reason, "hint": outcome.hint} if outcome.draft is None else {}
    print_event("draft", is_used=outcome.draft is not None, **known, **why)


def draft_sentences(outcome: DraftOutcome) -> list[str]:
    """Return what the interactive chat says of a draft model that is used."""
    draft = outcome.draft
    if draft is None:
        return []
    name = draft.name or Path(draft.path).stem
    return [f"{name} drafts ({draft.type_name}, {_mib(draft.total_bytes)}).", *outcome.notes]


def obey_draft(argument: str, choice: DraftChoice, target: str, paths: Paths, *, params: ModelParams) -> DraftChoice:
    """List what can draft, or choose otherwise; return the choice as it is from now on.

    Args:
        argument: empty to list; else a mode, a draft model, or both in this order.
        target: path of the model.
        params: how that is loaded.

    Raises:
        AppError, ModelsError: there is no such file.
    """
    if not argument:
        _print_list(choice, target, paths, params)
        return choice
    first, _, rest = argument.partition(" ")
    words = [first, rest.strip()] if first in _WORDS and rest.strip() else [argument]
    choice = with_words(choice, [word.strip("'\"") for word in words], paths)
    print(f"  {_mode_text(choice)}")
    return choice


def _mode_text(choice: DraftChoice) -> str:
    name = safe_text(Path(choice.path).stem) if choice.path else "no draft model"
    return {
        DraftMode.OFF: "Nothing is drafted.",
        DraftMode.AUTO: f"auto: from the chat's own text{f', and by {name}' if choice.path else ''}",
        DraftMode.NGRAM: "ngram: from the chat's own text",
        DraftMode.MODEL: f"by {name}",
        DraftMode.BOTH: f"both: from the chat's own text, and by {name}",
    }[choice.mode]


def _print_list(choice: DraftChoice, target: str, paths: Paths, params: ModelParams) -> None:
    print(f"  {_mode_text(choice)}")
    if not Path(target).is_file():  # the fake engine has none
        return
    found = open_draft_files(paths).find(Path(target), params=params, n_gpu_layers=choice.n_gpu_layers)
    for sentence in (found.reason, *found.notes):
        if sentence:
            print(wrapped(safe_text(sentence)))
    for candidate in found.candidates:
        mark = "*" if str(candidate.path) == choice.path else " "
        note = candidate.check.reason or f"takes {_mib(candidate.check.memory_bytes)}"
        print(wrapped(safe_text(f"  {mark} {candidate.name}  {note}"), indent=" " * 8))
    if found.suggestion is not None:
        print(wrapped(safe_text(suggestion_text(found.suggestion))))
    if not found.candidates:
        print("There is no other model in the library; `/draft PATH` uses another file.")


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 20):,.0f} MiB"


def drafting_line(stats: SpeculativeStats | None, *, is_asked: bool) -> str:
    """Return what drafting did for a reply; empty where that is not worth a line.

    Args:
        is_asked: whether a person asked for it, who is to know why there was none.
    """
    if stats is None:
        return ""
    if stats.state is DraftState.SLOWER:
        return slower_text(stats)
    if stats.state is DraftState.UNAVAILABLE:
        return f"no drafting: {stats.reason}" if is_asked else ""
    rate, length = stats.acceptance_rate, stats.mean_acceptance_length
    if rate is None or length is None:
        return "nothing was drafted" if is_asked and stats.state is not DraftState.OFF else ""
    accepted = f"{stats.num_accepted_tokens:,} of {stats.num_drafted_tokens:,} accepted ({rate:.0%})".replace("%", " %")
    speed = "" if stats.net_speedup is None else f", {stats.net_speedup:.2g}x plain"
    return f"drafts: {accepted}, {length:.1f} tokens a step{speed}"


def slower_text(stats: SpeculativeStats) -> str:
    """Say that drafting was given up, and by how much it lost where that is known."""
    speedup = stats.net_speedup if stats.drafting_speedup is None else stats.drafting_speedup
    lost = 0 if speedup is None else round((1 - speedup) * 100)
    return f"drafting off: it was {f'{lost} % ' if lost > 0 else ''}slower on this chat"
