"""The real program on a model whose template opens a block of thinking: budgets, grammars and lengths together."""

import re
from collections.abc import Iterator

import pytest

from engine import FinishReason, ModelLoaded, ModelParams, ProcessClient, SamplingParams
from tests.support.engine_driver import EngineDriver
from tests.support.gguf_files import CHATML, write_tiny_model

_OPENS = CHATML.replace("assistant\\n' }}{% endif %}", "assistant\\n<think>\\n' }}{% endif %}") + (
    "{% if false %}\n</think>\n\n{% endif %}"
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineDriver]:
    """Return a worker with such a model."""
    path = write_tiny_model(tmp_path_factory.mktemp("thinks") / "tiny.gguf", chat_template=_OPENS)
    driver = EngineDriver(ProcessClient())
    try:
        loaded = driver.load(str(path), ModelParams(n_ctx=256, n_seq_max=2, n_threads=1))
        assert isinstance(loaded, ModelLoaded) and loaded.description.can_think
        yield driver
    finally:
        driver.close()


@pytest.mark.parametrize("budget", [0, 1, 12])
def test_answer_follows_its_grammar_when_a_budget_ends_the_thinking(driver: EngineDriver, budget: int) -> None:
    sampling = SamplingParams(
        temperature=0.0, thinking_budget=budget, max_tokens=80, grammar='root ::= "yes: " [a-c]{3} "."'
    )
    got = driver.reply("hello", sampling=sampling)
    assert re.fullmatch(r"yes: [abc]{3}\.", got.text)
    assert got.finish_reason is FinishReason.STOP
    assert bool(got.thinking.strip()) <= bool(budget)


@pytest.mark.parametrize("max_tokens", [1, 3, 10, 25])
@pytest.mark.parametrize("budget", [0, 2, 9])
def test_reply_is_no_longer_than_it_may_be_when_a_budget_ends_the_thinking(
    driver: EngineDriver, budget: int, max_tokens: int
) -> None:
    sampling = SamplingParams(
        temperature=0.0, thinking_budget=budget, max_tokens=max_tokens, logit_bias=((257, -99.0),)
    )
    got = driver.reply("hello", sampling=sampling)
    assert len(got.token_ids) <= max_tokens
    assert "<" + "/think" not in got.thinking + got.text
    assert driver.reply("hello", sampling=sampling).token_ids == got.token_ids
