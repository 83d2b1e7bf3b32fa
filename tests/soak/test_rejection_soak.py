"""Many draws under wrong drafts, over the whole grid of settings and temperatures."""

from pathlib import Path
from typing import Any

import pytest

from engine.params import SamplingParams
from tests.support.rejection_draws import SETTINGS, TEMPERATURES, assert_distributed, load_pair, read
from tests.support.reply_draws import check_replies

NUM_DRAWS = 200_000
ALPHA = 0.001 / (2 * len(SETTINGS) * len(TEMPERATURES))


@pytest.mark.soak
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_tokens_are_distributed_by_the_settings_over_many_draws(tmp_path: Path, name: str, temperature: float) -> None:
    target, draft = (read(backend) for backend in load_pair(tmp_path))
    params = SamplingParams(temperature=temperature, **SETTINGS[name])
    try:
        assert_distributed(target, draft, params, alpha=ALPHA, num_draws=NUM_DRAWS)
    finally:
        target.close()
        draft.close()


REPLIES: list[dict[str, Any]] = [
    {"top_k": 4, "top_p": 1.0, "min_p": 0.0},
    {"top_k": 5, "top_p": 0.9, "min_p": 0.05, "repeat_penalty": 0.4, "repeat_last_n": 5},
]


@pytest.mark.soak
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("settings", REPLIES, ids=["top_k", "penalties"])
def test_whole_replies_are_distributed_as_without_drafts(
    tmp_path: Path, settings: dict[str, Any], temperature: float
) -> None:
    params = SamplingParams(temperature=temperature, **settings)
    alpha = 0.001 / (len(REPLIES) * len(TEMPERATURES))
    check_replies(tmp_path, params, num_replies=20_000, alpha=alpha)
