"""LoRA adapters through the engine process and the command line: whatever is warm computes as it would cold."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import (
    Adapter,
    CacheMissCause,
    ChatMessage,
    Finished,
    FinishReason,
    Generate,
    ModelLoaded,
    ModelParams,
    ProcessClient,
    Role,
    SamplingParams,
)
from tests.support.adapters import STARTER, TINY, write_adapter, write_tiny_pair
from tests.support.cold_check import EXACT
from tests.support.engine_driver import EngineDriver
from tests.support.gguf_files import write_tiny_model

ROOT = Path(__file__).resolve().parents[2]
_PARAMS = ModelParams(n_ctx=2048, **EXACT)
_GREEDY = SamplingParams(temperature=0, max_tokens=24)
_PROMPT = "The old lighthouse keeper wrote down the weather every day. " * 5 + "What did he write on the last day?"

_Start = Callable[[Path], EngineDriver]
_Adapters = tuple[tuple[Path, float], ...]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model whose best token is ahead by more than the shape of a step changes with an exact cache.

    Measured: 0.03 and more of logits, where half-precision cache cells round away as much.
    """
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf", n_ctx_train=2048)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, _Adapters]:
    """Return sets of adapters for the tiny model."""
    folder = tmp_path_factory.mktemp("adapters")
    first, second = (write_adapter(folder / f"{name}.gguf", TINY, seed=ord(name), strength=0.5) for name in "AB")
    return {
        "none": (),
        "A": ((first, 1.0),),
        "B": ((second, 1.0),),
        "A weaker": ((first, 0.5),),
        "both": ((first, 1.0), (second, 1.0)),
    }


@pytest.fixture(scope="module")
def cold(tiny: Path, cases: dict[str, _Adapters]) -> dict[str, str]:
    """Return the replies of a model that was loaded for each of them."""
    with contextlib.closing(EngineDriver(ProcessClient())) as driver:
        replies = {}
        for name, adapters in cases.items():
            assert isinstance(driver.load(str(tiny), _PARAMS), ModelLoaded)
            reply = _ask(driver, *adapters)
            assert reply.metrics.num_cached_tokens == 0
            replies[name] = reply.text
    assert len(set(replies.values())) == len(replies)
    return replies


@pytest.fixture
def start() -> Iterator[_Start]:
    """Return a function that starts an engine with a model."""
    drivers: list[EngineDriver] = []

    def start(path: Path) -> EngineDriver:
        drivers.append(EngineDriver(ProcessClient()))
        assert isinstance(drivers[-1].load(str(path), _PARAMS), ModelLoaded)
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def _send(driver: EngineDriver, *adapters: tuple[Path, float], **fields: Any) -> str:
    request_id = driver.new_id()
    driver.client.send(
        Generate(
            request_id=request_id,
            messages=(ChatMessage(Role.USER, _PROMPT),),
            sampling=fields.pop("sampling", _GREEDY),
            adapters=tuple(Adapter(path=str(path), scale=scale) for path, scale in adapters),
            **fields,
        )
    )
    return request_id


def _ask(driver: EngineDriver, *adapters: tuple[Path, float], chat_id: str | None = None) -> Finished:
    return driver.wait_finished(_send(driver, *adapters, chat_id=chat_id))


@pytest.mark.soak  # the tiny model is asked the same below, at a fraction of the time
def test_reply_does_not_depend_on_the_adapters_before_it_on_the_starter(
    start: _Start, starter_path: Path, tmp_path: Path
) -> None:
    # Its numbers depend on where in the pool a chat lies, so each is compared with itself at the same place.
    first, second = (((write_adapter(tmp_path / f"{name}.gguf", STARTER, seed=ord(name)), 1.0),) for name in "AB")
    orders: list[list[_Adapters]] = [[first, second, ()], [(), second], [second, first, ()]]
    replies = []
    for order in orders:
        driver = start(starter_path)
        replies.append([_ask(driver, *adapters) for adapters in order])
        if order is orders[0]:
            weightless = _ask(driver, (first[0][0], 0.0))
        driver.close()
    assert all(reply.metrics.num_cached_tokens == 0 for engine in replies for reply in engine)
    assert all(reply.finish_reason is FinishReason.LENGTH for engine in replies for reply in engine)
    texts = [[reply.text for reply in engine] for engine in replies]
    assert len(set(texts[0])) == 3
    assert texts[0][1] == texts[1][1]
    assert texts[0][2] == texts[2][2] == weightless.text


