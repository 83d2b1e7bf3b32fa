"""Every kind of model memory: whatever the cache did before, a reply is the one of a context that held nothing."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine import (
    Event,
    Finished,
    FinishReason,
    MemoryKind,
    ModelLoaded,
    ModelParams,
    ProcessClient,
    RequestState,
    SamplingParams,
)
from engine.kv_cache import KVCache
from tests.support.cold_check import EXACT, Bench, RecordingBackend
from tests.support.engine_driver import EngineDriver
from tests.support.memory_matrix import Chat, Matrix, live_randomly, tiny_path
from tests.support.tiny_models import TINY_MODELS

_NOT_PLAIN = [name for name, model in TINY_MODELS.items() if model.memory is not MemoryKind.PLAIN]
_PLAIN = [name for name in TINY_MODELS if name not in _NOT_PLAIN]
_WINDOWED = ["gemma3", "gpt-oss", "lfm2-window"]
NUM_OPERATIONS = 40


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the tiny models; each is made once a session."""
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="module", params=list(TINY_MODELS))
def matrix(request: pytest.FixtureRequest, tiny_folder: Path) -> Iterator[Matrix]:
    matrix = Matrix(request.param, tiny_folder)
    yield matrix
    matrix.close()


@pytest.fixture
def bench(matrix: Matrix) -> Iterator[Bench]:
    bench = matrix.bench()
    yield bench
    bench.close()


def test_kind_of_memory_is_told(matrix: Matrix, bench: Bench) -> None:
    assert bench.backend.description.memory is matrix.memory


def test_replies_are_those_of_a_cold_context_when_a_chat_is_continued_edited_and_cut(
    matrix: Matrix, bench: Bench
) -> None:
    texts = matrix.texts
    first, edited = texts.words("user", 30, 1), texts.words("user", 28, 2)
    chat = Chat(texts.words("system", 12), ())
    chat = chat.answered(first, bench.reply(**matrix.prompt(chat, first), max_tokens=10))
    for turn in (3, 4):
        user = texts.words("user", 20, turn)
        reply = bench.reply(**matrix.prompt(chat, user), max_tokens=10)
        # New are the user's block, the markers around it, and the reply's last token.
        assert reply.num_evaluated <= len(user) + len(texts.ask()) + len(texts.end()) + 1
        again = bench.reply(**matrix.prompt(chat, user), max_tokens=10)
        assert again.tokens == reply.tokens
        assert again.num_evaluated <= 2
        chat = chat.answered(user, reply)
    user = texts.words("user", 9, 5)
    whole = bench.reply(**matrix.prompt(chat, user))
    changed = chat._replace(turns=((edited, chat.turns[0][1]), *chat.turns[1:]))
    other = bench.reply(**matrix.prompt(changed, user))
    assert other.finished.metrics.num_cached_tokens >= len(chat.system)
    if matrix.memory is MemoryKind.PLAIN:
        pairs = enumerate(zip(whole.prompt, other.prompt, strict=False))
        assert other.num_evaluated <= len(other.prompt) - next(n for n, (left, right) in pairs if left != right)
    undone = bench.reply(**matrix.prompt(chat, user))
    assert undone.tokens == whole.tokens
    shorter = chat._replace(turns=(chat.turns[0], *chat.turns[2:]))
    bench.reply(**matrix.prompt(shorter, user))
    assert bench.reply(**matrix.prompt(chat, user)).tokens == whole.tokens


def test_last_question_is_all_that_is_read_again_when_it_is_edited(matrix: Matrix, bench: Bench) -> None:
    texts = matrix.texts
    chat = Chat(texts.words("system", 12), ())
    for turn in range(2):
        user = texts.words("user", 40, turn)
        chat = chat.answered(user, bench.reply(**matrix.prompt(chat, user)))
    for turn in (7, 8, 9):
        user = texts.words("user", 15, turn)
        reply = bench.reply(**matrix.prompt(chat, user))
        assert turn == 7 or reply.num_evaluated <= len(user) + len(texts.ask())


