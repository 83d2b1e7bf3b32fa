"""Chats that leave the context and come back from memory or disk, on tiny models of every kind of memory, and in the
real program."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.metrics import CacheMissCause, CacheSource
from engine.params import CacheParams
from tests.support.cold_check import Bench
from tests.support.memory_matrix import Chat, Matrix, live_randomly
from tests.support.tiny_models import TINY_MODELS

ROOT = Path(__file__).resolve().parents[2]
NUM_OPERATIONS = 40


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module", params=["llama", "gemma3", "mamba", "jamba", "lfm2-window"])
def matrix(request: pytest.FixtureRequest, models: Path) -> Iterator[Matrix]:
    with contextlib.closing(Matrix(request.param, models)) as matrix:
        yield matrix


@contextlib.contextmanager
def kept_bench(matrix: Matrix, folder: Path, **params: Any) -> Iterator[Bench]:
    kept = CacheParams(ram_mib=64, disk_mib=64, folder=str(folder))
    with contextlib.closing(matrix.bench(kept=kept, **params)) as bench:
        yield bench


def begin(matrix: Matrix, number: int) -> tuple[Chat, list[int]]:
    return Chat(matrix.texts.words("system", 6, number), ()), matrix.texts.words("user", 60, number)


def test_chats_come_back_from_memory_when_there_is_one_slot(matrix: Matrix, tmp_path: Path) -> None:
    with kept_bench(matrix, tmp_path, n_seq_max=1) as bench:
        chats = []
        for number in range(3):
            chat, user = begin(matrix, number)
            reply = bench.reply(**matrix.prompt(chat, user), chat_id=str(number))
            chats.append(chat.answered(user, reply))
        for number, chat in enumerate(chats):
            user = matrix.texts.words("user", 3, 9)
            back = bench.reply(**matrix.prompt(chat, user), chat_id=str(number))
            assert back.finished.metrics.cache_source is CacheSource.RAM
            assert back.finished.metrics.cache_miss_cause is None
            assert back.num_evaluated < 40


def test_chat_goes_on_from_disk_when_the_engine_is_started_again(matrix: Matrix, tmp_path: Path) -> None:
    with kept_bench(matrix, tmp_path) as bench:
        chat, user = begin(matrix, 1)
        chat = chat.answered(user, bench.reply(**matrix.prompt(chat, user), chat_id="1"))
        bench.restart()
        more = matrix.texts.words("user", 3, 9)
        back = bench.reply(**matrix.prompt(chat, more), chat_id="1")
        assert back.finished.metrics.cache_source is CacheSource.DISK
        assert back.num_evaluated < 40
        edited = chat.answered(more, back)
        for _ in range(2):  # an edit of the last message, from disk and then from the slot
            bench.restart()
            again = bench.reply(**matrix.prompt(edited._replace(turns=edited.turns[:1]), more), chat_id="1")
            assert again.num_evaluated < 40


def test_text_is_right_and_damage_the_cause_when_a_file_was_changed(matrix: Matrix, tmp_path: Path) -> None:
    with kept_bench(matrix, tmp_path) as bench:
        chat, user = begin(matrix, 2)
        bench.reply(**matrix.prompt(chat, user), chat_id="1")
        bench.restart()
        assert len(bench.kept_files) == 1, "it was seen whole"
        [path] = tmp_path.glob("*.snapshot")
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
        back = bench.reply(**matrix.prompt(chat, user), chat_id="1")
        assert back.finished.metrics.cache_miss_cause is CacheMissCause.DAMAGED
        assert not path.exists()


@pytest.mark.parametrize("seed", range(2))
def test_replies_are_those_of_a_cold_context_when_chats_leave_and_come_back(
    matrix: Matrix, seed: int, tmp_path: Path
) -> None:
    live_randomly(matrix, seed=seed, num_operations=NUM_OPERATIONS, folder=tmp_path)


def test_two_files_of_one_shape_do_not_share_snapshots(models: Path, tmp_path: Path) -> None:
    first = TINY_MODELS["llama"].write(models / "first.gguf")
    data = bytearray(first.read_bytes())
    data[-100] ^= 1  # a weight
    second = models / "second.gguf"
    second.write_bytes(data)
    from engine.backend_llama.fingerprint import model_fingerprint

    assert model_fingerprint(str(first)) != model_fingerprint(str(second))
    moved = first.rename(models / "moved.gguf")
    before = model_fingerprint(str(moved))
    assert model_fingerprint(str(moved.rename(first))) == before


def _chat(data_dir: Path, turns: Path, *more: str) -> list[dict]:
    command = [sys.executable, "-m", "app", "--data-dir", str(data_dir), "chat", "--json", "--turns", str(turns)]
    done = subprocess.run(
        [*command, "--fake-engine", "--max-tokens", "8", *more],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [event for event in events if event["event"] == "finished"]


def test_second_start_reads_from_disk_when_a_conversation_is_asked_twice(tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("Tell me about the tides, and why there are two a day.\nAnd the moon?\n")
    first = _chat(tmp_path / "data", turns)
    second = _chat(tmp_path / "data", turns)
    without = _chat(tmp_path / "data", turns, "--no-cache")
    sources = [[event["metrics"]["cache_source"] for event in run] for run in (first, second, without)]
    assert sources == [["none", "slot"], ["disk", "ram"], ["none", "none"]]
    assert second[0]["metrics"]["num_cached_tokens"] == second[0]["metrics"]["num_prompt_tokens"] - 1
