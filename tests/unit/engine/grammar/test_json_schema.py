"""JSON schemas: what a reply may be, that it is always valid, and which schemas are refused."""

import json
import random
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import GrammarError
from engine.grammar.json_schema import schema_to_grammar
from tests.support.byte_vocabulary import BYTES, fits, schema_matcher

END = next(iter(BYTES.end_ids))
NODE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            "required": ["v", "next"],
        }
    },
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}
OTHERS = {
    "type": "object",
    "properties": {"ab": {"type": "string"}, "abc": {"type": "null"}, 'q"': {"type": "null"}},
    "additionalProperties": {"type": "integer"},
    "required": ["abc", "zz"],
}
KINDS = {
    "oneOf": [
        {"type": "object", "properties": {"k": {"const": "x"}, "p": {"type": "integer"}}, "required": ["k", "p"]},
        {"type": "object", "properties": {"k": {"const": "y"}}, "required": ["k"]},
    ]
}
BOTH = {
    "allOf": [{"$ref": "#/definitions/a~1b"}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}],
    "definitions": {"a/b": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
}
EITHER = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}


def is_person(value: Any) -> bool:
    return set(value) <= {"name", "age"} and len(value["name"]) >= 1 and value.get("age", 0) >= 0


def is_node(value: Any) -> bool:
    return type(value["v"]) is int and (value["next"] is None or is_node(value["next"]))


def is_others(value: Any) -> bool:
    kinds = {"ab": str, "abc": type(None), 'q"': type(None)}
    return {"abc", "zz"} <= set(value) and all(type(part) is kinds.get(name, int) for name, part in value.items())


def matches(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and re.search(pattern, value) is not None


# Schema, what its values are, texts that fit, texts that do not.
CASES: list[tuple[Any, Callable[[Any], bool], list[str], list[str]]] = [
    (PERSON, is_person, ['{"name": "A", "age": 3}', '{"name":"é\\"\\n\\u00e9"}'], ['{"age": 1}', '{"name": ""}', "{}"]),
    (NODE, is_node, ['{"v": 1, "next": {"v": 2, "next": null}}'], ['{"v": 1}', '{"v": 1, "next": 3}']),
    (OTHERS, is_others, ['{"abc": null, "zz": 1, "abcd": 5, "a": 2}'], ['{"abc": null, "zz": 1, "ab": 5}']),
    (KINDS, lambda v: v["k"] == "y" or type(v["p"]) is int, ['{"k": "x", "p": 1}', '{"k": "y"}'], ['{"k": "x"}']),
    (BOTH, lambda v: type(v["a"]) is str and type(v["b"]) is int, ['{"b": 1, "a": "x"}'], ['{"a": "x"}']),
    (EITHER, lambda v: v != {}, ['{"a": 1}', '{"b": 1}', '{"a": 1, "b": 2}'], ["{}"]),
    ({"enum": ["é", 1, None, {"x": [1]}]}, lambda v: v in ["é", 1, None, {"x": [1]}], ['{"x": [1]}'], ["true"]),
    ({"const": 'q"\\\n\t'}, lambda v: v == 'q"\\\n\t', ['"q\\"\\\\\\n\\t"'], ['"q"']),
    ({"type": "integer", "enum": [1, "a"]}, lambda v: v == 1, ["1"], ['"a"']),
    ({"type": ["string", "null"]}, lambda v: v is None or type(v) is str, ["null", '"a"'], ["1"]),
    ({"type": "string", "nullable": True}, lambda v: v is None or type(v) is str, ["null"], ["1"]),
    ({"oneOf": [{"type": "null"}, {"type": "number"}]}, lambda v: type(v) is not str, ["null", "-1.5e+3"], ["01"]),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3}, lambda v: len(v) in (2, 3),
     ["[true,false]", "[ true, true, true ]"], ["[true]", "[true,true,true,true]", "[true,]"]),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
     lambda v: len(v) == 2, ['["a", 1]'], ['["a", 1, 2]', "[1]"]),
    ({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "null"}, "minItems": 2},
     lambda v: type(v[0]) is str and set(v[1:]) == {None}, ['["a", null]'], ['["a"]']),
    ({"type": "array", "maxItems": 0}, lambda v: v == [], ["[]", "[ ]"], ["[1]"]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, lambda v: 2 <= len(v) <= 3, ['"日é"', '"\\n\\n\\n"'], ['"a"']),
    ({"type": "string", "pattern": r"^[A-Z][a-z]{2,4}\d+$"}, matches(r"^[A-Z][a-z]{2,4}\d+$"), ['"Abc1"'], ['"Ab1"']),
    ({"type": "string", "pattern": r"^(\(\d{3}\))?\d{3}-\d{4}$"}, matches(r"-"), ['"(123)456-7890"'], ['"1-2"']),
    ({"type": "string", "pattern": r'^[^a"]+?\w\.(?:com|org)$'}, matches(r"\.(com|org)$"), ['"x_.com"'], ['"a.com"']),
    ({"type": "string", "pattern": "^a\"\\\\\\s$"}, matches("^a\"\\\\[\\s\ufeff]$"), ['"a\\"\\\\\\n"'], ['"a"']),
    ({"type": "string", "pattern": "ab"}, matches("ab"), ['"xxabxx"', '"ab"'], ['"a"']),
    ({"type": "string", "format": "date"}, matches(r"^\d{4}-\d\d-\d\d$"), ['"2024-02-28"'], ['"2024-13-01"']),
    ({"type": "string", "format": "date-time"}, matches("T"), ['"2024-02-28T23:59:59Z"'], ['"2024-02-28"']),
    ({"type": "string", "format": "uuid"}, matches("-"), ['"123e4567-e89b-12d3-a456-426614174000"'], ['"1"']),
    ({"type": "integer", "exclusiveMinimum": 1, "maximum": 12}, lambda v: 1 < v <= 12, ["2", "12"], ["1", "13"]),
    ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, lambda v: 0 <= v < 1, ["0", "0.5"], ["1", "-0.1"]),
    ({"type": "object", "additionalProperties": False}, lambda v: v == {}, ["{}", "{ }"], ['{"a": 1}']),
    ({"type": "object", "additionalProperties": {"type": "null"}}, lambda v: set(v.values()) <= {None},
     ["{}", '{"a": null}'], ['{"a": 1}']),
    ({"type": "object"}, lambda v: type(v) is dict, ['{"a": {"b": [1, "c", null]}}'], ["[]"]),
    ({}, lambda v: True, ["1", '"a"', "[{}]"], ["a"]),
    (True, lambda v: True, ["null"], [""]),
]  # fmt: skip
IDS = [json.dumps(case[0])[:50] for case in CASES]


