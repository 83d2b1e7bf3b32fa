"""What a reply's drafts are counted by, and what they cost where chats are long."""

import sys
from typing import Any

import pytest

from engine.core import Engine
from engine.messages import FinishReason
from engine.params import DraftMode, SamplingParams
from engine.reasoning import ThinkingFormat, ThinkingStart
from engine.speculative import speculator as speculators
from engine.speculative.chat_tokens import ChatTokens
from engine.speculative.referee import Choice
from tests.support.eager_referee import FullReferee
from tests.unit.engine.drafting_engine import drafted, drafting_engine
from tests.unit.engine.fake_engine import ask, make_prompt, run, step_until


class Told(FullReferee):
    """Notes how many plain steps each step with a draft counts for."""

    told: list[tuple[int, int]]

    def note(self, choice: Choice, tokens: Any, **measured: Any) -> None:
        """See Referee."""
        before = self.report().baseline_s
        super().note(choice, tokens, **measured)
        company = measured["company"]
        self.told.append((round((self.report().baseline_s - before) / company.plain_s), measured["num_drafted"]))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return plain steps, and drafted tokens, of each step in a test."""
    monkeypatch.setattr(Told, "told", [], raising=False)
    return Told.told


def engine_of() -> Engine:
    """Return an engine whose drafts are right."""
    engine = drafting_engine("n_words=4", draft="draft_right=1,n_words=4", referee=Told)
    for rows in (1, 1, 2, 4, 8):
        engine.speculator._times.observe(rows, 0.01 + 0.001 * rows, num_threads=engine.threads.count)
    return engine


def test_the_step_of_the_end_token_counts_when_it_was_drafted(told):
    finished = ask(engine_of(), drafted(make_prompt("a", "hello", max_tokens=500), DraftMode.MODEL, draft_max=3))["a"]
    assert finished.finish_reason is FinishReason.STOP
    assert any(number for _, number in told)
    # The first token comes with the prompt; the end token takes a step as any other.
    assert sum(number for number, _ in told) == len(finished.token_ids) - 1 + 1


def test_tokens_that_nobody_chose_count_for_no_step_when_thinking_is_closed(told):
    closing = tuple(b"\n</think>\n\n")
    start = ThinkingStart(ThinkingFormat("<think>", "</think>", (), "\n", "\n\n"), is_open=True, closing_tokens=closing)
    sampling = SamplingParams(temperature=0.0, max_tokens=60, thinking_budget=10)
    prompt = make_prompt("a", "hello")._replace(thinking=start, sampling=sampling)
    finished = ask(engine_of(), drafted(prompt, DraftMode.MODEL, draft_max=3))["a"]
    assert bytes(closing) in bytes(token for token in finished.token_ids if token < 256)
    assert any(num_drafted for _, num_drafted in told)
    assert all(number <= 1 + num_drafted for number, num_drafted in told)


def test_a_step_copies_nothing_of_a_long_chat_when_the_draft_model_is_asked():
    held = list(range(50_000))
    tokens = ChatTokens(held, 7, first=100)
    expected = [*held[100:], 7]
    assert len(tokens) == len(expected)
    for span in (slice(0, 3), slice(49_890, None), slice(-1, None), slice(5, 5), slice(49_900, 49_901), slice(0, 9, 4)):
        assert tokens[span] == expected[span]
    assert [tokens[0], tokens[-1], tokens[-2]] == [expected[0], expected[-1], expected[-2]]
    with pytest.raises(IndexError):
        tokens[len(expected)]
    assert sys.getsizeof(tokens) < 1000

    class Counting(list[int]):
        most = 0

        def __getitem__(self, index):
            found = super().__getitem__(index)
            Counting.most = max(Counting.most, len(found) if isinstance(index, slice) else 1)
            return found

    engine = drafting_engine("n_words=400", draft="draft_right=1,n_words=400", referee=FullReferee, n_ctx=8192)
    events = engine.add(drafted(make_prompt("a", "x" * 4000, max_tokens=60), DraftMode.MODEL, draft_max=3))
    step_until(engine, events, lambda: engine.speculator._model.backend.seq_len(0) > 4000)
    slot = engine.speculator._cache.slots[0]
    slot.tokens = Counting(slot.tokens)
    run(engine)
    assert 0 < Counting.most < 300


def test_indexes_of_long_chats_are_given_up_before_those_of_many_short_ones(monkeypatch):
    monkeypatch.setattr(speculators, "_MAX_INDEXED_TOKENS", 3000)
    engine = drafting_engine(draft=None, n_ctx=8192)
    for number in range(4):
        ask(engine, drafted(make_prompt(f"r{number}", f"{number}" * 1200, chat_id=f"c{number}")))
    assert list(engine.speculator._indexes) == ["c2", "c3"]
    ask(engine, drafted(make_prompt("long", "y" * 5000, chat_id="long")))
    assert list(engine.speculator._indexes) == ["long"]


def test_a_reply_that_never_began_says_nothing_of_how_long_replies_are():
    engine = drafting_engine(draft=None)
    usual = engine.speculator._usual_tokens
    engine.add(drafted(make_prompt("a", "hello")))
    engine.step()
    engine.request_abort("a")
    run(engine)
    assert engine.speculator._usual_tokens == usual
