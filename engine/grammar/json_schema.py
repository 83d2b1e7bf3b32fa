"""JSON schemas as grammars: every reply that the grammar allows is valid against the schema.

Not every valid text is allowed: properties come in the order in which the schema has them, others than those only
where `additionalProperties` is given, and blanks are few. A keyword that cannot be kept is refused, never passed over.
Nothing is read from anywhere: a reference leads into the schema itself.
"""

import functools
import json
import math
from collections import deque
from typing import Any, NoReturn

from engine.errors import GrammarError
from engine.grammar.json_values import RULES, literal, string_rule
from engine.grammar.notation import parse_grammar
from engine.grammar.number_range import first_integer, integers, last_integer, numbers
from engine.grammar.schema_merge import (
    ANNOTATIONS,
    KEYWORDS,
    Schema,
    are_exclusive,
    check_shapes,
    counts,
    follow,
    has_type,
    merged,
    schema_fault,
    types_of,
)

MAX_SCHEMA_BYTES = 1 << 20
MAX_SUBSCHEMAS = 20_000
_MAX_LINKS = 100  # of references and allOf, one leading to the next


@functools.lru_cache(maxsize=4)
def schema_to_grammar(text: str) -> str:
    """Return the grammar of the JSON texts that are valid against a schema.

    Raises:
        GrammarError: it is no JSON schema, or one that cannot be kept.
    """
    if len(text.encode("utf-8", "replace")) > MAX_SCHEMA_BYTES:
        raise GrammarError("The JSON schema is larger than 1 MiB.", "Make it smaller.")
    try:
        schema = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise GrammarError("The JSON schema is nested too deeply.", "Make it flatter.") from None
    except ValueError as error:
        raise GrammarError(f"The JSON schema is no JSON: {error}.", "Correct it, or leave it out.") from error
    if not isinstance(schema, dict | bool):
        raise GrammarError("The JSON schema is not an object.", 'Write it as `{"type": "object", ...}`.')
    grammar = _Converter(schema).convert()
    try:
        parse_grammar(grammar)
    except GrammarError as error:
        raise GrammarError(
            "The JSON schema cannot be kept: what it describes has no end, or a pattern in it repeats nothing.",
            "See that each reference leads to something that can be finished.",
            error.message,
        ) from error
    return grammar


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name[:40]} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


