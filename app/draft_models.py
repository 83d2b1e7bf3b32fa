"""Which files can draft for a model: every one of the library as usable or with the reason why not, and a suggestion.

Told from headers, before anything is loaded; what drafting really gains is measured while it runs.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from app.errors import AppError
from app.model_choice import told_as_file_errors
from app.model_library import open_library
from app.paths import Paths
from app.room import room_of, wish_of
from engine import ModelDescription, ModelParams
from models import (
    ACCEPTANCE_PRIOR,
    LEAST_GAIN,
    DraftFile,
    DraftGain,
    Fit,
    GGUFInfo,
    Kinship,
    LibraryEntry,
    ModelsError,
    Refusal,
    Room,
    Verdict,
    Wish,
    check_is_chat_model,
    cost_ratio,
    draft_bytes,
    draft_notes,
    draft_reason,
    entry_reason,
    expected_gain,
    fit,
    kinship,
    read_draft_file,
    target_notes,
    target_reason,
    usual_step_costs,
)

_SUFFIX = ".gguf"
_MAX_BESIDE = 200  # files looked at in the folder of the target
_MAX_KEPT = 500
_GIB, _MIB = 1 << 30, 1 << 20
_FRACTION_BELOW = 0.4  # above, a share is clearer than one part of so many


@dataclasses.dataclass(frozen=True, kw_only=True)
class DraftCheck:
    """Whether a file can draft for a model.

    Attributes:
        reason: why it cannot, one sentence; empty where it can.
        hint: what to do about that; may be empty.
        notes: what is to know of it where it can, as sentences.
        memory_bytes: what it takes beside the model: weights, vocabulary, buffers, and a cache of the same context.
        fit: of both together, as the model would be loaded with it; None where it cannot draft.
        info: what its header says, of a split model for all files; None where it cannot draft.
        kinship: what it is to the model; None where it cannot draft.
        cost_ratio: bytes that it reads for each token, by those of the model.
        gain: what is expected before anything was measured; None where it cannot draft.
    """

    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    memory_bytes: int = 0
    fit: Fit | None = None
    info: GGUFInfo | None = None
    kinship: Kinship | None = None
    cost_ratio: float = 0.0
    gain: DraftGain | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it can draft; it may still be too large for the memory, or slow."""
        return not self.reason

    @property
    def may_pay(self) -> bool:
        """Whether it is expected to gain enough to be suggested, and there is room for it."""
        is_other_file = self.kinship in (Kinship.LEVEL, Kinship.FAMILY)
        has_room = self.fit is not None and self.fit.verdict is not Verdict.DOES_NOT_FIT
        return is_other_file and has_room and self.gain is not None and self.gain.speed_up > LEAST_GAIN


@dataclasses.dataclass(frozen=True, kw_only=True)
class DraftCandidate:
    """A file of the library, or beside the model.

    Attributes:
        name: what the terminal calls it: a name of the library, or a path.
        title: what a person calls it.
    """

    path: Path
    name: str
    title: str
    file_bytes: int
    check: DraftCheck


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundDrafts:
    """All files there are, as drafts for one model.

    Attributes:
        target: what the header of the model says.
        reason, hint: why nothing can be drafted for it, whatever drafts; empty where something can.
        notes: what else is to know of it, as sentences.
        candidates: the usable ones first, of these the likely best first.
        suggestion: the one that may pay most, None where none is expected to.
    """

    target: GGUFInfo
    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    candidates: tuple[DraftCandidate, ...] = ()
    suggestion: DraftCandidate | None = None


@dataclasses.dataclass(frozen=True)
class _Conditions:
    """What a pair is reckoned with.

    Attributes:
        wish: how the model is loaded, and where its draft model goes.
    """

    target: DraftFile
    wish: Wish
    room: Room
    step_costs: Sequence[float] | None = None


