"""Templates that write earlier replies anew, after a restart: the cause that is told is still the template."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.metrics import CacheMissCause, CacheSource
from engine.params import CacheParams
from engine.template_renderer import TemplateRenderer
from engine.tokenizing import PromptEncoder
from tests.e2e.test_template_tails import ANSWERS, MARGIN, MOVING, QUESTIONS, TAILS, THINKING, Desk, renderer, turn
from tests.support.cold_check import Bench
from tests.support.memory_matrix import Matrix

__all__ = ["renderer"]

TEMPLATES = {name: THINKING.replace("TAIL", tail) for name, tail in TAILS.items()} | {"moving": MOVING}
REWRITING = ("opened", "skipped", "moving")


@pytest.fixture(scope="module", params=["llama", "gemma3", "mamba"])
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    with contextlib.closing(Matrix(request.param, tmp_path_factory.mktemp("models"))) as matrix:
        yield matrix


@contextlib.contextmanager
def kept_desk(matrix: Matrix, renderer: TemplateRenderer, name: str, folder: Path) -> Iterator[Desk]:
    """Open a desk whose engine keeps chats."""
    kept = CacheParams(ram_mib=64, disk_mib=64, folder=str(folder))
    with contextlib.closing(matrix.bench(kept=kept)) as bench:
        yield Desk(bench, encoder_of(bench, renderer, name), name)


def encoder_of(bench: Bench, renderer: TemplateRenderer, name: str) -> PromptEncoder:
    """Return what makes prompts for the model that is loaded now, with another template than its own."""
    bench.backend.vocabulary.chat_template = TEMPLATES[name]
    encoder = PromptEncoder(bench.backend.vocabulary, renderer, n_ctx=bench.n_ctx)
    assert encoder.try_out() == []
    return encoder


def restart(desk: Desk, renderer: TemplateRenderer) -> None:
    """End the engine, and start another on the same folder."""
    desk.bench.restart()
    desk.encoder = encoder_of(desk.bench, renderer, desk.tail)


@pytest.mark.parametrize("name", REWRITING)
def test_cause_is_the_template_when_the_chat_goes_on_from_disk(
    matrix: Matrix, renderer: TemplateRenderer, name: str, tmp_path: Path
) -> None:
    with kept_desk(matrix, renderer, name, tmp_path) as desk:
        texts = [QUESTIONS[0]]
        desk.ask(*texts)
        for number in range(2):
            texts += [ANSWERS[number], QUESTIONS[number + 1]]
            if name == "moving" and number == 0:  # nothing of the chat is settled yet
                desk.ask(*texts)
                continue
            restart(desk, renderer)
            asked = desk.ask(*texts)
            assert asked.reply.finished.metrics.cache_source is CacheSource.DISK
            assert asked.cause is CacheMissCause.TEMPLATE_CHANGED
            if name != "moving":
                assert asked.num_evaluated <= desk.count(turn(number)) + MARGIN


@pytest.mark.parametrize("name", REWRITING[:2])
def test_cause_is_an_edit_when_a_message_was_changed_before_the_restart(
    matrix: Matrix, renderer: TemplateRenderer, name: str, tmp_path: Path
) -> None:
    with kept_desk(matrix, renderer, name, tmp_path) as desk:
        desk.ask(QUESTIONS[0])
        restart(desk, renderer)
        asked = desk.ask(f"Tell me of the {QUESTIONS[1]}", ANSWERS[0], QUESTIONS[2])
        assert asked.cause in (CacheMissCause.EDITED, CacheMissCause.UNSUPPORTED_BY_MODEL)
