"""`fireside models drafts`: which files can draft for a model, and the one reason why each of the others cannot."""

import argparse
from typing import Any

from app.cli.arguments import whole_number
from app.cli.model_texts import size_text
from app.cli.outcome import ExitCode, print_event
from app.cli.terminal_text import safe_text, wrapped
from app.draft_models import DraftCandidate, FoundDrafts, find_drafts, share_text, suggestion_text
from app.memory_record import MemoryRecord
from app.model_choice import ModelChoice, choose_model
from app.model_library import open_library
from app.paths import Paths
from app.room import room_of
from app.settings import SettingsStore
from engine import ModelParams, param_infos

_MAX_NAME = 60
_NONE_LIKELY = "None is suggested: none is expected to write faster than the model alone by more than a tenth."


def add_drafts_parser(subparsers: Any) -> None:
    """Add `drafts` to the subcommands of `fireside models`."""
    parser = subparsers.add_parser("drafts", help="which models can draft for a model", description=__doc__)
    parser.add_argument("name", metavar="TARGET", nargs="?", help="path of a .gguf file, a library name, or `starter`")
    infos = param_infos(ModelParams)
    parser.add_argument("--ctx", metavar="N", type=whole_number, default=0, help=infos["n_ctx"].help)
    parser.add_argument("--slots", metavar="N", type=whole_number, default=None, help=infos["n_seq_max"].help)
    parser.add_argument("--json", action="store_true", help="print JSON Lines")


def run_drafts(options: argparse.Namespace, paths: Paths) -> ExitCode:
    """Print all files as drafts for a model, each as usable or with the reason why it is not.

    Raises:
        AppError, ModelsError, EngineError: there is no such model, or a setting is not legal.
    """
    settings = SettingsStore(paths.settings_file).load()[0]
    choice = choose_model(options.name or options.model, settings, paths)
    slots = {"n_seq_max": options.slots} if options.slots is not None else {}
    params = ModelParams(n_ctx=options.ctx, **slots)
    room = room_of(
        None, read_bandwidth=settings.read_bandwidth, offset_bytes=MemoryRecord.in_paths(paths).offset_bytes()
    )
    found = find_drafts(choice.path, open_library(paths).scan().entries, params=params, room=room)
    if options.json:
        _print_events(choice, found)
    else:
        _print(choice, found)
    return ExitCode.DONE


def _print_events(choice: ModelChoice, found: FoundDrafts) -> None:
    for candidate in found.candidates:
        print_event("draft", **_fields(candidate))
    suggested = found.suggestion
    print_event(
        "drafts",
        model=str(choice.path),
        reason=found.reason,
        hint=found.hint,
        notes=found.notes,
        num_files=len(found.candidates),
        num_usable=0 if found.reason else sum(candidate.check.is_usable for candidate in found.candidates),
        suggestion=None if suggested is None else _fields(suggested) | {"text": suggestion_text(suggested)},
    )


def _fields(candidate: DraftCandidate) -> dict[str, Any]:
    check = candidate.check
    return {
        "path": str(candidate.path),
        "name": candidate.name,
        "title": candidate.title,
        "file_bytes": candidate.file_bytes,
        "is_usable": check.is_usable,
        "reason": check.reason,
        "hint": check.hint,
        "notes": check.notes,
        "kinship": check.kinship.name.lower() if check.kinship is not None else None,
        "memory_bytes": check.memory_bytes,
        "needed_bytes": check.fit.needed_bytes if check.fit is not None else None,
        "verdict": check.fit.verdict.value if check.fit is not None else None,
        "cost_ratio": check.cost_ratio,
        "expected_speed_up": check.gain.speed_up if check.gain is not None else None,
    }


def _print(choice: ModelChoice, found: FoundDrafts) -> None:
    print(f"Drafts for {safe_text(choice.label)}")
    for text in (f"{found.reason} {found.hint}".strip(), *found.notes):
        if text:
            _print_wrapped(text)
    usable = [candidate for candidate in found.candidates if candidate.check.is_usable and not found.reason]
    width = min(max((len(candidate.name) for candidate in usable), default=0), _MAX_NAME)
    print("Can draft" if usable else "No model here can draft for it.")
    for candidate in usable:
        _print_wrapped(_row(candidate, width))
        for note in candidate.check.notes:
            _print_wrapped(f"  {note}")
    if usable:
        print(wrapped(safe_text(suggestion_text(found.suggestion) if found.suggestion else _NONE_LIKELY)))
    others = [candidate for candidate in found.candidates if not candidate.check.is_usable]
    if others:
        print("Cannot draft")
    for candidate in others:
        _print_wrapped(f"{candidate.name}: {candidate.check.reason} {candidate.check.hint}".strip())


def _row(candidate: DraftCandidate, width: int) -> str:
    check = candidate.check
    sizes = f"{size_text(candidate.file_bytes):>9}, {size_text(check.memory_bytes)} of memory"
    return f"{candidate.name:<{width}}  {sizes}, reads {share_text(check.cost_ratio)} of the model's bytes"


def _print_wrapped(text: str) -> None:
    print(wrapped(safe_text(f"  {text}"), indent="      "))