@pytest.mark.parametrize(("schema", "is_right", "fitting", "others"), CASES, ids=IDS)
def test_schema_allows_these_texts_and_not_those(
    schema: Any, is_right: Callable[[Any], bool], fitting: list[str], others: list[str]
) -> None:
    for text in fitting:
        if schema != BOTH or text.startswith('{"a"'):
            assert fits(schema_matcher(json.dumps(schema)), text), text
        assert is_right(json.loads(text)), text
    for text in others:
        assert not fits(schema_matcher(json.dumps(schema)), text), text


@pytest.mark.parametrize(("schema", "is_right", "fitting", "others"), CASES, ids=IDS)
def test_every_reply_that_is_allowed_is_valid(
    schema: Any, is_right: Callable[[Any], bool], fitting: list[str], others: list[str]
) -> None:
    generator = random.Random(1)
    replies = [reply for _ in range(12) if (reply := drawn_reply(schema, generator)) is not None]
    assert all(is_right(json.loads(reply)) for reply in replies)


def drawn_reply(schema: Any, generator: random.Random) -> str | None:
    """Return a reply of random bytes inside a schema, None where it has not come to an end in time."""
    matcher = schema_matcher(json.dumps(schema))
    reply = bytearray()
    while not matcher.is_complete and len(reply) < 300:
        choices = [token for token in matcher.allowed().tolist() if token != END]
        if matcher.may_end and generator.random() < 0.3:
            break
        closing = [token for token in choices if chr(token) in '"]}0']
        byte = generator.choice(closing if closing and len(reply) > 40 else choices)
        assert matcher.take(byte)
        reply.append(byte)
    return reply.decode("utf-8") if matcher.may_end else None


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"minimum": NaN}', "NaN is no number"),
        ('{"minimum": 1e999}', "1e999 is no number"),
        ('{"minimum": 1' + "0" * 5000 + "}", "is no JSON"),
        ("[]", "is not an object"),
        ("false", "allows nothing"),
        (" " * (1 << 20) + "{}", "larger than 1 MiB"),
        ('{"$ref": "https://example.invalid/s.json"}', "leads out of it"),
        ('{"$ref": "file:///etc/passwd"}', "leads out of it"),
        ('{"$ref": "other.json#/a"}', "leads out of it"),
        ('{"$ref": 5}', "leads out of it"),
        ('{"$ref": "#/$defs/x"}', "leads nowhere"),
        ('{"$ref": "#anchor"}', "is no path"),
        ('{"$ref": "#/a", "a": {"$ref": "#/a"}}', "cannot be kept"),
        ('{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}', "leads back to itself"),
        ('{"type": "array", "items": {"$ref": "#"}, "minItems": 1}', "has no end"),
        ('{"not": {}}', "`not`"),
        ('{"if": {}, "then": {}}', "`if`"),
        ('{"type": "object", "patternProperties": {}}', "`patternProperties`"),
        ('{"type": "string", "maxLenght": 4}', "`maxLenght`"),
        ('{"type": "strin"}', "names no type"),
        ('{"type": []}', "names no type"),
        ('{"type": "integer", "multipleOf": 3}', "`multipleOf`"),
        ('{"type": "integer", "minimum": 1000000000000000}', "15 digits"),
        ('{"type": "integer", "minimum": "1"}', "is not a number"),
        ('{"type": "integer", "minimum": 5, "maximum": 4}', "no whole number"),
        ('{"type": "number", "minimum": 0.2, "maximum": 0.8}', "no whole number"),
        ('{"type": "array", "uniqueItems": true}', "`uniqueItems`"),
        ('{"type": "array", "minItems": 3, "maxItems": 2}', "below"),
        ('{"type": "array", "prefixItems": [{}], "items": false, "minItems": 2}', "`minItems`"),
        ('{"type": "string", "minLength": 1.5}', "whole number"),
        ('{"type": "string", "minLength": 10000000}', "whole number"),
        ('{"type": "string", "pattern": "a", "minLength": 2}', "stands beside"),
        ('{"type": "string", "pattern": "(?=a)b"}', "looks ahead"),
        ('{"type": "string", "pattern": "(a"}', "not closed"),
        ('{"type": "string", "pattern": "a)"}', "closes nothing"),
        ('{"type": "string", "pattern": "[a"}', "not closed"),
        ('{"type": "string", "pattern": "a**"}', "two repetitions"),
        ('{"type": "string", "pattern": "(a*)*"}', "repeats nothing"),
        (r'{"type": "string", "pattern": "\\bword"}', "is not among the escapes"),
        (r'{"type": "string", "pattern": "(a)\\1"}', "is not among the escapes"),
        ('{"type": "object", "properties": []}', "is not an object of schemas"),
        ('{"type": "object", "required": "a"}', "is not a list of names"),
        ('{"type": "object", "required": ["a"], "additionalProperties": false}', "required but not allowed"),
        ('{"type": "object", "minProperties": 2}', "number of properties"),
        ('{"enum": []}', "is not a list of values"),
        ('{"type": "null", "enum": [1]}', "no value is left"),
        ('{"enum": ["a"], "minLength": 2}', "stands beside given values"),
        ('{"oneOf": [{"type": "integer"}, {"type": "number"}]}', "Use `anyOf`|might fit"),
        ('{"anyOf": []}', "allows nothing"),
        ('{"allOf": [{"type": "string"}, {"type": "integer"}]}', "two types"),
        ('{"allOf": [{"pattern": "a"}, {"pattern": "b"}]}', "two different `pattern`"),
        ('{"properties": {"a": false}}', "allows nothing"),
    ],
)
def test_schema_that_cannot_be_kept_is_refused_with_a_sentence(schema: str, sentence: str) -> None:
    with pytest.raises(GrammarError, match=sentence) as caught:
        schema_to_grammar(schema)
    assert caught.value.hint.endswith(".")


def test_deep_and_wide_schemas_take_bounded_time() -> None:
    doubling: dict[str, Any] = {
        f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]} for i in range(40)
    }
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string", "maxLength": 100_000} for i in range(1500)}}
    began = time.thread_time()
    with pytest.raises(GrammarError, match="too far"):
        schema_to_grammar(json.dumps({"$ref": "#/$defs/a0", "$defs": {**doubling, "a40": {}}}))
    assert len(schema_matcher(json.dumps(deep)).allowed())
    assert len(schema_matcher(json.dumps(wide)).allowed())
    assert time.thread_time() - began < 10
