"""What subschemas mean together: references, `allOf`, types, and whether two exclude each other."""

import json
import urllib.parse
from collections.abc import Callable
from typing import Any

from engine.errors import GrammarError

Schema = dict[str, Any] | bool

# What says nothing about which values are valid.
ANNOTATIONS = frozenset(
    {
        *("$schema", "$id", "id", "$comment", "$defs", "definitions", "$anchor", "$vocabulary"),
        *("title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly"),
        *("contentEncoding", "contentMediaType", "propertyOrdering"),
    }
)
_OF_TYPE = {
    "object": "properties required additionalProperties minProperties maxProperties",
    "array": "items prefixItems additionalItems minItems maxItems uniqueItems",
    "string": "minLength maxLength pattern format",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
}
_TYPE_OF = {word: kind for kind, words in _OF_TYPE.items() for word in words.split()}
KEYWORDS = frozenset({*_TYPE_OF, "type", "enum", "const", "anyOf", "oneOf", "nullable"})
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
MAX_COUNT = 1_000_000
_MAX_EXCLUSIVE = 200  # parts of oneOf: each is compared with each
_MAX_COMPARISONS = 100_000  # their properties included: some tenths of a second
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
}


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_schema_list(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_schema, value))


# Keyword -> what its value must be, as a sentence ends, and the check.
_SHAPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "properties": ("an object of schemas", lambda v: isinstance(v, dict) and all(map(_is_schema, v.values()))),
    "required": ("a list of names", lambda v: isinstance(v, list) and all(isinstance(name, str) for name in v)),
    "items": ("a schema", lambda v: _is_schema(v) or _is_schema_list(v)),
    "pattern": ("a regular expression", lambda v: isinstance(v, str)),
    "enum": ("a list of values", lambda v: isinstance(v, list) and bool(v)),
    **{key: ("a schema", _is_schema) for key in ("additionalProperties", "additionalItems")},
    **{key: ("a list of schemas", _is_schema_list) for key in ("prefixItems", "anyOf", "oneOf", "allOf")},
    **{
        key: (f"a whole number up to {MAX_COUNT:,}", _is_count)
        for key in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
    },
    **{
        key: ("a number", _is_number)
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    },
}


def check_shapes(schema: dict[str, Any], where: str) -> None:
    """Refuse keywords whose values are not what they have to be."""
    for key, value in schema.items():
        expected, is_right = _SHAPES.get(key, ("", lambda value: True))
        if not is_right(value):
            raise schema_fault(f"`{key}` is not {expected}", where, "Correct it.")


def schema_fault(what: str, where: str, hint: str) -> GrammarError:
    """Return the error for a part of a schema.

    Args:
        where: a path to it, "#" for the whole.
    """
    place = "" if where == "#" else f" at `{where[:80]}`"
    return GrammarError(f"The JSON schema cannot be kept{place}: {what}.", hint)


