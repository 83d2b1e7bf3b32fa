"""The real worker with the real model: killed, orphaned, closed, fed hostile files and texts; everything goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine import (
    Abort,
    ChatMessage,
    Delta,
    EngineDied,
    Failed,
    FinishReason,
    Generate,
    LoadModel,
    LoadProgress,
    ModelLoaded,
    ModelParams,
    PrefillProgress,
    ProcessClient,
    PromptOptions,
    Role,
    SamplingParams,
)
from tests.support.engine_driver import EngineDriver
from tests.support.gguf_files import edit_gguf, write_tiny_model

_PARAMS = ModelParams(n_ctx=2048, n_threads=1)
_GREEDY = SamplingParams(temperature=0, max_tokens=16)
_GO_ON = SamplingParams(temperature=0)
_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


@pytest.fixture
def driver() -> Iterator[EngineDriver]:
    driver = EngineDriver(ProcessClient())
    yield driver
    driver.close()


def _pid(driver: EngineDriver) -> int:
    client = driver.client
    assert isinstance(client, ProcessClient) and client.pid is not None
    return client.pid


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


@pytest.mark.skipif(os.name == "nt", reason="the signals of POSIX")
def test_each_death_in_a_reply_fails_it_once_and_a_new_load_goes_on(driver: EngineDriver, starter_path: Path) -> None:
    for number in (signal.SIGKILL, signal.SIGSEGV):
        assert isinstance(driver.load(str(starter_path), _PARAMS), ModelLoaded)
        ids = [driver.generate("Tell me a long story.", sampling=_GO_ON) for _ in range(2)]
        driver.wait_type(Delta, ids[0])
        os.kill(_pid(driver), number)
        for request_id in ids:
            assert driver.wait_failed(request_id).error.error == "EngineDied"
        driver.wait(lambda event, code=-number: getattr(event, "exit_code", None) == code)  # type: ignore[misc]
        death = [event for event in driver.events if isinstance(event, EngineDied)][-1]
        assert death.error.message and death.error.hint
        assert death.log_tail
        assert [type(event) for event in driver.events[-3:]] == [Failed, Failed, EngineDied]
        assert driver.wait_failed(driver.generate("hi")).error.error == "EngineUnavailable"
    assert isinstance(driver.load(str(starter_path), _PARAMS), ModelLoaded)
    assert driver.reply("hi", sampling=_GREEDY).text


def test_closing_while_generating_leaves_no_process_within_two_seconds(
    driver: EngineDriver, starter_path: Path
) -> None:
    driver.load(str(starter_path), _PARAMS)
    request_id = driver.generate("word " * 1500, sampling=_GO_ON)
    driver.wait_type(PrefillProgress, request_id)
    family = _family(_pid(driver))
    began = time.monotonic()
    driver.close()
    assert time.monotonic() - began < 2.5
    assert not psutil.wait_procs(family, timeout=1)[1]


def test_closing_while_loading_leaves_no_process_within_two_seconds(driver: EngineDriver, starter_path: Path) -> None:
    driver.client.send(LoadModel(request_id="load", path=str(starter_path), params=_PARAMS))
    driver.wait_type(LoadProgress)
    family = _family(_pid(driver))
    began = time.monotonic()
    driver.close()
    assert time.monotonic() - began < 2.5
    assert not psutil.wait_procs(family, timeout=1)[1]


_FRONT_END = """
import queue, sys, time
from engine import *
if __name__ == "__main__":
    events = queue.SimpleQueue()
    client = ProcessClient()
    client.start(events.put)
    client.send(LoadModel(request_id="l", path=sys.argv[1], params=ModelParams(n_ctx=1024, n_threads=1)))
    while not isinstance(events.get(), ModelLoaded):
        pass
    message = ChatMessage(Role.USER, "Tell me a long story.")
    client.send(Generate(request_id="g", messages=(message,)))
    while not isinstance(events.get(), Delta):
        pass
    print(client.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="the signals of POSIX")
