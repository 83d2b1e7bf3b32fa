"""Which LoRA adapters there are for a model: found in folders, looked at by their headers, never loaded."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import AdapterUnreadable, UsageError
from app.paths import Paths

# What takes long to import is imported where it is used: the first paint of the window does not wait for it.
if TYPE_CHECKING:
    from models import AdapterBase, AdapterInfo

_LOG = logging.getLogger(__name__)
_SUFFIX = ".gguf"
_MAX_DEPTH = 6
_MAX_FILES = 5_000
_MAX_KEPT = 2_000
# Whatever converts an adapter writes what it is in front; a model says so nowhere, and its head takes long to read.
_MARK, _MARK_BYTES = b"adapter", 1 << 16
_MAX_NAMED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundAdapter:
    """An adapter file beside the model it is to be used with.

    Attributes:
        path: absolute, as it is given to the engine.
        label: what a person calls it.
        base: the model that it says it was trained on; empty where it does not tell.
        is_of_other_base: whether that goes by another name than the model, which may be right all the same.
        misfit: the one reason why it cannot be used, a sentence; empty where it can.
        stamp: another one once the file is another.
        is_missing: there is no file.
    """

    path: str
    label: str
    file_bytes: int = 0
    rank: int = 0
    base: str = ""
    is_of_other_base: bool = False
    misfit: str = ""
    stamp: str = ""
    is_missing: bool = False


class AdapterFiles:
    """Looks into folders, and remembers what it has seen of files that stay the same. For one thread at a time.

    Args:
        folder: of the models that belong to the program, where there is one; all below it is looked at.
        library: tells of further files that are known to be adapters.
    """

    def __init__(self, folder: Path | None, library: Callable[[], Iterable[Path]] = tuple) -> None:
        self.folder = folder
        self._library = library
        self._seen: dict[tuple[str, str], AdapterInfo | None] = {}
        self._base: tuple[str, AdapterBase] | None = None

    def find(self, model: str | None, also: Iterable[str] = ()) -> list[FoundAdapter]:
        """Return the adapters in the folder, in that of the model, in the library and those that are named.

        The usable ones come first, by name. Where no model is named, none is told to fit or not to.

        Args:
            model: path of the loaded file, or `starter`.
            also: paths that are listed even if they cannot be used, or are not there.
        """
        base = self._base_of(model)
        found: dict[str, FoundAdapter] = {}
        for path in self._candidates(model):
            if (adapter := self._look_quietly(path, base)) is not None:
                found.setdefault(_real(str(path)), adapter)
        for text in also:
            name = _real(text)
            known = found.get(name)
            # By the name the chat knows it by, whatever other one leads to the same file.
            found[name] = dataclasses.replace(known, path=text) if known is not None else self._listed(text, base)
        return sorted(
            found.values(), key=lambda adapter: (bool(adapter.misfit), adapter.label.casefold(), adapter.path)
        )

    def check(self, paths: Iterable[str], model: str | None) -> list[FoundAdapter]:
        """Return what files are that are in use, whatever they have become."""
        base = self._base_of(model)
        return [self._listed(path, base) for path in paths]

    def look_at(self, text: str, model: str | None) -> FoundAdapter:
        """Return what one file is.

        Raises:
            AppError: there is no such file, or it cannot be read.
            ModelsError: it is no adapter, or damaged.
        """
        base = self._base_of(model)
        path = Path(text)
        try:
            text.encode()
            info, stamp = self._read(path)
        except FileNotFoundError as error:
            raise AdapterUnreadable(f"There is no adapter file {text}.", "Check the path.") from error
        except OSError as error:
            raise AdapterUnreadable(
                f"{text} cannot be read: {error.strerror or error}.", "Check the file and its disk."
            ) from error
        except ValueError as error:  # a NUL, or bytes that are no text: they could not be sent to the engine either
            raise AdapterUnreadable(
                "The path of the adapter holds characters that are no text.", "Rename the file or its folder."
            ) from error
        return _found(path, info, base, stamp)

    def named(self, name: str, model: str) -> FoundAdapter | None:
        """Return the adapter that a person means by a name, with its ending or without; None where there is none.

        Raises:
            UsageError: several are called so.
        """
        wanted = name.casefold()
        called = [
            adapter
            for adapter in self.find(model)
            if wanted in (adapter.label.casefold(), Path(adapter.path).name.casefold())
        ]
        usable = [adapter for adapter in called if not adapter.misfit] or called
        if len(usable) > 1:
            paths = ", ".join(adapter.path for adapter in usable[:_MAX_NAMED])
            raise UsageError(f"{len(usable)} adapters are called {name}.", f"Give the path of one: {paths}.")
        return usable[0] if usable else None

    def _candidates(self, model: str | None) -> Iterator[Path]:
        if self.folder is not None:
            yield from _files_below(self.folder, _MAX_DEPTH)
        if (path := _model_path(model)) is not None:
            yield from _files_below(path.parent, 1)
        yield from self._library()

    def _base_of(self, model: str | None) -> "AdapterBase | None":
        """Return what an adapter of a model has to fit; None where that cannot be told."""
        from models import ModelsError, read_adapter_base, read_gguf_info

        path = _model_path(model)
        if path is None:
            return None
        try:
            key = f"{path}:{_stamp(path)}"
            if self._base is None or self._base[0] != key:
                self._base = key, read_adapter_base(read_gguf_info(path))
            return self._base[1]
        except (ModelsError, OSError, ValueError) as error:
            _LOG.info("what adapters of the model have to fit is not known: %s", error)
            return None

    def _look_quietly(self, path: Path, base: "AdapterBase | None") -> FoundAdapter | None:
        from models import ModelsError

        try:
            str(path).encode()
            stamp = _stamp(path)
            key = (str(path), stamp)
            if key not in self._seen and not _may_be_adapter(path):
                self._remember(key, None)
            if key in self._seen and self._seen[key] is None:
                return None
            info, stamp = self._read(path)
        except (ModelsError, OSError, ValueError):
            return None
        return _found(path, info, base, stamp)

    def _listed(self, text: str, base: "AdapterBase | None") -> FoundAdapter:
        """Return a file that the user named, whatever it is."""
        from models import ModelsError

        path = Path(text)
        try:
            text.encode()
            info, stamp = self._read(path)
        except FileNotFoundError:
            return FoundAdapter(path=text, label=path.stem, misfit="The file is not there any more.", is_missing=True)
        except ModelsError as error:
            return FoundAdapter(path=text, label=path.stem, misfit=error.message)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            return FoundAdapter(path=text, label=path.stem, misfit=f"The file cannot be read: {reason}.")
        return dataclasses.replace(_found(path, info, base, stamp), path=text)

    def _read(self, path: Path) -> tuple["AdapterInfo", str]:
        from models import read_adapter_info

        stamp = _stamp(path)
        key = (str(path), stamp)
        info = self._seen.get(key)
        if info is None:
            info = read_adapter_info(path)
            self._remember(key, info)
        return info, stamp

    def _remember(self, key: tuple[str, str], info: "AdapterInfo | None") -> None:
        if len(self._seen) >= _MAX_KEPT:
            self._seen.clear()
        self._seen[key] = info


def open_adapter_files(paths: Paths) -> AdapterFiles:
    """Return the adapters of this user: Fireside's own, and those that the library found elsewhere."""

    def known() -> list[Path]:
        from app.model_library import open_library
        from models import ModelKind

        return [entry.path for entry in open_library(paths).entries() if entry.kind is ModelKind.ADAPTER]

    return AdapterFiles(paths.models_dir, known)


