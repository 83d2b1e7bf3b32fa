"""Samplers of requests: chains of llama.cpp's own, an argmax for plain greedy requests, rejection for drawn drafts."""

import ctypes
import math
import random
from collections.abc import Sequence

import numpy as np

from engine.backend import Proposal
from engine.backend_llama.chain import (
    CANDIDATE,
    Candidates,
    LogitSource,
    NativeChain,
    NumberCheck,
    not_numbers,
    nothing_left,
)
from engine.backend_llama.constrained import ConstrainedSampler
from engine.backend_llama.library import library
from engine.grammar import Indices, Matcher
from engine.params import SamplingParams
from engine.sampling import chain_of, selector_of
from engine.speculative.rejection import drawn, verified

# They correct themselves by what they chose: to choose twice for one token would mislead them.
_LEARNING_SELECTORS = frozenset({"mirostat", "mirostat_v2", "adaptive_p"})


class FreeSampler:
    """What the samplers of a reply have in common that has to follow nothing."""

    @property
    def is_complete(self) -> bool:
        """See Sampler."""
        return False

    def end_thinking(self) -> None:
        """See Sampler."""


class NativeSampler(FreeSampler):
    """One with a native chain."""

    _chain: NativeChain

    def accept(self, token: int) -> None:
        """See Chooser."""
        self._chain.accept(token)

    def close(self) -> None:
        """See Sampler."""
        self._chain.close()


class GreedySampler(FreeSampler):
    """Takes the likeliest token: an argmax over the logits where they are, a tenth of the chain's cost."""

    def __init__(self, source: LogitSource) -> None:
        self._source = source

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        """See Sampler."""
        return self.choose(row)

    def choose(self, row: int, allowed: Indices | None = None) -> int:
        """See Chooser."""
        logits = self._source.logits(row)
        token = int(logits.argmax())
        if math.isnan(logits[token]):  # argmax finds a NaN first
            raise not_numbers()
        return token if allowed is None else int(allowed[logits[allowed].argmax()])

    def accept(self, token: int) -> None:
        """See Chooser."""

    def close(self) -> None:
        """See Sampler."""


class ChainSampler(NativeSampler):
    """A native chain; always ends in a step that selects.

    Raises:
        InvalidParams: a logit bias names no token of this model.
    """

    def __init__(self, source: LogitSource, params: SamplingParams, seed: int, prompt: Sequence[int]) -> None:
        self._library = library()
        self._source = source
        self._numbers = NumberCheck()
        self._chain = NativeChain(source, params, seed, prompt)

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        """See Sampler; to draw and compare has the right distribution for any draft."""
        if not self._chain.is_plain:
            token = self.choose(row)
            self.accept(token)
            return token
        self._numbers.check(self._source, row)
        index = self._source.output_index(row)
        return int(self._library.llama_sampler_sample(self._chain.native, self._source.context, index))

    def choose(self, row: int, allowed: Indices | None = None) -> int:
        """See Chooser."""
        self._numbers.check(self._source, row)
        logits = self._source.logits(row)
        ids = np.arange(len(logits), dtype=np.int32) if allowed is None else allowed
        candidates = np.zeros(len(ids), CANDIDATE)
        candidates["id"], candidates["logit"] = ids, logits[ids]
        data = ctypes.cast(candidates.ctypes.data, self._library.llama_token_data_p)
        array = self._library.llama_token_data_array(data, len(ids), -1, False)
        self._chain.apply(ctypes.byref(array))
        if not 0 <= array.selected < array.size:
            raise nothing_left()
        return int(array.data[array.selected].id)


class RejectionSampler(NativeSampler):
    """Draws by rejection from what a native chain leaves, so that a drawn draft is refused as seldom as can be.

    Raises:
        InvalidParams: a logit bias names no token of this model.
    """

    def __init__(self, source: LogitSource, params: SamplingParams, seed: int, prompt: Sequence[int]) -> None:
        self._source = source
        self._numbers = NumberCheck()
        self._candidates = Candidates(source.n_vocab)
        self._chain = NativeChain(source, params, seed, prompt, selects=False)
        self._random = random.Random(f"verify {seed}")

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        """See Sampler."""
        self._numbers.check(self._source, row)
        wanted = self._candidates.filter(self._chain, self._source.logits(row))
        token = drawn(wanted, self._random) if proposal is None else verified(wanted, proposal, self._random)
        self.accept(token)
        return token


LlamaSampler = GreedySampler | ChainSampler | RejectionSampler | ConstrainedSampler


def new_sampler(
    source: LogitSource,
    params: SamplingParams,
    seed: int,
    prompt: Sequence[int],
    *,
    matcher: Matcher | None = None,
    is_thinking: bool = False,
    is_drafted: bool = False,
) -> LlamaSampler:
    """Return the cheapest sampler for these settings.

    Args:
        matcher: what the reply has to follow, with all that is there of it taken in.
        is_thinking: whether the matcher has to wait for `end_thinking`.
        is_drafted: see Backend; selectors that correct themselves, and constraints, draw and compare.
    """
    if is_drafted and matcher is None and selector_of(params).name == "dist":
        return RejectionSampler(source, params, seed, prompt)
    sampler: GreedySampler | ChainSampler
    if params.temperature == 0.0 and not chain_of(params) and not params.logit_bias:
        sampler = GreedySampler(source)
    else:
        sampler = ChainSampler(source, params, seed, prompt)
    if matcher is None:
        return sampler
    selector = selector_of(params).name
    return ConstrainedSampler(sampler, matcher, asks_first=selector not in _LEARNING_SELECTORS, is_thinking=is_thinking)
