"""Whether a model can draft for another, told from the headers of both files alone, and the one reason why it cannot.

A draft is passed on as token numbers, so a number must mean the same text in both models. The rules are those of
llama.cpp, common/speculative.cpp, but for the texts: there the first five may differ, here none.
"""

import dataclasses
import enum
from pathlib import Path
from typing import NamedTuple

from models.errors import MissingParts
from models.gguf_info import GGUFInfo, check_is_chat_model, first_part, missing_parts, parts_of, printable, read_header
from models.library_entry import LibraryEntry
from models.model_kinds import WHY_NO_CHAT, ModelKind
from models.vocabulary import Vocabulary, first_difference, read_vocabulary
from models.weight_sums import joined

MAX_SIZE_DIFFERENCE = 128  # tokens by which one vocabulary may be longer
_FAMILY = "Choose a smaller model of the same family: it has the same vocabulary."
_ANY_TEXT_MODEL = "Choose a smaller text model of the same family, or a lower level of the same model."
_CANNOT_REWIND = "its memory cannot be rewound, so a draft that is refused could not be taken back"
_GB, _MB = 10**9, 10**6


class Refusal(NamedTuple):
    """Why something cannot be used.

    Attributes:
        reason: one sentence.
        hint: what to do, one sentence.
    """

    reason: str
    hint: str


class Kinship(enum.Enum):
    """What a draft is to the model it drafts for."""

    SAME_FILE = "the same file"
    LEVEL = "another level of the same model"
    FAMILY = "a model of the same family"
    OTHER = "another model"


@dataclasses.dataclass(frozen=True)
class DraftFile:
    """A model file as one half of a pair of target and draft.

    Attributes:
        info: of a split model, with the weights and parameters of all its files.
        vocabulary: None where the file has none.
    """

    info: GGUFInfo
    vocabulary: Vocabulary | None

    @property
    def name(self) -> str:
        """How messages call the file."""
        return printable(self.info.path.name)


def read_draft_file(path: Path) -> DraftFile:
    """Return what the file at `path` is; a later part of a split model means all of it.

    Raises:
        GGUFError: it, or another part of it, is no sound GGUF file.
        OSError: it cannot be read.
    """
    info, header = read_header(path)
    first = first_part(info)
    if first != path and first.exists():
        info, header = read_header(first)
    if info.split_count > 1 and info.split_no == 0 and not missing_parts(info):
        info = _whole(info)
    return DraftFile(info, read_vocabulary(info.path, header.values))


def target_reason(info: GGUFInfo) -> Refusal | None:
    """Return why nothing can be drafted for a model, whatever drafts; None where something can."""
    if has_state(info):
        return Refusal(
            f"Nothing can be drafted for {printable(info.path.name)}: {_CANNOT_REWIND}.",
            "Choose a model without recurrent layers, or leave drafting off.",
        )
    return None


def target_notes(info: GGUFInfo) -> tuple[str, ...]:
    """Return what is to know before something is drafted for a model, as sentences."""
    notes = []
    if info.hyperparameters is not None and info.hyperparameters.num_prediction_layers:
        notes.append("It has layers that predict further tokens (MTP), which Fireside does not use yet.")
    if info.kv_layout is not None and info.kv_layout.doubts and not has_state(info):
        notes.append("Whether its memory can be rewound is only known once it is loaded.")
    return tuple(notes)


def draft_reason(target: DraftFile, draft: DraftFile) -> Refusal | None:
    """Return the one reason why a file cannot draft for another; None where it can.

    Raises:
        GGUFError: a file has changed since it was read.
        OSError: one cannot be read any more.
    """
    return _reason_of_kind(draft.name, draft.info.kind) or _reason_of_model(draft.info) or _mismatch(target, draft)


def entry_reason(target: DraftFile, entry: LibraryEntry) -> Refusal | None:
    """Return why an entry cannot draft, as far as the library knows without opening its file; else None."""
    if entry.problem is not None:
        return Refusal(entry.problem, entry.hint)
    name = printable(entry.path.name)
    if entry.kind is not None and (refusal := _reason_of_kind(name, entry.kind)) is not None:
        return refusal
    parts = entry.tokenizer.split("/")  # model, pre-tokeniser, number of tokens
    if target.vocabulary is None or len(parts) != 3 or not parts[2].isdecimal():
        return None
    return _mismatch_of_sizes(target.vocabulary, name, parts[0], int(parts[2]))


def draft_notes(target: DraftFile, draft: DraftFile) -> tuple[str, ...]:
    """Return what is to know of a draft that can be used, as sentences."""
    notes = []
    if kinship(target, draft) is Kinship.SAME_FILE:
        notes.append("It is the model itself: every draft would be accepted, and none would save time.")
    elif (theirs := draft.info.active_bytes) >= (ours := target.info.active_bytes):
        sizes = f"It reads {_size(theirs)} for each token, the model {_size(ours)}"
        notes.append(f"{sizes}: drafting would be slower than the model itself.")
    if target.vocabulary is not None and draft.vocabulary is not None:
        more = draft.vocabulary.num_tokens - target.vocabulary.num_tokens
        if more > 0:
            notes.append(f"It has {more:,} more tokens than the model, which are never proposed.")
        elif more < 0:
            notes.append(f"The model has {-more:,} more tokens, which it cannot propose.")
    if 0 < draft.info.n_ctx_train < target.info.n_ctx_train:
        length = draft.info.n_ctx_train
        notes.append(f"It was trained for {length:,} tokens: in a longer chat most of its drafts will be refused.")
    if draft.info.kv_layout is not None and draft.info.kv_layout.doubts:
        notes.append("Whether its memory can be rewound is only known once it is loaded.")
    return tuple(notes)


def kinship(target: DraftFile, draft: DraftFile) -> Kinship:
    """Return what a draft with the same vocabulary is to a model, by what the headers of both say."""
    ours, theirs = target.info, draft.info
    if _is_same_file(ours.path, theirs.path):
        return Kinship.SAME_FILE
    if ours.architecture != theirs.architecture:
        return Kinship.OTHER
    same = (ours.name, ours.num_parameters, ours.block_count) == (
        theirs.name,
        theirs.num_parameters,
        theirs.block_count,
    )
    return Kinship.LEVEL if same else Kinship.FAMILY


def has_state(info: GGUFInfo) -> bool:
    """Return whether layers of a model keep a state, which has no place for each token to go back to."""
    return info.kv_layout is not None and any(layer.state for layer in info.kv_layout.layers)


def _whole(info: GGUFInfo) -> GGUFInfo:
    """Return a split model with the weights and parameters of all its files."""
    parts = [info, *(read_header(path)[0] for path in parts_of(info)[1:])]
    return dataclasses.replace(
        info,
        file_bytes=sum(part.file_bytes for part in parts),
        weight_bytes=sum(part.weight_bytes for part in parts),
        num_parameters=sum(part.num_parameters for part in parts),
        num_expert_parameters=sum(part.num_expert_parameters for part in parts),
        weights=joined(part.weights for part in parts),
    )


def _reason_of_kind(name: str, kind: ModelKind) -> Refusal | None:
    if kind in WHY_NO_CHAT:
        return Refusal(f"{name} is {WHY_NO_CHAT[kind][0]}, so it cannot draft.", _ANY_TEXT_MODEL)
    if kind is ModelKind.SPLIT_PART:
        return Refusal(f"{name} is a later part of a split model, so it cannot draft.", "Choose its first part.")
    return None


def _reason_of_model(info: GGUFInfo) -> Refusal | None:
    try:
        check_is_chat_model(info)
    except MissingParts as error:
        return Refusal(error.message, error.hint)
    if has_state(info):
        return Refusal(f"{printable(info.path.name)} cannot draft: {_CANNOT_REWIND}.", _ANY_TEXT_MODEL)
    return None


def _mismatch(target: DraftFile, draft: DraftFile) -> Refusal | None:
    """Return in what two vocabularies differ first."""
    ours, theirs, name = target.vocabulary, draft.vocabulary, draft.name
    if ours is None or theirs is None:
        whose = target.name if ours is None else name
        return Refusal(f"{whose} holds no vocabulary, so it is not known what its token numbers mean.", _FAMILY)
    if (refusal := _mismatch_of_sizes(ours, name, theirs.kind, theirs.num_tokens)) is not None:
        return refusal
    if (difference := first_difference(ours, theirs)) is not None:
        number, our_text, their_text = difference
        return _other_vocabulary(name, f"token {number:,} is “{their_text}” there and “{our_text}” in the model")
    for what, is_added, is_added_there, token, token_there in (
        ("begins", ours.adds_bos, theirs.adds_bos, ours.bos_id, theirs.bos_id),
        ("ends", ours.adds_eos, theirs.adds_eos, ours.eos_id, theirs.eos_id),
    ):
        if is_added != is_added_there:
            which = "it" if is_added_there else "the model"
            other = "the model" if is_added_there else "it"
            return _other_vocabulary(name, f"{which} {what} every text with a token of its own, {other} does not")
        if is_added and token != token_there:
            return _other_vocabulary(name, f"it {what} every text with token {token_there:,}, the model with {token:,}")
    return None


def _mismatch_of_sizes(ours: Vocabulary, name: str, kind: str, num_tokens: int) -> Refusal | None:
    if kind != ours.kind:
        return _other_vocabulary(name, f"it is of the kind “{kind}”, that of the model “{ours.kind}”")
    if abs(num_tokens - ours.num_tokens) > MAX_SIZE_DIFFERENCE:
        return _other_vocabulary(name, f"it has {num_tokens:,} tokens, the model {ours.num_tokens:,}")
    return None


def _other_vocabulary(name: str, difference: str) -> Refusal:
    return Refusal(f"{name} has another vocabulary: {difference}.", _FAMILY)


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return one == other


def _size(num_bytes: int) -> str:
    return f"{num_bytes / _GB:.1f} GB" if num_bytes >= _GB else f"{num_bytes / _MB:.1f} MB"
