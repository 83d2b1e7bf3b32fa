"""Whether a LoRA adapter fits a model, told from the headers of both files alone, and the one reason why it does not.

What is in the weights only their reader sees: the engine looks at them before it uses an adapter.
Source of the rules: llama.cpp, src/llama-adapter.cpp, and what engine/backend_llama/adapter_file.py refuses.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from models.errors import NotAnAdapter
from models.gguf_info import GGUFInfo, parts_of, printable, read_header
from models.gguf_values import Value
from models.model_kinds import WHY_NO_CHAT, ModelKind
from models.quant_types import TensorType
from models.tensor_entry import TensorEntry

_TYPES = (TensorType.F32, TensorType.F16, TensorType.BF16, TensorType.Q8_0)
_MAX_ALPHA = 1e6
_MAX_BASES = 8
_MAX_TEXT = 80
_MIN_COMMON = 4  # letters that two names of one base share at least
_CHOOSE = "Choose a LoRA adapter in GGUF format."


class WeightChange(NamedTuple):
    """What an adapter does to a tensor of the model.

    Attributes:
        shape: of the tensor that it is made for, as GGUF counts.
        rank: of the change.
    """

    shape: tuple[int, ...]
    rank: int


@dataclasses.dataclass(frozen=True)
class AdapterInfo:
    """A LoRA adapter as its header describes it.

    Attributes:
        name: its own name, else that of the file.
        bases: names of the models that it was trained on, as far as it tells.
        changes: by the name of the model's tensor.
        fault: why no model can use it, a sentence; empty where some may.
    """

    path: Path
    file_bytes: int
    name: str
    architecture: str
    bases: tuple[str, ...]
    changes: Mapping[str, WeightChange]
    fault: str

    @property
    def rank(self) -> int:
        """The largest rank of its changes, 0 where it has none."""
        return max((change.rank for change in self.changes.values()), default=0)


@dataclasses.dataclass(frozen=True)
class AdapterBase:
    """What an adapter has to fit.

    Attributes:
        names: what the model calls itself and what it was made from.
        shapes: of its tensors, by name.
    """

    architecture: str
    names: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]


def read_adapter_info(path: Path) -> AdapterInfo:
    """Return what the adapter at `path` is.

    Raises:
        GGUFError: it is no sound GGUF file.
        NotAnAdapter: it is something else.
        OSError: it cannot be read.
    """
    tensors: list[TensorEntry] = []
    info, header = read_header(path, tensors.append)
    name = printable(path.name)
    if info.kind is not ModelKind.ADAPTER:
        what = WHY_NO_CHAT[info.kind][0] if info.kind in WHY_NO_CHAT else "a model of its own"
        raise NotAnAdapter(f"{name} is {what}, not an adapter.", _CHOOSE)
    changes, fault = _changes_of(tensors)
    return AdapterInfo(
        path=path,
        file_bytes=info.file_bytes,
        name=info.name or printable(path.stem),
        architecture=info.architecture,
        bases=_bases(header.values),
        changes=changes,
        fault=_fault_of_keys(header.values) or fault,
    )


def read_adapter_base(info: GGUFInfo) -> AdapterBase:
    """Return what an adapter of a model has to fit; a split model is read as a whole.

    Raises:
        GGUFError: one of its files is not sound.
        OSError: one cannot be read.
    """
    tensors: list[TensorEntry] = []
    values: dict[str, Value] = {}
    for path in parts_of(info):
        _, header = read_header(path, tensors.append)
        values = values or header.values
    texts = [_text(values, key) for key in ("general.name", "general.basename")]
    texts.append(f"{texts[1]} {_text(values, 'general.size_label')}")
    return AdapterBase(
        architecture=info.architecture,
        names=tuple(text for text in (*texts, *_bases(values)) if text.strip()),
        shapes={_name_of(tensor): _trimmed(tensor.shape) for tensor in tensors},
    )


def adapter_misfit(adapter: AdapterInfo, base: AdapterBase) -> str:
    """Return the one reason why an adapter cannot be used with a model, as a sentence; empty where it fits."""
    if adapter.fault:
        return adapter.fault
    if adapter.architecture != base.architecture:
        theirs, ours = (printable(name[:_MAX_TEXT]) or "?" for name in (adapter.architecture, base.architecture))
        return f"It is for the architecture {theirs}; this model is {ours}."
    for name, change in adapter.changes.items():
        shape = base.shapes.get(name)
        if shape is None:
            return f"It changes {_shown(name)}, which this model does not have."
        if shape != change.shape:
            return (
                f"It is for a model of another size: {_shown(name)} is {_size_text(shape)} here, "
                f"not {_size_text(change.shape)}."
            )
    return ""


def names_other_base(adapter: AdapterInfo, base: AdapterBase) -> bool:
    """Tell whether an adapter says that it was trained on a model that goes by another name than this one.

    It may be right all the same: models are renamed, and fine-tunes of one base share their adapters.
    """
    if not adapter.bases or not base.names:
        return False
    return not any(_is_alike(theirs, ours) for theirs in adapter.bases for ours in base.names)


def _name_of(tensor: TensorEntry) -> str:
    return tensor.name.decode("utf-8", errors="backslashreplace")


def _bases(values: Mapping[str, Value]) -> tuple[str, ...]:
    names = (_text(values, f"general.base_model.{number}.name") for number in range(_MAX_BASES))
    return tuple(name for name in names if name)


def _text(values: Mapping[str, Value], key: str) -> str:
    value = values.get(key)
    return printable(value[:_MAX_TEXT]).strip() if isinstance(value, str) else ""


def _fault_of_keys(values: Mapping[str, Value]) -> str:
    if values.get("general.type") != "adapter" or values.get("adapter.type") != "lora":
        return "It is an adapter of another kind than LoRA."
    if "adapter.alora.invocation_tokens" in values:
        return "It is an activated LoRA (aLoRA), which this version cannot use."
    alpha = values.get("adapter.lora.alpha", 0.0)
    if not isinstance(alpha, float) or not math.isfinite(alpha) or abs(alpha) > _MAX_ALPHA:
        return "It is damaged: its alpha is absurd."
    return ""


def _changes_of(tensors: Iterable[TensorEntry]) -> tuple[dict[str, WeightChange], str]:
    """Return what an adapter changes, and why it cannot be used."""
    halves: dict[str, dict[str, tuple[int, ...]]] = {}
    for tensor in tensors:
        name = _name_of(tensor)
        base, dot, half = name.rpartition(".")
        if not dot or half not in ("lora_a", "lora_b"):
            if name.endswith("_norm.weight"):  # llama.cpp passes over these
                continue
            return {}, f"It is no LoRA adapter: it holds the whole weight {_shown(name)}."
        if base.endswith("token_embd.weight"):
            return {}, "It changes the token embedding, which this version cannot do."
        if tensor.tensor_type not in _TYPES:
            return {}, f"It is stored as {tensor.tensor_type.name}; adapters are F32, F16, BF16 or Q8_0."
        halves.setdefault(base, {})[half] = (*tensor.shape, 1, 1, 1)[:4]
    if not halves:
        return {}, "It holds no weights, so it changes nothing."
    changes: dict[str, WeightChange] = {}
    for base, pair in halves.items():
        first, second = pair.get("lora_a"), pair.get("lora_b")
        if first is None or second is None:
            return {}, f"It is incomplete: one half of {_shown(base)} is missing."
        if first[1] != second[0] or first[2:] != second[2:]:
            return {}, f"It is damaged: the halves of {_shown(base)} do not belong together."
        changes[base] = WeightChange(_trimmed((first[0], second[1], *first[2:])), first[1])
    return changes, ""


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without the sizes of 1 at its end, which may be written or not."""
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _is_alike(one: str, other: str) -> bool:
    one, other = (re.sub(r"[\W_]", "", name.casefold()) for name in (one, other))
    shorter = min(one, other, key=len)
    return len(shorter) >= _MIN_COMMON and one.startswith(shorter) and other.startswith(shorter)


def _shown(name: str) -> str:
    return printable(name[:_MAX_TEXT])


def _size_text(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in shape)
