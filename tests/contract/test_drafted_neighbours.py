"""Replies that are drafted for in common steps, by a draft model that is wrong: each has its own distribution."""

from pathlib import Path

from engine.params import SamplingParams
from tests.support.reply_draws import check_replies


def test_replies_are_distributed_as_without_drafts_when_three_share_the_draft_models_steps(tmp_path: Path) -> None:
    params = SamplingParams(temperature=1.2, top_k=4, top_p=1.0, min_p=0.0)
    accepted = check_replies(tmp_path, params, num_replies=1_500, alpha=0.001, num_at_once=3)
    assert 0.2 < accepted < 0.95
