"""The ladder of the starter model, every type of it, and cancels at random; hostile sources by the hundred."""

import random
import threading
from pathlib import Path

import pytest

from app.cli.session import Answer, ChatSession
from engine import ChatMessage, ModelParams, ProcessClient, Role, SamplingParams
from models import (
    QUANTIZE_TYPES,
    ModelsError,
    QuantizeEnd,
    QuantizePlan,
    QuantizeRun,
    plan_ladder,
    plan_quantize,
)
from tests.support.gguf_files import write_tiny_model
from tests.support.tiny_models import TINY_MODELS

pytestmark = pytest.mark.soak

LADDER = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K", "IQ3_XXS")


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory, starter_path: Path) -> Path:
    """Make the F16 of the starter model."""
    path = tmp_path_factory.mktemp("half") / "starter.F16.gguf"
    run = QuantizeRun([plan_quantize(starter_path, "F16", path)])
    run.start()
    assert run.wait(300) is not None
    return path


def matrix_of(source: Path, path: Path) -> Path:
    """Build the importance matrix of a model on the bundled text."""
    with ChatSession(ProcessClient()) as session:
        for _ in session.load(str(source), ModelParams(n_ctx=512)):
            pass
        for _ in session.build_importance(str(path)):
            pass
    return path


def made_of(plans: list[QuantizePlan], *, n_threads: int = 0) -> None:
    """Make files, and check their sizes."""
    run = QuantizeRun(plans, n_threads=n_threads)
    run.start()
    results = run.wait(3000)
    assert results is not None
    assert [(result.plan.type.name, result.error and result.error.message) for result in results] == [
        (plan.type.name, None) for plan in plans
    ]
    assert [plan.output.stat().st_size for plan in plans] == [plan.output_bytes for plan in plans]


def test_every_rung_loads_and_chats(half: Path, tmp_path: Path) -> None:
    matrix = matrix_of(half, tmp_path / "matrix")
    plans = plan_ladder(half, {name: tmp_path / f"{name}.gguf" for name in LADDER}, imatrix=matrix)
    ready = [plan for plan in plans if isinstance(plan, QuantizePlan)]
    assert len(ready) == len(LADDER)
    made_of(ready)
    question = (ChatMessage(Role.USER, "What is the capital of France?"),)
    with ChatSession(ProcessClient()) as session:
        for plan in ready:
            for _ in session.load(str(plan.output), ModelParams(n_ctx=512)):
                pass
            items = list(session.ask(question, SamplingParams(temperature=0, max_tokens=16)))
            answer = items[-1]
            assert isinstance(answer, Answer)
            assert answer.finished.text.strip(), plan.type.name


def test_every_type_is_made_with_its_exact_size(tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "tiny.gguf", n_embd=256)
    outputs = {name: tmp_path / f"{name}.gguf" for name in QUANTIZE_TYPES}
    plans = plan_ladder(source, outputs, imatrix=matrix_of(source, tmp_path / "matrix"))
    made_of([plan for plan in plans if isinstance(plan, QuantizePlan)], n_threads=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*(path.name for path in outputs.values()), "matrix", "tiny.gguf"]
    )


@pytest.mark.parametrize("name", TINY_MODELS)
def test_every_architecture_is_quantised_with_its_exact_size(name: str, tmp_path: Path) -> None:
    source = TINY_MODELS[name].write(tmp_path / "tiny.gguf")
    plans = plan_ladder(source, {kind: tmp_path / f"{kind}.gguf" for kind in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M")})
    made_of([plan for plan in plans if isinstance(plan, QuantizePlan)], n_threads=1)
    assert all(isinstance(plan, QuantizePlan) for plan in plans)


@pytest.mark.parametrize("seed", range(30))
def test_cancel_at_any_moment_leaves_nothing(seed: int, half: Path, tmp_path: Path) -> None:
    plan = plan_quantize(half, "Q4_K_M", tmp_path / "x.gguf")
    run = QuantizeRun([plan])
    timer = threading.Timer(random.Random(seed).uniform(0, 3), run.cancel)
    run.start()
    timer.start()
    results = run.wait(60)
    timer.cancel()
    timer.join()
    assert results is not None
    if results[0].end is QuantizeEnd.MADE:
        plan.output.unlink()
    assert list(tmp_path.iterdir()) == []


def test_hostile_sources_cost_a_sentence_each(tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "tiny.gguf").read_bytes()
    chance = random.Random(6)
    for number in range(400):
        data = bytearray(source)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(24, 9000)] = chance.randrange(256)
        if number % 7 == 0:
            del data[chance.randrange(100, len(data)) :]
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(data)
        try:
            plan = plan_quantize(path, "Q4_0", tmp_path / "x.gguf")
            run = QuantizeRun([plan], n_threads=1)
            run.start()
            results = run.wait(60)
            assert results is not None
            (tmp_path / "x.gguf").unlink(missing_ok=True)
        except ModelsError as error:
            assert error.message.endswith(".")
        path.unlink()
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny.gguf"]
