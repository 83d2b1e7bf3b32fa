"""Files that no converter wrote, in the real worker: one sentence each, or a model; the worker lives and goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import Failed, ModelLoaded, ModelParams, ProcessClient, SamplingParams
from tests.support.engine_driver import EngineDriver
from tests.support.gguf_files import bpe_vocabulary, edit_gguf, write_tiny_model

PARAMS = ModelParams(n_ctx=512, n_threads=1)
GREEDY = SamplingParams(temperature=0, max_tokens=2)
TOKENS = [token.decode() if isinstance(token, bytes) else token for token in bpe_vocabulary().tokens]
KILLING: dict[str, dict[str, Any]] = {
    "token twice": {"tokenizer.ggml.tokens": [*TOKENS[:-1], TOKENS[0]]},
    "one token only": {"tokenizer.ggml.tokens": ["a"] * len(TOKENS)},
    "more experts used than there are": {"llama.expert_count": 4, "llama.expert_used_count": 9},
    "too many experts": {"llama.expert_count": 100_000, "llama.expert_used_count": 2},
    "no blocks": {"llama.block_count": 0},
    "too many blocks": {"llama.block_count": 2**32 - 1},
    "unknown scaling": {"llama.rope.scaling.type": "bogus"},
}
REFUSED: dict[str, dict[str, Any]] = {
    "experts without weights": {"llama.expert_count": 4, "llama.expert_used_count": 2},
    "no heads": {"llama.attention.head_count": 0},
    "too many heads": {"llama.attention.head_count": 2**31},
    "no heads of keys": {"llama.attention.head_count_kv": 0},
    "no width": {"llama.embedding_length": 0},
    "odd heads": {"llama.attention.key_length": 7},
    "too many rotated dimensions": {"llama.rope.dimension_count": 99_999},
    "too few tokens": {"tokenizer.ggml.tokens": TOKENS[:10]},
    "unknown architecture": {"general.architecture": "nope"},
}
ODD: dict[str, dict[str, Any]] = {
    "no context": {"llama.context_length": 0},
    "endless context": {"llama.context_length": 2**32 - 1},
    "end token that is not there": {"tokenizer.ggml.eos_token_id": 2**31 - 1},
    "begin token that is not there": {"tokenizer.ggml.bos_token_id": 2**31},
    "empty tokens": {"tokenizer.ggml.tokens": [""] * len(TOKENS)},
    "merges without parts": {"tokenizer.ggml.merges": ["nospace"] * 3},
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "sound.gguf")


@pytest.fixture(scope="module")
def driver(sound: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(ProcessClient())
    assert isinstance(driver.load(str(sound), PARAMS), ModelLoaded)
    driver.reply("hi", sampling=GREEDY)  # starts all its processes before the first test
    yield driver
    driver.close()


def pid_of(driver: EngineDriver) -> int | None:
    assert isinstance(driver.client, ProcessClient)
    return driver.client.pid


@pytest.mark.parametrize("name", [*KILLING, *REFUSED])
def test_load_fails_with_one_sentence_and_the_next_works(
    driver: EngineDriver, sound: Path, tmp_path: Path, name: str
) -> None:
    changes = (KILLING | REFUSED)[name]
    pid = pid_of(driver)
    failed = driver.load(str(edit_gguf(sound, tmp_path / "bad.gguf", set=changes)), PARAMS)
    assert isinstance(failed, Failed), failed
    assert failed.error.error == "UnsupportedModel"
    assert "bad.gguf" in failed.error.message
    assert ("ended the process that tried it" in failed.error.message) == (name in KILLING)
    assert "\n" not in failed.error.message
    assert failed.error.hint
    assert isinstance(driver.load(str(sound), PARAMS), ModelLoaded)
    assert driver.reply("hi", sampling=GREEDY).token_ids
    assert pid_of(driver) == pid


@pytest.mark.parametrize("name", ODD)
def test_odd_file_is_loaded_or_refused_and_the_worker_lives(
    driver: EngineDriver, sound: Path, tmp_path: Path, name: str
) -> None:
    pid = pid_of(driver)
    answer = driver.load(str(edit_gguf(sound, tmp_path / "odd.gguf", set=ODD[name])), PARAMS)
    assert isinstance(answer, ModelLoaded | Failed)
    if isinstance(answer, ModelLoaded):
        driver.wait_final(driver.generate("hi", sampling=GREEDY))
    assert isinstance(driver.load(str(sound), PARAMS), ModelLoaded)
    assert pid_of(driver) == pid
