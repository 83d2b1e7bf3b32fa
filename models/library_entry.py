"""What a scan of the library finds: one entry for each model file or set of parts, and how the scan went."""

import dataclasses
from pathlib import Path

from models.model_kinds import ModelKind


@dataclasses.dataclass(frozen=True, kw_only=True)
class LibraryEntry:
    """One model as it lies on the disk: a file, or all parts of a split one, shown once wherever copies of it lie.

    Attributes:
        id: stays the same from scan to scan, and when the file is moved on its disk.
        title: what a person calls it, such as "SmolLM2 135M Instruct Q4_1".
        name: what the terminal calls it, such as "smollm2-135m-instruct:q4_1"; no other entry has it.
        group_key: the same for all levels of one model.
        group_title: the model without its level.
        paths: all parts that are there, in their order; a model is loaded by the first.
        missing_parts: file names of the parts that are not there.
        kind: what it is for; None where no file of it could be read.
        has_chat_template: whether it says how chats are written; a base model mostly does not.
        architecture: llama.cpp's name; may be empty.
        tokenizer: model, pre-tokeniser and number of tokens of its vocabulary; may be empty.
        type_name: the level, such as "Q4_1"; may be empty.
        bits_per_weight: of all parts that are there, 0 where it has no weights.
        num_active_parameters: those used for each token; fewer than all in a mixture of experts.
        file_bytes: of all parts that are there.
        n_ctx_train: 0 where that does not apply.
        licence: as the file gives it; may be empty.
        source: whose it is, such as "Fireside", "Ollama", or a folder of the user.
        is_ours: it lies in Fireside's own folder.
        alias: what the program that keeps it calls it, such as "llama3.2:3b"; may be empty.
        other_places: where the same bytes lie as well; for a set, where its first parts lie.
        problem: why it cannot be used, one sentence; None where it can.
        hint: what to do about that; may be empty.
    """

    id: str
    title: str
    name: str
    group_key: str
    group_title: str
    paths: tuple[Path, ...]
    missing_parts: tuple[str, ...] = ()
    kind: ModelKind | None = None
    has_chat_template: bool = False
    architecture: str = ""
    tokenizer: str = ""
    type_name: str = ""
    bits_per_weight: float = 0.0
    num_parameters: int = 0
    num_active_parameters: int = 0
    file_bytes: int = 0
    n_ctx_train: int = 0
    licence: str = ""
    source: str = ""
    is_ours: bool = False
    alias: str = ""
    other_places: tuple[Path, ...] = ()
    problem: str | None = None
    hint: str = ""

    @property
    def path(self) -> Path:
        """The file it is loaded by."""
        return self.paths[0]

    @property
    def is_removable(self) -> bool:
        """Whether Fireside may remove it: it never touches what other programs keep."""
        return self.is_ours

    @property
    def can_chat(self) -> bool:
        """Whether it can be loaded for a chat."""
        return self.kind is ModelKind.TEXT and self.problem is None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScanProgress:
    """How far a scan is.

    Attributes:
        folder: the one that is looked at.
        num_files: model files found so far.
        num_read: those that had to be read, because they are new or have changed.
    """

    folder: Path
    num_files: int
    num_read: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScanProblem:
    """Something that kept a scan from seeing all: an unreadable folder, an index that could not be used.

    Attributes:
        path: what it is about.
        message: one sentence.
        hint: what to do; may be empty.
    """

    path: Path
    message: str
    hint: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LibraryScan:
    """What a scan found.

    Attributes:
        entries: sorted by group, within a group from the largest to the smallest.
        num_files: model files that were found.
        num_read: those that were read, because they were new or had changed.
        is_complete: False where it was cancelled; then entries are those known before, with what was found anew.
    """

    entries: tuple[LibraryEntry, ...]
    problems: tuple[ScanProblem, ...]
    num_files: int
    num_read: int
    seconds: float
    is_complete: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemovedModel:
    """A model in the trash.

    Attributes:
        id: of this removal.
        removed_at: seconds since 1970, by the clock of the machine.
        paths: where its files were.
    """

    id: str
    title: str
    removed_at: float
    file_bytes: int
    paths: tuple[Path, ...]