class DraftFiles:
    """Looks at pairs of files, and remembers what it has read of those that stay the same. For one thread at a time.

    Args:
        entries: of the library.
    """

    def __init__(self, entries: Callable[[], Iterable[LibraryEntry]] = tuple) -> None:
        self._entries = entries
        self._seen: dict[tuple[str, str], DraftFile] = {}

    def find(
        self,
        target: Path,
        *,
        params: ModelParams | None = None,
        room: Room | None = None,
        step_costs: Sequence[float] | None = None,
        n_gpu_layers: int | None = None,
        loaded: ModelDescription | None = None,
    ) -> FoundDrafts:
        """Return what all files of the library, and those in the folder of the model, are as drafts for it.

        Args:
            params: how the model is loaded; None takes the defaults.
            room: what the machine has; None asks for its memory now, and leaves graphics devices out.
            step_costs: measured times of steps of 1, 2, ... tokens of the model; None takes what is usual.
            n_gpu_layers: of the draft model, where it has a place of its own.
            loaded: what the model has become, where it is loaded: what it has taken is not free any more.

        Raises:
            AppError: the model's file is not there or cannot be read.
            ModelsError: it is no model that can chat.
        """
        with told_as_file_errors(target):
            file = self._read(target)
        check_is_chat_model(file.info)
        refusal = target_reason(file.info) or Refusal("", "")
        conditions = _conditions(file, params, room, n_gpu_layers=n_gpu_layers, loaded=loaded)
        conditions = dataclasses.replace(conditions, step_costs=step_costs)
        known: set[str] = set()
        candidates = []
        for entry in self._entries():
            known.update(_real(path) for path in (*entry.paths, *entry.other_places))
            candidates.append(self._of_entry(entry, conditions))
        candidates += self._beside(file.info.path.parent, conditions, known)
        candidates.sort(key=_rank)
        likely = [candidate for candidate in candidates if not refusal.reason and candidate.check.may_pay]
        return FoundDrafts(
            target=file.info,
            reason=refusal.reason,
            hint=refusal.hint,
            notes=target_notes(file.info),
            candidates=tuple(candidates),
            suggestion=likely[0] if likely else None,
        )

    def check(
        self,
        target: Path,
        draft: Path,
        *,
        params: ModelParams | None = None,
        room: Room | None = None,
        n_gpu_layers: int | None = None,
        loaded: ModelDescription | None = None,
    ) -> DraftCheck:
        """Return whether one file can draft for another; whatever they are, nothing is raised.

        Args:
            params, room, n_gpu_layers, loaded: see `find`.
        """
        try:
            with told_as_file_errors(target):
                file = self._read(target)
            check_is_chat_model(file.info)
        except (ModelsError, AppError) as error:
            return DraftCheck(reason=error.message, hint=error.hint)
        if (refusal := target_reason(file.info)) is not None:
            return DraftCheck(reason=refusal.reason, hint=refusal.hint)
        return self._check(draft, _conditions(file, params, room, n_gpu_layers=n_gpu_layers, loaded=loaded))

    def _of_entry(self, entry: LibraryEntry, conditions: _Conditions) -> DraftCandidate:
        refusal = entry_reason(conditions.target, entry)
        check = DraftCheck(reason=refusal.reason, hint=refusal.hint) if refusal else self._check(entry.path, conditions)
        return DraftCandidate(
            path=entry.path, name=entry.name, title=entry.title, file_bytes=entry.file_bytes, check=check
        )

    def _beside(self, folder: Path, conditions: _Conditions, known: set[str]) -> Iterator[DraftCandidate]:
        for path in _files_in(folder):
            if _real(path) in known or self._first_part(path) != path:  # its model is looked at by the first part
                continue
            check = self._check(path, conditions)
            size = check.info.file_bytes if check.info is not None else _size_of(path)
            yield DraftCandidate(path=path, name=str(path), title=path.stem, file_bytes=size, check=check)

    def _first_part(self, path: Path) -> Path:
        try:
            return self._read(path).info.path
        except (ModelsError, OSError, ValueError):  # which is said when it is looked at
            return path

    def _check(self, path: Path, conditions: _Conditions) -> DraftCheck:
        target = conditions.target
        try:
            with told_as_file_errors(path):
                draft = self._read(path)
                refusal = draft_reason(target, draft)
        except (ModelsError, AppError) as error:
            return DraftCheck(reason=error.message, hint=error.hint)
        if refusal is not None:
            return DraftCheck(reason=refusal.reason, hint=refusal.hint)
        wish = dataclasses.replace(conditions.wish, draft=draft.info)
        found = fit(target.info, wish, conditions.room)
        related, ratio = kinship(target, draft), cost_ratio(target.info, draft.info)
        step_costs = conditions.step_costs or usual_step_costs(
            target.info, is_on_graphics=found.n_gpu_layers > target.info.block_count
        )
        return DraftCheck(
            notes=(*draft_notes(target, draft), *_room_notes(found)),
            memory_bytes=found.draft_bytes or draft_bytes(draft.info, found.n_ctx, wish.cache),
            fit=found,
            info=draft.info,
            kinship=related,
            cost_ratio=ratio,
            gain=expected_gain(ACCEPTANCE_PRIOR[related], ratio, step_costs),
        )

    def _read(self, path: Path) -> DraftFile:
        found = path.stat()
        key = (str(path), f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}")
        if (file := self._seen.get(key)) is not None:
            return file
        file = read_draft_file(path)
        if file.info.split_count == 1:  # of a split model, another part may come or go
            if len(self._seen) >= _MAX_KEPT:
                self._seen.clear()
            self._seen[key] = file
        return file