class _Converter:
    """Gives every subschema a rule of its own, one after the other, so that depth costs nothing."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._rules = dict(RULES)
        self._todo: deque[tuple[str, Schema, str]] = deque()
        self._known: dict[int, tuple[str, Schema]] = {}  # by identity; holding the schema keeps its identity its own
        self._num_rules = 0
        self._num_links = 0

    def convert(self) -> str:
        self._rules["root"] = self._rule(self._root, "#")
        while self._todo:
            name, schema, where = self._todo.popleft()
            self._rules[name] = self._body(schema, where)
        return "".join(f"{name} ::= {body}\n" for name, body in self._rules.items())

    def _rule(self, schema: Schema, where: str) -> str:
        """Return the name of a subschema's rule, which is made later."""
        if schema is True or schema == {}:
            return "value"
        target = self._target(schema, where)
        if id(target) in self._known:
            return self._known[id(target)][0]
        name = self._new_name()
        self._known[id(target)] = (name, target)
        self._todo.append((name, target, where))
        return name

    def _target(self, schema: Any, where: str) -> Any:
        """Return the part that a bare reference leads to; a reference to itself is found out later."""
        for _ in range(_MAX_LINKS):
            if not isinstance(schema, dict) or set(schema) - ANNOTATIONS != {"$ref"}:
                break
            schema = follow(self._root, schema["$ref"], where)
        return schema

    def _new_name(self) -> str:
        self._num_rules += 1
        if self._num_rules > MAX_SUBSCHEMAS:
            raise GrammarError("The JSON schema has too many parts.", "Make it smaller.")
        return f"r{self._num_rules}"

    def _body(self, schema: Any, where: str) -> str:
        found = self._resolved(schema, where)
        if found is True:
            return "value"
        assert isinstance(found, dict)
        if unknown := next((key for key in found if key not in KEYWORDS), None):
            raise schema_fault(f"the keyword `{unknown}` cannot be kept", where, "Leave it out.")
        for key in ("anyOf", "oneOf"):
            if key in found:
                return self._choice(found, key, where)
        if "const" in found or "enum" in found:
            return self._values(found, where)
        return " | ".join(self._of_type(kind, found, where) for kind in types_of(found, where))

    def _resolved(self, schema: Any, where: str, num_links: int = 0) -> Schema:
        """Return a subschema without references and `allOf`."""
        self._num_links += 1
        if num_links > _MAX_LINKS or self._num_links > MAX_SUBSCHEMAS * 4:
            raise schema_fault("a reference leads back to itself, or too far", where, "Let it lead to a part.")
        if schema is True:
            return True
        if not isinstance(schema, dict):
            what = "`false` allows nothing" if schema is False else "there is something else than a schema"
            raise schema_fault(what, where, "Put a schema there.")
        rest = {key: value for key, value in schema.items() if key not in ANNOTATIONS and not key.startswith("x-")}
        check_shapes(rest, where)
        parts = []
        if "$ref" in rest:
            parts.append(follow(self._root, rest.pop("$ref"), where))
        if "allOf" in rest:
            parts += rest.pop("allOf")
        found: Schema = rest
        for part in parts:
            found = merged(found, self._resolved(part, where, num_links + 1), where)
        return found

    def _choice(self, schema: dict[str, Any], key: str, where: str) -> str:
        rest = {name: value for name, value in schema.items() if name != key}
        parts = [part for part in schema[key] if part is not False]
        if key == "oneOf" and not are_exclusive([self._resolved(part, where) for part in parts]):
            raise schema_fault("more than one part of `oneOf` might fit", where, "Use `anyOf`.")
        if rest:
            parts = [merged(rest, self._resolved(part, where), where) for part in parts]
        if not parts:
            raise schema_fault(f"`{key}` allows nothing", where, "Give it a schema.")
        return " | ".join(dict.fromkeys(self._rule(part, f"{where}/{key}") for part in parts))

    def _values(self, schema: dict[str, Any], where: str) -> str:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if "enum" in schema and "const" in schema:
            values = [value for value in values if literal(value) == literal(schema["const"])]
        if other := next((key for key in schema if key not in ("enum", "const", "type", "nullable")), None):
            raise schema_fault(f"`{other}` stands beside given values", where, "Leave it out.")
        if "type" in schema:
            kinds = types_of(schema, where)
            values = [value for value in values if any(has_type(value, kind) for kind in kinds)]
        if not values:
            raise schema_fault("no value is left", where, "Give one that fits.")
        return " | ".join(dict.fromkeys(literal(value) for value in values))

    def _of_type(self, kind: str, schema: dict[str, Any], where: str) -> str:
        match kind:
            case "object":
                return self._object(schema, where)
            case "array":
                return self._array(schema, where)
            case "string":
                return string_rule(schema, where)
            case "integer" | "number":
                return self._number(kind, schema, where)
            case _:
                return kind

    def _number(self, kind: str, schema: dict[str, Any], where: str) -> str:
        bounds: dict[str, int | float] = {}
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if key in schema:
                bounds[key] = schema[key]
                if not abs(schema[key]) < 10**15:
                    raise schema_fault(f"`{key}` has more than 15 digits", where, "Give a smaller number.")
        if "multipleOf" in schema and not (schema["multipleOf"] == 1 and kind == "integer"):
            raise schema_fault("`multipleOf` cannot be kept", where, "Leave it out.")
        if not bounds:
            return kind
        minimum, above = bounds.get("minimum"), bounds.get("exclusiveMinimum")
        maximum, below = bounds.get("maximum"), bounds.get("exclusiveMaximum")
        is_low_open = above is not None and (minimum is None or above >= minimum)
        is_high_open = below is not None and (maximum is None or below <= maximum)
        low, high = above if is_low_open else minimum, below if is_high_open else maximum
        if kind == "integer":
            found = integers(first_integer(low, is_open=is_low_open), last_integer(high, is_open=is_high_open))
        else:
            found = numbers(low, high, is_low_open=is_low_open, is_high_open=is_high_open)
        if not found:
            raise schema_fault("there is no whole number between the bounds", where, "Give wider ones.")
        return f"({found})"

    def _array(self, schema: dict[str, Any], where: str) -> str:
        if schema.get("uniqueItems", False) is not False:
            raise schema_fault("`uniqueItems` cannot be kept", where, "Leave it out.")
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        if isinstance(rest, list):  # as it was written before 2020
            first, rest = rest, schema.get("additionalItems", True)
        minimum, maximum = counts(schema, "minItems", "maxItems", where)
        if maximum is not None:
            first = first[:maximum]
        num_more = max(minimum - len(first), 0)
        most = None if maximum is None else maximum - len(first)
        if rest is False:
            if num_more:
                raise schema_fault("`minItems` asks for more than may be there", where, "Make it smaller.")
            most = 0
        elif first and "items" not in schema and not num_more:
            most = 0  # allowed, but nobody asked for them
        parts = [self._rule(item, f"{where}/{number}") for number, item in enumerate(first)]
        return f'"[" ws {self._repeated(parts, rest, (num_more, most), where)}"]"'

    def _repeated(self, parts: list[str], rest: Schema, span: tuple[int, int | None], where: str) -> str:
        minimum, maximum = span
        head = ' "," ws '.join(parts)
        if maximum == 0:
            return f"{head} ws " if parts else ""
        item = self._rule(rest, f"{where}/items")
        if not parts:
            left = "" if maximum is None else str(maximum - 1)
            body = f'{item} ("," ws {item}){{{max(minimum - 1, 0)},{left}}} ws'
            return f"{body} " if minimum else f"({body})? "
        return f'{head} ("," ws {item}){{{minimum},{"" if maximum is None else maximum}}} ws '

    def _object(self, schema: dict[str, Any], where: str) -> str:
        properties, required = dict(schema.get("properties", {})), schema.get("required", [])
        others = schema.get("additionalProperties")
        for name in required:
            if name not in properties:
                if others is False:
                    raise schema_fault(f"the property `{name}` is required but not allowed", where, "Add it.")
                properties[name] = True if others is None else others
        declared = schema.get("properties", {})
        is_free = others is None and not declared and not required
        has_others = is_free or others not in (None, False)
        minimum, maximum = counts(schema, "minProperties", "maxProperties", where)
        if minimum > len(set(required)) or (maximum is not None and (has_others or maximum < len(properties))):
            raise schema_fault("the number of properties cannot be kept", where, "Use `required` instead.")
        if not properties and not has_others:
            return '"{" ws "}"'
        extra = None
        if has_others:
            extra = f'{self._other_names(list(properties))} ws ":" ws {self._rule(others or True, f"{where}/others")}'
        body = self._members(
            {name: self._rule(part, f"{where}/{name}") for name, part in properties.items()}, required, extra
        )
        return f'"{{" ws {body} "}}"'

    def _members(self, rules: dict[str, str], required: list[str], extra: str | None) -> str:
        """Return the members of an object, which come in order; what may be left out may be so without its comma."""
        rest = self._new_name()
        self._rules[rest] = f'("," ws {extra})* ws' if extra else "ws"
        choices = [f"{extra} {rest}"] if extra else []
        is_needed = False
        for name, rule in reversed(rules.items()):
            member = f'{literal(name)} ws ":" ws {rule}'
            if name in required:
                choices, is_needed = [], True
            choices.append(f"{member} {rest}")
            following, rest = rest, self._new_name()
            self._rules[rest] = f'("," ws {member}){"" if name in required else "?"} {following}'
        found = f"({' | '.join(reversed(choices))})"
        return found if is_needed else f"{found}?"

    def _other_names(self, names: list[str]) -> str:
        """Return the rule of a name that is none of these: it leaves them at some character."""
        if not names:
            return "string"
        tree: dict[str, Any] = {}
        for name in names:
            node = tree
            for char in name:
                node = node.setdefault(char, {})
            node[""] = {}
        todo = [(top := self._new_name(), tree)]
        while todo:
            rule, node = todo.pop()
            chars = [char for char in node if char and char.isprintable() and char not in '"\\']
            listed = "".join(f"\\U{ord(char):08X}" for char in node if char and not "\ud800" <= char <= "\udfff")
            choices = [f'[^"\\\\\\x00-\\x1F{listed}] plain*']
            for char in chars:
                choices.append(f"{literal(char, is_bare=True)} {(inner := self._new_name())}")
                todo.append((inner, node[char]))
            self._rules[rule] = " | ".join(choices) if "" in node else f"({' | '.join(choices)})?"
        return f'"\\"" {top} "\\""'