def test_adapters_can_be_switched_back_and_forth(
    start: _Start, tiny: Path, cases: dict[str, _Adapters], cold: dict[str, str]
) -> None:
    warm = start(tiny)
    for name in ("A", "B", "none", "A", "A weaker", "both", "B", "A", "none"):
        assert _ask(warm, *cases[name]).text == cold[name], name


def test_strength_0_finds_what_was_cached_without_an_adapter(
    start: _Start, tiny: Path, cases: dict[str, _Adapters]
) -> None:
    driver = start(tiny)
    plain = _ask(driver)
    same = _ask(driver, (cases["A"][0][0], 0.0))
    assert same.metrics.num_cached_tokens > 100
    assert same.text == plain.text


def test_cache_of_another_adapter_is_not_used_and_the_cause_is_told(
    start: _Start, tiny: Path, cases: dict[str, _Adapters]
) -> None:
    driver = start(tiny)
    _ask(driver, *cases["A"], chat_id="chat")
    switched = _ask(driver, *cases["B"], chat_id="chat").metrics
    assert switched.num_cached_tokens == 0
    assert switched.cache_miss_cause is CacheMissCause.ADAPTER_CHANGED
    assert _ask(driver, *cases["A weaker"], chat_id="chat").metrics.num_cached_tokens == 0
    assert _ask(driver, *cases["A weaker"], chat_id="chat").metrics.num_cached_tokens > 100


def test_chats_with_different_adapters_at_once_reply_as_alone(
    start: _Start, tiny: Path, cases: dict[str, _Adapters], cold: dict[str, str]
) -> None:
    alone = {name: cold[name] for name in ("A", "B", "none")}
    driver = start(tiny)
    together = {name: _send(driver, *cases[name]) for name in ("A", "none", "B", "A", "B")}
    assert {name: driver.wait_finished(request_id).text for name, request_id in together.items()} == alone


def test_replaced_adapter_is_read_again(start: _Start, tiny: Path, tmp_path: Path) -> None:
    driver = start(tiny)
    path = write_adapter(tmp_path / "a.gguf", seed=1, strength=0.5)
    first = _ask(driver, (path, 1.0))
    write_adapter(tmp_path / "new.gguf", seed=2, strength=0.5).replace(path)
    second = _ask(driver, (path, 1.0))
    assert second.metrics.num_cached_tokens == 0
    assert second.text != first.text


def test_adapter_that_cannot_be_used_fails_its_request_alone(
    start: _Start, tiny: Path, cases: dict[str, _Adapters], tmp_path: Path
) -> None:
    driver = start(tiny)
    neighbour = _send(driver, *cases["B"])
    for path, scale, error in (
        (tmp_path / "missing.gguf", 1.0, "AdapterMismatch"),
        (write_adapter(tmp_path / "starter.gguf", STARTER), 1.0, "AdapterMismatch"),
        (tiny, 1.0, "AdapterMismatch"),
        (cases["A"][0][0], 1e9, "InvalidParams"),
    ):
        refused = driver.wait_failed(_send(driver, (path, scale)))
        assert refused.error.error == error
        assert refused.error.message and refused.error.hint
    assert driver.wait_finished(neighbour).text
    assert _ask(driver).text


def _fireside(*arguments: str | Path) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "app", "chat", *map(str, arguments), "--temperature", "0", "--max-tokens", "8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, env=os.environ, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_command_line_uses_adapters_of_any_path(tmp_path: Path) -> None:
    folder = tmp_path / "dir=1 ä日 #?%"
    folder.mkdir()
    model, adapter = write_tiny_pair(folder)
    chat = ("-m", model, "hello", "--threads", "1")
    code, plain, err = _fireside(*chat)
    assert code == 0, err
    assert _fireside(*chat, "--lora", f"{adapter}=0")[:2] == (0, plain)
    code, changed, err = _fireside(*chat, "--lora", adapter, "--lora", f"{adapter}=4")
    assert code == 0, err
    assert changed != plain


def test_command_line_tells_what_is_wrong_with_an_adapter(tmp_path: Path) -> None:
    model, adapter = write_tiny_pair(tmp_path)
    code, out, err = _fireside("-m", model, "hello", "--json", "--lora", tmp_path / "none.gguf")
    assert code == 1
    assert json.loads(out.splitlines()[-1])["error"] == "AdapterMismatch"
    assert "none.gguf" in err
    code, _, err = _fireside("-m", model, "hello", "--lora", f"{adapter}=1000")
    assert code == 2
    assert "scale" in err
    code, _, err = _fireside("-m", adapter, "hello")
    assert code == 3
    assert "adapter" in err and "--lora" in err
