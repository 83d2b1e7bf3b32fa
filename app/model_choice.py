"""Which model file a command or the window means, checked before any load.

`starter`, a path, a name in the library, or the one used last.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from app.errors import ModelFileMissing, ModelFileUnreadable, ModelNameAmbiguous, StarterMissing
from app.model_library import open_library
from app.paths import Paths
from app.settings import Settings
from models import (
    STARTER_INSTALL,
    STARTER_LABEL,
    STARTER_NAME,
    GGUFInfo,
    LibraryEntry,
    check_is_chat_model,
    find_starter,
    fingerprint,
    first_part,
    match_entries,
    read_gguf_info,
    template_hash,
)

_NAMED_CANDIDATES = 6


@dataclasses.dataclass(frozen=True)
class ModelChoice:
    """A model file that can be loaded.

    Attributes:
        path: absolute.
        label: what a person calls it.
        last_model: how the settings remember it.
        info: what its header says.
        fingerprint: tells the model from all others, wherever its file lies.
        template_hash: of the chat template in the file; empty where it has none.
    """

    path: Path
    label: str
    last_model: str
    info: GGUFInfo
    fingerprint: str
    template_hash: str


def choose_model(text: str | None, settings: Settings, paths: Paths | None = None) -> ModelChoice:
    """Return the model that `text` means.

    Args:
        text: `starter`, a path or a name in the library; None takes the one used last if its file is still there, else
            the starter.
        settings: hold the one used last.
        paths: where the library is; None leaves it out.

    Raises:
        AppError: there is no such file, it cannot be read, or the name means several models.
        ModelsError: the file is no model that can chat.
    """
    if text is None:
        text = _last_one(settings)
    _check_is_named(text)
    if text == STARTER_NAME:
        return _choice(_starter_path(), STARTER_LABEL, STARTER_NAME)
    entry = find_entry(text, paths) if paths is not None and not _is_path(text) else None
    if entry is not None:
        return _choice(entry.path, entry.title, str(entry.path))
    path = _named_path(text, paths)
    return _choice(path, path.stem, str(path))


def model_path(text: str, paths: Paths) -> Path:
    """Return the file that `text` means, of whatever kind it is; there may be none at a path.

    Raises:
        AppError: there is no model of that name, or several.
    """
    _check_is_named(text)
    if text == STARTER_NAME:
        return _starter_path()
    entry = None if _is_path(text) else find_entry(text, paths)
    return entry.path if entry is not None else _named_path(text, paths)


def _check_is_named(text: str) -> None:
    if not text.strip():
        raise ModelFileMissing("The model has no name.", f"Give the path of a .gguf file, or `{STARTER_NAME}`.")


def find_entry(text: str, paths: Paths) -> LibraryEntry | None:
    """Return the entry of the library that a name means, None where it looks like a path and is no known name.

    The folders are looked through where the name is not known from the last time.

    Raises:
        ModelFileMissing: nothing has that name.
        ModelNameAmbiguous: several have.
    """
    library = open_library(paths)
    found = tuple(entry for entry in match_entries(library.entries(), text) if entry.path.exists())
    if not found and (text.lower().endswith(".gguf") or Path(text).is_dir()):
        return None
    if not found:
        found = match_entries(library.scan().entries, text)
    if not found:
        raise ModelFileMissing(
            f"There is no file {text}, and no model of that name in the library.",
            f"See `fireside models list`, or give the path of a .gguf file, or `{STARTER_NAME}`.",
        )
    if len(found) > 1:
        names = ", ".join(entry.name for entry in found[:_NAMED_CANDIDATES])
        more = f" and {len(found) - _NAMED_CANDIDATES} more" if len(found) > _NAMED_CANDIDATES else ""
        raise ModelNameAmbiguous(f"{text} can mean {len(found)} models: {names}{more}.", "Give one of these names.")
    return found[0]


def _is_path(text: str) -> bool:
    """Return whether a text names a file that is there, or cannot be a name."""
    try:
        path = Path(text).expanduser()
        is_there = path.exists() and not path.is_dir()  # a folder may have the name of a model
        return not text.strip() or not text.isprintable() or path.is_absolute() or is_there
    except (OSError, ValueError, RuntimeError):
        return True


def _named_path(text: str, paths: Paths | None) -> Path:
    """Return the path `text` is; the name of a file alone may be that of one in the folder of models."""
    path = Path(text)
    with contextlib.suppress(RuntimeError):  # no such user
        path = path.expanduser()
    path = path.absolute()
    try:
        if paths is None or path.exists() or Path(text).name != text:
            return path
        own = paths.models_dir / text
        return own if own.is_file() else path
    except OSError:  # a name too long: whoever opens it says so
        return path


def _starter_path() -> Path:
    path = find_starter()
    if path is None:
        raise StarterMissing("The starter model is not installed.", f"Install it with `{STARTER_INSTALL}`.")
    return path


def _last_one(settings: Settings) -> str:
    last = settings.last_model
    return last if last and Path(last).is_file() else STARTER_NAME


def _choice(path: Path, label: str, last_model: str) -> ModelChoice:
    with told_as_file_errors(path):
        info = read_gguf_info(path)
        first = first_part(info)
        if first != path and first.exists():  # a later part of a split model means all of it
            path, info = first, read_gguf_info(first)
            label, last_model = path.stem, str(path)
        check_is_chat_model(info)
        return ModelChoice(path, label, last_model, info, fingerprint(info), template_hash(info))


@contextlib.contextmanager
def told_as_file_errors(path: Path) -> Iterator[None]:
    """Tell what reading a model's file ends with as an error of the application."""
    try:
        str(path).encode()
        yield
    except FileNotFoundError as error:
        raise ModelFileMissing(
            f"There is no file {path}.", f"Give the path of a .gguf file, or `{STARTER_NAME}`."
        ) from error
    except IsADirectoryError as error:
        raise ModelFileMissing(f"{path} is a folder.", "Give the path of a .gguf file in it.") from error
    except PermissionError as error:
        raise ModelFileUnreadable(
            f"{path} cannot be read: this user may not open it.", "Change the permissions of the file."
        ) from error
    except OSError as error:
        raise ModelFileUnreadable(
            f"{path} cannot be read: {error.strerror or error}.", "Check the disk, or copy the file elsewhere."
        ) from error
    except ValueError as error:  # a NUL, or bytes that are no text: they could not be sent to the engine either
        raise ModelFileUnreadable(
            "The path of the model holds characters that are no text.", "Rename the file or its folder."
        ) from error
