"""How a setting is declared: once, in the annotation of its field, with all that validation and a panel need."""

import dataclasses
import functools
import math
import typing

import msgspec

from engine.errors import InvalidParams


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParamInfo:
    """What a person is shown about one numeric setting, and what is legal.

    Attributes:
        label: short name for a panel.
        help: one or two sentences: what it does, what it harms.
        minimum, maximum: legal range, both included.
        soft_maximum: where a slider ends; larger legal values can be typed. None means `maximum`.
        step: step of a slider or spin box.
        none_label: how None is shown where the field may be None ("random").
        is_advanced: whether a panel keeps it folded away at first.
        name, default, is_integer: filled in by `param_infos` from the field itself.
    """

    label: str
    help: str
    minimum: float
    maximum: float
    step: float
    soft_maximum: float | None = None
    none_label: str | None = None
    is_advanced: bool = False
    name: str = ""
    default: float | int | None = None
    is_integer: bool = False

    def check(self, value: object) -> None:
        """Raise InvalidParams with a sentence unless `value` is legal for this setting."""
        if value is None and self.none_label is not None:
            return
        kind = "a whole number" if self.is_integer else "a number"
        span = f"{_number(self.minimum)} to {_number(self.maximum)}"
        expected = f"{kind} from {span}"
        hint = f"Give {self.name} {expected}."
        is_number = isinstance(value, int if self.is_integer else (int, float)) and not isinstance(value, bool)
        if not is_number or (isinstance(value, float) and not math.isfinite(value)):
            raise InvalidParams(f"{self.name} must be {expected}, not {_shown(value)}.", hint)
        if not self.minimum <= typing.cast(float, value) <= self.maximum:
            raise InvalidParams(f"{self.name} is {_shown(value)}, outside {span}.", hint)


def _shown(value: object) -> str:
    """Return a value as a sentence can hold it; Python refuses to write very large numbers out."""
    if isinstance(value, int) and abs(value) > 10**18:
        return "far too large"
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"


@functools.cache
def param_infos(params_type: type[msgspec.Struct]) -> dict[str, ParamInfo]:
    """Return the declared settings of a params type by field name, in the order of declaration."""
    hints = typing.get_type_hints(params_type, include_extras=True)
    infos: dict[str, ParamInfo] = {}
    for field in msgspec.structs.fields(params_type):
        hint = hints[field.name]
        declared = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, ParamInfo)), None)
        if declared is None:
            continue
        is_integer = float not in (typing.get_args(hint)[0], *typing.get_args(typing.get_args(hint)[0]))
        infos[field.name] = dataclasses.replace(declared, name=field.name, default=field.default, is_integer=is_integer)
    return infos


def check_params(params: msgspec.Struct) -> None:
    """Raise InvalidParams at the first declared setting of `params` that is not legal."""
    for name, info in param_infos(type(params)).items():
        info.check(getattr(params, name))
