"""The trash of models: files of our own folder are moved into it and back, and only what is in it is ever deleted.

It is a folder inside ours, so that moving a model is one rename whatever its size. Each removal has a folder of its
own: a note of what was removed and from where, written first, and the files, numbered.
"""

import contextlib
import logging
import os
import shutil
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec

from models.errors import EntryInUse, LibraryError, NotRemovable
from models.file_walk import TRASH_NAME
from models.gguf_info import printable
from models.library_entry import LibraryEntry, RemovedModel
from models.library_index import is_text, write_whole

_LOG = logging.getLogger(__name__)
_NOTE_NAME = "removed.json"
_MAX_NOTE_BYTES = 1 << 22


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    removed_at: float
    file_bytes: int
    paths: list[str]


class ModelTrash:
    """The trash of one folder of models.

    Args:
        models_dir: the folder; nothing outside of it is ever moved.
    """

    def __init__(self, models_dir: Path) -> None:
        self._models_dir = models_dir
        self._folder = models_dir / TRASH_NAME

    def put(self, entry: LibraryEntry) -> RemovedModel:
        """Move the files of a model into the trash; all of them, or none.

        Raises:
            NotRemovable: it does not lie in our folder.
            EntryInUse, LibraryError: a file cannot be moved.
        """
        for path in entry.paths:
            self._check_ours(path, entry)
        identity = uuid.uuid4().hex
        folder = self._folder / identity
        note = _Note(
            title=entry.title,
            removed_at=time.time(),
            file_bytes=entry.file_bytes,
            paths=[os.fspath(path) for path in entry.paths],
        )
        try:
            folder.mkdir(mode=0o700, parents=True)
            write_whole(folder / _NOTE_NAME, msgspec.json.encode(note))
        except OSError as error:
            _discard(folder)
            raise LibraryError(
                f"{printable(entry.title)} cannot be put into the trash: {_reason(error)}.", "Nothing was removed."
            ) from error
        try:
            _move_all([(path, _place(folder, number)) for number, path in enumerate(entry.paths)])
        except (OSError, LibraryError):
            _discard(folder)
            raise
        return _removed(identity, note)

    def list(self) -> tuple[RemovedModel, ...]:
        """Return what is in the trash, the latest first."""
        try:
            names = [entry.name for entry in os.scandir(self._folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return ()
        found = [(name, note) for name in names if (note := self._note(name)) is not None]
        return tuple(_removed(*pair) for pair in sorted(found, key=lambda pair: -pair[1].removed_at))

    def take_back(self, removed: RemovedModel) -> None:
        """Move a model back to where it was.

        Raises:
            LibraryError: it is not in the trash, something is in its place, or it cannot be moved.
        """
        folder, note = self._folder / removed.id, self._note(removed.id)
        places = [(_place(folder, number), Path(path)) for number, path in enumerate(note.paths if note else ())]
        moves = [(place, target) for place, target in places if os.path.lexists(place)]
        if not moves:
            raise LibraryError(f"{printable(removed.title)} is no longer in the trash.", "")
        for _, target in moves:
            if not _is_inside(target, self._models_dir):
                raise LibraryError("The note of this removal was changed by something else.", "Move the files by hand.")
            if os.path.lexists(target):
                raise LibraryError(
                    f"{printable(str(target))} is there again, and is not written over.",
                    "Move that file elsewhere first.",
                )
        _move_all(moves)
        _discard(folder)

    def empty(self, before: float | None) -> int:
        """Delete what was removed before a time, or all, and return the bytes that became free."""
        freed = 0
        for removed in self.list():
            if before is not None and removed.removed_at >= before:
                continue
            folder = self._folder / removed.id
            freed += sum(_file_bytes(_place(folder, number)) for number in range(len(removed.paths)))
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty, or not there
            self._folder.rmdir()
        return freed

    def _check_ours(self, path: Path, entry: LibraryEntry) -> None:
        if _is_inside(path, self._models_dir) and is_text(path):
            return
        title, place = printable(entry.title), printable(str(path))
        owner = printable(entry.source)
        if not owner or entry.is_ours or Path(owner).is_absolute():  # no program's, but a folder of the user's
            raise NotRemovable(f"{title} lies in a folder that Fireside only reads.", f"Delete {place} yourself.")
        raise NotRemovable(
            f"{title} is kept by {owner}, and Fireside only reads it there.", f"Remove it with {owner}: it is {place}."
        )

    def _note(self, identity: str) -> _Note | None:
        if not identity.isalnum():  # it names a folder of ours
            return None
        path = self._folder / identity / _NOTE_NAME
        try:
            if path.stat().st_size > _MAX_NOTE_BYTES:
                return None
            return msgspec.json.decode(path.read_bytes(), type=_Note)
        except (OSError, ValueError, RecursionError) as error:
            _LOG.info("a removal in the trash of models cannot be read: %s", error)
            return None


def _removed(identity: str, note: _Note) -> RemovedModel:
    return RemovedModel(
        id=identity,
        title=note.title,
        removed_at=note.removed_at,
        file_bytes=note.file_bytes,
        paths=tuple(Path(path) for path in note.paths),
    )


def _place(folder: Path, number: int) -> Path:
    # Not by its own name: that could be the note's, and ends in what is looked for as a model.
    return folder / f"part-{number}"


def _discard(folder: Path) -> None:
    """Remove the folder of a removal that holds no file of a model any more; one that does stays, with its note."""
    with contextlib.suppress(OSError):
        if all(entry.name == _NOTE_NAME for entry in os.scandir(folder)):
            (folder / _NOTE_NAME).unlink(missing_ok=True)
            folder.rmdir()


def _is_inside(path: Path, folder: Path) -> bool:
    """Return whether a file lies in a folder, by whatever links its own is reached; the file may be a link."""
    try:
        return path.parent.resolve().is_relative_to(folder.resolve()) and path.name not in ("", ".", "..")
    except (OSError, RuntimeError):  # links that go round
        return False


def _move_all(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename files; where one cannot be, those before it go back.

    Raises:
        EntryInUse, LibraryError: one could not be moved.
    """
    done: list[tuple[Path, Path]] = []
    for source, target in moves:
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            source.rename(target)
            done.append((source, target))
        except OSError as error:
            for back, place in reversed(done):
                with contextlib.suppress(OSError):
                    place.rename(back)
            name = printable(source.name)
            if os.name == "nt" and isinstance(error, PermissionError):
                raise EntryInUse(
                    f"{name} is in use.", "Unload the model, or close the program that uses it."
                ) from error
            raise LibraryError(f"{name} cannot be moved: {_reason(error)}.", "Nothing was changed.") from error


def _file_bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
