"""Replies that a template writes anew: where checkpoints stand for them, and what is told as the cause."""

import pytest

from engine.kv_cache import KVCache
from engine.metrics import CacheMissCause
from engine.miss_cause import ChatLedger
from engine.reasoning import PLAIN_THINKING, ThinkingStart
from engine.sequence import Sequence
from engine.slot import Slot
from tests.unit.engine.fake_engine import VOCABULARY, make_backend, make_prompt

START = ThinkingStart(PLAIN_THINKING)
PROMPT, REPLY = list(range(10, 20)), list(range(30, 40))
SPAN = (8, 14)  # from the end of the last message to that of the thinking


def ledger_with(span: tuple[int, int] | None) -> ChatLedger:
    backend = make_backend()
    ledger = ChatLedger(KVCache(backend, backend.vocabulary, n_seq_max=1, n_ctx=100).common)
    ledger.note("chat", [*PROMPT, *REPLY], (), span)
    return ledger


@pytest.mark.parametrize(
    ("prompt", "num_cached", "expected"),
    [
        ([*PROMPT, 99, 98], 10, CacheMissCause.TEMPLATE_CHANGED),
        ([*PROMPT[:8], 99, 98], 8, CacheMissCause.TEMPLATE_CHANGED),
        ([*PROMPT, 99, 98], 8, CacheMissCause.TEMPLATE_CHANGED),
        ([*PROMPT, 99, 98], 2, CacheMissCause.UNSUPPORTED_BY_MODEL),
        ([*PROMPT[:5], 99, 98], 5, CacheMissCause.EDITED),
        ([*PROMPT, *REPLY[:6], 99, 98], 16, CacheMissCause.EDITED),
        ([*PROMPT, *REPLY, 99], 20, None),
        (PROMPT, 9, None),
    ],
    ids=["thinking", "tail", "from the tail on", "from far before", "edit", "edited answer", "goes on", "again"],
)
def test_cause_is_the_template_when_a_prompt_parts_where_it_writes_anew(prompt, num_cached, expected):
    cause = ledger_with(SPAN).cause("chat", prompt, num_cached=num_cached, num_known=10, num_system_tokens=0)
    assert cause is expected


def test_cause_is_an_edit_when_the_template_writes_nothing_anew():
    cause = ledger_with(None).cause("chat", [*PROMPT, 99, 98], num_cached=10, num_known=10, num_system_tokens=0)
    assert cause is CacheMissCause.EDITED


def due(sequence: Sequence) -> list[int]:
    sequence.slot = Slot(0)
    sequence.plan_checkpoints()
    return sequence._checkpoints_due


def test_checkpoint_stands_before_what_asks_for_a_reply_when_the_template_knows_of_thinking():
    prompt = make_prompt("r", "hello there")
    end = len(prompt.tokens) - 9
    thinking = Sequence(prompt._replace(message_ends=(end,), thinking=START), VOCABULARY)
    assert due(thinking)[-1] == end
    plain = Sequence(prompt._replace(message_ends=(end,)), VOCABULARY)
    assert due(plain)[-1] == len(prompt.tokens) - 1
    unknown = Sequence(prompt._replace(thinking=START), VOCABULARY)
    assert due(unknown)[-1] == len(prompt.tokens) - 1


@pytest.mark.parametrize("moved", [-2, 3])
def test_checkpoints_move_when_the_cache_has_other_tokens_for_the_same_text(moved: int):
    prompt = make_prompt("r", "hello there, and more of it")
    end = len(prompt.tokens) - 9
    sequence = Sequence(prompt._replace(message_ends=(end,), thinking=START, num_settled_tokens=20), VOCABULARY)
    before = due(sequence)
    sequence.prompt_tokens = [*range(max(moved, 0)), *prompt.tokens[max(-moved, 0) :]]
    assert due(sequence) == [count + moved for count in before]


def test_span_is_none_when_the_template_writes_nothing_anew():
    prompt = make_prompt("r", "hello there")
    assert Sequence(prompt, VOCABULARY).rewritten_span is None
    span = Sequence(prompt._replace(thinking=START, rewritten_from=7), VOCABULARY).rewritten_span
    assert span == (7, len(prompt.tokens))
