"""What is verified has the wanted distribution whatever was drafted, and is the draft as often as can be."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from engine.backend import Distribution, Proposal
from engine.params import SamplingParams
from engine.speculative.rejection import Uniform, drawn, softmax, verified
from tests.support.distributions import chance_of, expected_distribution, overlap, shuffled

NUM_DRAWS = 20_000
NUM_TOKENS = 60
TEMPERATURES = (0.5, 1.0, 1.5)
SETTINGS = {
    "top_k": SamplingParams(top_k=12, top_p=1.0, min_p=0.0),
    "top_p": SamplingParams(top_k=0, top_p=0.8, min_p=0.0),
    "min_p": SamplingParams(top_k=0, top_p=1.0, min_p=0.1),
    "penalties": SamplingParams(top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.5, presence_penalty=0.5),
}
PROMPT = [3, 7, 7, 12, 40]
# One chance in a thousand that any of them fails by bad luck; the seeds are fixed.
NUM_TESTS = len(TEMPERATURES) * len(SETTINGS) + 6
ALPHA = 0.001 / NUM_TESTS


def logits_of(seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(NUM_TOKENS) * 2).astype(np.float32)


def of(**probabilities: float) -> Distribution:
    ids = np.array([ord(name) for name in probabilities], np.int32)
    return Distribution(ids, np.array(list(probabilities.values())))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_tokens_are_distributed_as_wanted_when_the_draft_is_wrong(name: str, temperature: float):
    params = SamplingParams(**{field: getattr(SETTINGS[name], field) for field in FIELDS}, temperature=temperature)
    p = shuffled(expected_distribution(logits_of(1), params, PROMPT), 5)
    wrong = SamplingParams(top_k=20, top_p=0.9, min_p=0.0, temperature=0.8)
    q = shuffled(expected_distribution(logits_of(2) + 0.7 * logits_of(1), wrong), 6)
    drafts, rng = random.Random(f"draft {name} {temperature}"), random.Random(f"verify {name} {temperature}")
    accepted, found = 0, []
    for _ in range(NUM_DRAWS):
        token = drawn(q, drafts)
        found.append(verified(p, Proposal(token, q), rng))
        accepted += found[-1] == token
    assert chance_of(found, p) > ALPHA
    rate = overlap(p, q)
    assert 0.1 < rate < 0.9, "the draft is neither right nor useless"
    # A refused token cannot be drawn again: where p is larger than q, it is never refused.
    assert accepted / NUM_DRAWS == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / NUM_DRAWS))


FIELDS = ("top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty")


@pytest.mark.parametrize("rng", [random.Random(3), np.random.default_rng(3)], ids=["random", "numpy"])
@pytest.mark.parametrize("token", ["likely", "unlikely", "impossible"])
def test_tokens_are_distributed_as_wanted_when_the_drafter_is_certain(token: str, rng: Uniform):
    p = expected_distribution(logits_of(4), SamplingParams(top_k=8, top_p=1.0, min_p=0.0, temperature=1.0))
    other = next(token for token in range(NUM_TOKENS) if token not in p.ids)
    proposed = {"likely": int(p.ids[0]), "unlikely": int(p.ids[-1]), "impossible": other}[token]
    found = [verified(p, Proposal(proposed), rng) for _ in range(NUM_DRAWS)]
    assert chance_of(found, p) > ALPHA


@pytest.mark.parametrize("seed", range(2))
def test_tokens_are_distributed_as_wanted_when_whole_drafts_are_checked(seed: int):
    """Two tokens, the second depending on the first, with drafts that end where the drafter is unsure."""
    params = SamplingParams(top_k=5, top_p=1.0, min_p=0.0, temperature=1.0)
    p_first, q_first = (expected_distribution(logits_of(seed + extra), params) for extra in (10, 20))
    p_next = {t: expected_distribution(logits_of(100 + t) * 0.5, params) for t in range(NUM_TOKENS)}
    q_next = {t: expected_distribution(logits_of(100 + t) * 0.5 + logits_of(5), params) for t in range(NUM_TOKENS)}
    drafts, rng = random.Random(f"draft {seed}"), random.Random(f"verify {seed}")
    found = []
    for _ in range(NUM_DRAWS):
        draft = [Proposal(drawn(q_first, drafts), q_first)]
        second = q_next[draft[0].token]
        if second.probabilities.max() > 0.45:  # known before the token is
            draft.append(Proposal(drawn(second, drafts), second))
        first = verified(p_first, draft[0], rng)
        is_checked = first == draft[0].token and len(draft) > 1
        last = verified(p_next[first], draft[1], rng) if is_checked else drawn(p_next[first], rng)
        found.append(first * NUM_TOKENS + last)
    ids = [int(t) * NUM_TOKENS + p_next[int(t)].ids for t in p_first.ids]
    parts = [share * p_next[int(t)].probabilities for t, share in zip(p_first.ids, p_first.probabilities, strict=True)]
    joint = Distribution(np.concatenate(ids), np.concatenate(parts))
    assert chance_of(found, joint) > ALPHA


def test_everything_is_accepted_when_the_target_is_its_own_draft():
    p = expected_distribution(logits_of(7), SamplingParams(temperature=1.3))
    rng, drafts = random.Random(1), random.Random(2)
    for _ in range(2_000):
        proposal = Proposal(drawn(p, drafts), shuffled(p, 3))
        assert verified(p, proposal, rng) == proposal.token


def test_nothing_changes_when_the_draft_is_always_wrong():
    p = of(a=0.5, b=0.3, c=0.2)
    q = of(x=0.6, y=0.4)
    for proposal in (Proposal(ord("x"), q), Proposal(ord("y"), None), Proposal(-1, None)):
        plain, drafted = random.Random(5), random.Random(5)
        assert [drawn(p, plain) for _ in range(500)] == [verified(p, proposal, drafted) for _ in range(500)]


class Constant:
    """Gives the same number always."""

    def __init__(self, value: float) -> None:
        self.random: Callable[[], float] = lambda: value


ALMOST_ONE = math.nextafter(1.0, 0.0)


@pytest.mark.parametrize("value", [0.0, 0.5, ALMOST_ONE])
@pytest.mark.parametrize(
    "p",
    [of(a=1.0), of(a=0.0, b=1.0, c=0.0), of(a=1 / 3, b=1 / 3, c=1 / 3), of(a=1e-300, b=1.0), of(a=1.0, b=0.0)],
    ids=["one", "noughts", "thirds", "tiny", "nought last"],
)
def test_token_is_one_that_can_be_at_the_ends_of_the_random_numbers(p: Distribution, value: float):
    can_be = set(p.ids[p.probabilities > 0].tolist())
    rng = Constant(value)
    assert drawn(p, rng) in can_be
    for proposal in (Proposal(ord("a")), Proposal(ord("c")), Proposal(ord("a"), of(b=0.5, a=0.5)), Proposal(99, p)):
        assert verified(p, proposal, rng) in can_be


@pytest.mark.parametrize("value", [0.0, 0.2, 0.4999, 0.5, 0.7, ALMOST_ONE])
def test_draft_is_accepted_exactly_where_the_number_says(value: float):
    p, q = of(a=0.3, b=0.7), of(b=0.4, a=0.6)
    assert verified(p, Proposal(ord("a"), q), Constant(value)) == ord("a" if value < 0.5 else "b")
    assert verified(p, Proposal(ord("b"), q), Constant(value)) == ord("b")
    assert verified(p, Proposal(ord("a")), Constant(value)) == ord("a" if value < 0.3 else "b")


@pytest.mark.parametrize("source", [None, of(a=1.0), of(b=0.0, a=1.0)], ids=["certain", "alone", "nought beside"])
def test_token_is_drawn_from_all_when_rounding_leaves_nothing_else(source: Distribution | None):
    """Of one token nothing is left, but rounding can have it refused."""
    p = Distribution(np.array([ord("a")], np.int32), np.array([1.0 - 1e-16]))
    assert verified(p, Proposal(ord("a"), source), Constant(ALMOST_ONE)) == ord("a")


def test_probabilities_add_up_to_one_over_a_large_vocabulary():
    logits = np.random.default_rng(0).standard_normal(262_144).astype(np.float32) * 5
    logits[5] = -math.inf
    found = softmax(logits)
    assert found.dtype == np.float64
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert found[5] == 0.0
