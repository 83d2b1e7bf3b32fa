"""What the Models page shows of model files, as plain records, and how they are searched and put in order."""

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import QCoreApplication

_MANY_BITS = 1e9  # for types without a known size, which then stand last


class Fit(enum.Enum):
    """Whether a model finds the memory it needs."""

    UNKNOWN = "unknown"
    FITS = "fits"
    TIGHT = "tight"
    TOO_LARGE = "too_large"


class Section(enum.IntEnum):
    """The part of the list a file stands in."""

    CHAT = 0
    OTHER = 1
    UNUSABLE = 2


class Sort(enum.Enum):
    """What the list is put in order by."""

    NAME = "name"
    SIZE = "size"
    TYPE = "type"
    USED = "used"


class Fact(NamedTuple):
    """A line of what is known: a name and a value, as they are shown."""

    label: str
    value: str


class FileRow(NamedTuple):
    """One level of a model: a file, or all parts of one that is split.

    Attributes:
        path: the file that is opened; names the row.
        label: what tells it from the other levels, for example "Q4_K_M".
        num_bytes: of all parts together.
        bits_per_weight: 0 where it is not known.
        n_ctx_train: tokens it was trained to hold at once, 0 where that does not apply.
        owner: the program whose folder it lies in; empty for Fireside and for folders of the user's.
        place: what the folder is called.
        is_ours: whether Fireside may remove it.
        can_chat: whether it can be loaded for a chat.
        can_quantise: whether other levels can be made of it.
        kind: what it is, where it is no model to chat with.
        needed_bytes, free_bytes: what `fit` was told from; 0 where it is not known.
        max_ctx: the largest context that fits, 0 where it is not known.
        tokens_per_s: predicted decode rate, None where it is not known.
        used_at: when it was loaded last, in seconds since 1970; 0 for never.
        problem, hint: one sentence each; empty where nothing is wrong.
        missing: names of parts that are not there.
        also_in: other places that hold the same bytes.
    """

    path: str
    label: str
    num_bytes: int
    bits_per_weight: float = 0.0
    n_ctx_train: int = 0
    owner: str = ""
    place: str = ""
    is_ours: bool = False
    can_chat: bool = True
    can_quantise: bool = False
    kind: str = ""
    fit: Fit = Fit.UNKNOWN
    needed_bytes: int = 0
    free_bytes: int = 0
    max_ctx: int = 0
    tokens_per_s: float | None = None
    used_at: float = 0.0
    problem: str = ""
    hint: str = ""
    num_parts: int = 1
    missing: tuple[str, ...] = ()
    also_in: tuple[str, ...] = ()


class FitFigures(NamedTuple):
    """What is reckoned of a file and the memory that is free; see FileRow."""

    fit: Fit = Fit.UNKNOWN
    needed_bytes: int = 0
    free_bytes: int = 0
    max_ctx: int = 0
    tokens_per_s: float | None = None


class ModelRow(NamedTuple):
    """A model and its levels.

    Attributes:
        num_active: parameters read for each token, where that is fewer than all.
    """

    name: str
    files: tuple[FileRow, ...]
    architecture: str = ""
    num_parameters: int = 0
    num_active: int = 0
    licence: str = ""
    section: Section = Section.CHAT


class FolderRow(NamedTuple):
    """A folder in which models are looked for.

    Attributes:
        is_added: whether the user has added it, and may take it away.
        num_files: model files found there.
        problem: why it could not be looked into.
    """

    path: str
    name: str
    is_added: bool = False
    num_files: int = 0
    problem: str = ""


class TensorRow(NamedTuple):
    """One tensor of a file."""

    name: str
    type_name: str
    shape: str
    num_bytes: int


class Inspection(NamedTuple):
    """What a file holds.

    Attributes:
        facts: the most important, in order.
        metadata: every key of the header, in the order of the file.
        licence: text or name.
    """

    facts: tuple[Fact, ...]
    metadata: tuple[Fact, ...]
    tensors: tuple[TensorRow, ...]
    template: str = ""
    licence: str = ""


class LevelChoice(NamedTuple):
    """A level that can be made.

    Attributes:
        num_bytes: exact size of the file it would be.
        needs_matrix: whether it is only made with an importance matrix.
        is_usual: whether it is among those most people want.
        note: what it is good for, in one sentence; may be empty.
        why_not: why it cannot be made; empty where it can.
    """

    type_name: str
    num_bytes: int
    bits_per_weight: float = 0.0
    needs_matrix: bool = False
    is_usual: bool = True
    note: str = ""
    why_not: str = ""


