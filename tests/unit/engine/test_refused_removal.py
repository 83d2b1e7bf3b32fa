"""A memory that says it can be cut and then refuses: nothing stands on what is left there, and replies stay right."""

import random
from typing import Any, cast

import pytest

from engine.backend_fake import FakeBackend
from engine.backend_fake_settings import settings_of
from engine.core import Engine
from engine.kv_cache import KVCache
from engine.params import DraftMode, ModelParams
from tests.unit.engine.cache_machine import CONTROL, A, B, Memory, Vocabulary, fill
from tests.unit.engine.drafting_engine import drafted, drafting_engine
from tests.unit.engine.fake_engine import alone, ask, make_prompt, reply

KINDS = pytest.mark.parametrize("kind", ["plain", "window"])


class RefusingMemory(Memory):
    """Drops whole sequences only, whatever `can_go_on` says."""

    refuses_nothing = False  # whether it refuses where there is nothing to drop, too

    def seq_rm(self, seq_id: int, start: int) -> bool:
        if start == 0:
            return super().seq_rm(seq_id, start)
        return start >= self.seq_len(seq_id) and not self.refuses_nothing


class RefusingBackend(FakeBackend):
    """Refuses every cut but for the share that is drawn."""

    def __init__(self, settings: str, share: float, **params: Any) -> None:
        path = f"fake:{settings}"
        super().__init__(path, ModelParams(**params), settings_of(path))
        self.num_refused = 0
        self._share = share
        self._random = random.Random(7)

    def seq_rm(self, seq_id: int, start: int) -> bool:
        if 0 < start < self.seq_len(seq_id) and self._random.random() >= self._share:
            self.num_refused += 1
            return False
        return super().seq_rm(seq_id, start)


def refusing(kind: str, *, n_seq_max: int) -> tuple[KVCache, RefusingMemory]:
    memory = RefusingMemory(kind=kind, n_ctx=100)
    return KVCache(memory, cast(Any, Vocabulary()), n_seq_max=n_seq_max, n_ctx=100), memory


@KINDS
def test_everything_is_read_again_when_the_tail_is_not_dropped(kind: str) -> None:
    cache, memory = refusing(kind, n_seq_max=1)
    slot, _ = fill(cache, memory, "one", [A, B, A, B, A])
    cache.release(slot)
    slot, num_cached = fill(cache, memory, "two", [A, B, A, B, CONTROL, A])
    assert num_cached == 0
    assert memory.held(slot.seq_id) == [A, B, A, B, CONTROL, A]
    assert cache.num_used_cells == memory.num_cells == 6


@KINDS
def test_slot_is_empty_when_its_tail_is_not_dropped(kind: str) -> None:
    cache, memory = refusing(kind, n_seq_max=1)
    slot, _ = fill(cache, memory, "one", [A, B, A, B])
    cache.trim(slot, 3)
    assert slot.tokens == memory.held(slot.seq_id) == []
    assert cache.num_used_cells == memory.num_cells == 0


@pytest.mark.parametrize("refuses_nothing", [False, True], ids=["usual", "refuses"])
def test_beginning_is_shared_unless_its_cells_after_a_checkpoint_are_not_dropped(refuses_nothing: bool) -> None:
    cache, memory = refusing("window", n_seq_max=2)
    memory.refuses_nothing = refuses_nothing
    slot, _ = fill(cache, memory, "one", [A, B])
    cache.checkpoint(slot)
    memory.put(slot.seq_id, [A, A, B, B])
    cache.append(slot, [A, A, B, B])
    other, num_cached = fill(cache, memory, "two", [A, B, CONTROL])
    assert num_cached == (0 if refuses_nothing else 2)
    assert memory.held(other.seq_id) == [A, B, CONTROL]
    assert memory.held(slot.seq_id) == slot.tokens == [A, B, A, A, B, B]
    assert cache.num_used_cells == memory.num_cells


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["always", "sometimes"])
@pytest.mark.parametrize("settings", ["", "window=8"], ids=["plain", "window"])
def test_replies_equal_a_cold_engine_when_cuts_are_refused(settings: str, share: float) -> None:
    backend = RefusingBackend(settings, share, n_seq_max=1)
    engine = Engine(backend)
    chats = [("one two three",), ("one two four",), ("one two three",), ("one", "ok", "two"), ("one", "ok", "three")]
    for number, turns in enumerate([*chats, *chats]):
        prompt = make_prompt(f"r{number}", *turns, chat_id="a")
        assert reply(engine, prompt).text == alone(prompt, settings).text
    assert backend.num_refused > 0


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["always", "sometimes"])
@pytest.mark.parametrize("mode", [DraftMode.NGRAM, DraftMode.MODEL])
def test_drafted_replies_are_those_of_plain_decoding_when_cuts_are_refused(mode: DraftMode, share: float) -> None:
    backend = RefusingBackend("", share, n_seq_max=2)
    engine = drafting_engine(backend=backend, draft="draft_right=0.3")
    prompts = [make_prompt(name, f"again and again and again {name}") for name in ("a", "b")]
    replies = ask(engine, *(drafted(prompt, mode) for prompt in prompts))
    for prompt in prompts:
        assert replies[prompt.request_id].token_ids == alone(prompt).token_ids
    assert backend.num_refused > 0


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["always", "sometimes"])
def test_drafted_replies_are_right_when_the_draft_models_memory_refuses(share: float) -> None:
    drafting = RefusingBackend("draft_right=0.3", share, n_seq_max=2)
    engine = drafting_engine(draft_backend=drafting, n_seq_max=2)
    prompts = [make_prompt(name, f"again and again and again {name}") for name in ("a", "b")]
    replies = ask(engine, *(drafted(prompt, DraftMode.MODEL) for prompt in prompts))
    for prompt in prompts:
        assert replies[prompt.request_id].token_ids == alone(prompt).token_ids
    assert drafting.num_refused > 0
