"""Grammars as they are written: what is read, what is refused, and in which line."""

import contextlib
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import GrammarError
from engine.grammar.notation import MAX_GRAMMAR_BYTES, MAX_NESTING, parse_grammar
from tests.support.byte_vocabulary import fits, grammar_matcher
from tests.support.grammar_texts import damaged, grammar_texts


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('root ::= "a" # the end\n# a comment\r\n\r\n', "a"),
        ('# first\nroot ::=\n  "a" |\n  "b"', "b"),
        ('root ::= ("a"\n  | "b"\n)\n', "b"),
        ('root ::= x-1\r\nx-1 ::= "é"', "é"),
        (r'root ::= "\x41\u00e9\U0001F44D\t\r\n\\\"\[\]\-"', 'Aé👍\t\r\n\\"[]-'),
        (r"root ::= [\]\-a-c^]{4}", "]-b^"),
        ("root ::= [a-]+", "a-a"),
        ("root ::= [^a-z]{2}", "日\n"),
        ("root ::= .{2}", "\n👍"),
        ('root ::= "ab"{2} "c"{1,} "d"{0,2} "e"*', "ababcdd"),
        ('root ::= "a" { 2 , 3 }', "aaa"),
        ('root ::= "a" "" "b"', "ab"),
        ('root ::= "a\nb"', "a\nb"),
        ('root ::= "a"{0} "b"', "b"),
        ('root ::= x | "b"\nx ::= "a" x | "c"', "aac"),
        ('root ::= ("a"?){0,3} "b"', "aab"),
        ("root ::= [\\x00-\\x1F]", "\x01"),
    ],
)
def test_grammar_is_read_as_llama_cpp_reads_it(grammar: str, text: str) -> None:
    assert fits(grammar_matcher(grammar), text)


@pytest.mark.parametrize(
    ("grammar", "line", "sentence"),
    [
        ('root ::= "a"\nx ::= y', 2, "the rule `x` uses `y`"),
        ('root ::= "a', 1, "a text in quotes is not closed"),
        ("root ::= [a", 1, "a character class is not closed"),
        ("root ::= [a-", 1, "not closed"),
        ("root ::= []", 1, "allows no character"),
        ("root ::= [^\\U00000000-\\U0010FFFF]", 1, "allows no character"),
        ("root ::= [z-a]", 1, "runs backwards"),
        ('root ::= ("a"', 1, "`\\)` is missing"),
        ('\n\nroot ::= "a" )', 3, "cannot stand here"),
        ('root ::= "a"\n  | "b"', 2, "`|` stands where a rule should begin"),
        ('root = "a"', 1, "`::=` is missing"),
        ('root ::= "a"\nroot ::= "b"', 2, "is there twice"),
        ("root ::= *", 1, "repeats nothing"),
        ('root ::= ""+', 1, "an empty text is repeated"),
        ('root ::= "a"{2,1}', 1, "maximum below its minimum"),
        ('root ::= "a"{x}', 1, "has no number"),
        ('root ::= "a"{2', 1, "not closed"),
        ('root ::= "a"{99999999999999999999}', 1, "more than 1,000,000"),
        ('root ::= "a"' + "?" * 9, 1, "too many repetitions"),
        (r'root ::= "\q"', 1, "is no escape"),
        (r'root ::= "\x4"', 1, "needs 2 hexadecimal digits"),
        (r'root ::= "\uD800"', 1, "is no character"),
        (r'root ::= "\U00110000"', 1, "is no character"),
        ('root ::= "\ud800"', 1, "half a surrogate pair"),
        ("root ::= <[5", 1, "a token has no end"),
        ("root ::= <[-5]>", 1, "is no token"),
        ('root ::= root "a" | "b"', 1, "begins with itself"),
        ('root ::= "x" | x\nx ::= y x "k" | "c"\ny ::= z\nz ::= "" | "d"', 2, "begins with itself"),
        ('root ::= "a"\nx ::= ("b"?)*', 2, "repeats something that may be empty"),
        ('root ::= "a" x\nx ::= "b" x', 1, "can never come to its end"),
        ("root ::= " + "(" * (MAX_NESTING + 1), 1, "parentheses are open"),
    ],
)
def test_fault_is_told_with_its_line(grammar: str, line: int, sentence: str) -> None:
    with pytest.raises(GrammarError, match=sentence.replace("|", "\\|")) as caught:
        parse_grammar(grammar)
    assert f"In line {line} of the grammar" in caught.value.message
    assert caught.value.hint.endswith(".")


@pytest.mark.parametrize(
    ("grammar", "sentence"),
    [
        ("", "no rule named `root`"),
        ('main ::= "a"', "no rule named `root`"),
        ("#" * (MAX_GRAMMAR_BYTES + 1), "larger than 1 MiB"),
    ],
    ids=["empty", "another name", "too large"],
)
def test_text_that_is_no_whole_grammar_is_refused(grammar: str, sentence: str) -> None:
    with pytest.raises(GrammarError, match=sentence):
        parse_grammar(grammar)


@given(text=grammar_texts(), seed=st.integers(0, 2**32))
def test_damaged_grammar_is_read_or_refused(text: str, seed: int) -> None:
    with contextlib.suppress(GrammarError):
        parse_grammar(damaged(random.Random(seed), text))


@pytest.mark.parametrize(
    "grammar",
    [
        "root ::= "
        + " ".join(f"a{i}" for i in range(5000))
        + "".join(f"\na{i} ::= a{i + 1}" for i in range(5000))
        + '\na5000 ::= "x"',
        "root ::= " + " | ".join(f'"{i}"' for i in range(20_000)),
        "root ::= [" + "".join(chr(code) for code in range(0x4E00, 0x4E00 + 20_000, 2)) + "]",
    ],
    ids=["a chain of rules", "many choices", "a large class"],
)
def test_large_grammar_is_read_in_linear_time(grammar: str) -> None:
    began = time.thread_time()
    parse_grammar(grammar)
    assert time.thread_time() - began < 5
