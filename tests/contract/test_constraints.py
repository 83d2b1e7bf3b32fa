"""Replies inside a grammar, with the starter model: forced texts, ends, greedy choices, and settings of all kinds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backend import BatchPart
from engine.backend_llama import LlamaLoader
from engine.backend_llama.context import LlamaBackend
from engine.errors import GrammarError
from engine.grammar import TokenTable, new_matcher
from engine.params import ModelParams, SamplingParams
from tests.support.grammar_runs import compare_with_native, exit_code_of, sample_with_grammars
from tests.unit.engine.grammar.test_json_schema import CASES, IDS

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" ["\\bfnrt] )* "\"" ws
number ::= "-"? [0-9]{1,15} ("." [0-9]+)? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {},
    {"temperature": 0.0, "repeat_penalty": 1.3},
    {"mirostat": 1},
    {"mirostat": 2},
    {"adaptive_target": 0.3},
    {"xtc_probability": 1.0},
    {"dry_multiplier": 1.0},
    {"typical_p": 0.5},
    {"temperature": 50.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    {"top_k": 1},
]

_KEPT = 1  # a sequence
_kept: list[int] = []


@pytest.fixture(scope="module")
def backend(starter_path: Path) -> Iterator[LlamaBackend]:
    loaded = LlamaLoader().load(str(starter_path), ModelParams(n_ctx=512, n_threads=1), lambda share: True)
    assert isinstance(loaded, LlamaBackend)
    yield loaded
    loaded.close()


def _begin_with(backend: LlamaBackend, tokens: list[int]) -> None:
    """Let the sequence hold some tokens; another one keeps those of the last time, which most replies begin with."""
    if backend.seq_len(_KEPT) == 0 or _kept != tokens:
        backend.seq_rm(_KEPT, 0)
        backend.decode([BatchPart(_KEPT, 0, tokens, wants_logits=False)])
        _kept[:] = tokens
    backend.seq_rm(0, 0)
    backend.seq_cp(_KEPT, 0, len(tokens))


def reply_to(
    backend: LlamaBackend,
    params: SamplingParams,
    *,
    reply: str = "",
    most: int = 60,
    thinks_for: int | None = None,
    seed: int = 7,
) -> tuple[str, str]:
    """Return the text of a reply and how it ended: "complete", "end" or "length"."""
    vocabulary = backend.vocabulary
    prompt = f"<|im_start|>user\nDescribe a cat in JSON.<|im_end|>\n<|im_start|>assistant\n{reply}"
    *before, last = vocabulary.tokenize(prompt, parse_special=True)
    _begin_with(backend, before)
    matcher = new_matcher(params, TokenTable(vocabulary), reply)
    sampler = backend.new_sampler(params, seed, [*before, last], matcher=matcher, is_thinking=thinks_for is not None)
    text, position, how, tokens = b"", len(before), "length", [last]
    try:
        for number in range(most):
            backend.decode([BatchPart(0, position, tokens, wants_logits=True)])
            position += len(tokens)
            if number == thinks_for:
                sampler.end_thinking()
            token = sampler.sample(0)
            if token in vocabulary.end_ids:
                how = "end"
                break
            text += vocabulary.pieces[token]
            tokens = [token]
            if sampler.is_complete:
                how = "complete"
                break
    finally:
        sampler.close()
    return text.decode("utf-8", "replace"), how


def lengths(short: int, long: int) -> Any:
    """Return what repeats a test with replies of so many tokens, the long ones in `make soak`."""
    return pytest.mark.parametrize("most", [short, pytest.param(long, marks=pytest.mark.soak)], ids=["short", "long"])


@lengths(20, 80)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_reply_stays_inside_its_grammar_whatever_the_settings(
    backend: LlamaBackend, settings: dict[str, Any], most: int
) -> None:
    text, how = reply_to(backend, SamplingParams(grammar=JSON, **settings), most=most)
    matcher = new_matcher(SamplingParams(grammar=JSON), TokenTable(backend.vocabulary))
    assert matcher is not None
    assert text and matcher.take_text(text.encode())
    if how != "length":
        json.loads(text)


@pytest.mark.parametrize(
    "sentence",
    ["ok 🏋️‍♂️ 👍🏽 🇨🇭 日本 é नमस्ते end", "  indented", "\n    x", "alpha beta gamma delta", "<|im_end|>"],
    ids=["characters of many bytes", "two blanks", "line break", "words", "text of a control token"],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_forced_reply_is_the_sentence_and_complete(backend: LlamaBackend, sentence: str, temperature: float) -> None:
    written = sentence.replace("\n", "\\n")
    params = SamplingParams(grammar=f'root ::= "{written}"', temperature=temperature)
    assert reply_to(backend, params, most=120) == (sentence, "complete")


@pytest.mark.parametrize(
    ("grammar", "expected"),
    [
        ('root ::= "{" "}"', {("{}", "complete")}),
        ('root ::= "{" "}" " tail"?', {("{}", "end"), ("{} tail", "complete")}),
        ('root ::= "a" <|im_end|>', {("a", "end")}),
        ("root ::= !<[5]>", set()),
    ],
    ids=["one sentence", "optional tail", "end token", "any other token"],
)
def test_reply_ends_where_its_grammar_does(backend: LlamaBackend, grammar: str, expected: set[tuple[str, str]]) -> None:
    found = reply_to(backend, SamplingParams(grammar=grammar, temperature=0.0), most=30)
    assert found in expected if expected else (found[1] == "complete" and found[0])


def test_half_answer_is_continued_inside_the_grammar(backend: LlamaBackend) -> None:
    params = SamplingParams(grammar='root ::= "The answer" " is" " " [0-9]{2}', temperature=0.0)
    text, how = reply_to(backend, params, reply="The answer")
    assert (text[:4], text[4:].isdigit(), how) == (" is ", True, "complete")


def test_half_answer_that_does_not_fit_is_refused(backend: LlamaBackend) -> None:
    with pytest.raises(GrammarError, match="half answer"):
        reply_to(backend, SamplingParams(grammar='root ::= "a"'), reply="b")


def test_grammar_waits_until_the_thinking_ends(backend: LlamaBackend) -> None:
    free, _ = reply_to(backend, SamplingParams(temperature=0.0), most=5)
    text, how = reply_to(backend, SamplingParams(grammar='root ::= "ZZ"', temperature=0.0), thinks_for=5)
    assert (text, how) == (free + "ZZ", "complete")


def test_greedy_reply_takes_the_likeliest_token_that_is_allowed(backend: LlamaBackend) -> None:
    tokens = backend.vocabulary.tokenize("Once upon a", parse_special=False)
    backend.seq_rm(0, 0)
    backend.decode([BatchPart(0, 0, tokens, wants_logits=True)])
    params = SamplingParams(grammar="root ::= [0-9]+", temperature=0.0)
    matcher = new_matcher(params, TokenTable(backend.vocabulary))
    assert matcher is not None
    allowed = matcher.allowed()
    logits = backend.logits(0)
    expected = int(allowed[np.argmax(logits[allowed])])
    chained = SamplingParams(grammar=params.grammar, temperature=0.0, logit_bias=((0, 0.0),))
    for settings in (params, chained):  # an argmax, and the native chain
        matcher = new_matcher(settings, TokenTable(backend.vocabulary))
        sampler = backend.new_sampler(settings, 1, tokens, matcher=matcher)
        assert sampler.sample(0) == expected
        sampler.close()


def test_choosing_again_follows_the_probabilities_of_what_is_allowed(backend: LlamaBackend) -> None:
    tokens = backend.vocabulary.tokenize("I have", parse_special=False)
    backend.seq_rm(0, 0)
    backend.decode([BatchPart(0, 0, tokens, wants_logits=True)])
    a, b = (backend.vocabulary.tokenize(text, parse_special=False)[0] for text in ("A", "B"))
    params = SamplingParams(
        grammar='root ::= "A" | "B"', top_k=0, top_p=1.0, min_p=0.0, temperature=1.0, logit_bias=((a, -8.0), (b, -8.0))
    )
    logits = backend.logits(0)
    expected = 1 / (1 + np.exp(float(logits[b] - logits[a])))
    count = 300
    chosen = []
    table = TokenTable(backend.vocabulary)
    for seed in range(count):
        sampler = backend.new_sampler(params, seed, tokens, matcher=new_matcher(params, table))
        chosen.append(sampler.sample(0))
        sampler.close()
    assert set(chosen) <= {a, b}
    assert abs(chosen.count(a) / count - expected) < 4 * np.sqrt(expected * (1 - expected) / count)


@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0}},
            "required": ["name", "age"],
        },
        {"type": "array", "items": {"enum": ["Käse", "日本"]}, "minItems": 2, "maxItems": 3},
    ],
    ids=["object", "array"],
)
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_reply_to_a_schema_is_valid(backend: LlamaBackend, schema: dict[str, object], temperature: float) -> None:
    params = SamplingParams(json_schema=json.dumps(schema), temperature=temperature)
    text, how = reply_to(backend, params, most=120)
    value = json.loads(text)
    assert how == "complete"
    if isinstance(value, dict):
        assert list(value) == ["name", "age"] and len(value["name"]) <= 12 and value["age"] >= 0
    else:
        assert len(value) in (2, 3) and set(value) <= {"Käse", "日本"}


@lengths(24, 120)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_reply_is_valid_whatever_the_schema(backend: LlamaBackend, case: tuple[Any, ...], most: int) -> None:
    schema, is_right, *_ = case
    params = SamplingParams(json_schema=json.dumps(schema), temperature=1.0)
    text, how = reply_to(backend, params, most=most, seed=1)
    if how != "length":
        assert is_right(json.loads(text)), text


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": -5, "maximum": 120},
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "maxLength": 8},
        {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        {"type": "object", "properties": {"a": {"type": "null"}, "b": {"enum": ["x", "y"]}}},
    ],
    ids=lambda schema: json.dumps(schema)[:50],
)
def test_reply_comes_to_its_end_when_its_schema_is_bounded(backend: LlamaBackend, schema: dict[str, Any]) -> None:
    for temperature in (0.0, 2.0):
        text, how = reply_to(backend, SamplingParams(json_schema=json.dumps(schema), temperature=temperature), most=150)
        assert how != "length", text
        json.loads(text)


def test_drawn_grammars_and_settings_end_no_process(starter_path: Path) -> None:
    assert exit_code_of(sample_with_grammars, starter_path, 60) == 0


def test_drawn_grammars_mean_what_llama_cpp_takes_them_for(starter_path: Path) -> None:
    assert exit_code_of(compare_with_native, starter_path, 40) == 0
