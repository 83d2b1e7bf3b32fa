"""Which files can draft for a model: every one of the library, usable or not."""

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

from app.model_library import open_library
from app.paths import Paths
from engine import ModelParams
from models import GGUFInfo, LibraryEntry, read_gguf_info


@dataclasses.dataclass(frozen=True, kw_only=True)
class DraftCheck:
    """Whether a file can draft for a model."""

    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    memory_bytes: int = 0
    cost_ratio: float = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether it can draft."""
        return not self.reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class DraftCandidate:
    """A file of the library, or beside the model."""

    path: Path
    name: str
    title: str
    file_bytes: int
    check: DraftCheck


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundDrafts:
    """All files there are, as drafts for one model."""

    target: GGUFInfo
    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    candidates: tuple[DraftCandidate, ...] = ()
    suggestion: DraftCandidate | None = None


class DraftFiles:
    """Looks at pairs of files."""

    def __init__(self, entries: Callable[[], Iterable[LibraryEntry]] = tuple) -> None:
        self._entries = entries

    def find(self, target: Path, *, params: ModelParams | None = None) -> FoundDrafts:
        """Return what all files are as drafts."""
        return FoundDrafts(target=read_gguf_info(target))

    def check(self, target: Path, draft: Path, *, params: ModelParams | None = None) -> DraftCheck:
        """Return whether one file can draft for another."""
        if not draft.is_file():
            return DraftCheck(reason=f"There is no file {draft}.", hint="Choose another draft model.")
        return DraftCheck(memory_bytes=1)


def open_draft_files(paths: Paths) -> DraftFiles:
    """Return the files of this user's library."""
    return DraftFiles(lambda: open_library(paths).entries())


def check_draft(target: Path, draft: Path, *, params: ModelParams | None = None) -> DraftCheck:
    """Return whether one file can draft for another; see `DraftFiles.check`."""
    return DraftFiles().check(target, draft, params=params)


def suggestion_text(suggested: DraftCandidate) -> str:
    """Return what is said of the draft that is suggested."""
    return f"{suggested.title} may pay."
