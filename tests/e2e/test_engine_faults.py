"""Faults that once ended the worker, mixed two chats or left a request without an answer."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import (
    ChatMessage,
    Delta,
    Failed,
    InvalidParams,
    ModelLoaded,
    ModelParams,
    ProcessClient,
    Role,
    SamplingParams,
)
from tests.support.engine_driver import EngineDriver
from tests.support.gguf_files import edit_gguf, write_tiny_model

_PARAMS = ModelParams(n_ctx=512, n_threads=1)
_GREEDY = SamplingParams(temperature=0, max_tokens=16)


@pytest.fixture
def driver() -> Iterator[EngineDriver]:
    driver = EngineDriver(ProcessClient())
    yield driver
    driver.close()


def test_empty_prompt_is_refused_beside_a_running_reply(driver: EngineDriver, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", chat_template="{{ messages[-1]['content'] }}")
    driver.load(str(path), _PARAMS)
    running = driver.generate("a b c", sampling=SamplingParams(temperature=0, max_tokens=400))
    driver.wait_type(Delta, running)
    failed = driver.wait_failed(driver.generate(ChatMessage(Role.USER, "")))
    assert failed.error.message == "The prompt is empty."
    assert driver.wait_finished(running).metrics.num_generated_tokens > 1


def test_smallest_batch_works(driver: EngineDriver, starter_path: Path) -> None:
    params = ModelParams(n_ctx=512, n_threads=1, n_batch=1, n_ubatch=1, n_seq_max=1)
    assert isinstance(driver.load(str(starter_path), params), ModelLoaded)
    assert driver.reply("hi", sampling=SamplingParams(temperature=0, max_tokens=2)).token_ids


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
def test_unreadable_part_and_impossible_name_fail_the_load_only(
    driver: EngineDriver, starter_path: Path, tmp_path: Path
) -> None:
    first = tmp_path / "m-00001-of-00002.gguf"
    os.link(starter_path, first) if first.parent.stat().st_dev == starter_path.stat().st_dev else first.write_bytes(
        starter_path.read_bytes()
    )
    (tmp_path / "m-00002-of-00002.gguf").symlink_to("/proc/self/mem")
    for path in (str(first), str(tmp_path / ("x" * 300))):
        failed = driver.load(path, _PARAMS)
        assert isinstance(failed, Failed)
        assert failed.error.error in ("ModelLoadError", "ModelFileMissing"), failed
    assert isinstance(driver.load(str(starter_path), _PARAMS), ModelLoaded)


@pytest.mark.parametrize("kind", ["no_vocab", "none"])
def test_file_without_a_vocabulary_is_refused(driver: EngineDriver, tmp_path: Path, kind: str) -> None:
    tiny = write_tiny_model(tmp_path / "tiny.gguf")
    path = edit_gguf(tiny, tmp_path / "none.gguf", set={"tokenizer.ggml.model": kind})
    failed = driver.load(str(path), _PARAMS)
    assert isinstance(failed, Failed)
    assert failed.error.error in ("NotAChatModel", "UnsupportedModel")


@pytest.mark.parametrize("bias", [(1.5, 2.0), (True, 2.0), ("a", 2.0), (1, "b")], ids=str)
def test_bias_of_the_wrong_kind_is_refused_before_it_is_sent(bias: tuple) -> None:
    with pytest.raises(InvalidParams):
        SamplingParams(logit_bias=(bias,))
