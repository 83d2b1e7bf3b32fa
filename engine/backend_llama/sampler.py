"""Sampler chains from SAMPLER_STEPS: llama.cpp's own samplers, and an argmax for plain greedy requests."""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from engine.backend import Proposal
from engine.backend_llama.constrained import ConstrainedSampler
from engine.backend_llama.library import library
from engine.errors import DecodeFailed, InvalidParams
from engine.grammar import Indices, Matcher
from engine.params import SamplingParams
from engine.sampling import chain_of, num_remembered, selector_of

# Dividing by less overflows a float32; such a temperature is greedy anyway.
_MIN_TEMPERATURE = 1e-3
_MIROSTAT_M = 100  # tokens its estimate looks at, as in the paper
_DRY_BREAKERS = (b"\n", b":", b'"', b"*")  # llama.cpp's own: a repeated sequence ends there

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data
# They correct themselves by what they chose: to choose twice for one token would mislead them.
_LEARNING_SELECTORS = frozenset({"mirostat", "mirostat_v2", "adaptive_p"})


class LogitSource(Protocol):
    """Where a sampler finds the logits of the last step."""

    context: Any
    vocab: Any
    n_vocab: int

    def output_index(self, row: int) -> int:
        """Return llama.cpp's index of a row's logits."""

    def logits(self, row: int) -> npt.NDArray[np.float32]:
        """Return the logits of a row, shape (n_vocab,), valid until the next step."""


class _Site(NamedTuple):
    """What a builder may need beside a step's arguments."""

    vocab: Any
    n_vocab: int
    seed: int


def _penalties(site: _Site, last_n: float, repeat: float, frequency: float, presence: float) -> Any:
    return library().llama_sampler_init_penalties(site.n_vocab, int(last_n), repeat, frequency, presence)


def _dry(site: _Site, multiplier: float, base: float, allowed_length: float, last_n: float) -> Any:
    breakers = (ctypes.c_char_p * len(_DRY_BREAKERS))(*_DRY_BREAKERS)
    return library().llama_sampler_init_dry(
        site.vocab, multiplier, base, int(allowed_length), int(last_n), breakers, len(_DRY_BREAKERS)
    )


def _temperature(site: _Site, temperature: float, delta: float, exponent: float) -> Any:
    temperature = max(temperature, _MIN_TEMPERATURE)
    if delta > 0.0:
        return library().llama_sampler_init_temp_ext(temperature, delta, exponent)
    return library().llama_sampler_init_temp(temperature)


_BUILDERS: dict[str, Callable[..., Any]] = {
    "penalties": _penalties,
    "dry": _dry,
    "top_n_sigma": lambda site, n: library().llama_sampler_init_top_n_sigma(n),
    "top_k": lambda site, k: library().llama_sampler_init_top_k(int(k)),
    "typical_p": lambda site, p: library().llama_sampler_init_typical(p, 1),
    "top_p": lambda site, p: library().llama_sampler_init_top_p(p, 1),
    "min_p": lambda site, p: library().llama_sampler_init_min_p(p, 1),
    "xtc": lambda site, p, threshold: library().llama_sampler_init_xtc(p, threshold, 1, site.seed),
    "temperature": _temperature,
    "greedy": lambda site: library().llama_sampler_init_greedy(),
    "dist": lambda site: library().llama_sampler_init_dist(site.seed),
    "mirostat": lambda site, tau, eta: library().llama_sampler_init_mirostat(
        site.n_vocab, site.seed, tau, eta, _MIROSTAT_M
    ),
    "mirostat_v2": lambda site, tau, eta: library().llama_sampler_init_mirostat_v2(site.seed, tau, eta),
    "adaptive_p": lambda site, target, decay: library().llama_sampler_init_adaptive_p(target, decay, site.seed),
}


class GreedySampler:
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
            raise _not_numbers()
        return token if allowed is None else int(allowed[logits[allowed].argmax()])

    def accept(self, token: int) -> None:
        """See Chooser."""

    @property
    def is_complete(self) -> bool:
        """See Sampler."""
        return False

    def end_thinking(self) -> None:
        """See Sampler."""

    def close(self) -> None:
        """See Sampler."""


