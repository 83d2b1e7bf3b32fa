"""Rejection sampling: a token of a wanted distribution that is, as often as can be, one drawn from another.

Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding", 2023, algorithm 1.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.backend import Distribution, Proposal


class Uniform(Protocol):
    """Where numbers come from: `random.Random` or a generator of numpy.

    Drafts must be drawn from another stream than the one that verifies them.
    """

    def random(self) -> float:
        """Return a number drawn evenly from 0 to 1, 1 not included."""


def verified(p: Distribution, proposal: Proposal, rng: Uniform) -> int:
    """Return a token with the distribution `p`; it is the proposed one with probability sum(min(p, q)).

    Args:
        p: what is wanted.
        proposal: drawn from its source q; a certain one is as if q were all there.
    """
    token, source = proposal
    wanted = _probability(p, token)
    drafted = 1.0 if source is None else _probability(source, token)
    if wanted > 0.0 and rng.random() * drafted < wanted:
        return token
    residual = _without_token(p, token) if source is None else _without(p, source)
    return _drawn(p.ids, residual if residual.any() else p.probabilities, rng)


def drawn(p: Distribution, rng: Uniform) -> int:
    """Return a token drawn from `p`."""
    return _drawn(p.ids, p.probabilities, rng)


def softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the probabilities of logits; computed with 64 bits, so that they add up to 1 over any vocabulary."""
    weights = logits.astype(np.float64)
    weights -= weights.max()
    np.exp(weights, out=weights)
    weights /= weights.sum()
    return weights


def _probability(p: Distribution, token: int) -> float:
    at = np.flatnonzero(p.ids == token)
    return float(p.probabilities[at[0]]) if len(at) else 0.0


def _without_token(p: Distribution, token: int) -> npt.NDArray[np.float64]:
    return np.where(p.ids == token, 0.0, p.probabilities)


def _without(p: Distribution, q: Distribution) -> npt.NDArray[np.float64]:
    """Return the positive part of p - q for the tokens of p, which come in another order there."""
    order = np.argsort(q.ids)
    ids, probabilities = q.ids[order], q.probabilities[order]
    at = np.minimum(np.searchsorted(ids, p.ids), len(ids) - 1)
    taken = np.where(ids[at] == p.ids, probabilities[at], 0.0)
    return np.maximum(p.probabilities - taken, 0.0)


def _drawn(ids: npt.NDArray[np.int32], weights: npt.NDArray[np.float64], rng: Uniform) -> int:
    sums = np.cumsum(weights)
    # The first whose sum is beyond the number: one of no weight never is.
    at = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
    if at == len(ids):  # the product was rounded up to the whole sum
        at = int(np.flatnonzero(weights)[-1])
    return int(ids[at])
