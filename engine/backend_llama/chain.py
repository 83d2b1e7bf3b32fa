"""Chains of llama.cpp's own samplers, made from SAMPLER_STEPS, and the candidates they work on."""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from engine.backend import Distribution
from engine.backend_llama.library import library
from engine.backend_llama.vocabulary import LlamaVocabulary
from engine.errors import DecodeFailed, InvalidParams
from engine.params import SamplingParams
from engine.sampling import chain_of, num_remembered, selector_of
from engine.speculative.rejection import softmax

# Dividing by less overflows a float32; such a temperature is greedy anyway.
_MIN_TEMPERATURE = 1e-3
_MIROSTAT_M = 100  # tokens its estimate looks at, as in the paper
_DRY_BREAKERS = (b"\n", b":", b'"', b"*")  # llama.cpp's own: a repeated sequence ends there

CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data


class LogitSource(Protocol):
    """Where a sampler finds the logits of the last step."""

    context: Any
    vocab: Any
    n_vocab: int
    vocabulary: LlamaVocabulary

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
    lowest = max(temperature - delta, _MIN_TEMPERATURE)
    highest = max(temperature + delta, lowest)
    if delta > 0.0:
        # It moves between these two, and llama.cpp takes their middle and how far away they are.
        return library().llama_sampler_init_temp_ext((highest + lowest) / 2, (highest - lowest) / 2, exponent)
    return library().llama_sampler_init_temp(lowest)


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


class Candidates:
    """Tokens with their logits, as native samplers take them; the array is used again for each row.

    Args:
        num_ids: tokens from this one on are left out.
    """

    def __init__(self, num_ids: int) -> None:
        self._ids = np.arange(num_ids, dtype=np.int32)
        self._array = np.zeros(num_ids, CANDIDATE)
        # Kept apart: a pointer that is read from the structure follows what native code writes there.
        self._data = ctypes.cast(self._array.ctypes.data, library().llama_token_data_p)
        self._view = library().llama_token_data_array(self._data, num_ids, -1, False)
        self._pointer = ctypes.byref(self._view)

    def filter(self, chain: "NativeChain", logits: npt.NDArray[np.float32]) -> Distribution:
        """Return what a chain without a selector leaves of a row.

        Raises:
            DecodeFailed: that is nothing, or not numbers.
        """
        size = len(self._array)
        self._array["id"] = self._ids  # samplers move the candidates
        self._array["logit"] = logits[:size]
        self._view.data, self._view.size, self._view.selected, self._view.sorted = self._data, size, -1, False
        chain.apply(self._pointer)
        # Some drop the first ones by moving the pointer.
        first = (_address(self._view.data) - self._array.ctypes.data) // CANDIDATE.itemsize
        left = self._array[first : first + self._view.size]
        most = left["logit"].max() if len(left) else -math.inf
        if not math.isfinite(most):
            raise not_numbers() if math.isnan(most) else nothing_left()
        return Distribution(left["id"].copy(), softmax(left["logit"]))


class NativeChain:
    """A chain of native samplers.

    Args:
        selects: whether it ends in a step that selects.

    Raises:
        InvalidParams: a logit bias names no token of this model.
    """

    def __init__(
        self, source: LogitSource, params: SamplingParams, seed: int, prompt: Sequence[int], *, selects: bool = True
    ) -> None:
        self._library = library()
        site = _Site(source.vocab, source.n_vocab, ctypes.c_uint32(seed).value)
        biases = self._biases(params, source.n_vocab)
        self.native = self._library.llama_sampler_chain_init(self._library.llama_sampler_chain_default_params())
        if biases is not None:
            self._add(self._library.llama_sampler_init_logit_bias(source.n_vocab, len(biases), biases))
        self._penalties: int | None = None  # its place, where it must not hear of some tokens
        self._spared: frozenset[int] = frozenset()
        for step in chain_of(params):
            if step.name == "penalties" and params.spare_line_breaks:
                self._penalties = self._library.llama_sampler_chain_n(self.native)
                self._spared = source.vocabulary.layout_ids
            self._add(_BUILDERS[step.name](site, *step.arguments(params)))
        # Before the selector is there: it would take the prompt for its own choices.
        if (window := num_remembered(params)) > 0:
            for token in prompt[-window:]:
                self.accept(token)
        if selects:
            selector = selector_of(params)
            self._add(_BUILDERS[selector.name](site, *selector.arguments(params)))

    def apply(self, candidates: Any) -> None:
        """Work on candidates; takes a pointer to llama.cpp's array."""
        self._library.llama_sampler_apply(self.native, candidates)

    @property
    def is_plain(self) -> bool:
        """Whether llama.cpp may remember tokens for it."""
        return self._penalties is None

    def accept(self, token: int) -> None:
        """Remember a token that was taken."""
        if token not in self._spared:
            self._library.llama_sampler_accept(self.native, token)
            return
        for place in range(self._library.llama_sampler_chain_n(self.native)):
            if place != self._penalties:
                self._library.llama_sampler_accept(self._library.llama_sampler_chain_get(self.native, place), token)

    def close(self) -> None:
        """Free it."""
        if self.native:
            self._library.llama_sampler_free(self.native)
            self.native = None

    def _biases(self, params: SamplingParams, n_vocab: int) -> Any:
        if not params.logit_bias:
            return None
        biases = (self._library.llama_logit_bias * len(params.logit_bias))()
        for entry, (token, bias) in zip(biases, params.logit_bias, strict=True):
            if token >= n_vocab:
                raise InvalidParams(f"A logit bias names token {token}.", f"This model has {n_vocab} tokens.")
            entry.token, entry.bias = token, bias
        return biases

    def _add(self, step: Any) -> None:
        if not step:  # adding a null pointer crashes
            raise DecodeFailed("A sampler could not be made.", "Reset the sampling settings.")
        self._library.llama_sampler_chain_add(self.native, step)


class NumberCheck:
    """Looks once whether a model computes numbers: a broken file shows at once, and native chains pick anything."""

    def __init__(self) -> None:
        self._has_checked = False

    def check(self, source: LogitSource, row: int) -> None:
        """Look at a row, unless one was looked at.

        Raises:
            DecodeFailed: its logits are none.
        """
        if not self._has_checked and np.isnan(source.logits(row).max()):
            raise not_numbers()
        self._has_checked = True


def not_numbers() -> DecodeFailed:
    """Return what a damaged file is told as."""
    return DecodeFailed(
        "The model computed values that are not numbers.", "The file may be damaged: download it again."
    )


def nothing_left() -> DecodeFailed:
    """Return what contradicting settings are told as."""
    return DecodeFailed("The sampling settings leave no token to choose.", "Reset the sampling settings.")


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0
