"""Draws many short replies of an engine that drafts, and tests how whole replies are distributed.

The draft model is the model itself with other settings: its drafts are right often enough to be accepted, wrong often
enough to be refused, and now and then the token that ends a reply, which the model is forbidden.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from engine.backend import BatchPart, Distribution, DraftSampler
from engine.core import Engine
from engine.messages import Event, Finished
from engine.params import DraftMode, ModelParams, SamplingParams, SpeculativeParams
from engine.sequence import Prompt
from engine.speculative.draft_model import ModelDrafter
from tests.support.cold_check import EXACT, load_llama
from tests.support.distributions import chance_of, expected_distribution
from tests.support.eager_referee import EagerReferee
from tests.support.gguf_files import write_tiny_model

NUM_TOKENS = 4  # of a reply
_PROMPT = [30, 41, 30, 52, 63, 41, 30, 99]
_WRONG = SamplingParams(temperature=2.0, top_k=6, top_p=1.0, min_p=0.0)
_SURE = 0.3


class _WrongDrafter(ModelDrafter):
    def new_sampler(self, params: SamplingParams, seed: int) -> DraftSampler:
        return super().new_sampler(_WRONG, seed)


class _WaryReferee(EagerReferee):
    """Ends a draft where the draft model is not sure, before the token is drawn."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turns = itertools.cycle((3, 2))

    def goes_on(self, place: int, confidence: float | None = None) -> bool:
        """See Referee."""
        return confidence is not None and (place == 0 or confidence > _SURE)


def check_replies(
    folder: Path, params: SamplingParams, *, num_replies: int, alpha: float, num_at_once: int = 1
) -> float:
    """Test how the replies of one prompt are distributed; return the share of drafted tokens that were accepted.

    Args:
        num_at_once: replies that are written, and drafted for, in common steps.
    """
    path = write_tiny_model(folder / "tiny.gguf", seed=1)
    settings = ModelParams(n_ctx=256, n_seq_max=max(num_at_once, 2), **EXACT)
    target, draft = load_llama(path, settings), load_llama(path, settings)
    biases = tuple((token, -1000.0) for token in sorted(target.vocabulary.end_ids))
    params = msgspec.structs.replace(params, max_tokens=NUM_TOKENS, logit_bias=biases)
    expected = _joint(target, params)
    engine = Engine(target)
    engine.speculator.referee = _WaryReferee
    engine.speculator.set_model(_WrongDrafter(draft, vocabulary_size=target.n_vocab))
    try:
        found = list(_replies(engine, params, num_replies, num_at_once))
    finally:
        engine.close()
    assert chance_of((_number(reply.token_ids, target.n_vocab) for reply in found), expected) > alpha
    stats = [reply.speculative for reply in found if reply.speculative is not None]
    assert len(stats) == num_replies
    return sum(item.num_accepted_tokens for item in stats) / sum(item.num_drafted_tokens for item in stats)


def _replies(engine: Engine, params: SamplingParams, count: int, num_at_once: int) -> Iterator[Finished]:
    for first in range(0, count, num_at_once):
        seeds = range(first, min(first + num_at_once, count))
        events: list[Event] = []
        for seed in seeds:
            prompt = Prompt(
                request_id=str(seed),
                tokens=[*_PROMPT],
                sampling=params,
                seed=seed,
                received_at=0.0,
                speculative=SpeculativeParams(mode=DraftMode.MODEL),
            )
            events += engine.add(prompt)
        while engine.has_requests:
            events += engine.step()
        replies = [event for event in events if isinstance(event, Finished)]
        assert len(replies) == len(seeds)
        yield from replies


def _joint(backend: Any, params: SamplingParams) -> Distribution:
    """Return the distribution of whole replies, worked out from the logits of every beginning."""
    ids, probabilities = [], []
    beginnings: list[tuple[list[int], float]] = [([], 1.0)]
    while beginnings:
        said, share = beginnings.pop()
        backend.seq_rm(0, 0)
        backend.decode([BatchPart(0, 0, [*_PROMPT, *said], wants_logits=True)])
        logits = backend.logits(0).copy()
        for token, bias in params.logit_bias:
            logits[token] += bias
        p = expected_distribution(logits, params, [*_PROMPT, *said])
        for token, probability in zip(p.ids.tolist(), p.probabilities.tolist(), strict=True):
            if len(said) + 1 < NUM_TOKENS:
                beginnings.append(([*said, token], share * probability))
            else:
                ids.append(_number([*said, token], backend.n_vocab))
                probabilities.append(share * probability)
    backend.seq_rm(0, 0)
    return Distribution(np.array(ids), np.array(probabilities))


def _number(tokens: Sequence[int], n_vocab: int) -> int:
    number = 0
    for token in tokens:
        number = number * n_vocab + token
    return number
