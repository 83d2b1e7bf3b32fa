"""What tells a column from one of the same model with the usual settings, as a part of its label."""

import enum
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from engine import Adapter, ModelParams, SamplingParams

_TEXTS = ("grammar", "json_schema")


def told_settings(
    params: ModelParams,
    sampling: SamplingParams,
    adapters: Sequence[Adapter],
    *,
    usual: tuple[ModelParams, SamplingParams],
) -> str:
    """Return the settings that are not the usual ones, each behind a dot; empty where there are none."""
    words = [*_loading(params, usual[0]), *_adapters(adapters), *_sampling(sampling, usual[1])]
    return "".join(f" · {word}" for word in words)


def _loading(params: ModelParams, usual: ModelParams) -> Iterator[str]:
    changed = _changed(params, usual)
    if params.type_k == params.type_v and {"type_k", "type_v"} & changed.keys():
        del changed["type_k"], changed["type_v"]
        yield f"{params.type_k} cache"
    for name, value in changed.items():
        if name == "n_threads":
            yield f"{value} {'thread' if value == 1 else 'threads'}"
        else:
            yield f"{name} {_shown(value)}"


def _adapters(adapters: Sequence[Adapter]) -> Iterator[str]:
    for adapter in adapters:
        strength = "" if adapter.scale == 1 else f" × {adapter.scale:g}"
        yield f"{Path(adapter.path).stem}{strength}"


def _sampling(sampling: SamplingParams, usual: SamplingParams) -> Iterator[str]:
    for name, value in _changed(sampling, usual).items():
        yield name.replace("_", " ") if name in _TEXTS else f"{name.replace('_', ' ')} {_shown(value)}"


def _changed(values: msgspec.Struct, usual: msgspec.Struct) -> dict[str, object]:
    fields = [field.name for field in msgspec.structs.fields(type(values))]
    found = {name: getattr(values, name) for name in fields if getattr(values, name) != getattr(usual, name)}
    if "type_k" in found or "type_v" in found:  # both are told together
        found = {"type_k": getattr(values, "type_k", ""), "type_v": getattr(values, "type_v", "")} | found
    return found


def _shown(value: object) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, float):
        return f"{value:g}"
    return "auto" if value is None else "given" if isinstance(value, tuple) else str(value)
