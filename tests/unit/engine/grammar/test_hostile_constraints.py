"""Grammars and schemas that ask for too much: each costs a bounded time and memory, and ends in an error of ours."""

import functools
import json
import random
import time
from typing import Any

import pytest

from engine.errors import GrammarError
from engine.grammar import TokenTable, new_matcher
from engine.grammar import matcher as matcher_module
from engine.params import SamplingParams
from tests.support.byte_vocabulary import ByteVocabulary, grammar_matcher

VOCABULARY = ByteVocabulary("ab", "hello", " a", *(f"<{number}>" for number in range(2000)))
TABLE = TokenTable(VOCABULARY)


def _properties(count: int) -> dict[str, Any]:
    return {f"p{number}": {"type": "string"} for number in range(count)}


def _nested(count: int) -> str:
    return "[" * count + "]" * count


def _schemas(share: int) -> dict[str, Any]:
    return {
        "many properties": {"type": "object", "properties": _properties(9000 // share)},
        "many required": {
            "type": "object",
            "properties": _properties(9000 // share),
            "required": list(_properties(9000 // share)),
        },
        "many others": {
            "type": "object",
            "properties": _properties(9000),
            "additionalProperties": {"type": "null"},
        },
        "many values": {"enum": [f"v{number}" for number in range(30_000 // share)]},
        "many values twice": {
            "allOf": [{"enum": list(range(start, start + 20_000 // share))} for start in (0, 10_000 // share)]
        },
        "many that exclude": {"oneOf": [{"enum": [f"{i}-{j}" for j in range(200 // share)]} for i in range(200)]},
        "many alike": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {**_properties(50), "k": {"const": i}},
                    "required": list(_properties(50)),
                }
                for i in range(200)
            ]
        },
        "many that may": {"oneOf": [*({"type": "object"} for _ in range(100)), {"enum": list(range(50_000))}]},
        "long names": {"properties": {"a" * 20_000 + str(i): {} for i in range(20)}, "additionalProperties": True},
        "pattern of choices": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"},
        "pattern of counts": {"type": "string", "pattern": "((a{1000000}){1000000}){1000000}"},
        "pattern of nothing": {"type": "string", "pattern": "((a?){1000}){1000}"},
        "pattern of alternatives": {"type": "string", "pattern": "^(a|aa|aaa|aaaa)*b$"},
        "huge counts": {"type": "array", "items": {"type": "array", "minItems": 10**6}, "minItems": 10**6},
        "reference to itself": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        "reference in a circle": {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}},
        },
        "reference that adds": {"type": ["null", "object"], "anyOf": [{"$ref": "#"}, {"type": "null"}]},
    }


def _grammars(share: int) -> dict[str, str]:
    return {
        "many choices": "root ::= " + "|".join(['"a"'] * (100_000 // share)),
        "many classes": "root ::= "
        + " | ".join(f"[^\\U{code:08X}]" for code in range(0xE000, 0xE000 + 20_000 // share)),
        "many ranges": "root ::= [" + "".join(chr(0x4E00 + 2 * i) for i in range(10_000)) + "]{1,1000000}",
        "many rules": "root ::= r0\n"
        + "".join(f"r{i} ::= r{i + 1}\n" for i in range(20_000 // share))
        + f'r{20_000 // share} ::= "a"',
        "many that may be empty": "root ::= r0\n"
        + "".join(f'r{i} ::= "a"? r{i + 1}\n' for i in range(20_000 // share))
        + f'r{20_000 // share} ::= "a"',
        "many tokens": "root ::= " + " ".join(["!<[5]>"] * (50_000 // share)),
        "many named tokens": "root ::= " + " ".join(["<|c|>"] * (50_000 // share)),
        "many unknown tokens": "root ::= " + " | ".join(f"<|x{i}|>" for i in range(20_000 // share)),
        "stacks that double": 'root ::= e\ne ::= "a" e f | "a" e g | "a"\nf ::= "x"\ng ::= "x"',
        "counts of nothing": 'root ::= (("a"?){0,1000}){0,1000} "b"',
        "counts of counts": 'root ::= x{1,1000000}\nx ::= "a"{0,1000000} "b"?',
        "many lengths": "root ::= [a-z]{0,1000000} [a-z]{0,1000000} [a-z]{0,1000000} [0-9]",
    }


@functools.cache
def constraints(share: int) -> dict[str, dict[str, Any]]:
    """Return settings by name; where the cost is in their size, they have one part in `share` of it."""
    nested = '{"const": ' + _nested(940) + "}"
    return {
        **{name: {"json_schema": json.dumps(schema)} for name, schema in _schemas(share).items()},
        "nested value": {"json_schema": '{"const": ' + _nested(960) + "}"},
        "twice": {"json_schema": f'{{"allOf": [{nested}, {nested}]}}'},
        **{name: {"grammar": text} for name, text in _grammars(share).items()},
    }


@pytest.mark.parametrize(
    ("share", "limit_s"), [(3, 2.5), pytest.param(1, 6.0, marks=pytest.mark.soak)], ids=["part", "whole"]
)
@pytest.mark.parametrize("name", constraints(3))
def test_constraint_costs_bounded_time_whatever_it_asks_for(name: str, share: int, limit_s: float) -> None:
    """Limits are in seconds of the processor, more than twice of what the costliest takes on an idle machine."""
    generator = random.Random(1)
    constraint = constraints(share)[name]
    began = time.thread_time()
    longest = 0.0
    try:
        matcher = new_matcher(SamplingParams(**constraint), TABLE)
        assert matcher is not None
        for _ in range(60):
            step_began = time.thread_time()
            allowed = [token for token in matcher.allowed().tolist() if token not in VOCABULARY.end_ids]
            if not allowed:
                break
            assert matcher.take(generator.choice(allowed))
            longest = max(longest, time.thread_time() - step_began)
    except GrammarError as error:
        assert error.message and error.hint
    assert time.thread_time() - began < limit_s
    assert longest < 2.0  # a quarter of a second on an idle machine


def test_constraint_is_refused_when_python_cannot_go_so_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    for fault in (RecursionError, MemoryError):

        def fail(text: str, fault: type[BaseException] = fault) -> str:
            raise fault

        monkeypatch.setattr("engine.grammar.parse_grammar", fail)
        with pytest.raises(GrammarError, match="too deeply, or too large"):
            grammar_matcher('root ::= "a"')


def test_half_answer_costs_bounded_time_when_it_can_be_read_in_many_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = "root ::= " + " ".join(["[a-z]{0,1000000}"] * 40) + ' "1"'
    assert grammar_matcher(grammar, TABLE).take_text(b"a" * 20)
    monkeypatch.setattr(matcher_module, "_MAX_HALF_ANSWER_WORK", 5000)
    with pytest.raises(GrammarError, match="too many ways"):
        grammar_matcher(grammar, TABLE).take_text(b"a" * 2000)


def test_what_is_remembered_stays_bounded_when_a_reply_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher_module, "_TIDY_KNOWN", 2000)
    matcher = grammar_matcher("root ::= " + " ".join(["[a-z]{0,1000000}"] * 5) + ' "1"', TABLE)
    for _ in range(100):  # which would leave 4,000
        assert matcher.take(ord("a"))
        assert sum(map(len, matcher._steps.values())) + sum(map(len, matcher._ready.values())) < 2000
    assert matcher.take(ord("1")) and matcher.is_complete


def test_any_other_token_is_every_text_but_one() -> None:
    matcher = grammar_matcher(f"root ::= !<[{VOCABULARY.ids['hello']}]>", TABLE)
    allowed = set(matcher.allowed().tolist())
    controls = {VOCABULARY.ids["<|c|>"], VOCABULARY.ids["<|end|>"], VOCABULARY.ids["hello"]}
    assert allowed == set(range(len(VOCABULARY.pieces))) - controls
    assert not matcher.take(VOCABULARY.ids["hello"]) and matcher.take(VOCABULARY.ids["ab"])
