"""Known answers: what bounds decode, what batching brings, and what a token costs."""

from collections.abc import Sequence

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.core import Engine
from engine.metrics import (
    bandwidth_share,
    cost_per_million_tokens,
    decode_bytes,
    joules_per_token,
)
from tests.unit.engine.fake_engine import ask, make_backend, make_prompt

REPLIES = (5, 2, 6, 8, 1, 6, 3, 3, 3, 3, 2, 5)  # tokens
SLOTS = 4


def test_cache_is_read_with_the_weights_when_there_is_context():
    # Llama 2 7B in F16: 524,288 bytes a token
    assert decode_bytes(14_000_000_000, 524_288, 4096) == 14_000_000_000 + (2 << 30)


def test_share_is_one_when_the_rate_is_the_ceiling():
    assert bandwidth_share(1e12, 14e9, 1e12 / 14e9) == pytest.approx(1.0)
    assert bandwidth_share(2e10, 1e8, 100) == pytest.approx(0.5)


@pytest.mark.parametrize("values", [(0.0, 1e8, 100.0), (1e10, 0.0, 100.0)], ids=["no bandwidth", "no bytes"])
def test_share_is_none_when_a_part_is_not_known(values: tuple[float, float, float]):
    assert bandwidth_share(*values) is None


def test_engine_refills_its_slots_at_every_step(monkeypatch: pytest.MonkeyPatch):
    backend = make_backend("n_words=100", n_seq_max=SLOTS)
    decode, steps = backend.decode, []

    def counted(parts: Sequence[BatchPart]) -> DecodeStatus:
        steps.append(len(parts))
        return decode(parts)

    monkeypatch.setattr(backend, "decode", counted)
    prompts = [make_prompt(f"r{number}", f"{number}", max_tokens=count) for number, count in enumerate(REPLIES)]
    replies = ask(Engine(backend), *prompts)
    assert [len(replies[f"r{number}"].token_ids) for number in range(len(REPLIES))] == list(REPLIES)
    assert len(steps) == 14  # batches of four that wait for their longest reply would take 19
    assert sum(steps) == sum(REPLIES)


def test_energy_and_cost_follow_their_definitions():
    joules = joules_per_token(30.0 * 10, 200)  # thirty watts for ten seconds
    assert joules == 1.5
    # 1.5 MJ are 0.41667 kWh
    assert cost_per_million_tokens(joules, 0.30) == pytest.approx(0.125)


def test_energy_is_none_when_no_token_came():
    assert joules_per_token(5.0, 0) is None
