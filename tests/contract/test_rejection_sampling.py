"""Samplers of llama.cpp under drafts: the distribution is that of their settings, whatever is proposed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backend import Distribution, Proposal
from engine.backend_llama.context import LlamaBackend
from engine.backend_llama.draft_sampler import new_draft_sampler
from engine.backend_llama.sampler import new_sampler
from engine.errors import DecodeFailed, InvalidParams
from engine.grammar import TokenTable, new_matcher
from engine.params import ModelParams, SamplingParams
from engine.speculative.draft_model import ModelDrafter, check_vocabulary
from tests.support.cold_check import load_llama
from tests.support.distributions import chance_of, expected_distribution
from tests.support.gguf_files import write_tiny_model
from tests.support.rejection_draws import NUM_DRAWS, PROMPT, SETTINGS, assert_distributed, load_pair, read

# The whole grid of settings and temperatures is drawn in the soak runs.
DRAWN = [(0.5, "top_k"), (1.0, "top_p"), (1.5, "min_p"), (0.5, "penalties"), (1.5, "penalties")]
ALPHA = 0.001 / (2 * len(DRAWN) + 2)
UNCHANGED: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LlamaBackend, LlamaBackend]]:
    """Return a random model and another one to draft for it."""
    loaded = load_pair(tmp_path_factory.mktemp("models"))
    yield loaded
    for backend in loaded:
        backend.close()


@pytest.fixture
def target(models: tuple[LlamaBackend, LlamaBackend]) -> LlamaBackend:
    return read(models[0])


@pytest.fixture
def draft(models: tuple[LlamaBackend, LlamaBackend]) -> LlamaBackend:
    return read(models[1])


@pytest.mark.parametrize(("temperature", "name"), DRAWN)
def test_tokens_are_distributed_by_the_settings_when_another_model_drafts(
    target: LlamaBackend, draft: LlamaBackend, name: str, temperature: float
) -> None:
    assert_distributed(target, draft, SamplingParams(temperature=temperature, **SETTINGS[name]), alpha=ALPHA)


@pytest.mark.parametrize("settings", [UNCHANGED, SETTINGS["top_k"]], ids=["nothing cut", "top_k"])
def test_tokens_are_distributed_by_the_settings_when_a_drafter_is_certain(
    target: LlamaBackend, settings: dict[str, Any]
) -> None:
    params = SamplingParams(**{"temperature": 1.0, **settings})
    p = expected_distribution(target.logits(0), params)
    likely = int(p.ids[0])
    sampler = target.new_sampler(params, 3, PROMPT, is_drafted=True)
    found = [sampler.sample(0, Proposal(likely if number % 2 else 77)) for number in range(NUM_DRAWS)]
    sampler.close()
    assert chance_of(found, p) > ALPHA


@pytest.mark.parametrize("name", ["top_k", "top_p", "min_p"])
def test_everything_is_accepted_when_the_target_is_its_own_draft(target: LlamaBackend, name: str) -> None:
    params = SamplingParams(temperature=1.2, **{**SETTINGS[name], "top_k": 30})
    sampler, drafter = (
        target.new_sampler(params, 9, PROMPT, is_drafted=True),
        target.new_draft_sampler(params, 9),
    )
    for _ in range(500):
        drafter.look(0)
        proposal = drafter.draw()
        assert sampler.sample(0, proposal) == proposal.token
    sampler.close()
    drafter.close()


def impossible(target: LlamaBackend, params: SamplingParams) -> Proposal:
    kept = set(expected_distribution(target.logits(0), params).ids.tolist())
    others = np.array([token for token in range(target.n_vocab) if token not in kept][:5], np.int32)
    return Proposal(int(others[0]), Distribution(others, np.full(len(others), 1 / len(others))))


def test_nothing_changes_when_the_draft_is_always_wrong(target: LlamaBackend) -> None:
    params = SamplingParams(top_k=10)
    wrong = impossible(target, params)
    plain, drafted = (target.new_sampler(params, 4, PROMPT, is_drafted=True) for _ in range(2))
    for _ in range(300):
        assert drafted.sample(0, wrong) == plain.sample(0)
    plain.close()
    drafted.close()


LEARNING: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.0, "repeat_penalty": 1.3},
    {"mirostat": 1},
    {"mirostat": 2},
    {"adaptive_target": 0.3},
    {"grammar": "root ::= [a-z ]+"},
    {"grammar": "root ::= [a-z ]+", "temperature": 0.0},
]


@pytest.mark.parametrize("settings", LEARNING, ids=str)
def test_tokens_are_drawn_and_compared_where_rejection_does_not_apply(
    target: LlamaBackend, settings: dict[str, Any]
) -> None:
    params = SamplingParams(**settings)
    wrong = impossible(target, SamplingParams())

    def replies(proposal: Proposal | None, *, is_drafted: bool) -> list[int]:
        matcher = new_matcher(params, TokenTable(target.vocabulary))
        sampler = target.new_sampler(params, 4, PROMPT, matcher=matcher, is_drafted=is_drafted)
        try:
            return [sampler.sample(0, proposal) for _ in range(40)]
        finally:
            sampler.close()

    expected = replies(None, is_drafted=False)
    assert replies(None, is_drafted=True) == expected
    assert replies(wrong, is_drafted=True) == expected
    drafter = target.new_draft_sampler(params, 4)
    confidence = drafter.look(0)
    logits = target.logits(0).astype(np.float64)
    weights = np.exp(logits - logits.max())
    assert confidence == pytest.approx(1 / weights.sum(), rel=1e-4)
    assert drafter.draw() == Proposal(int(logits.argmax()))
    drafter.close()


def test_plain_requests_draw_as_ever_whatever_is_proposed(target: LlamaBackend) -> None:
    params = SamplingParams()
    plain, other = (target.new_sampler(params, 4, PROMPT) for _ in range(2))
    wrong = impossible(target, params)
    assert [plain.sample(0) for _ in range(50)] == [other.sample(0, wrong) for _ in range(50)]
    plain.close()
    other.close()


def test_penalties_see_accepted_tokens_in_their_order(target: LlamaBackend) -> None:
    params = SamplingParams(
        **{**UNCHANGED, "temperature": 0.01}, repeat_penalty=1.0, frequency_penalty=2.0, repeat_last_n=3
    )
    sampler = target.new_sampler(params, 1, PROMPT, is_drafted=True)
    said = [*PROMPT]
    for number in range(40):
        p = expected_distribution(target.logits(0), params, said)
        likeliest = int(p.ids[0])
        # Proposed rightly, wrongly or not at all: what was taken is what the next row is judged by.
        proposal = (Proposal(likeliest), Proposal(likeliest, p), Proposal(77), None)[number % 4]
        token = sampler.sample(0, proposal)
        assert p.probabilities[p.ids.tolist().index(token)] > 1e-6
        said.append(token)
    assert len(set(said[len(PROMPT) :])) == 3, "each of the latest two is unlikely"
    sampler.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"repeat_penalty": 0.5, "repeat_last_n": 1},
        {"top_k": 1_000_000, "top_p": 0.0, "min_p": 1.0},
        {**UNCHANGED, "temperature": 100},
        {**UNCHANGED, "temperature": 1e-30},
        {"dynatemp_range": 10.0, "dynatemp_exponent": 0.01},
        {"typical_p": 0.0},
        {"typical_p": 0.5, "top_k": 0},
        {"top_n_sigma": 0.01},
        {"xtc_probability": 1.0, "xtc_threshold": 0.0},
        {"dry_multiplier": 100.0, "dry_base": 1.0, "dry_allowed_length": 1, "dry_last_n": 65_536},
        {"frequency_penalty": -2.0, "presence_penalty": 2.0},
        {"logit_bias": ((5, 1000.0), (6, -1000.0))},
        {"samplers": ("temperature", "xtc", "min_p", "top_k", "dry", "penalties"), "xtc_probability": 0.5},
    ],
    ids=str,
)
def test_every_step_of_the_chain_leaves_tokens_to_draw(target: LlamaBackend, settings: dict[str, Any]) -> None:
    params = SamplingParams(**settings)
    sampler, drafter = target.new_sampler(params, 7, PROMPT, is_drafted=True), target.new_draft_sampler(params, 7)
    for _ in range(20):
        assert 0.0 < drafter.look(0) <= 1.0
        proposal = drafter.draw()
        assert proposal.source is not None
        assert proposal.source.probabilities.sum() == pytest.approx(1.0)
        assert len(proposal.source.ids) <= 40
        assert 0 <= sampler.sample(0, proposal) < target.n_vocab
    sampler.close()
    drafter.close()


def test_unwanted_token_is_never_taken_when_a_bias_forbids_it(target: LlamaBackend) -> None:
    likeliest = int(target.logits(0).argmax())
    params = SamplingParams(**UNCHANGED, logit_bias=((likeliest, -1000.0),))
    sampler = target.new_sampler(params, 1, PROMPT, is_drafted=True)
    assert likeliest not in {sampler.sample(0, Proposal(likeliest)) for _ in range(300)}
    sampler.close()
    with pytest.raises(InvalidParams):
        target.new_sampler(SamplingParams(logit_bias=((target.n_vocab, 1.0),)), 1, PROMPT, is_drafted=True)


def test_tokens_beyond_those_of_the_target_are_never_drafted(target: LlamaBackend) -> None:
    likeliest = int(target.logits(0).argmax())
    for params in (SamplingParams(temperature=0), SamplingParams(**{**UNCHANGED, "temperature": 5.0})):
        drafter = target.new_draft_sampler(params, 1, num_ids=likeliest)
        for _ in range(100):
            drafter.look(0)
            proposal = drafter.draw()
            assert proposal.token < likeliest
            assert proposal.source is None or proposal.source.ids.max() < likeliest
        drafter.close()


class NoNumbers:
    """A model whose weights are broken."""

    def __init__(self, real: LlamaBackend) -> None:
        self.context, self.vocab, self.n_vocab = real.context, real.vocab, real.n_vocab
        self.vocabulary = real.vocabulary

    def output_index(self, row: int) -> int:
        """See LogitSource."""
        return row

    def logits(self, row: int) -> np.ndarray:
        """See LogitSource."""
        return np.full(self.n_vocab, np.nan, np.float32)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_broken_weights_are_told_when_their_logits_are_no_numbers(target: LlamaBackend, temperature: float) -> None:
    params, broken = SamplingParams(temperature=temperature), NoNumbers(target)
    drafter, sampler = new_draft_sampler(broken, params, 1, 50), new_sampler(broken, params, 1, [], is_drafted=True)
    with pytest.raises(DecodeFailed, match="not numbers"):
        drafter.look(0)
    with pytest.raises(DecodeFailed, match="not numbers"):
        sampler.sample(0)
    drafter.close()
    sampler.close()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_draft_model_follows_its_target_through_refusals(
    target: LlamaBackend, draft: LlamaBackend, temperature: float
) -> None:
    """What it says after any past is what it says when it reads the same anew."""
    check_vocabulary(target.vocabulary, draft.vocabulary)
    draft.seq_rm(0, 0)
    drafter = ModelDrafter(draft, vocabulary_size=target.n_vocab)
    tokens, rng = [*PROMPT], np.random.default_rng(2)
    params = SamplingParams(temperature=temperature)
    for number in range(12):
        proposals = drafter.draft(
            0, tokens, max_tokens=4, goes_on=lambda *_: True, sampler=drafter.new_sampler(params, number)
        )
        held = draft.seq_len(0)
        assert held == len(tokens) + 3
        drafter.forget(0)
        again = drafter.draft(
            0, tokens, max_tokens=4, goes_on=lambda *_: True, sampler=drafter.new_sampler(params, number)
        )
        assert [proposal.token for proposal in again] == [proposal.token for proposal in proposals]
        num_accepted = int(rng.integers(0, 5))
        tokens += [*(proposal.token for proposal in proposals[:num_accepted]), int(rng.integers(4, 200))]
        assert drafter.num_behind(0, tokens) == (1 if num_accepted == 4 else 0)
    drafter.forget(0)


@pytest.mark.allow_log("the draft model failed")
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_nothing_is_drafted_when_the_sampler_is_that_of_a_model_that_is_gone(
    draft: LlamaBackend, tmp_path: Path, temperature: float
) -> None:
    gone = read(load_llama(write_tiny_model(tmp_path / "gone.gguf"), ModelParams(n_ctx=256, n_threads=1)))
    sampler = gone.new_draft_sampler(SamplingParams(temperature=temperature), 1)
    sampler.look(0)
    gone.close()
    draft.seq_rm(0, 0)
    drafter = ModelDrafter(draft, vocabulary_size=draft.n_vocab)
    assert drafter.draft(0, PROMPT, max_tokens=3, goes_on=lambda *_: True, sampler=sampler) == []
    sampler.close()
