"""Where sampling settings come from: the defaults, all chats, a model, one chat; each layer overrides those below it.

A layer is a mapping of settings by name as a settings file or a chat keeps it: plain TOML values, in which the text
"none" stands for a number that is absent (a random seed, no limit) and an empty text for no grammar. What a layer holds
is not trusted: a value that cannot be used is passed over and told of.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from engine import EngineError, InvalidParams, SamplingParams

ABSENT = "none"

_NAMES = SamplingParams.__struct_fields__
_TEXTS = ("grammar", "json_schema")
# A reply can follow one of these; the one set in the higher layer takes the place of the other.
_RIVALS = {"grammar": "json_schema", "json_schema": "grammar"}
_MAX_NAME = 60


class Origin(enum.Enum):
    """The layer that a value comes from."""

    DEFAULT = "default"
    APP = "app"
    MODEL = "model"
    CHAT = "chat"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resolved:
    """What is in force.

    Attributes:
        params: always legal.
        origins: of every setting, by name.
        faults: a sentence for each value that was passed over.
    """

    params: SamplingParams
    origins: Mapping[str, Origin]
    faults: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kept:
    """What settings of a chat become when they are to hold elsewhere too.

    Attributes:
        layer: all of the layer that takes them.
        chat: what the chat still needs of its own, because the layer between holds another value.
    """

    layer: dict[str, Any]
    chat: dict[str, Any]


def resolve(app: Mapping[str, Any], model: Mapping[str, Any], chat: Mapping[str, Any]) -> Resolved:
    """Return the settings in force, and where each comes from."""
    values: dict[str, Any] = {}
    origins = dict.fromkeys(_NAMES, Origin.DEFAULT)
    faults: list[str] = []
    for origin, layer in ((Origin.APP, app), (Origin.MODEL, model), (Origin.CHAT, chat)):
        legal, found = _legal(layer)
        faults += found
        for name, value in legal.items():
            values[name], origins[name] = value, origin
            if value is not None and name in _RIVALS:
                values[_RIVALS[name]] = None
    return Resolved(params=SamplingParams(**values), origins=origins, faults=tuple(faults))


def decoded(name: str, plain: object) -> Any:
    """Return a value of a layer as SamplingParams hold it.

    Raises:
        InvalidParams: there is no such setting, or it may not have this value.
    """
    if name not in _NAMES:
        raise InvalidParams(f"{_shown(name)} is no sampling setting.", "Remove it.")
    if name in _TEXTS:
        value = None if plain == "" else plain
    else:
        value = None if plain == ABSENT else plain
    try:
        return getattr(msgspec.convert({name: value}, SamplingParams), name)
    except InvalidParams:
        raise
    except (EngineError, msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidParams(f"{name} has a value that it cannot have.", "Remove it.", str(error)) from error


def encoded(name: str, value: Any) -> Any:
    """Return a value of SamplingParams as a layer holds it."""
    if value is None:
        return "" if name in _TEXTS else ABSENT
    return _plain(value)


def changed_values(params: SamplingParams, base: SamplingParams) -> dict[str, Any]:
    """Return what makes `params` out of `base`, as a layer holds it."""
    return {
        name: encoded(name, getattr(params, name)) for name in _NAMES if getattr(params, name) != getattr(base, name)
    }


def keep_for_model(app: Mapping[str, Any], model: Mapping[str, Any], chat: Mapping[str, Any]) -> Kept:
    """Return the layers after the settings of a chat are kept for its model; what is in force stays the same."""
    layer = _over(model, chat)
    return Kept(layer=layer, chat=changed_values(resolve(app, model, chat).params, resolve(app, layer, {}).params))


def keep_for_app(app: Mapping[str, Any], model: Mapping[str, Any], chat: Mapping[str, Any]) -> Kept:
    """Return the layers after the settings of a chat are kept for all chats; what is in force stays the same."""
    layer = _over(app, chat)
    return Kept(layer=layer, chat=changed_values(resolve(app, model, chat).params, resolve(layer, model, {}).params))


def _over(lower: object, upper: object) -> dict[str, Any]:
    """Return a layer with what can be used of another one put over it."""
    layer = dict(lower) if isinstance(lower, Mapping) else {}
    for name, value in _legal(upper)[0].items():
        layer[name] = encoded(name, value)
        if value is not None:
            layer.pop(_RIVALS.get(name, ""), None)
    return layer


def _legal(layer: object) -> tuple[dict[str, Any], list[str]]:
    """Return what can be used of a layer, and a sentence for each thing that cannot."""
    if not isinstance(layer, Mapping):  # it comes from a file
        return {}, ["Sampling settings are no table."]
    values: dict[str, Any] = {}
    faults: list[str] = []
    for name, plain in layer.items():
        try:
            values[name] = decoded(name, plain)
        except InvalidParams as error:
            faults.append(error.message)
    if values.get("grammar") is not None and values.get("json_schema") is not None:
        del values["json_schema"]
        faults.append("There are a grammar and a JSON schema; the schema is left out.")
    return values, faults


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _shown(name: object) -> str:
    text = repr(name)
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 1] + "…"
