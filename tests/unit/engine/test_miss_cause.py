"""Why a chat's prompt was not found whole in the cache."""

import pytest

from engine.kv_cache import KVCache
from engine.metrics import CacheMissCause
from engine.miss_cause import ChatLedger
from tests.unit.engine.fake_engine import make_backend

SYSTEM, HISTORY, QUESTION = [1, 2, 3], [10, 11, 12, 13], [20, 21]
HELD = [*SYSTEM, *HISTORY]


def _ledger() -> ChatLedger:
    backend = make_backend()
    return ChatLedger(KVCache(backend, backend.vocabulary, n_seq_max=1, n_ctx=100).common)


@pytest.mark.parametrize(
    ("prompt", "num_cached", "expected"),
    [
        ([*HELD, *QUESTION], len(HELD), None),
        (HELD, len(HELD) - 1, None),
        ([*HELD[:5], 99, *QUESTION], 5, CacheMissCause.EDITED),
        ([*SYSTEM, 99], 3, None),
        ([*SYSTEM, 99, 98], 3, CacheMissCause.EDITED),
        ([1, 2, 99, *HISTORY, *QUESTION], 2, CacheMissCause.SYSTEM_PROMPT_CHANGED),
        ([99, *HELD], 0, CacheMissCause.SYSTEM_PROMPT_CHANGED),
        ([*HELD, *QUESTION], 0, CacheMissCause.EVICTED),
        ([*HELD, *QUESTION], 3, CacheMissCause.EVICTED),
        ([*HELD[:5], 99, *QUESTION], 0, CacheMissCause.EVICTED),
    ],
    ids=[
        "continued", "regenerated", "edited", "all but the last", "edited after the system message", "system message",
        "nothing in common", "gone", "partly gone", "edited and gone",
    ],
)  # fmt: skip
def test_cause_is_the_first_thing_that_went_wrong_when_a_chat_asks_again(prompt, num_cached, expected):
    ledger = _ledger()
    ledger.note("chat", HELD)
    cause = ledger.cause("chat", prompt, num_cached=num_cached, num_known=num_cached, num_system_tokens=len(SYSTEM))
    assert cause is expected


def test_model_is_the_cause_when_its_memory_could_not_go_back_to_what_was_there():
    ledger = _ledger()
    ledger.note("chat", HELD)
    cause = ledger.cause("chat", [*HELD, *QUESTION], num_cached=0, num_known=len(HELD), num_system_tokens=0)
    assert cause is CacheMissCause.UNSUPPORTED_BY_MODEL


def test_adapters_are_the_cause_when_the_chat_asks_with_others():
    ledger = _ledger()
    ledger.note("chat", HELD, (("a", 1.0),))
    cause = ledger.cause("chat", [*HELD, *QUESTION], num_cached=0, num_known=0, num_system_tokens=0)
    assert cause is CacheMissCause.ADAPTER_CHANGED


@pytest.mark.parametrize("chat_id", ["new", None])
@pytest.mark.parametrize(("num_cached", "expected"), [(0, CacheMissCause.FIRST_USE), (4, None)])
def test_first_use_is_told_only_when_nothing_was_reused(chat_id: str | None, num_cached: int, expected):
    ledger = _ledger()
    ledger.note("other", HELD)
    assert ledger.cause(chat_id, HELD, num_cached=num_cached, num_known=num_cached, num_system_tokens=0) is expected


def test_request_without_a_chat_is_not_remembered_when_noted():
    ledger = _ledger()
    ledger.note(None, HELD)
    assert ledger.cause(None, HELD, num_cached=0, num_known=0, num_system_tokens=0) is CacheMissCause.FIRST_USE


def test_oldest_chat_is_forgotten_when_there_are_very_many():
    ledger = _ledger()
    for number in range(2000):
        if number % 200 == 0:
            ledger.note("kept", HELD)
        ledger.note(f"{number}", HELD)

    def cause(chat_id: str) -> CacheMissCause | None:
        return ledger.cause(chat_id, [*HELD, 5], num_cached=0, num_known=0, num_system_tokens=0)

    assert cause("0") is CacheMissCause.FIRST_USE
    assert cause("1999") is CacheMissCause.EVICTED
    assert cause("kept") is CacheMissCause.EVICTED
