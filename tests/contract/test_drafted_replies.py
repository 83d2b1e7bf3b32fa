"""Whole replies of an engine that drafts with a wrong draft model have the distribution of plain decoding."""

from pathlib import Path
from typing import Any

import pytest

from engine.params import SamplingParams
from tests.support.reply_draws import check_replies

ALPHA = 0.001 / 2


@pytest.mark.parametrize(
    "settings",
    [
        {"top_k": 4, "top_p": 1.0, "min_p": 0.0},
        {"top_k": 5, "top_p": 0.9, "min_p": 0.05, "repeat_penalty": 0.4, "repeat_last_n": 5},
    ],
    ids=["top_k", "penalties"],
)
def test_replies_are_distributed_as_without_drafts(tmp_path: Path, settings: dict[str, Any]) -> None:
    params = SamplingParams(temperature=1.2, **settings)
    accepted = check_replies(tmp_path, params, num_replies=1_500, alpha=ALPHA)
    assert 0.2 < accepted < 0.95
