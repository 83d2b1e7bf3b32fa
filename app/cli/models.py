"""`fireside models`: the library of models on this machine: what there is, what is in a file, and what can go."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from app.cli.model_texts import print_contents, print_entries, print_scan, size_text
from app.cli.models_drafts import add_drafts_parser, run_drafts
from app.cli.models_fit import add_fit_parser, run_fit
from app.cli.outcome import ExitCode, print_event
from app.cli.streams import is_terminal
from app.cli.terminal_text import one_line, safe_text
from app.errors import AppError, UsageError
from app.model_choice import model_path
from app.model_library import open_library
from app.paths import Paths
from models import (
    STARTER_NAME,
    CorruptGGUF,
    FileCheck,
    GGUFInfo,
    Library,
    LibraryEntry,
    RemovedModel,
    ScanProgress,
    parts_of,
    read_contents,
    verify_file,
)

_PROGRESS_STEP = 25  # files between two events of a scan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show all models, those of other programs too")
    scan = actions.add_parser("scan", help="look through all folders, and say what cannot be used")
    scan.add_argument("--add", action="append", default=[], metavar="DIR", help="look through this folder from now on")
    scan.add_argument("--forget", action="append", default=[], metavar="DIR", help="look through this folder no more")
    inspect = actions.add_parser("inspect", help="show what is in a model file")
    inspect.add_argument(
        "name", metavar="MODEL", nargs="?", help="a path, a name from `fireside models list`, or `starter`"
    )
    inspect.add_argument("--tensors", action="store_true", help="list every tensor too")
    inspect.add_argument("--verify", action="store_true", help="check every block of every tensor")
    remove = actions.add_parser("remove", help="put a model of Fireside's own folder into the trash")
    remove.add_argument("name", metavar="MODEL", nargs="?", help="a path, or a name from `fireside models list`")
    remove.add_argument("--undo", action="store_true", help="bring back what was removed last, or MODEL")
    remove.add_argument("--show-trash", action="store_true", help="show what was removed and can be brought back")
    remove.add_argument("--empty-trash", action="store_true", help="delete for good what was removed")
    for action in (listing, scan, inspect, remove):
        action.add_argument("--json", action="store_true", help="print JSON Lines")
    add_fit_parser(actions)
    add_drafts_parser(actions)


def run(options: argparse.Namespace, paths: Paths) -> ExitCode:
    """Do one of the actions.

    Raises:
        AppError, ModelsError: it cannot be done.
    """
    actions = {
        "list": _list,
        "scan": _scan,
        "inspect": _inspect,
        "remove": _remove,
        "fit": run_fit,
        "drafts": run_drafts,
    }
    return actions[options.action](options, paths)


# --- list, scan ---


def _list(options: argparse.Namespace, paths: Paths) -> ExitCode:
    scan = open_library(paths).scan()
    if options.json:
        for entry in scan.entries:
            print_event("model", **entry_fields(entry))
        print_event("listed", num_models=len(scan.entries), file_bytes=sum(entry.file_bytes for entry in scan.entries))
    else:
        print_entries(scan.entries)
    return ExitCode.DONE


def _scan(options: argparse.Namespace, paths: Paths) -> ExitCode:
    library = open_library(paths)
    for name in options.forget:
        library.remove_root(Path(name))
    for name in options.add:
        library.add_root(Path(name))
    before = {entry.id for entry in library.entries()}
    progress = _ScanProgress(as_json=options.json)
    scan = library.scan(progress.show)
    progress.clear()
    after = {entry.id for entry in scan.entries}
    if options.json:
        for entry in scan.entries:
            if entry.problem is not None:
                print_event("problem", path=str(entry.path), message=entry.problem, hint=entry.hint)
        for problem in scan.problems:
            print_event("problem", path=str(problem.path), message=problem.message, hint=problem.hint)
        print_event(
            "scanned",
            num_models=len(scan.entries),
            num_new=len(after - before),
            num_gone=len(before - after),
            num_files=scan.num_files,
            num_read=scan.num_read,
            seconds=scan.seconds,
            folders=[str(root.path) for root in library.roots()],
        )
    else:
        print_scan(scan, num_new=len(after - before), num_gone=len(before - after))
    return ExitCode.DONE


class _ScanProgress:
    """Shows how far a scan is: events, or one line that is written over where a person looks on."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._is_shown = not as_json and is_terminal(sys.stderr)
        self._last = 0

    def show(self, progress: ScanProgress) -> None:
        """Take in where the scan is."""
        if progress.num_files < self._last + _PROGRESS_STEP:
            return
        self._last = progress.num_files
        if self._as_json:
            print_event(
                "progress",
                folder=str(progress.folder),
                num_files=progress.num_files,
                num_read=progress.num_read,
            )
        elif self._is_shown:
            line = one_line(f"{progress.num_files} files, {safe_text(str(progress.folder))}")
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._is_shown and self._last:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def entry_fields(entry: LibraryEntry) -> dict[str, Any]:
    """Return an entry as the fields of an event."""
    fields = {field.name: getattr(entry, field.name) for field in dataclasses.fields(entry)}
    return fields | {
        "kind": entry.kind.name.lower() if entry.kind is not None else None,
        "paths": [str(path) for path in entry.paths],
        "missing_parts": list(entry.missing_parts),
        "other_places": [str(path) for path in entry.other_places],
        "can_chat": entry.can_chat,
    }


