"""Sampler chains from SAMPLER_STEPS: llama.cpp's own samplers, and an argmax for plain greedy requests."""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from engine.backend_llama.library import library
from engine.errors import DecodeFailed
from engine.params import SamplingParams
from engine.sampling import chain_of

# Dividing by less overflows a float32; such a temperature is greedy anyway.
_MIN_TEMPERATURE = 1e-3


class LogitSource(Protocol):
    """Where a sampler finds the logits of the last step."""

    context: Any
    n_vocab: int

    def output_index(self, row: int) -> int:
        """Return llama.cpp's index of a row's logits."""

    def logits(self, row: int) -> npt.NDArray[np.float32]:
        """Return the logits of a row, shape (n_vocab,), valid until the next step."""


# A builder gets the number of tokens in the vocabulary, then the step's arguments.
_BUILDERS: dict[str, Callable[..., Any]] = {
    "penalties": lambda n_vocab, last_n, repeat: library().llama_sampler_init_penalties(
        n_vocab, int(last_n), repeat, 0.0, 0.0
    ),
    "top_k": lambda _, k: library().llama_sampler_init_top_k(int(k)),
    "top_p": lambda _, p: library().llama_sampler_init_top_p(p, 1),
    "min_p": lambda _, p: library().llama_sampler_init_min_p(p, 1),
    "temperature": lambda _, t: library().llama_sampler_init_temp(max(t, _MIN_TEMPERATURE)),
}


class GreedySampler:
    """Takes the likeliest token: an argmax over the logits where they are, a tenth of the chain's cost."""

    def __init__(self, source: LogitSource) -> None:
        self._source = source

    def sample(self, row: int) -> int:
        """See Sampler."""
        logits = self._source.logits(row)
        token = int(logits.argmax())
        if math.isnan(logits[token]):  # argmax finds a NaN first
            raise _not_numbers()
        return token

    def close(self) -> None:
        """See Sampler."""


class ChainSampler:
    """A native chain; always ends in a step that selects."""

    def __init__(self, source: LogitSource, params: SamplingParams, seed: int, prompt: Sequence[int]) -> None:
        self._library = library()
        self._source = source
        self._has_checked = False
        self._chain = self._library.llama_sampler_chain_init(self._library.llama_sampler_chain_default_params())
        for step in chain_of(params):
            self._add(_BUILDERS[step.name](source.n_vocab, *step.arguments(params)))
        if params.temperature == 0.0:
            self._add(self._library.llama_sampler_init_greedy())
        else:
            self._add(self._library.llama_sampler_init_dist(seed))
        if params.repeat_penalty != 1.0 and params.repeat_last_n > 0:
            for token in prompt[-params.repeat_last_n :]:
                self._library.llama_sampler_accept(self._chain, token)

    def sample(self, row: int) -> int:
        """See Sampler."""
        if not self._has_checked:  # a broken file shows at once; the native chain would pick the last token
            if np.isnan(self._source.logits(row).max()):
                raise _not_numbers()
            self._has_checked = True
        index = self._source.output_index(row)
        token: int = self._library.llama_sampler_sample(self._chain, self._source.context, index)
        return token

    def close(self) -> None:
        """See Sampler."""
        if self._chain:
            self._library.llama_sampler_free(self._chain)
            self._chain = None

    def _add(self, step: Any) -> None:
        if not step:  # adding a null pointer crashes
            raise DecodeFailed("A sampler could not be made.", "Reset the sampling settings.")
        self._library.llama_sampler_chain_add(self._chain, step)


def new_sampler(
    source: LogitSource, params: SamplingParams, seed: int, prompt: Sequence[int]
) -> GreedySampler | ChainSampler:
    """Return the cheapest sampler for these settings."""
    if params.temperature == 0.0 and not chain_of(params):
        return GreedySampler(source)
    return ChainSampler(source, params, ctypes.c_uint32(seed).value, prompt)


def _not_numbers() -> DecodeFailed:
    return DecodeFailed(
        "The model computed values that are not numbers.", "The file may be damaged: download it again."
    )
