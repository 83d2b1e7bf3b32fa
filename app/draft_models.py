"""Which model files can draft for a model (stand-in until the real part is merged)."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class DraftCheck:
    """What is known of a draft model before it is loaded."""

    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    memory_bytes: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundDraft:
    """A file beside the model that it might draft for."""

    path: str
    label: str
    check: DraftCheck
    is_suggested: bool = False


def check_draft(target_path: str, draft_path: str) -> DraftCheck:
    """Return whether a file can draft."""
    if not Path(draft_path).is_file():
        return DraftCheck(reason=f"There is no file {draft_path}.", hint="Choose another draft model.")
    return DraftCheck()


def find_drafts(target_path: str) -> Sequence[FoundDraft]:
    """Return the files beside a model."""
    return ()
