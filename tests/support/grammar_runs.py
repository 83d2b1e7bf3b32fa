"""Many grammars on a real vocabulary, for a process of its own: what is compared and sampled there might end it."""

import ctypes
import multiprocessing
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.backend import BatchPart
from engine.backend_llama import LlamaLoader
from engine.backend_llama.context import LlamaBackend
from engine.backend_llama.library import library
from engine.errors import EngineError
from engine.grammar import Matcher, TokenTable, new_matcher
from engine.params import ModelParams, SamplingParams
from tests.support.grammar_texts import damaged, grammar_texts
from tests.unit.engine.message_values import values_of

_NUM_TOKENS = 5
_LONG_RUN = 1000
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


def exit_code_of(run: Callable[[str, int], None], path: Path, count: int) -> int | None:
    """Return how a process ends that does `run`."""
    process = multiprocessing.get_context("spawn").Process(target=run, args=(str(path), count))
    process.start()
    process.join()
    return process.exitcode


def compare_with_native(path: str, count: int) -> None:
    """Follow drawn grammars beside llama.cpp's own implementation: both allow the same tokens at each step.

    Compared are tokens of whole characters: given half a character, llama.cpp also allows longer encodings of it than
    UTF-8 does. Control tokens are left out, whose text it takes for text.
    """
    backend = _load(path)
    table = TokenTable(backend.vocabulary)
    compared = np.array([table.text_of(t) != b"" and _is_text(p) for t, p in enumerate(table.pieces)])

    @_drawing(count)
    @given(text=grammar_texts())
    def follow(text: str) -> None:
        try:
            matcher = new_matcher(SamplingParams(grammar=text), table)
            assert matcher is not None
        except EngineError:
            return
        native = library().llama_sampler_init_grammar(backend.vocab, text.encode(), b"root")
        assert native, f"llama.cpp refuses {text!r}"
        _follow(matcher, native, compared, random.Random(text))
        library().llama_sampler_free(native)

    follow()
    backend.close()


def _follow(matcher: Matcher, native: Any, compared: npt.NDArray[np.bool_], generator: random.Random) -> None:
    for _ in range(_NUM_TOKENS):
        ours = np.zeros(len(compared), bool)
        try:
            ours[matcher.allowed()] = True
        except EngineError:  # too ambiguous to go on
            return
        assert not np.flatnonzero((ours != _native_mask(native, len(compared))) & compared).size
        choices = np.flatnonzero(ours & compared)
        if not choices.size:
            return
        token = int(generator.choice(choices))
        assert matcher.take(token)
        library().llama_sampler_accept(native, token)


def _native_mask(native: Any, size: int) -> npt.NDArray[np.bool_]:
    candidates = np.zeros(size, _CANDIDATE)
    candidates["id"] = np.arange(size)
    data = ctypes.cast(candidates.ctypes.data, library().llama_token_data_p)
    library().llama_sampler_apply(native, ctypes.byref(library().llama_token_data_array(data, size, -1, False)))
    return np.array(candidates["logit"] > -np.inf)


def sample_with_grammars(path: str, count: int) -> None:
    """Sample with drawn settings inside drawn grammars, half of them damaged: a token that fits, or an error."""
    backend = _load(path)
    table = TokenTable(backend.vocabulary)
    prompt = backend.vocabulary.tokenize("one two three one two three", parse_special=False)
    backend.decode([BatchPart(0, 0, prompt, wants_logits=True)])

    @_drawing(count)
    @given(text=grammar_texts(), params=values_of(SamplingParams), seed=st.integers(0, 2**32))
    def sample(text: str, params: SamplingParams, seed: int) -> None:
        if seed % 2:
            text = damaged(random.Random(seed), text)
        values = {name: getattr(params, name) for name in SamplingParams.__struct_fields__}
        params = SamplingParams(**values | {"grammar": text, "json_schema": None, "logit_bias": ()})
        try:
            check = new_matcher(params, table)
            sampler = backend.new_sampler(params, 1, prompt, matcher=new_matcher(params, table))
        except EngineError:
            return
        assert check is not None
        try:
            for _ in range(_NUM_TOKENS):
                if sampler.is_complete or (token := sampler.sample(0)) in table.end_ids:
                    break
                assert check.take(token)
        except EngineError:
            pass
        finally:
            sampler.close()

    sample()
    backend.close()


def _load(path: str) -> LlamaBackend:
    backend = LlamaLoader().load(path, ModelParams(n_ctx=256, n_threads=1), lambda share: True)
    assert isinstance(backend, LlamaBackend)
    return backend


def _drawing(count: int) -> Callable[[Any], Any]:
    """Return the settings of a process that knows none: only long runs draw other grammars each time."""
    return settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=count < _LONG_RUN,
        suppress_health_check=list(HealthCheck),
    )


def _is_text(piece: bytes) -> bool:
    try:
        return "\0" not in piece.decode("utf-8")
    except UnicodeDecodeError:
        return False