class ChainSampler:
    """A native chain; always ends in a step that selects.

    Raises:
        InvalidParams: a logit bias names no token of this model.
    """

    def __init__(self, source: LogitSource, params: SamplingParams, seed: int, prompt: Sequence[int]) -> None:
        self._library = library()
        self._source = source
        self._has_checked = False
        site = _Site(source.vocab, source.n_vocab, seed)
        biases = self._biases(params, source.n_vocab)
        self._chain = self._library.llama_sampler_chain_init(self._library.llama_sampler_chain_default_params())
        if biases is not None:
            self._add(self._library.llama_sampler_init_logit_bias(source.n_vocab, len(biases), biases))
        for step in chain_of(params):
            self._add(_BUILDERS[step.name](site, *step.arguments(params)))
        # Before the selector is there: it would take the prompt for its own choices.
        if (window := num_remembered(params)) > 0:
            for token in prompt[-window:]:
                self._library.llama_sampler_accept(self._chain, token)
        selector = selector_of(params)
        self._add(_BUILDERS[selector.name](site, *selector.arguments(params)))

    def _biases(self, params: SamplingParams, n_vocab: int) -> Any:
        if not params.logit_bias:
            return None
        biases = (self._library.llama_logit_bias * len(params.logit_bias))()
        for entry, (token, bias) in zip(biases, params.logit_bias, strict=True):
            if token >= n_vocab:
                raise InvalidParams(f"A logit bias names token {token}.", f"This model has {n_vocab} tokens.")
            entry.token, entry.bias = token, bias
        return biases

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        """See Sampler."""
        self._check(row)
        index = self._source.output_index(row)
        token: int = self._library.llama_sampler_sample(self._chain, self._source.context, index)
        return token

    def choose(self, row: int, allowed: Indices | None = None) -> int:
        """See Chooser."""
        self._check(row)
        logits = self._source.logits(row)
        ids = np.arange(len(logits), dtype=np.int32) if allowed is None else allowed
        candidates = np.zeros(len(ids), _CANDIDATE)
        candidates["id"], candidates["logit"] = ids, logits[ids]
        data = ctypes.cast(candidates.ctypes.data, self._library.llama_token_data_p)
        array = self._library.llama_token_data_array(data, len(ids), -1, False)
        self._library.llama_sampler_apply(self._chain, ctypes.byref(array))
        if not 0 <= array.selected < array.size:
            raise DecodeFailed("The sampling settings leave no token to choose.", "Reset the sampling settings.")
        return int(array.data[array.selected].id)

    def accept(self, token: int) -> None:
        """See Chooser."""
        self._library.llama_sampler_accept(self._chain, token)

    @property
    def is_complete(self) -> bool:
        """See Sampler."""
        return False

    def end_thinking(self) -> None:
        """See Sampler."""

    def close(self) -> None:
        """See Sampler."""
        if self._chain:
            self._library.llama_sampler_free(self._chain)
            self._chain = None

    def _check(self, row: int) -> None:
        if not self._has_checked:  # a broken file shows at once; the native chain would pick the last token
            if np.isnan(self._source.logits(row).max()):
                raise _not_numbers()
            self._has_checked = True

    def _add(self, step: Any) -> None:
        if not step:  # adding a null pointer crashes
            raise DecodeFailed("A sampler could not be made.", "Reset the sampling settings.")
        self._library.llama_sampler_chain_add(self._chain, step)


LlamaSampler = GreedySampler | ChainSampler | ConstrainedSampler


def new_sampler(
    source: LogitSource,
    params: SamplingParams,
    seed: int,
    prompt: Sequence[int],
    *,
    matcher: Matcher | None = None,
    is_thinking: bool = False,
) -> LlamaSampler:
    """Return the cheapest sampler for these settings.

    Args:
        matcher: what the reply has to follow, with all that is there of it taken in.
        is_thinking: whether the matcher has to wait for `end_thinking`.
    """
    sampler: GreedySampler | ChainSampler
    if params.temperature == 0.0 and not chain_of(params) and not params.logit_bias:
        sampler = GreedySampler(source)
    else:
        sampler = ChainSampler(source, params, ctypes.c_uint32(seed).value, prompt)
    if matcher is None:
        return sampler
    selector = selector_of(params).name
    return ConstrainedSampler(sampler, matcher, asks_first=selector not in _LEARNING_SELECTORS, is_thinking=is_thinking)


def _not_numbers() -> DecodeFailed:
    return DecodeFailed(
        "The model computed values that are not numbers.", "The file may be damaged: download it again."
    )
