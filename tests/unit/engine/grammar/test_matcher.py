"""Following a grammar: what fits, what may come next, where it ends, and that no grammar takes for ever."""

import copy
import time

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine.errors import GrammarError
from engine.grammar import TokenTable, new_matcher
from engine.grammar import matcher as matcher_module
from engine.params import SamplingParams
from tests.support.byte_vocabulary import ByteVocabulary, fits, grammar_matcher
from tests.support.grammar_texts import grammar_texts

LONGER = ("ab", "aab", "abc", "hello", " a", "\n\n", "é日", "{}", "a" * 20, "<|c|>x")
VOCABULARY = ByteVocabulary(*LONGER)
TABLE = TokenTable(VOCABULARY)
END = VOCABULARY.ids["<|end|>"]


def allowed_texts(grammar: str, taken: str = "") -> set[bytes]:
    matcher = grammar_matcher(grammar, TABLE)
    assert matcher.take_text(taken.encode())
    return {VOCABULARY.pieces[token] for token in matcher.allowed().tolist()}


@pytest.mark.parametrize(
    ("grammar", "taken", "expected"),
    [
        ('root ::= "ab" "c"?', "", {b"a", b"ab", b"abc"}),
        ('root ::= "ab" "c"?', "ab", {b"c", b"<|end|>"}),
        ('root ::= "ab"', "ab", {b"<|end|>"}),
        ('root ::= "é日"', "", {"é".encode()[:1], "é日".encode()}),
        ('root ::= "<|c|>x"', "", {b"<", b"<|c|>x"}),
        ("root ::= <|c|>", "", {b"<|c|>"}),
        ('root ::= "a" <|end|>', "a", {b"<|end|>"}),
        ("root ::= [^\\x00-\\x7F]", "", {*(bytes([lead]) for lead in range(0xC2, 0xF5)), "é".encode()[:1]}),
    ],
    ids=["prefixes", "optional", "complete", "many bytes", "text of a control", "control", "end token", "not ASCII"],
)
def test_only_what_fits_is_allowed(grammar: str, taken: str, expected: set[bytes]) -> None:
    assert allowed_texts(grammar, taken) == expected


def test_any_other_token_means_text_only() -> None:
    found = allowed_texts("root ::= !<|c|>")
    assert b"hello" in found and not found & {b"<|c|>", b"<|end|>"}


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(text=grammar_texts(), choices=st.lists(st.integers(0, 10**6), max_size=6))
def test_what_is_allowed_is_what_can_be_taken(text: str, choices: list[int]) -> None:
    try:
        matcher = grammar_matcher(text, TABLE)
    except GrammarError:
        assume(False)
    for choice in choices:
        try:
            allowed = set(matcher.allowed().tolist())
            fitting = {token for token in range(len(VOCABULARY.pieces)) if copy.copy(matcher).take(token)}
        except GrammarError:  # it can be read in too many ways to go on
            return
        assert fitting == allowed
        going_on = sorted(allowed - {END})
        if not going_on:
            assert matcher.may_end
            return
        assert matcher.take(going_on[choice % len(going_on)])


def test_token_that_does_not_fit_changes_nothing() -> None:
    matcher = grammar_matcher('root ::= "ab"', TABLE)
    assert not matcher.take(VOCABULARY.ids["hello"]) and not matcher.take(END)
    assert not matcher.take_text(b"ax")
    assert fits(matcher, "ab")


@pytest.mark.parametrize(
    ("grammar", "text", "may_end", "is_complete"),
    [
        ('root ::= "{" "}"', "{", False, False),
        ('root ::= "{" "}"', "{}", True, True),
        ('root ::= "{}" "x"?', "{}", True, False),
        ('root ::= "{}" "x"?', "{}x", True, True),
        ('root ::= "a"{0,2}', "", True, False),
        ('root ::= "a"{0,2}', "aa", True, True),
    ],
)
def test_end_is_known(grammar: str, text: str, may_end: bool, is_complete: bool) -> None:
    matcher = grammar_matcher(grammar)
    assert matcher.take_text(text.encode())
    assert (matcher.may_end, matcher.is_complete) == (may_end, is_complete)


@pytest.mark.parametrize("text", ["\x80", "\xc3a"], ids=["lone byte", "cut character"])
def test_bytes_that_are_no_character_never_fit(text: str) -> None:
    assert not grammar_matcher("root ::= .+").take_text(text.encode("latin-1"))


@pytest.mark.parametrize("data", [b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
def test_encodings_that_utf8_forbids_never_fit(data: bytes) -> None:
    assert not grammar_matcher("root ::= .+").take_text(data)


def test_grammar_that_allows_no_text_is_refused() -> None:
    with pytest.raises(GrammarError, match="allows no text"):
        grammar_matcher('root ::= ""')


@pytest.mark.parametrize("name", ["<[99999]>", "<|nobody|>"])
def test_token_that_the_model_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(GrammarError, match="does not have"):
        grammar_matcher(f"root ::= {name}")


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('root ::= ([a-z]+)* "1"', "abcdefghijklmnopqrstuvwxyz" * 40),
        ('root ::= (x|x|x|x|x|x)* "!"\nx ::= [^q]', "hello there " * 40),
        ('root ::= e\ne ::= "a" e e | "a"', "a" * 60),
        ("root ::= [a-z]{0,1000000}", "a" * 5000),
    ],
    ids=["repeated repetition", "equal choices", "a rule twice", "large count"],
)
def test_ambiguous_grammar_is_followed_in_bounded_time(grammar: str, text: str) -> None:
    began = time.thread_time()
    matcher = grammar_matcher(grammar, TABLE)
    assert matcher.take_text(text.encode())
    assert len(matcher.allowed())
    assert time.thread_time() - began < 10


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= e\ne ::= "a" e f | "a" e g | "a"\nf ::= "x"\ng ::= "x"',
        'root ::= (("a"?){0,1000}){0,1000} "b"',
    ],
    ids=["stacks that double", "nested counts of nothing"],
)
def test_grammar_that_grows_without_bound_fails_in_bounded_time(grammar: str) -> None:
    began = time.thread_time()
    with pytest.raises(GrammarError, match="too many ways"):
        grammar_matcher(grammar, TABLE).take_text(b"a" * 200)
    assert time.thread_time() - began < 20


def test_long_reply_drops_what_it_no_longer_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher_module, "_TIDY_CELLS", 100)
    monkeypatch.setattr(matcher_module, "MAX_CELLS", 400)
    grammar = 'root ::= "[" item ("," item)* "]"\nitem ::= "(" [a-z]{1,50} ")" | "[" item "]"'
    matcher = grammar_matcher(grammar, TABLE)
    text = b"[" + b",".join([b"(abcdefghij)", b"[[(a)]]"] * 200) + b"]"
    assert all(matcher.take(byte) for byte in text)
    assert matcher.is_complete


def test_half_answer_is_taken_in_first() -> None:
    params = SamplingParams(grammar='root ::= "The answer" " is"')
    matcher = new_matcher(params, TABLE, "The answer")
    assert matcher is not None and fits(matcher, " is")
    with pytest.raises(GrammarError, match="does not fit"):
        new_matcher(params, TABLE, "Another")


def test_free_reply_has_no_matcher() -> None:
    assert new_matcher(SamplingParams(), TABLE) is None
