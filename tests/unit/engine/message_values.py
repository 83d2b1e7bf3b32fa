"""Hypothesis strategies for every message, drawn from the messages' own declarations."""

import enum
import types
import typing

import msgspec
from hypothesis import strategies as st

from engine.messages import Command, Event
from engine.params import SAMPLER_NAMES, FlashAttention, ModelParams, ParamInfo, SamplingParams

COMMANDS: tuple[type[msgspec.Struct], ...] = typing.get_args(Command)
EVENTS: tuple[type[msgspec.Struct], ...] = typing.get_args(Event)

TEXTS = st.text(max_size=8)
_PLAIN: dict[typing.Any, st.SearchStrategy] = {
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    str: TEXTS,
    type(None): st.none(),
}


def values_of(declared: typing.Any) -> st.SearchStrategy:
    """Return values of a declared type, legal ones where it declares a range."""
    if typing.get_origin(declared) is typing.Annotated:
        inner, *marks = typing.get_args(declared)
        info = next(mark for mark in marks if isinstance(mark, ParamInfo))
        is_integer = float not in (inner, *typing.get_args(inner))
        whole = st.integers(int(info.minimum), int(info.maximum))
        numbers = whole if is_integer else st.floats(info.minimum, info.maximum)
        return numbers | st.none() if info.none_label else numbers
    if isinstance(declared, types.UnionType):
        return st.one_of([values_of(part) for part in typing.get_args(declared)])
    if typing.get_origin(declared) is tuple:
        return st.lists(values_of(typing.get_args(declared)[0]), max_size=3).map(tuple)
    if isinstance(declared, type) and issubclass(declared, enum.Enum):
        return st.sampled_from(declared)
    if declared is ModelParams:
        return _model_params()
    if declared is SamplingParams:
        return _sampling_params()
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        return structs(declared)
    return _PLAIN[declared]


def structs(struct_type: type[msgspec.Struct]) -> st.SearchStrategy:
    """Return instances of a struct."""
    hints = typing.get_type_hints(struct_type, include_extras=True)
    return st.builds(struct_type, **{name: values_of(hints[name]) for name in struct_type.__struct_fields__})


def _sampling_params() -> st.SearchStrategy:
    hints = typing.get_type_hints(SamplingParams, include_extras=True)
    fields = {
        name: values_of(hint) for name, hint in hints.items() if name not in ("samplers", "logit_bias", "json_schema")
    }
    order = st.lists(st.sampled_from(SAMPLER_NAMES), unique=True).map(tuple)
    biases = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.floats(-1000, 1000)), max_size=3).map(tuple)
    return st.builds(SamplingParams, samplers=order, logit_bias=biases, **fields)


def _model_params() -> st.SearchStrategy:
    hints = typing.get_type_hints(ModelParams, include_extras=True)
    paired = ("flash_attn", "type_k", "type_v", "device", "rope_scaling", "rope_freq_base", "rope_freq_scale")
    fields = {name: values_of(hint) for name, hint in hints.items() if name not in paired}
    fields["rope_freq_base"] = st.just(0.0) | st.floats(1, 1e9)
    off, on, auto = FlashAttention.OFF, FlashAttention.ON, FlashAttention.AUTO
    pairs = st.sampled_from([(auto, "q8_0", "q4_0"), (on, "f16", "iq4_nl"), (off, "q5_1", "f32")])
    return st.builds(
        lambda pair, **others: ModelParams(flash_attn=pair[0], type_k=pair[1], type_v=pair[2], **others),
        pairs,
        **fields,
    )
