"""Documents that are read ahead of the question: a real model, the real program, and a start in between."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.document_text import document, join_documents
from engine import (
    CacheParams,
    CacheSource,
    ChatMessage,
    Finished,
    ModelParams,
    Prepare,
    Prepared,
    ProcessClient,
    Role,
    SamplingParams,
    SetCache,
)
from tests.support.engine_driver import EngineDriver
from tests.support.pdf_files import pdf_of

ROOT = Path(__file__).resolve().parents[2]
LINES = [f"Rule {n}: whoever comes after hour {n} rings twice and waits for lamp {n * 7}." for n in range(48)]
PARAMS = ModelParams(n_ctx=2048, n_threads=1)


class Started:
    """An engine with the model and a folder."""

    def __init__(self, model: Path, folder: Path, num_lines: int) -> None:
        self.policy = document("policy.md", "\n".join(LINES[:num_lines]))
        self.driver = EngineDriver(ProcessClient())
        cache = CacheParams(ram_mib=256, disk_mib=256, folder=str(folder))
        self.driver.client.send(SetCache(params=cache))
        self.driver.load(str(model), PARAMS)

    def prepare(self) -> Prepared:
        """Read the document ahead."""
        request_id = self.driver.new_id()
        beginning = ChatMessage(Role.USER, join_documents([self.policy], ""))
        self.driver.client.send(Prepare(request_id=request_id, messages=(beginning,), name=self.policy.name))
        return self.driver.wait_type(Prepared, request_id)

    def ask(self, question: str, chat_id: str) -> Finished:
        """Ask about the document in a new chat."""
        content = join_documents([self.policy], question)
        sampling = SamplingParams(max_tokens=4, temperature=0)
        return self.driver.wait_finished(self.driver.generate(content, sampling=sampling, chat_id=chat_id))


@pytest.fixture
def start(starter_path: Path, tmp_path: Path) -> Iterator[Callable[[int], Started]]:
    """Return a function that starts an engine, on the same folder each time, for a document of so many lines."""
    engines: list[Started] = []

    def start(num_lines: int) -> Started:
        engines.append(Started(starter_path, tmp_path, num_lines))
        return engines[-1]

    yield start
    for engine in engines:
        engine.driver.close()


@pytest.mark.parametrize(
    ("num_lines", "num_tokens"),
    [(12, 250), pytest.param(len(LINES), 1000, marks=pytest.mark.soak)],
    ids=["a page", "some pages"],
)
def test_each_chat_and_each_start_reads_only_its_question(
    start: Callable[[int], Started], num_lines: int, num_tokens: int
) -> None:
    first = start(num_lines)
    prepared = first.prepare()
    assert prepared.num_tokens > num_tokens and prepared.is_for_disk
    for number in range(2):
        reply = first.ask(f"What is rule {number}?", f"c{number}")
        assert reply.metrics.num_cached_tokens >= prepared.num_tokens
        assert reply.metrics.num_prompt_tokens - prepared.num_tokens < 20
        assert reply.cache is not None and reply.cache.source is CacheSource.SLOT
    first.driver.close()
    second = start(num_lines)
    reply = second.ask("Who rings twice?", "another")
    assert reply.metrics.num_cached_tokens >= prepared.num_tokens
    assert reply.cache is not None and reply.cache.source is CacheSource.DISK
    again = second.prepare()
    assert again.num_cached_tokens == prepared.num_tokens


def fireside(data_dir: Path, *arguments: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "app", "--data-dir", str(data_dir), "chat", "--json", "--fake-engine"]
    done = subprocess.run(
        [*command, "--max-tokens", "4", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_program_reuses_what_another_run_has_prepared(tmp_path: Path) -> None:
    path = tmp_path / "policy.pdf"
    path.write_bytes(pdf_of("\n".join(LINES[:12])))
    first = fireside(tmp_path / "data", "--document", str(path), "--prepare")
    prepared = next(event for event in first if event["event"] == "prepared")
    assert (prepared["name"], prepared["num_cached_tokens"], prepared["is_for_disk"]) == ("policy.pdf", 0, True)
    for number in range(2):
        question = f"What is rule {number}?"
        finished = fireside(tmp_path / "data", "--document", str(path), question)[-1]
        assert finished["metrics"]["cache_source"] == "disk"
        assert finished["metrics"]["num_cached_tokens"] >= prepared["num_tokens"]