def open_draft_files(paths: Paths) -> DraftFiles:
    """Return the files of this user's library, as its last scan found them."""
    return DraftFiles(lambda: open_library(paths).entries())


def find_drafts(
    target: Path,
    entries: Iterable[LibraryEntry],
    *,
    params: ModelParams | None = None,
    room: Room | None = None,
    step_costs: Sequence[float] | None = None,
) -> FoundDrafts:
    """Return what the entries of a library are as drafts for a model; see `DraftFiles.find`."""
    return DraftFiles(lambda: entries).find(target, params=params, room=room, step_costs=step_costs)


def check_draft(
    target: Path,
    draft: Path,
    *,
    params: ModelParams | None = None,
    room: Room | None = None,
    n_gpu_layers: int | None = None,
    loaded: ModelDescription | None = None,
) -> DraftCheck:
    """Return whether one file can draft for another; see `DraftFiles.check`."""
    return DraftFiles().check(target, draft, params=params, room=room, n_gpu_layers=n_gpu_layers, loaded=loaded)


def _conditions(
    target: DraftFile,
    params: ModelParams | None,
    room: Room | None,
    *,
    n_gpu_layers: int | None,
    loaded: ModelDescription | None,
) -> _Conditions:
    room = room if room is not None else room_of(None, read_bandwidth={})
    wish = wish_of(params if params is not None else ModelParams(), draft_gpu_layers=n_gpu_layers)
    if loaded is not None:
        wish = dataclasses.replace(wish, n_ctx=loaded.n_ctx, n_gpu_layers=loaded.n_gpu_layers)
        room = _with_given_back(room, fit(target.info, wish, room), loaded)
    return _Conditions(target, wish, room)


def _with_given_back(room: Room, alone: Fit, loaded: ModelDescription) -> Room:
    """Return what was free before a model was loaded; its weights are mapped, and count as free all the time."""
    free = room.device_free_bytes
    if free:
        free = (free[0] + alone.device_needed_bytes, *free[1:])
    held = 0 if loaded.n_gpu_layers else loaded.cache_bytes + loaded.compute_bytes
    return dataclasses.replace(room, device_free_bytes=free, released_bytes=max(room.released_bytes, held))


def share_text(ratio: float) -> str:
    """Return which part of the model's bytes a draft reads, for a person: "1/4" or "60 %"."""
    return f"1/{round(1 / ratio)}" if 0 < ratio <= _FRACTION_BELOW else f"{100 * ratio:.0f} %"


def suggestion_text(suggested: DraftCandidate) -> str:
    """Return what is said of the draft that is suggested: what it costs, and no promise."""
    check = suggested.check
    return (
        f"{suggested.title} may pay: it reads {share_text(check.cost_ratio)} of the model's bytes for each token, and "
        f"takes {_size_text(check.memory_bytes)} of memory. What it gains is measured while it drafts."
    )


def _size_text(num_bytes: int) -> str:
    return f"{num_bytes / _GIB:.1f} GiB" if num_bytes >= _GIB else f"{num_bytes / _MIB:,.0f} MiB"


def _room_notes(found: Fit) -> tuple[str, ...]:
    if found.verdict is not Verdict.DOES_NOT_FIT:
        return ()
    if found.device_needed_bytes > found.device_free_bytes:
        sizes = f"{_size_text(found.device_needed_bytes)}; {_size_text(found.device_free_bytes)} are free there"
        return (f"On the graphics processor, model and draft together need {sizes}.",)
    sizes = f"{_size_text(found.needed_bytes)}; {_size_text(found.free_bytes)} are free"
    return (f"Model and draft together need {sizes}.",)


def _rank(candidate: DraftCandidate) -> tuple[bool, bool, float, int, str, str]:
    check = candidate.check
    speed_up = check.gain.speed_up if check.gain is not None else 0.0
    is_itself = check.kinship is Kinship.SAME_FILE
    return (
        *(not check.is_usable, is_itself, -speed_up),
        *(check.memory_bytes, candidate.title.casefold(), str(candidate.path)),
    )


def _files_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.lower().endswith(_SUFFIX) and entry.is_file())
    except (OSError, ValueError):
        return []
    return [folder / name for name in names[:_MAX_BESIDE]]


def _real(path: Path) -> str:
    """Return the file that a path leads to, so that one is listed once."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return str(path)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
