"""Loads that must fail kindly, in the real worker: files that kill, contexts that do not fit; the next load works."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.known_models import KnownModels
from app.paths import find_paths
from engine import (
    CacheTypesMeasured,
    Failed,
    MeasureCacheTypes,
    ModelLoaded,
    ModelParams,
    ProcessClient,
    SamplingParams,
)
from engine.backend_llama.loading import LlamaLoader
from tests.support.engine_driver import EngineDriver
from tests.support.gguf_files import edit_gguf, write_tiny_model
from tests.support.one_core import ON_ONE_CORE

ROOT = Path(__file__).resolve().parents[2]
LIMIT_BYTES = 2_000_000_000
PARAMS = ModelParams(n_ctx=2048, n_threads=1)


@pytest.fixture
def driver() -> Iterator[EngineDriver]:
    driver = EngineDriver(ProcessClient())
    yield driver
    driver.close()


def limited(*arguments: str) -> tuple[int, list[dict[str, object]]]:
    """Run the program with limited memory, which its worker inherits."""
    program = (
        "import resource, runpy, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({LIMIT_BYTES}, {LIMIT_BYTES}))\n"
        "runpy.run_module('app', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.decode().splitlines()]


def test_trained_window_that_is_too_large_is_refused_or_made_smaller(tmp_path: Path, starter_path: Path) -> None:
    path = str(edit_gguf(starter_path, tmp_path / "long.gguf", set={"llama.context_length": 131072}))
    chat = ("chat", "hi", "--model", path, "--max-tokens", "2", "--threads", "1", "--json")
    code, events = limited(*chat, "--ctx", "131072")
    assert code == 3
    assert events[-1]["error"] == "OutOfMemory"
    assert str(events[-1]["message"]).count("GiB") == 2
    assert "Try a context of" in str(events[-1]["hint"])
    for extra in ((), ("--ctx", "2048")):
        code, events = limited(*chat, *extra)
        assert code == 0, events
        assert events[-1]["event"] == "finished"


def test_file_in_a_folder_of_any_name_is_tried_loaded_and_remembered(tmp_path: Path) -> None:
    folder = tmp_path / "dir ä日本 #?%20&'\"🙂`$()"
    folder.mkdir()
    path = write_tiny_model(folder / "a  b%#'\".gguf")
    data_dir = folder / "data"
    command = [sys.executable, "-m", "app", "--data-dir", str(data_dir), "chat", "-m", str(path), "--json"]
    for _ in range(2):
        done = subprocess.run(
            [*command, "--max-tokens", "2", "hi"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            **ON_ONE_CORE,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.decode().splitlines()[0])["path"] == str(path)
        known = KnownModels.in_paths(find_paths(str(data_dir)))
        assert known.has(str(path), ModelParams())
        assert len(json.loads(known.path.read_text("utf-8"))) == 1


def test_worker_lives_when_a_file_kills_the_process_that_tries_it(driver: EngineDriver, tmp_path: Path) -> None:
    sound = write_tiny_model(tmp_path / "sound.gguf")
    bad = edit_gguf(sound, tmp_path / "bad.gguf", set={"llama.expert_count": 4, "llama.expert_used_count": 9})
    assert isinstance(driver.load(str(sound), PARAMS), ModelLoaded)
    client = driver.client
    assert isinstance(client, ProcessClient)
    pid = client.pid
    failed = driver.load(str(bad), PARAMS)
    assert isinstance(failed, Failed)
    assert failed.error.error == "UnsupportedModel"
    assert "ended the process that tried it" in failed.error.message
    assert isinstance(driver.load(str(sound), PARAMS), ModelLoaded)
    assert client.pid == pid
    assert driver.reply("hi", sampling=SamplingParams(temperature=0, max_tokens=4)).text


def test_cache_types_are_measured_when_nothing_runs(driver: EngineDriver, tmp_path: Path) -> None:
    def measure() -> str:
        request_id = driver.new_id()
        driver.client.send(MeasureCacheTypes(request_id=request_id))
        return request_id

    assert driver.wait_failed(measure()).error.error == "EngineUnavailable"
    assert isinstance(driver.load(str(write_tiny_model(tmp_path / "tiny.gguf")), PARAMS), ModelLoaded)
    reply = driver.generate("hi", sampling=SamplingParams(temperature=0, max_tokens=400))
    assert "computing" in driver.wait_failed(measure()).error.message
    driver.wait_finished(reply)
    measured = driver.wait_type(CacheTypesMeasured, measure())
    assert measured.rows[0].decode_rate
    assert driver.reply("hi", sampling=SamplingParams(temperature=0, max_tokens=4)).text


def test_log_lines_are_all_kept_while_a_model_loads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    path = write_tiny_model(tmp_path / "tiny.gguf")
    log = logging.getLogger("neighbour")

    def write() -> None:
        for number in range(1000):
            log.info("line %d", number)

    writer = threading.Thread(target=write)
    before = [os.fstat(descriptor).st_ino for descriptor in (0, 1, 2)]
    writer.start()
    backend = LlamaLoader().load(str(path), PARAMS, lambda share: True)
    writer.join()
    assert backend is not None
    backend.close()
    assert [os.fstat(descriptor).st_ino for descriptor in (0, 1, 2)] == before
    assert [r.getMessage() for r in caplog.records if r.name == "neighbour"] == [f"line {n}" for n in range(1000)]
    assert any(record.name == "llama.cpp" for record in caplog.records)