class Matrix(enum.Enum):
    """Where the importance matrix comes from."""

    NONE = "none"
    BUNDLED = "bundled"
    TEXT = "text"
    FILE = "file"


class QuantiseOffer(NamedTuple):
    """What can be made of a file.

    Attributes:
        free_bytes: room on the disk the new files go to.
        folder: where they go.
        warning: what a person should know first, for example that the file is quantised already.
        matrices: where an importance matrix can come from.
    """

    path: str
    name: str
    levels: tuple[LevelChoice, ...]
    free_bytes: int
    folder: str
    warning: str = ""
    matrices: tuple[Matrix, ...] = tuple(Matrix)


class QuantiseOrder(NamedTuple):
    """What is to be made.

    Attributes:
        types: levels, one after the other.
        matrix_path: the text or the matrix, where one was chosen.
    """

    path: str
    types: tuple[str, ...]
    matrix: Matrix = Matrix.NONE
    matrix_path: str = ""


class ScanCount(NamedTuple):
    """How far a scan is: files found so far, and the folder that is looked at."""

    num_files: int
    folder: str


class ScanOutcome(NamedTuple):
    """What a scan found.

    Attributes:
        problems: sentences about folders that could not be looked into.
    """

    models: tuple[ModelRow, ...]
    problems: tuple[str, ...] = ()


class MakeProgress(NamedTuple):
    """How far the making of levels is.

    Attributes:
        type_name: the level that is made; empty while the importance matrix is computed.
        number: 1-based, of `total`.
        share: of this one, 0 to 1.
    """

    type_name: str
    number: int
    total: int
    share: float
    remaining_s: float | None = None


class MadeLevel(NamedTuple):
    """What became of one level.

    Attributes:
        error, hint: why it was not made; empty where it was.
    """

    type_name: str
    path: str = ""
    error: str = ""
    hint: str = ""


class Line(NamedTuple):
    """A line of the list: the head of a section, that of a model, or a file."""

    text: str = ""
    model: ModelRow | None = None
    file: FileRow | None = None

    @property
    def path(self) -> str:
        """The file, empty in a head."""
        return self.file.path if self.file is not None else ""


def list_lines(models: Sequence[ModelRow], *, search: str = "", sort: Sort = Sort.NAME) -> list[Line]:
    """Return the lines for some models: sections, models and files in order, and only those that were searched for."""
    words = search.casefold().split()
    key = _FILE_KEYS[sort]
    ranked: list[tuple[Section, Any, str, ModelRow, list[FileRow]]] = []
    for model in models:
        files = sorted((file for file in model.files if _matches(model, file, words)), key=key)
        if files:
            first = key(files[0]) if sort is not Sort.NAME else ()
            ranked.append((model.section, first, model.name.casefold(), model, files))
    ranked.sort(key=lambda each: each[:3])
    lines: list[Line] = []
    section = Section.CHAT
    for model_section, _, _, model, files in ranked:
        if model_section is not section:
            section = model_section
            lines.append(Line(_head(section)))
        if section is not Section.UNUSABLE:  # which have no name but that of the file
            lines.append(Line(model.name, model))
        lines += [Line(file.label, model, file) for file in files]
    return lines


def with_file(models: Sequence[ModelRow], path: str) -> ModelRow | None:
    """Return the model that has a file."""
    return next((model for model in models if any(file.path == path for file in model.files)), None)


def _matches(model: ModelRow, file: FileRow, words: Sequence[str]) -> bool:
    if not words:
        return True
    parts = (model.name, model.architecture, file.label, file.path, file.owner, file.place, file.kind)
    text = "\n".join(parts).casefold()
    return all(word in text for word in words)


def _by_bits(file: FileRow) -> tuple[float, int]:
    return -(file.bits_per_weight or -_MANY_BITS), -file.num_bytes


_FILE_KEYS: dict[Sort, Callable[[FileRow], Any]] = {
    Sort.NAME: _by_bits,
    Sort.SIZE: lambda file: -file.num_bytes,
    Sort.TYPE: lambda file: (file.bits_per_weight or _MANY_BITS, file.label),
    Sort.USED: lambda file: (-file.used_at, *_by_bits(file)),
}


def _head(section: Section) -> str:
    if section is Section.OTHER:
        return QCoreApplication.translate("ModelList", "Not models to chat with")
    return QCoreApplication.translate("ModelList", "Cannot be used")
