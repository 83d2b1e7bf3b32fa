"""Replies that are drafted for in common steps have the distribution of plain decoding: full counts."""

from pathlib import Path

import pytest

from engine.params import SamplingParams
from tests.support.reply_draws import check_replies


@pytest.mark.soak
@pytest.mark.parametrize("num_at_once", [2, 4])
@pytest.mark.parametrize("temperature", [0.7, 1.2])
def test_replies_are_distributed_as_without_drafts_over_many_draws(
    tmp_path: Path, num_at_once: int, temperature: float
) -> None:
    params = SamplingParams(temperature=temperature, top_k=4, top_p=1.0, min_p=0.0)
    check_replies(tmp_path, params, num_replies=20_000, alpha=0.001 / 4, num_at_once=num_at_once)