def test_killed_front_end_takes_its_worker_along(starter_path: Path, tmp_path: Path) -> None:
    script = tmp_path / "front_end.py"
    script.write_text(_FRONT_END, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, str(script), str(starter_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as front_end:
        assert front_end.stdout is not None
        family = _family(int(front_end.stdout.readline()))
        assert len(family) >= 2, "the template child belongs to the family"
        front_end.kill()
    assert not psutil.wait_procs(family, timeout=5)[1]


def test_stop_in_a_long_prefill_is_answered_and_the_next_question_too(driver: EngineDriver, starter_path: Path) -> None:
    driver.load(str(starter_path), ModelParams(n_ctx=8192, n_threads=1))
    long_text = "The quick brown fox jumps over the lazy dog. " * 400
    request_id = driver.generate(long_text, sampling=_GREEDY)
    driver.wait_type(PrefillProgress, request_id)
    began = time.monotonic()
    driver.client.send(Abort(request_id=request_id))
    assert driver.wait_finished(request_id).finish_reason is FinishReason.ABORT
    assert time.monotonic() - began < 2
    assert driver.reply("Name three primary colours.", sampling=_GREEDY).metrics.num_generated_tokens > 1


def test_reply_ends_at_the_turn_marker_when_the_file_names_another_end_token(
    driver: EngineDriver, starter_path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "other-end.gguf"
    edit_gguf(starter_path, copy, set={"tokenizer.ggml.eos_token_id": 0})  # <|endoftext|>
    driver.load(str(copy), _PARAMS)
    finished = driver.reply("What is 1+1?", sampling=SamplingParams(temperature=0, max_tokens=200))
    assert finished.finish_reason is FinishReason.STOP
    assert finished.metrics.num_generated_tokens < 200
    assert "<|" not in finished.text


_HOSTILE_TEMPLATES = {
    "endless": "{% for i in range(10**9) %}{% endfor %}",
    "huge": "{{ 'a' * 10**10 }}",
    "escape": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "syntax": "{% broken",
    "refuses": "{{ raise_exception('no') }}",
}


def test_each_hostile_template_costs_one_sentence_whatever_came_before_it(driver: EngineDriver, tmp_path: Path) -> None:
    for name, template in _HOSTILE_TEMPLATES.items():
        path = write_tiny_model(tmp_path / f"{name}.gguf", chat_template=template)
        loaded = driver.load(str(path), ModelParams(n_ctx=512, n_threads=1))
        assert isinstance(loaded, ModelLoaded), name
        assert len(loaded.description.notices) == 1, name
        request_id = driver.new_id()
        messages = (ChatMessage(Role.USER, "hi"),)
        options = PromptOptions(chat_format="file")  # without it a known format may stand in
        driver.client.send(Generate(request_id=request_id, messages=messages, sampling=_GREEDY, options=options))
        failed = driver.wait_failed(request_id)
        assert failed.error.error == "ChatTemplateError", name
        assert "\n" not in failed.error.message, name


def test_begin_token_comes_once_whether_the_template_prints_it_or_not(driver: EngineDriver, tmp_path: Path) -> None:
    for vocab in ("bpe", "spm"):
        counts = {}
        for name, template in (("with", "{{ bos_token }}" + _CHATML), ("without", _CHATML)):
            path = tmp_path / f"{vocab} {name}.gguf"
            write_tiny_model(path, vocab=vocab, chat_template=template, add_bos=True)
            driver.load(str(path), ModelParams(n_ctx=512, n_threads=1))
            counts[name] = driver.reply("hi", sampling=_GREEDY).metrics.num_prompt_tokens
        assert counts["with"] == counts["without"], vocab


def test_long_run_of_letters_does_not_overflow_the_tokeniser(driver: EngineDriver, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_model(path, pre="deepseek-llm", chat_template=_CHATML)
    driver.load(str(path), ModelParams(n_ctx=262_144, n_threads=1, n_seq_max=1))
    for length in (1_000, 60_000, 200_000):
        for text in ("a" * length, "us" * (length // 2)):
            request_id = driver.generate(text, sampling=SamplingParams(max_tokens=1))
            driver.wait_type(PrefillProgress, request_id)
            driver.client.send(Abort(request_id=request_id))
            driver.wait_finished(request_id)


def test_what_cannot_be_loaded_costs_one_sentence_and_the_next_load_works(
    driver: EngineDriver, starter_path: Path, tmp_path: Path
) -> None:
    torn = tmp_path / "torn.gguf"
    with starter_path.open("rb") as whole:
        torn.write_bytes(whole.read(3_000_000))
    too_large = ModelParams(n_ctx=16_777_216, n_threads=1)
    errors = []
    for path, params in ((torn, _PARAMS), (tmp_path, _PARAMS), (starter_path, too_large)):
        failed = driver.load(str(path), params)
        assert isinstance(failed, Failed)
        assert failed.error.message and failed.error.hint
        errors.append(failed.error)
    assert errors[-1].error == "OutOfMemory"
    assert errors[-1].message.count("GiB") == 2
    assert isinstance(driver.load(str(write_tiny_model(tmp_path / "tiny.gguf")), _PARAMS), ModelLoaded)


@pytest.mark.parametrize(
    "sampling",
    [
        *({"temperature": 0, "top_k": k} for k in (0, 1, 40)),
        *({"temperature": 0, "top_p": p} for p in (0, 1)),
        *({"temperature": 0, "min_p": p} for p in (0, 1)),
        *({"temperature": 0, "seed": seed} for seed in (1, 3)),
        {"temperature": 1, "top_p": 0, "top_k": 0},
        {"temperature": 1, "min_p": 1, "top_k": 0},
        {"temperature": 1, "top_k": 1},
        {"temperature": 1e-9, "top_k": 0, "top_p": 1, "min_p": 0},
    ],
    ids=str,
)
def test_settings_that_leave_one_choice_take_the_likeliest_token(
    greedy: tuple[EngineDriver, str], sampling: dict[str, Any]
) -> None:
    driver, expected = greedy
    params = SamplingParams(max_tokens=1, **sampling)
    assert driver.reply("Name three primary colours.", sampling=params).text == expected


@pytest.fixture(scope="module")
def greedy(starter_path: Path) -> Iterator[tuple[EngineDriver, str]]:
    """Return a loaded engine and its likeliest first token; one token, since later ones depend on the step's shape."""
    driver = EngineDriver(ProcessClient())
    driver.load(str(starter_path), _PARAMS)
    question = "Name three primary colours."
    driver.reply(question, sampling=SamplingParams(temperature=0, max_tokens=1))  # so that all others find it cached
    yield driver, driver.reply(question, sampling=SamplingParams(temperature=0, max_tokens=1)).text
    driver.close()


def test_random_seed_differs_and_the_reported_one_repeats_the_token(greedy: tuple[EngineDriver, str]) -> None:
    driver, _ = greedy
    wild: dict[str, Any] = {"temperature": 5.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "max_tokens": 1}
    replies = [driver.reply("Name three primary colours.", sampling=SamplingParams(**wild)) for _ in range(3)]
    seeds = [reply.metrics.seed for reply in replies]
    assert len(set(seeds)) == 3
    for reply, seed in zip(replies, seeds, strict=True):
        again = driver.reply("Name three primary colours.", sampling=SamplingParams(**wild, seed=seed))
        assert again.token_ids == reply.token_ids
        assert again.metrics.seed == seed