# --- inspect ---


def _inspect(options: argparse.Namespace, paths: Paths) -> ExitCode:
    name = options.name or options.model
    if not name:
        raise UsageError("The model to look into has no name.", "Give a path, or a name from `fireside models list`.")
    path = model_path(name, paths)
    try:
        contents = read_contents(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if options.json:
        print_event(
            "inspected",
            **_info_fields(contents.info),
            types=[dataclasses.asdict(total) for total in contents.types],
            metadata=[dataclasses.asdict(row) for row in contents.metadata],
            chat_template=contents.chat_template,
        )
        for tensor in contents.tensors if options.tensors else ():
            print_event("tensor", **dataclasses.asdict(tensor))
    else:
        print_contents(contents, with_tensors=options.tensors)
    if options.verify:
        for part in parts_of(contents.info):
            _verify(part, as_json=options.json)
    return ExitCode.DONE


def _info_fields(info: GGUFInfo) -> dict[str, Any]:
    return {
        "path": str(info.path),
        "file_bytes": info.file_bytes,
        "version": info.version,
        "kind": info.kind.name.lower(),
        "architecture": info.architecture,
        "name": info.name,
        "type_name": info.type_name,
        "licence": info.licence,
        "has_chat_template": info.has_chat_template,
        "num_tensors": info.num_tensors,
        "num_parameters": info.num_parameters,
        "num_active_parameters": info.num_active_parameters,
        "bits_per_weight": info.bits_per_weight,
        "weight_bytes": info.weight_bytes,
        "n_ctx_train": info.n_ctx_train,
        "block_count": info.block_count,
        "split_no": info.split_no,
        "split_count": info.split_count,
        "tokenizer": info.tokenizer,
    }


def _verify(path: Path, *, as_json: bool) -> None:
    """Check one file and say how it is.

    Raises:
        CorruptGGUF: it holds what is no number.
        AppError, GGUFError: it cannot be read.
    """
    shown = 0

    def show(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total if total else 100
        if percent == shown:
            return
        shown = percent
        if as_json:
            print_event("progress", done=done, total=total)
        elif is_terminal(sys.stderr):
            print(f"\r\x1b[K{percent} % checked", end="", file=sys.stderr, flush=True)

    try:
        check = verify_file(path, on_progress=show)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not as_json and shown and is_terminal(sys.stderr):
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if as_json:
        print_event("verified", path=str(path), is_sound=check.is_sound, **dataclasses.asdict(check))
    elif check.is_sound:
        name = safe_text(path.name)
        print(f"{name}: every one of {check.num_blocks:,} blocks in {check.num_tensors:,} tensors holds numbers.")
    if not check.is_sound:
        raise CorruptGGUF(_verdict(path, check), "Download or copy the file again.")


def _verdict(path: Path, check: FileCheck) -> str:
    name = safe_text(path.name)
    if check.bad_tensors:
        worst = check.bad_tensors[0]
        return (
            f"{name} is damaged: {check.num_bad_tensors} of its {check.num_tensors} tensors hold blocks that are no "
            f"numbers, the first is {worst.name} at byte {worst.first_position:,}."
        )
    return f"{name} is damaged: {', '.join(check.zero_tensors[:3])} holds nothing but zeros."


def _unreadable(path: Path, error: OSError) -> AppError:
    from app.errors import ModelFileMissing, ModelFileUnreadable

    if isinstance(error, FileNotFoundError):
        return ModelFileMissing(f"There is no file {path}.", "Give the path of a .gguf file, or a name of a model.")
    if isinstance(error, IsADirectoryError):
        return ModelFileMissing(f"{path} is a folder.", "Give the path of a .gguf file in it.")
    return ModelFileUnreadable(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.", "")


# --- remove ---


def _remove(options: argparse.Namespace, paths: Paths) -> ExitCode:
    library = open_library(paths)
    if options.empty_trash + options.undo + options.show_trash > 1 or (
        options.name and (options.empty_trash or options.show_trash)
    ):
        raise UsageError("These flags do not go together.", "See `fireside models remove --help`.")
    if options.show_trash:
        return _show_trash(library, as_json=options.json)
    if options.empty_trash:
        freed = library.empty_trash()
        return _tell(
            f"The trash is empty; {size_text(freed)} became free.", options, "trash_emptied", freed_bytes=freed
        )
    if options.undo:
        removed = _removal(library, options.name)
        library.undo(removed)
        sentence = f"{removed.title} is back in {removed.paths[0].parent}."
        return _tell(sentence, options, "restored", title=removed.title, paths=[str(path) for path in removed.paths])
    if not options.name:
        raise UsageError("The model to remove has no name.", "Give one from `fireside models list`.")
    removed = library.remove(_entry_to_remove(options.name, library, paths))
    sentence = f"{removed.title} is in the trash ({size_text(removed.file_bytes)}).\n"
    sentence += "`fireside models remove --undo` brings it back, `--empty-trash` frees the space."
    return _tell(
        sentence,
        options,
        "removed",
        id=removed.id,
        title=removed.title,
        file_bytes=removed.file_bytes,
        paths=[str(path) for path in removed.paths],
    )


def _show_trash(library: Library, *, as_json: bool) -> ExitCode:
    for removed in library.removed():
        if as_json:
            print_event("in_trash", **dataclasses.asdict(removed) | {"paths": [str(path) for path in removed.paths]})
        else:
            place = removed.paths[0].parent if removed.paths else ""
            print(safe_text(f"{removed.title}  {size_text(removed.file_bytes)}  from {place}"))
    return ExitCode.DONE


def _tell(sentence: str, options: argparse.Namespace, event: str, **fields: Any) -> ExitCode:
    if options.json:
        print_event(event, **fields)
    else:
        print(safe_text(sentence))
    return ExitCode.DONE


def _removal(library: Library, name: str | None) -> RemovedModel:
    in_trash = library.removed()
    if name is not None:
        wanted = name.casefold()
        in_trash = tuple(
            removed
            for removed in in_trash
            if wanted in (removed.title.casefold(), removed.id) or Path(name).absolute() in removed.paths
        )
    if not in_trash:
        raise UsageError(
            "There is no such model in the trash.", "See what is there with `fireside models remove --show-trash`."
        )
    return in_trash[0]


def _entry_to_remove(name: str, library: Library, paths: Paths) -> LibraryEntry:
    """Return the entry that a name or a path means, as it is on the disk now."""
    path = model_path(name, paths)
    if name != STARTER_NAME and not path.exists():
        raise _unreadable(path, FileNotFoundError())
    for entry in library.scan().entries:
        if path in entry.paths:
            return entry
        if path in entry.other_places and len(entry.paths) == 1:
            return dataclasses.replace(entry, paths=(path,))
    raise UsageError(f"{path} is not in the library.", "See `fireside models list`.")