def test_replies_are_those_of_a_cold_context_when_four_chats_run_at_once(matrix: Matrix) -> None:
    with contextlib.closing(matrix.bench(n_ctx=2048)) as bench:
        texts = matrix.texts
        system = texts.words("system", 40)
        chats = [Chat(system, ()) for _ in range(4)]
        for turn in range(2):
            asked = [texts.words("user", 5 + 17 * ((n + turn) % 4), 4 * turn + n) for n in range(4)]
            numbers = []
            for index, (chat, user) in enumerate(zip(chats, asked, strict=True)):
                numbers.append(bench.send(**matrix.prompt(chat, user), max_tokens=6 + index))
                bench.step()
                bench.step()
            bench.run()
            replies = [bench.checked(number) for number in numbers]
            for reply, user in zip(replies, asked, strict=True):
                assert not turn or reply.num_evaluated <= len(user) + len(texts.ask()) + len(texts.end()) + 1
            chats = [chat.answered(user, reply) for chat, user, reply in zip(chats, asked, replies, strict=True)]


def test_system_prompt_is_read_once_when_chats_share_it(matrix: Matrix, bench: Bench) -> None:
    texts = matrix.texts
    chat = Chat(texts.words("system", 60), ())
    for turn in range(6):
        reply = bench.reply(**matrix.prompt(chat, texts.words("user", 8, turn)), max_tokens=4)
        assert turn == 0 or reply.finished.metrics.num_cached_tokens >= len(chat.system)


def test_neighbours_and_later_replies_are_right_when_one_is_stopped(matrix: Matrix, bench: Bench) -> None:
    texts = matrix.texts
    chat = Chat(texts.words("system", 20), ())
    long_prompt = matrix.prompt(chat, texts.words("user", 110, 3))
    for num_steps in (0, 1, 3):
        neighbour = bench.send(**matrix.prompt(chat, texts.words("user", 10, num_steps)), max_tokens=24)
        bench.step_until_generated(neighbour, 2)
        victim = bench.send(**long_prompt, max_tokens=12)
        for _ in range(num_steps):
            bench.step()
        bench.abort(victim)
        bench.run()
        bench.checked(neighbour)
        assert bench.checked(victim).finished.finish_reason is FinishReason.ABORT
    victim = bench.send(**long_prompt, max_tokens=12)
    neighbour = bench.send(**matrix.prompt(chat, texts.words("user", 12, 9)), max_tokens=24)
    bench.step_until_generated(victim, 4)
    bench.abort(victim)
    bench.run()
    bench.checked(neighbour)
    assert bench.checked(victim).finished.finish_reason is FinishReason.ABORT
    bench.reply(**long_prompt, max_tokens=12)


@pytest.mark.parametrize("num_neighbour_tokens", [1, 16], ids=["beside-idle", "beside-running"])
def test_replies_are_right_when_a_step_was_broken_off(matrix: Matrix, num_neighbour_tokens: int) -> None:
    with contextlib.closing(matrix.bench()) as bench:
        texts = matrix.texts
        chat = Chat(texts.words("system", 20), ())
        for turn in range(3):
            other = matrix.prompt(chat, texts.words("user", 9, turn))
            neighbour = bench.send(**other, max_tokens=num_neighbour_tokens)
            bench.step_until_generated(neighbour, 1)
            number = bench.send(**matrix.prompt(chat, texts.words("user", 60, turn)), max_tokens=6)
            bench.backend.is_break_due = True
            bench.run()
            bench.checked(number)
            bench.checked(neighbour)
            bench.reply(**other, max_tokens=3)
        assert bench.backend.num_broken >= 2


def test_replies_are_right_when_the_pool_is_too_small_for_all_of_them(matrix: Matrix) -> None:
    with contextlib.closing(matrix.bench(n_ctx=256)) as bench:
        texts = matrix.texts
        chats = [Chat(texts.words("system", 4), ()) for _ in range(4)]
        for turn in range(2):
            asked = [texts.words("user", 7 + index, 5 * turn + index) for index in range(4)]
            numbers = [
                bench.send(**matrix.prompt(chat, user), max_tokens=50) for chat, user in zip(chats, asked, strict=True)
            ]
            bench.run()
            replies = [bench.checked(number) for number in numbers]
            assert turn or any(bench.has_been(number, RequestState.PAUSED) for number in numbers)
            chats = [chat.answered(user, reply) for chat, user, reply in zip(chats, asked, replies, strict=True)]


def test_reply_is_kept_and_the_next_is_right_when_the_context_is_full(matrix: Matrix) -> None:
    with contextlib.closing(matrix.bench(n_ctx=256)) as bench:
        texts = matrix.texts
        chat = Chat(texts.words("system", 8), ())
        prompt = matrix.prompt(chat, texts.words("user", 30))
        full = bench.reply(**prompt, max_tokens=None)
        assert full.finished.finish_reason is FinishReason.CONTEXT_FULL
        assert len(full.prompt) + len(full.tokens) in (256, 257)
        assert bench.reply(**prompt, max_tokens=5).num_evaluated <= 2


