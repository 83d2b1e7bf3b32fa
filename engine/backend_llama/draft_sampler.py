"""How a draft model's tokens are chosen: what the request would do with them, as far as one row tells."""

import math
import random

import numpy as np

from engine.backend import Distribution, DraftSampler, Proposal
from engine.backend_llama.chain import Candidates, LogitSource, NativeChain, not_numbers
from engine.params import SamplingParams
from engine.sampling import selector_of
from engine.speculative.rejection import drawn

_MAX_TOP_K = 40  # what is drawn from is kept for each token


class LikeliestDraft:
    """Proposes the likeliest token, which is certain: best where the reply is greedy, or drawn and compared."""

    def __init__(self, source: LogitSource, num_ids: int) -> None:
        self._source = source
        self._num_ids = num_ids
        self._weights = np.empty(num_ids, np.float32)
        self._token: int | None = None

    def look(self, row: int) -> float:
        """See DraftSampler."""
        logits = self._source.logits(row)[: self._num_ids]
        self._token = int(logits.argmax())
        most = logits[self._token]
        if not math.isfinite(most):  # argmax finds a NaN first
            raise not_numbers()
        np.subtract(logits, most, out=self._weights)
        np.exp(self._weights, out=self._weights)
        return 1.0 / float(self._weights.sum())

    def draw(self) -> Proposal:
        """See DraftSampler."""
        assert self._token is not None, "nothing was looked at"
        return Proposal(self._token)

    def close(self) -> None:
        """See DraftSampler."""


class DrawnDraft:
    """Proposes tokens drawn from the likeliest ones, with the request's temperature and filters.

    What it draws from is near to what the reply is drawn from: the nearer, the more are accepted.
    """

    def __init__(self, source: LogitSource, params: SamplingParams, seed: int, num_ids: int) -> None:
        self._source = source
        self._candidates = Candidates(num_ids)
        kept = SamplingParams(
            temperature=params.temperature,
            top_k=min(params.top_k or _MAX_TOP_K, _MAX_TOP_K),
            top_p=params.top_p,
            min_p=params.min_p,
        )
        self._chain = NativeChain(source, kept, seed, (), selects=False)
        self._random = random.Random(f"draft {seed}")  # not the stream that verifies what it draws
        self._row: Distribution | None = None

    def look(self, row: int) -> float:
        """See DraftSampler."""
        self._row = self._candidates.filter(self._chain, self._source.logits(row))
        return float(self._row.probabilities.max())

    def draw(self) -> Proposal:
        """See DraftSampler."""
        assert self._row is not None, "nothing was looked at"
        return Proposal(drawn(self._row, self._random), self._row)

    def close(self) -> None:
        """See DraftSampler."""
        self._chain.close()


def new_draft_sampler(source: LogitSource, params: SamplingParams, seed: int, num_ids: int) -> DraftSampler:
    """Return what drafts for these settings."""
    is_compared = params.grammar is not None or params.json_schema is not None
    if is_compared or selector_of(params).name != "dist":
        return LikeliestDraft(source, num_ids)
    return DrawnDraft(source, params, seed, num_ids)
