"""LibraryShelf: the library, what fits, and the making of levels, as the records that the Models page shows.

It knows no widget. Its methods are called in threads, one at a time for each kind of work.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.desktop.bridge.model_jobs import Job
from app.desktop.itemmodels.model_rows import (
    Fact,
    FileRow,
    FitFigures,
    FolderRow,
    Inspection,
    MadeLevel,
    ModelRow,
    QuantiseOffer,
    QuantiseOrder,
    ScanCount,
    ScanOutcome,
    Section,
    TensorRow,
)
from app.desktop.library_levels import BuildMatrix, LibraryLevels
from app.errors import ModelFileUnreadable
from models import (
    GGUFInfo,
    Library,
    LibraryEntry,
    ModelKind,
    ModelsError,
    RemovedModel,
    ScanProgress,
    read_contents,
    read_gguf_info,
    verify_file,
)

_BATCH_S = 0.25
_NAMED = 3

MeasureFit = Callable[[Sequence[GGUFInfo]], FitFigures]
"""Tells whether a model fits, from what its files say, the first one first."""


class LibraryShelf:
    """Implements Shelf.

    Args:
        models_dir: where levels that are made are put.
        look_at_memory: returns what tells whether a model fits what is free at this moment; None where nothing does.
        used_at: when files were loaded last, by path.
        build_matrix: None where no matrix can be computed.
    """

    def __init__(
        self,
        library: Library,
        *,
        models_dir: Path,
        look_at_memory: Callable[[], MeasureFit] | None = None,
        used_at: Callable[[], Mapping[str, float]] = dict,
        build_matrix: BuildMatrix | None = None,
    ) -> None:
        self._library = library
        self._look_at_memory = look_at_memory
        self._used_at = used_at
        self._levels = LibraryLevels(models_dir, build_matrix)
        self._lock = threading.Lock()
        self._entries: dict[str, LibraryEntry] = {}
        self._last_fits: dict[str, FitFigures] = {}  # shown until a new scan is measured
        self._infos: dict[str, tuple[tuple[int, int], tuple[GGUFInfo, ...]]] = {}

    # --- what there is ---

    def known(self) -> Sequence[ModelRow]:
        """See Shelf."""
        return self._rows(self._library.entries())

    def scan(self, job: Job) -> ScanOutcome:
        """See Shelf."""

        def on_progress(progress: ScanProgress) -> None:
            job.report(ScanCount(progress.num_files, str(progress.folder)))

        found = self._library.scan(on_progress, lambda: job.is_cancelled)
        problems = tuple(f"{problem.message} {problem.hint}".strip() for problem in found.problems)
        return ScanOutcome(self._rows(found.entries), problems)

    def fits(self, job: Job) -> Sequence[ModelRow]:
        """See Shelf."""
        with self._lock:
            entries = list(self._entries.values())
        rows = {str(entry.path): self._row(entry) for entry in entries}
        if self._look_at_memory is None:
            return _grouped(entries, rows)
        measure, reported_at = self._look_at_memory(), time.monotonic()
        for entry in entries:
            if job.is_cancelled:
                break
            path = str(entry.path)
            if entry.can_chat:
                rows[path] = self._with_fit(rows[path], entry, measure)
            if time.monotonic() - reported_at > _BATCH_S:
                reported_at = time.monotonic()
                job.report(_grouped(entries, rows))
        return _grouped(entries, rows)

    def folders(self) -> Sequence[FolderRow]:
        """See Shelf."""
        with self._lock:
            paths = [path for entry in self._entries.values() for path in entry.paths]
        added = set(self._library.user_folders())
        rows = []
        for root in self._library.roots():
            is_added = root.path in added
            problem = ""
            if not root.path.exists():
                if not is_added and not root.is_ours:
                    continue  # a program that is not on this computer
                problem = "" if root.is_ours else _tr("This folder is not there now.")
            count = sum(path.is_relative_to(root.path) for path in paths)
            rows.append(FolderRow(str(root.path), root.label, is_added, count, problem))
        return rows

    def add_folder(self, path: str) -> None:
        """See Shelf."""
        self._library.add_root(Path(path))

    def remove_folder(self, path: str) -> None:
        """See Shelf."""
        self._library.remove_root(Path(path))

    # --- a file ---

    def inspect(self, path: str) -> Inspection:
        """See Shelf."""
        contents = read_contents(Path(path))
        info = contents.info
        size = _tr("{count} bytes").format(count=f"{info.file_bytes:,}")
        part = _tr("{number} of {count}").format(number=info.split_no + 1, count=info.split_count)
        trained = _tr("{count} tokens").format(count=f"{info.n_ctx_train:,}") if info.n_ctx_train else ""
        facts = (
            (_tr("Name"), info.name),
            (_tr("Architecture"), info.architecture),
            (_tr("Kind"), _kind_text(info.kind)),
            (_tr("Level"), info.type_name),
            (_tr("Parameters"), f"{info.num_parameters:,}" if info.num_parameters else ""),
            (_tr("Layers"), f"{info.block_count:,}" if info.block_count else ""),
            (_tr("Trained for"), trained),
            (_tr("Size"), size),
            (_tr("Tensors"), f"{info.num_tensors:,}"),
            (_tr("GGUF version"), str(info.version)),
            (_tr("Part"), part if info.split_count > 1 else ""),
            (_tr("File"), path),
        )
        tensors = tuple(
            TensorRow(row.name, row.type_name, " × ".join(f"{n:,}" for n in row.shape), row.num_bytes)
            for row in contents.tensors
        )
        return Inspection(
            facts=tuple(Fact(label, value) for label, value in facts if value),
            metadata=tuple(Fact(row.key, row.text) for row in contents.metadata),
            tensors=tensors,
            template=contents.chat_template,
            licence=info.licence,
        )

    def verify(self, path: str, job: Job) -> int:
        """See Shelf."""
        entry = self._entry(path)
        num_tensors, done, total = 0, 0, entry.file_bytes
        for part in entry.paths:
            before = done

            def on_progress(num_bytes: int, _: int, before: int = before) -> None:
                job.report(min((before + num_bytes) / max(total, 1), 1.0))

            check = verify_file(part, on_progress=on_progress, is_cancelled=lambda: job.is_cancelled)
            done += part.stat().st_size
            num_tensors += check.num_tensors
            if check.is_complete and not check.is_sound:
                names = [*(tensor.name for tensor in check.bad_tensors), *check.zero_tensors]
                text = _tr("{file} is damaged: {count} of its tensors hold no numbers, or nothing at all ({names}).")
                shown = ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")
                raise ModelFileUnreadable(
                    text.format(file=part.name, count=len(names), names=shown), _tr("Download or copy the file again.")
                )
        return num_tensors

    def remove(self, path: str) -> RemovedModel:
        """See Shelf."""
        return self._library.remove(self._entry(path))

    def undo(self, removed: Any) -> None:
        """See Shelf."""
        self._library.undo(removed)

    # --- levels ---

    def offer(self, path: str, job: Job) -> QuantiseOffer:
        """See Shelf."""
        return self._levels.offer(self._entry(path), job)

    def quantise(self, order: QuantiseOrder, job: Job) -> Sequence[MadeLevel]:
        """See Shelf."""
        return self._levels.make(self._entry(order.path), order, job)

    # --- rows ---

    def _entry(self, path: str) -> LibraryEntry:
        with self._lock:
            entry = self._entries.get(path)
        if entry is None:
            raise ModelFileUnreadable(
                _tr("This file is no longer in the list."), _tr("Look through the folders again.")
            )
        return entry

    def _rows(self, entries: Sequence[LibraryEntry]) -> tuple[ModelRow, ...]:
        with self._lock:
            self._entries = {str(entry.path): entry for entry in entries}
        return _grouped(entries, {str(entry.path): self._row(entry) for entry in entries})

    def _row(self, entry: LibraryEntry) -> FileRow:
        owner = "" if entry.is_ours or Path(entry.source).is_absolute() else entry.source
        is_other = entry.kind is not None and entry.kind is not ModelKind.TEXT
        return FileRow(
            path=str(entry.path),
            label=entry.type_name or entry.path.name,
            num_bytes=entry.file_bytes,
            bits_per_weight=entry.bits_per_weight,
            n_ctx_train=entry.n_ctx_train,
            owner=owner,
            place=entry.source,
            is_ours=entry.is_removable,
            can_chat=entry.can_chat,
            can_quantise=entry.can_chat,
            kind=_kind_text(entry.kind) if is_other else "",
            used_at=self._used_at().get(str(entry.path), 0.0),
            problem="" if is_other else entry.problem or "",
            hint=entry.hint,
            num_parts=len(entry.paths) + len(entry.missing_parts),
            missing=entry.missing_parts,
            also_in=tuple(str(place) for place in entry.other_places),
            **self._last_fits.get(str(entry.path), FitFigures())._asdict(),
        )

    def _with_fit(self, row: FileRow, entry: LibraryEntry, measure: MeasureFit) -> FileRow:
        try:
            figures = measure(self._read_infos(entry))
        except (ModelsError, OSError, ValueError):
            return row
        self._last_fits[row.path] = figures
        return row._replace(**figures._asdict())

    def _read_infos(self, entry: LibraryEntry) -> tuple[GGUFInfo, ...]:
        status = entry.path.stat()
        stamp = status.st_size, status.st_mtime_ns
        kept = self._infos.get(str(entry.path))
        if kept is None or kept[0] != stamp:
            kept = stamp, tuple(read_gguf_info(path) for path in entry.paths)
            self._infos[str(entry.path)] = kept
        return kept[1]


def _grouped(entries: Sequence[LibraryEntry], rows: Mapping[str, FileRow]) -> tuple[ModelRow, ...]:
    groups: dict[tuple[str, Section], list[LibraryEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.group_key, _section_of(entry)), []).append(entry)
    return tuple(_group(members, rows, section) for (_, section), members in groups.items())


def _group(members: Sequence[LibraryEntry], rows: Mapping[str, FileRow], section: Section) -> ModelRow:
    first = members[0]
    return ModelRow(
        name=first.group_title,
        files=tuple(rows[str(entry.path)] for entry in members),
        architecture=first.architecture,
        num_parameters=first.num_parameters,
        num_active=first.num_active_parameters if first.num_active_parameters < first.num_parameters else 0,
        licence=next((entry.licence for entry in members if entry.licence), ""),
        section=section,
    )


def _section_of(entry: LibraryEntry) -> Section:
    if entry.kind is ModelKind.TEXT:
        return Section.CHAT
    return Section.UNUSABLE if entry.kind is None else Section.OTHER


# What the kinds are called; the names themselves are those of ModelKind.
_KINDS = (
    QT_TRANSLATE_NOOP("ModelShelf", "text model"),
    QT_TRANSLATE_NOOP("ModelShelf", "embedding model"),
    QT_TRANSLATE_NOOP("ModelShelf", "projector"),
    QT_TRANSLATE_NOOP("ModelShelf", "adapter"),
    QT_TRANSLATE_NOOP("ModelShelf", "control vector"),
    QT_TRANSLATE_NOOP("ModelShelf", "importance matrix"),
    QT_TRANSLATE_NOOP("ModelShelf", "vocabulary"),
    QT_TRANSLATE_NOOP("ModelShelf", "image model"),
    QT_TRANSLATE_NOOP("ModelShelf", "speech model"),
    QT_TRANSLATE_NOOP("ModelShelf", "text diffusion model"),
    QT_TRANSLATE_NOOP("ModelShelf", "draft head"),
    QT_TRANSLATE_NOOP("ModelShelf", "part of a split model"),
)


def _kind_text(kind: ModelKind | None) -> str:
    return _tr(kind.value) if kind is not None else ""


def _tr(text: str) -> str:
    return QCoreApplication.translate("ModelShelf", text)