@pytest.mark.parametrize("name", _WINDOWED)
def test_step_is_one_micro_batch_when_layers_have_windows(name: str, tiny_folder: Path) -> None:
    """Of two in one call, placing the second loses window cells that the first still looks at."""
    with contextlib.closing(Matrix(name, tiny_folder)) as matrix, contextlib.closing(matrix.bench(n_ctx=2048)) as bench:
        texts = matrix.texts
        numbers = []
        for seed in range(6):
            chat = Chat(texts.words("system", 5, seed), ())
            numbers.append(bench.send(**matrix.prompt(chat, texts.words("user", 60, seed)), max_tokens=20))
            for _ in range(4):
                bench.step()
        bench.run()
        for number in numbers:
            bench.checked(number)
        assert bench.backend.num_micro_batches_most == 1


def test_replies_are_those_of_a_cold_context_whatever_happens_at_random(matrix: Matrix) -> None:
    for seed in range(2):
        live_randomly(matrix, seed=seed, num_operations=NUM_OPERATIONS)


# --- that these tests can fail ---


class _StaleCheckpoint(RecordingBackend):
    """Goes back to checkpoints whose end, numbers of the last layer, is that of another one."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self._states: list[bytes] = []

    def checkpoint(self, seq_id: int) -> bytes:
        self._states.append(self.real.checkpoint(seq_id))
        return self._states[-1]

    def set_checkpoint(self, seq_id: int, state: bytes) -> bool:
        other = next(other for other in reversed(self._states) if len(other) == len(state) and other != state)
        return bool(self.real.set_checkpoint(seq_id, bytes(state[:-512]) + bytes(other[-512:])))


@pytest.mark.parametrize("name", _NOT_PLAIN)
def test_wrong_checkpoint_is_found_out(name: str, tiny_folder: Path) -> None:
    with (
        contextlib.closing(Matrix(name, tiny_folder)) as matrix,
        contextlib.closing(matrix.bench(wrap=_StaleCheckpoint)) as bench,
        pytest.raises(AssertionError, match="is off by"),
    ):
        _edit_twice(matrix, bench)


@pytest.mark.parametrize("name", _PLAIN)
def test_stale_tail_is_found_out(name: str, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: KVCache, cached: Sequence[int], prompt: Sequence[int]) -> tuple[int, int]:
        count = min(len(cached), len(prompt) - 1)
        return count, count

    monkeypatch.setattr(KVCache, "common", careless)
    with (
        contextlib.closing(Matrix(name, tiny_folder)) as matrix,
        contextlib.closing(matrix.bench()) as bench,
        pytest.raises(AssertionError, match="is off by"),
    ):
        _edit_twice(matrix, bench)


def _edit_twice(matrix: Matrix, bench: Bench) -> None:
    chat = Chat(matrix.texts.words("system", 30), ())
    for seed in range(3):
        bench.reply(**matrix.prompt(chat, matrix.texts.words("user", 2, seed)))


# --- the whole way ---


class _Told(NamedTuple):
    """What an engine process said of a model."""

    loaded: Event
    replies: list[Finished]


@pytest.fixture(scope="module")
def told(tiny_folder: Path) -> dict[str, _Told]:
    """Return the same question's answers by each model, from one process that loads them in turn."""
    answers = {}
    with contextlib.closing(EngineDriver(ProcessClient())) as driver:
        for name in TINY_MODELS:
            loaded = driver.load(str(tiny_path(tiny_folder, name)), ModelParams(n_ctx=512, **EXACT))
            replies = []
            if isinstance(loaded, ModelLoaded):
                greedy = SamplingParams(temperature=0, max_tokens=12)
                replies = [driver.reply("Tell me of the sea.", sampling=greedy) for _ in range(2)]
                numbers = [driver.generate("Tell me of the sea.", sampling=greedy) for _ in range(3)]
                replies += [driver.wait_finished(number) for number in numbers]
            answers[name] = _Told(loaded, replies)
    return answers


@pytest.mark.parametrize("name", list(TINY_MODELS))
def test_answers_are_repeated_when_the_engine_is_a_process(told: dict[str, _Told], name: str) -> None:
    loaded, replies = told[name]
    assert isinstance(loaded, ModelLoaded), loaded
    assert loaded.description.memory is TINY_MODELS[name].memory
    assert len({reply.token_ids for reply in replies}) == 1
    metrics = replies[1].metrics
    assert metrics.num_prompt_tokens - metrics.num_cached_tokens <= 2
