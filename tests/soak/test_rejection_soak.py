"""Many draws under wrong drafts, over the whole grid of settings and temperatures."""

from pathlib import Path

import pytest

from engine.params import SamplingParams
from tests.support.rejection_draws import SETTINGS, TEMPERATURES, assert_distributed, load_pair, read

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
