"""Where Fireside keeps its data: the platform's own folders, or one folder of the user's choice."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from app.errors import DataFolderError

DATA_DIR_VARIABLE = "FIRESIDE_DATA_DIR"

_NAME = "fireside"


@dataclasses.dataclass(frozen=True)
class Paths:
    """Every place the program writes to.

    Attributes:
        data_dir: chats and everything the other places hold when the user chose one folder.
    """

    data_dir: Path
    settings_file: Path
    database_file: Path
    models_dir: Path
    prompt_cache_dir: Path
    logs_dir: Path

    @property
    def log_file(self) -> Path:
        """The one log of this program; older ones lie beside it with a number."""
        return self.logs_dir / "fireside.log"

    @property
    def terminal_history_file(self) -> Path:
        """What was typed into the terminal chat."""
        return self.data_dir / "terminal-history"

    @property
    def runs_dir(self) -> Path:
        """Comparisons that are in progress or were interrupted, each in a folder of its own."""
        return self.data_dir / "runs"

    def create(self) -> None:
        """Make the folders that are missing, readable by this user only.

        Raises:
            DataFolderError: one cannot be made.
        """
        if not _is_text(str(self.data_dir)):
            raise DataFolderError(
                "The folder for the data has a name that is no text.", "Choose another one with --data-dir DIR."
            )
        folders = (self.data_dir, self.settings_file.parent, self.models_dir, self.prompt_cache_dir, self.logs_dir)
        for folder in folders:
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except (OSError, ValueError) as error:
                raise DataFolderError(
                    f"The folder {folder} cannot be made: {_reason(error)}.",
                    f"Choose another one with --data-dir DIR or {DATA_DIR_VARIABLE}.",
                ) from error


def find_paths(data_dir: str | None = None, environment: Mapping[str, str] | None = None) -> Paths:
    """Return the places to use; makes none of them.

    Args:
        data_dir: the folder the user named; None looks into FIRESIDE_DATA_DIR, then takes the platform's folders.
        environment: stands in for os.environ.
    """
    environment = os.environ if environment is None else environment
    chosen = data_dir or environment.get(DATA_DIR_VARIABLE)
    if chosen:
        folder = Path(chosen).expanduser().absolute()
        return _paths(folder, config=folder, cache=folder, logs=folder / "logs")
    platform = platformdirs.PlatformDirs(_NAME, appauthor=False)
    return _paths(
        platform.user_data_path,
        config=platform.user_config_path,
        cache=platform.user_cache_path,
        logs=platform.user_log_path,
    )


def _paths(data: Path, *, config: Path, cache: Path, logs: Path) -> Paths:
    return Paths(
        data_dir=data,
        settings_file=config / "settings.toml",
        database_file=data / "chats.sqlite3",
        models_dir=data / "models",
        prompt_cache_dir=cache / "prompt-cache",
        logs_dir=logs,
    )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8: neither the settings nor the engine can be told of them
        return False
    return True


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