def _found(path: Path, info: "AdapterInfo", base: "AdapterBase | None", stamp: str) -> FoundAdapter:
    from models import adapter_misfit, names_other_base

    return FoundAdapter(
        path=str(path),
        label=path.stem if path.suffix.lower() == _SUFFIX else info.name,  # other programs name files by their hash
        file_bytes=info.file_bytes,
        rank=info.rank,
        base=info.bases[0] if info.bases else "",
        is_of_other_base=base is not None and names_other_base(info, base),
        misfit=adapter_misfit(info, base) if base is not None else info.fault,
        stamp=stamp,
    )


def _model_path(model: str | None) -> Path | None:
    from models import STARTER_NAME, find_starter

    return find_starter() if model == STARTER_NAME else Path(model) if model else None


def _real(text: str) -> str:
    """Return the file that a path leads to, so that one is listed once."""
    try:
        return os.path.realpath(text)
    except (OSError, ValueError):
        return text


def _stamp(path: Path) -> str:
    found = path.stat()
    return f"{found.st_size}:{found.st_mtime_ns}"


def _may_be_adapter(path: Path) -> bool:
    if not path.is_file():  # a pipe would block
        return False
    with path.open("rb") as file:
        return _MARK in file.read(_MARK_BYTES)


def _files_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the model files of a folder and of those in it; what cannot be read is passed over."""
    folders: list[tuple[str, int]] = [(str(folder), depth)]
    num_files = 0
    while folders and num_files < _MAX_FILES:
        name, left = folders.pop()
        for entry in _entries(name):
            with contextlib.suppress(OSError):
                if entry.name.lower().endswith(_SUFFIX):
                    num_files += 1
                    yield Path(entry.path)
                elif left > 1 and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, left - 1))


def _entries(folder: str) -> Sequence["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []
