"""What a GGUF file is, from its header alone: metadata of an untrusted file as a frozen GGUFInfo, never tensors."""

import dataclasses
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from models.errors import CorruptGGUF, MissingParts, NotAChatModel, NotGGUF, TruncatedGGUF, UnsupportedGGUF
from models.foreign_files import HEAD_BYTES, recognise
from models.gguf_header import CHAT_TEMPLATE_KEY, MAGIC, Header, HeaderReader
from models.gguf_values import ArrayValue, Value
from models.hyperparameters import Hyperparameters, read_hyperparameters
from models.kv_layout import KVLayout
from models.kv_rules import read_kv_layout
from models.model_kinds import RUNNABLE_KINDS, WHY_NO_CHAT, ModelKind, kind_of
from models.quant_types import FILE_TYPE_NAMES
from models.tensor_entry import TensorEntry
from models.weight_sums import WeightCounter, WeightSums

_MIN_HEADER_BYTES = 24
_TEXT_CHARACTERS = 200
_NAMED_PARTS = 4


@dataclasses.dataclass(frozen=True)
class GGUFInfo:
    """A GGUF file as its header describes it.

    Attributes:
        architecture: llama.cpp's name, empty in kinds that need none.
        name: the model's own name, empty where it has none.
        type_name: how it is quantised, for example "Q4_1": by the header, else the type of most of its bytes.
        licence: as the header gives it, for example "apache-2.0"; may be empty.
        hyperparameters: None in kinds that are not run on their own.
        weight_bytes: bytes of all tensors of this file.
        split_no, split_count: 0-based number of this file in a split model; 0 and 1 for a model in one file.
        num_split_tensors: tensors in all parts of a split model, 0 where the header does not tell.
        num_expert_parameters: those of the parameters that belong to experts.
        bytes_of_type: bytes of tensors by the name of their type, most first.
        tokenizer: what tells its vocabulary from others: model, pre-tokeniser, number of tokens; empty without one.
        header_bytes: what comes before the tensors.
        template_span: where in the file the chat template begins and how many bytes it has; None where there is none.
        weights: bytes of the tensors by layer and use.
        kv_layout: what each layer keeps of a context; None in kinds that are not run on their own.
    """

    path: Path
    file_bytes: int
    version: int
    kind: ModelKind
    architecture: str
    name: str
    type_name: str
    licence: str
    has_chat_template: bool
    num_tensors: int
    num_parameters: int
    weight_bytes: int
    hyperparameters: Hyperparameters | None
    split_no: int = 0
    split_count: int = 1
    num_split_tensors: int = 0
    num_expert_parameters: int = 0
    bytes_of_type: tuple[tuple[str, int], ...] = ()
    tokenizer: str = ""
    header_bytes: int = 0
    template_span: tuple[int, int] | None = None
    weights: WeightSums = dataclasses.field(default_factory=WeightSums)
    kv_layout: KVLayout | None = None

    @property
    def n_ctx_train(self) -> int:
        """Tokens the model was trained to hold at once, 0 where that does not apply."""
        return self.hyperparameters.n_ctx_train if self.hyperparameters else 0

    @property
    def block_count(self) -> int:
        """Number of layers, 0 where that does not apply."""
        return self.hyperparameters.block_count if self.hyperparameters else 0

    @property
    def bits_per_weight(self) -> float:
        """Bits that a parameter takes on average, 0 where there is none."""
        return 8 * self.weight_bytes / self.num_parameters if self.num_parameters else 0.0

    @property
    def active_bytes(self) -> int:
        """Bytes of weights that one token of decode reads. Counts this file alone."""
        return self.weights.active_bytes(self.hyperparameters.expert_share if self.hyperparameters else 1.0)

    @property
    def num_active_parameters(self) -> int:
        """Parameters used for each token: of experts only those that are chosen. Counts this file alone."""
        sizes = self.hyperparameters
        if sizes is None:
            return self.num_parameters
        return active_parameters(
            self.num_parameters, self.num_expert_parameters, sizes.expert_used_count, sizes.expert_count
        )


def active_parameters(num_parameters: int, num_expert_parameters: int, num_used: int, num_experts: int) -> int:
    """Return the parameters used for each token where `num_used` of `num_experts` experts are."""
    if not num_experts:
        return num_parameters
    return num_parameters - num_expert_parameters + num_expert_parameters * num_used // num_experts


def read_gguf_info(path: Path) -> GGUFInfo:
    """Return what the file at `path` is.

    Raises:
        GGUFError: it is no sound GGUF file.
        OSError: it cannot be read.
    """
    return read_header(path)[0]


def read_header(path: Path, on_tensor: Callable[[TensorEntry], None] | None = None) -> tuple[GGUFInfo, Header]:
    """Return what the file at `path` is, and its header.

    Args:
        on_tensor: see HeaderReader.

    Raises:
        GGUFError: it is no sound GGUF file.
        OSError: it cannot be read.
    """
    name, counter = printable(path.name), WeightCounter()

    def count(tensor: TensorEntry) -> None:
        counter.add(tensor)
        if on_tensor is not None:
            on_tensor(tensor)

    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would block, a device has no size
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder")
        raise NotGGUF(f"{name} is not a regular file.", "Choose a file that ends in .gguf.")
    with path.open("rb", buffering=0) as file:
        file_bytes = os.fstat(file.fileno()).st_size
        head = file.read(HEAD_BYTES)
        _check_magic(head, file_bytes, name)
        header = HeaderReader(file, file_bytes, name, on_tensor=count).read()
    info = _describe(path, file_bytes, header, name)
    return dataclasses.replace(info, weights=counter.sums()), header


def check_is_chat_model(info: GGUFInfo) -> None:
    """Raise unless the file can be loaded for a chat.

    Raises:
        NotAChatModel: it is of another kind; the message says which, the hint what it belongs to.
        MissingParts: it is split, and parts are not beside it.
    """
    name = printable(info.path.name)
    if info.kind in WHY_NO_CHAT:
        what, hint = WHY_NO_CHAT[info.kind]
        raise NotAChatModel(f"{name} is {what}, not a model to chat with.", hint)
    if info.split_no > 0:
        raise NotAChatModel(
            f"{name} is part {info.split_no + 1} of {info.split_count} of a split model.",
            f"Open its first part, {printable(_part_path(info, 0).name)}.",
        )
    check_parts(info)


def check_parts(info: GGUFInfo) -> None:
    """Raise unless all parts of a model are there.

    Raises:
        MissingParts: it is split, and parts are not beside it.
    """
    missing = missing_parts(info)
    if missing:
        names = ", ".join(printable(part.name) for part in missing[:_NAMED_PARTS])
        more = f" and {len(missing) - _NAMED_PARTS} more" if len(missing) > _NAMED_PARTS else ""
        raise MissingParts(
            f"{printable(info.path.name)} is split into {info.split_count} files and these are missing: {names}{more}.",
            "Put all parts into one folder under their own names.",
        )


def parts_of(info: GGUFInfo) -> tuple[Path, ...]:
    """Return the files of a model, in their order, whether they are there or not."""
    if info.split_count == 1:
        return (info.path,)
    return tuple(_part_path(info, number) for number in range(info.split_count))


def first_part(info: GGUFInfo) -> Path:
    """Return the file by which a model is loaded, whether it is there or not: of a split one, its first part."""
    return parts_of(info)[0]


def missing_parts(info: GGUFInfo) -> tuple[Path, ...]:
    """Return the parts of a split model that are not beside the file `info` describes.

    llama.cpp finds the parts by the names it gives them, so in a renamed file all are missing.
    """
    if info.split_count == 1:
        return ()
    return tuple(part for part in parts_of(info) if not part.exists())


def _check_magic(head: bytes, file_bytes: int, name: str) -> None:
    again = "Download or copy the file again, and let it finish."
    if not head:
        raise TruncatedGGUF(f"{name} is empty.", again)
    if head.startswith(b"FUGG"):
        raise UnsupportedGGUF(
            f"{name} is written in the byte order of another kind of machine (big-endian).",
            "Get a little-endian file of the same model.",
        )
    if not head.startswith(MAGIC):
        if MAGIC.startswith(head):
            raise TruncatedGGUF(f"{name} is cut off: it is only {file_bytes} bytes long.", again)
        foreign = recognise(head, file_bytes)
        raise NotGGUF(f"{name} is {foreign.what}.", foreign.hint)
    if file_bytes < _MIN_HEADER_BYTES:
        raise TruncatedGGUF(f"{name} is cut off: it is only {file_bytes} bytes long.", again)


