"""Finds model files in folders: at any depth, through links without going round, and past whatever cannot be read."""

import dataclasses
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from models.gguf_header import MAGIC
from models.gguf_info import printable
from models.library_entry import ScanProblem
from models.scan_roots import RootLayout, ScanRoot

TRASH_NAME = ".trash"

_SUFFIX = ".gguf"
_APPLE_DOUBLE = "._"  # what macOS puts beside a file on other systems' disks
_NOT_MODELS = {  # folders that a layout keeps for something else
    RootLayout.HUGGING_FACE: {"blobs", "refs", ".locks", ".no_exist"},
}
_KERNEL_FOLDERS = {"/proc", "/sys", "/dev"}
_MAX_PROBLEMS = 50
_MAX_MANIFEST_BYTES = 1 << 20
_MAX_MANIFEST_DEPTH = 6
_BLOB_NAME = re.compile(r"sha256[-:][0-9a-f]{64}")
_MODEL_LAYERS = ("image.model", "image.projector", "image.adapter")


@dataclasses.dataclass(frozen=True)
class FoundFile:
    """A file that should be a model.

    Attributes:
        alias: what the program that keeps it calls it; may be empty.
    """

    path: Path
    status: os.stat_result
    root: ScanRoot
    alias: str = ""


class FileWalk:
    """One walk through all roots.

    Args:
        is_cancelled: is asked at every folder and file; the walk ends where it says so.
        on_folder: gets every folder before it is looked at.

    Attributes:
        problems: what could not be looked at.
    """

    def __init__(self, is_cancelled: Callable[[], bool], on_folder: Callable[[Path], None]) -> None:
        self.problems: list[ScanProblem] = []
        self._is_cancelled = is_cancelled
        self._on_folder = on_folder
        self._seen: set[tuple[int, int]] = set()

    def find(self, roots: Iterable[ScanRoot], asked_for: Iterable[Path] = ()) -> Iterator[FoundFile]:
        """Yield the model files of each root, in the order of the roots; no folder is looked at twice.

        Args:
            asked_for: roots that a person named, whose absence is told.
        """
        expected = set(asked_for)
        for root in roots:
            try:
                status = root.path.stat()
            except (FileNotFoundError, NotADirectoryError):
                if root.path in expected:
                    self._note(root.path, "is not there", "Connect its disk, or take it off the list.")
                continue
            except (OSError, ValueError) as error:
                self._note_error(root.path, error)
                continue
            if stat.S_ISREG(status.st_mode):
                yield FoundFile(root.path, status, root, root.alias)
            elif root.layout is RootLayout.OLLAMA:
                yield from self._ollama(root)
            else:
                yield from self._files(root)

    # --- folders of files ---

    def _files(self, root: ScanRoot) -> Iterator[FoundFile]:
        waiting = [root.path]
        while waiting and not self._is_cancelled():
            folder = waiting.pop()
            entries = self._list(folder)
            folders = []
            for entry in entries:
                if self._is_cancelled():
                    return
                if _is_folder(entry):
                    if not self._is_passed_over(entry, root):
                        folders.append(Path(entry.path))
                elif entry.name.lower().endswith(_SUFFIX) and not entry.name.startswith(_APPLE_DOUBLE):
                    found = _found(entry, root)
                    if found is not None:
                        yield found
            waiting += reversed(folders)

    def _is_passed_over(self, entry: "os.DirEntry[str]", root: ScanRoot) -> bool:
        if root.is_ours and entry.name == TRASH_NAME:
            return True
        return entry.path in _KERNEL_FOLDERS or entry.name in _NOT_MODELS.get(root.layout, ())

    def _list(self, folder: Path) -> list["os.DirEntry[str]"]:
        """Return what is in a folder; nothing where it was looked at before, or cannot be."""
        try:
            status = folder.stat()
            key = (status.st_dev, status.st_ino)
            if key in self._seen:
                return []
            self._seen.add(key)
            self._on_folder(folder)
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:  # it went meanwhile
            return []
        except OSError as error:
            self._note_error(folder, error)
            return []

    # --- Ollama ---

    def _ollama(self, root: ScanRoot) -> Iterator[FoundFile]:
        """Find the blobs that manifests call models, and those that begin like one."""
        blobs = {entry.name.replace(":", "-"): entry for entry in self._list(root.path / "blobs") if _is_blob(entry)}
        named: dict[str, str] = {}
        for path in self._manifests(root.path / "manifests", 0):
            alias = _alias(path.relative_to(root.path / "manifests"))
            for digest in _model_digests(path):
                named.setdefault(digest.replace(":", "-"), alias)
        for name, entry in blobs.items():
            if self._is_cancelled():
                return
            if name in named or _begins_like_a_model(Path(entry.path)):
                found = _found(entry, root, named.get(name, ""))
                if found is not None:
                    yield found

    def _manifests(self, folder: Path, depth: int) -> Iterator[Path]:
        for entry in self._list(folder):
            if self._is_cancelled():
                return
            if not _is_folder(entry):
                yield Path(entry.path)
            elif depth < _MAX_MANIFEST_DEPTH:
                yield from self._manifests(Path(entry.path), depth + 1)

    # --- problems ---

    def _note_error(self, path: Path, error: OSError | ValueError) -> None:
        if isinstance(error, PermissionError):
            self._note(path, "cannot be looked at: this user may not open it", "Change the permissions of the folder.")
        else:
            self._note(path, f"cannot be looked at: {(getattr(error, 'strerror', None) or str(error)).lower()}", "")

    def _note(self, path: Path, what: str, hint: str) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(
                ScanProblem(path=path, message=f"The folder {printable(str(path))} {what}.", hint=hint)
            )


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that goes round
        return False


def _found(entry: "os.DirEntry[str]", root: ScanRoot, alias: str = "") -> FoundFile | None:
    try:
        status = entry.stat()
    except OSError:  # a link to nothing, or gone meanwhile
        return None
    if not stat.S_ISREG(status.st_mode):  # a pipe, a socket
        return None
    if not status.st_ino:  # where the system gives none with the list
        try:
            status = Path(entry.path).stat()
        except OSError:
            return None
    return FoundFile(Path(entry.path), status, root, alias)


def _is_blob(entry: "os.DirEntry[str]") -> bool:
    return _BLOB_NAME.fullmatch(entry.name) is not None


def _begins_like_a_model(path: Path) -> bool:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb", buffering=0) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _alias(manifest: Path) -> str:
    """Return "model:tag" for registry/library/model/tag, with the owner where there is one."""
    *place, model, tag = ("", "", *manifest.parts)
    owner = place[-1]
    return f"{model}:{tag}" if owner in ("", "library") else f"{owner}/{model}:{tag}"


def _model_digests(manifest: Path) -> list[str]:
    try:
        if manifest.stat().st_size > _MAX_MANIFEST_BYTES:
            return []
        layers = json.loads(manifest.read_bytes())["layers"]
        return [
            layer["digest"]
            for layer in layers
            if str(layer["mediaType"]).endswith(_MODEL_LAYERS) and _BLOB_NAME.fullmatch(layer["digest"])
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # another program's file, maybe half written
        return []