def follow(root: Schema, reference: Any, where: str) -> Any:
    """Return what a reference leads to."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise schema_fault(
            f"the reference {str(reference)[:60]!r} leads out of it", where, "Put the part into `$defs`."
        )
    found: Any = root
    for step in urllib.parse.unquote(reference[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and step.isascii() and int(step[:6]) < len(found):
            found = found[int(step[:6])]
        else:
            raise schema_fault(f"the reference {reference[:60]!r} leads nowhere", where, "Correct it.")
    if reference not in ("#", "#/") and not reference.startswith("#/"):
        raise schema_fault(f"the reference {reference[:60]!r} is no path", where, "Write it as `#/$defs/name`.")
    return found


def types_of(schema: dict[str, Any], where: str) -> list[str]:
    """Return the types that are allowed; without a word on it, those that the keywords speak of, else all."""
    if "type" not in schema:
        kinds = list(dict.fromkeys(_TYPE_OF[key] for key in schema if key in _TYPE_OF))
        return kinds or ["value"]
    named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if schema.get("nullable") is True:
        named = [*named, "null"]
    if not named or any(kind not in TYPES for kind in named):
        raise schema_fault("`type` names no type", where, f"The types are {', '.join(TYPES)}.")
    return [kind for kind in dict.fromkeys(named) if not (kind == "integer" and "number" in named)]


def counts(schema: dict[str, Any], least: str, most: str, where: str) -> tuple[int, int | None]:
    """Return the two counts of a schema, 0 and None where they are not given."""
    minimum, maximum = schema.get(least, 0), schema.get(most)
    if maximum is not None and maximum < minimum:
        raise schema_fault(f"`{most}` is below `{least}`", where, "Make it larger.")
    return minimum, maximum


def has_type(value: Any, kind: str) -> bool:
    """Return whether a value is of a type."""
    if kind in ("integer", "number"):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and (kind == "number" or value == int(value))
    return isinstance(value, _PYTHON_TYPES.get(kind, object))


def merged(left: Schema, right: Schema, where: str) -> Schema:
    """Return the schema of what both allow."""
    if not isinstance(left, dict) or not isinstance(right, dict):
        return right if left is True else left
    if not left or not right:
        return right or left
    _check_names(left, right, where)
    found = dict(left)
    for key, value in right.items():
        found[key] = value if key not in left or left[key] == value else _both(key, left[key], value, where)
    return found


def _check_names(left: dict[str, Any], right: dict[str, Any], where: str) -> None:
    """Refuse what speaks of the other properties without knowing those of the other side."""
    for one, other in ((left, right), (right, left)):
        names = set(other.get("properties", ())) - set(one.get("properties", ()))
        if one.get("additionalProperties", True) not in (True, {}) and names:
            raise schema_fault(
                "`additionalProperties` and the properties of another part", where, "List them in one place."
            )


def _both(key: str, left: Any, right: Any, where: str) -> Any:
    if key == "properties":
        both = {name: {"allOf": [left[name], part]} if name in left else part for name, part in right.items()}
        return {**left, **both}
    if key == "required":
        return list(dict.fromkeys([*left, *right]))
    if key in ("items", "additionalProperties") and not isinstance(left, list) and not isinstance(right, list):
        return {"allOf": [left, right]}
    if key in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
        return max(left, right)
    if key in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
        return min(left, right)
    if key == "enum":
        others = {_text(other) for other in right}
        return [value for value in left if _text(value) in others]
    if key == "type":
        return _common_types(types_of({"type": left}, where), types_of({"type": right}, where), where)
    raise schema_fault(f"two different `{key}` are to be kept together", where, "Put one in their place.")


def _common_types(left: list[str], right: list[str], where: str) -> list[str]:
    found = [kind for kind in left if kind in right or (kind == "integer" and "number" in right)]
    found += [kind for kind in right if kind == "integer" and "number" in left]
    if not found:
        raise schema_fault("two types are to be kept together", where, "Allow one of them.")
    return found


def are_exclusive(parts: list[Schema]) -> bool:
    """Return whether it is plain that no value fits two of these."""
    return len(parts) <= _MAX_EXCLUSIVE and _Comparison().is_exclusive(parts)


class _Comparison:
    """Compares each part with each; a schema that asks for too much of it counts as not plain."""

    def __init__(self) -> None:
        # Values and types by identity: the parts outlive this.
        self._known: dict[int, tuple[set[str] | None, set[str] | None]] = {}
        self._num_left = _MAX_COMPARISONS

    def is_exclusive(self, parts: list[Schema]) -> bool:
        return all(
            isinstance(one, dict) and isinstance(other, dict) and self._exclude(one, other)
            for number, one in enumerate(parts)
            for other in parts[:number]
        )

    def _exclude(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        self._num_left -= 1
        if self._num_left < 0:
            return False
        values, kinds = self._values_and_kinds(one)
        others, other_kinds = self._values_and_kinds(other)
        if values is not None and others is not None:
            return values.isdisjoint(others)
        if kinds is not None and other_kinds is not None and not kinds & other_kinds:
            return True
        if not kinds == other_kinds == {"object"}:
            return False
        against = other.get("properties", {})
        shared = set(one.get("required", ())) & set(other.get("required", ()))
        return any(
            isinstance(part, dict) and isinstance(against.get(name), dict) and self._exclude(part, against[name])
            for name, part in one.get("properties", {}).items()
            if name in shared
        )

    def _values_and_kinds(self, schema: dict[str, Any]) -> tuple[set[str] | None, set[str] | None]:
        if id(schema) not in self._known:
            self._known[id(schema)] = (_values(schema), _kinds(schema))
        return self._known[id(schema)]


def _values(schema: dict[str, Any]) -> set[str] | None:
    if "const" in schema:
        return {_text(schema["const"])}
    return {_text(value) for value in schema["enum"]} if isinstance(schema.get("enum"), list) else None


def _kinds(schema: dict[str, Any]) -> set[str] | None:
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if "type" in schema:
        named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        kinds = {"number" if kind == "integer" else str(kind) for kind in named}
        return kinds | {"null"} if schema.get("nullable") is True else kinds
    if isinstance(values, list):
        return {kind for value in values for kind in TYPES if kind != "integer" and has_type(value, kind)}
    return None


def _text(value: Any) -> str:
    """Return a value as text that is the same for equal values: 1.0 and 1 are."""
    if isinstance(value, float) and value == int(value):
        value = int(value)
    return json.dumps(value, sort_keys=True)