def _describe(path: Path, file_bytes: int, header: Header, name: str) -> GGUFInfo:
    values = header.values
    split_no, split_count = _split(values, name)
    architecture = _text(values, "general.architecture")
    kind = ModelKind.SPLIT_PART if split_no else kind_of(header, architecture, split_count)
    if not architecture and kind in RUNNABLE_KINDS:
        raise CorruptGGUF(
            f"{name} does not say which architecture its model has.", "Get another file of the same model."
        )
    sizes = read_hyperparameters(values, architecture, name) if kind in RUNNABLE_KINDS else None
    return GGUFInfo(
        path=path,
        file_bytes=file_bytes,
        version=header.version,
        kind=kind,
        architecture=architecture,
        name=_text(values, "general.name"),
        type_name=_type_name(header),
        licence=_licence(values),
        has_chat_template=bool(_text(values, CHAT_TEMPLATE_KEY)),
        num_tensors=header.num_tensors,
        num_parameters=header.num_parameters,
        weight_bytes=header.tensor_bytes,
        hyperparameters=sizes,
        split_no=split_no,
        split_count=split_count,
        num_split_tensors=_count(values, "split.tensors.count"),
        num_expert_parameters=header.num_expert_parameters,
        bytes_of_type=_bytes_of_type(header),
        tokenizer=_tokenizer(values),
        header_bytes=header.header_bytes,
        template_span=header.template_span,
        kv_layout=read_kv_layout(values, architecture, sizes) if sizes is not None else None,
    )


def _split(values: dict[str, Value], name: str) -> tuple[int, int]:
    number, count = values.get("split.no", 0), values.get("split.count", 1)
    if not isinstance(number, int) or not isinstance(count, int) or not (count <= 1 or 0 <= number < count <= 99_999):
        raise CorruptGGUF(f"{name} is damaged: it is part {number!r} of {count!r}.", "Download or copy the file again.")
    return (int(number), int(count)) if count > 1 else (0, 1)


def _part_path(info: GGUFInfo, number: int) -> Path:
    match = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})\.gguf", info.path.name, re.DOTALL)
    is_named = match is not None and int(match[2]) == info.split_no + 1 and int(match[3]) == info.split_count
    prefix = match[1] if match and is_named else info.path.stem
    return info.path.with_name(f"{prefix}-{number + 1:05d}-of-{info.split_count:05d}.gguf")


def _type_name(header: Header) -> str:
    value = header.values.get("general.file_type")
    named = FILE_TYPE_NAMES.get(value, "") if isinstance(value, int) else ""
    if named or not header.bytes_of_type:
        return named
    return _bytes_of_type(header)[0][0]


def _bytes_of_type(header: Header) -> tuple[tuple[str, int], ...]:
    by_size = sorted(header.bytes_of_type.items(), key=lambda item: (-item[1], item[0]))
    return tuple((tensor_type.name, num_bytes) for tensor_type, num_bytes in by_size)


def _licence(values: dict[str, Value]) -> str:
    short, name = _text(values, "general.license"), _text(values, "general.license.name")
    return name if name and short in ("", "other") else short


def _tokenizer(values: dict[str, Value]) -> str:
    tokens = values.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, ArrayValue):
        return ""
    model, pre = _text(values, "tokenizer.ggml.model"), _text(values, "tokenizer.ggml.pre")
    return f"{model}/{pre}/{tokens.num_elements}"


def _count(values: dict[str, Value], key: str) -> int:
    value = values.get(key, 0)
    return max(int(value), 0) if isinstance(value, int) else 0


def _text(values: dict[str, Value], key: str) -> str:
    value = values.get(key, "")
    if isinstance(value, ArrayValue) or not isinstance(value, str):
        return ""
    return printable(value[:_TEXT_CHARACTERS]).strip()


def printable(text: str) -> str:
    """Return text of unknown origin without characters that could steer a terminal or hide others."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
