"""The thinnest loop on the library with a loaded model: what any engine on top of it can at best reach.

A context of its own with the settings of the engine's, its batches filled in place, the likeliest token taken.
"""

import ctypes
import time
from typing import Any

import msgspec
import numpy as np

from engine.backend_llama import library as native
from engine.backend_llama.context import AbortFlag
from engine.backend_llama.native_params import context_settings
from engine.backend_llama.probing import ContextSize
from engine.errors import DecodeFailed
from engine.messages import BareLoopRun, RunBareLoop
from engine.params import ModelParams


def run_bare_loop(
    model: Any, params: ModelParams, size: ContextSize, abort: AbortFlag, request: RunBareLoop
) -> BareLoopRun:
    """Read a prompt in each sequence and generate, and return the times.

    Raises:
        DecodeFailed: there is no room for it, or a step failed.
    """
    library = native.library()
    sequences = request.num_sequences
    own = msgspec.structs.replace(params, n_seq_max=max(sequences, 1))
    n_ctx = sequences * (request.num_prompt_tokens + request.num_tokens + 1)
    settings = context_settings(own, n_ctx=n_ctx, type_k=size.type_k, type_v=size.type_v)
    settings.swa_full = False  # as the loader has it
    settings.abort_callback, settings.abort_callback_data = abort.callback, abort.data
    context = library.llama_init_from_model(model, settings)
    if not context:
        raise DecodeFailed(
            f"A bare loop over {n_ctx:,} tokens could not be made.",
            "Measure with a shorter prompt.",
            "\n".join(native.native_log.errors),
        )
    try:
        return _Loop(library, model, context, sequences).run(request)
    finally:
        library.llama_free(context)


class _Loop:
    def __init__(self, library: Any, model: Any, context: Any, num_sequences: int) -> None:
        self._library = library
        self._context = context
        self._num_sequences = num_sequences
        self._n_vocab = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
        self._n_threads = library.llama_n_threads(context)
        # Where layers keep a window, a step must be one micro-batch: see LlamaBackend.max_step_tokens.
        has_window = library.llama_model_n_swa(model) > 0
        self._most = library.llama_n_ubatch(context) if has_window else library.llama_n_batch(context)
        self._batch = library.llama_batch_init(library.llama_n_batch(context), 0, 1)
        get_logits = native.native_function("llama_get_logits_ith", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
        self._address = ctypes.cast(context, ctypes.c_void_p).value
        self._get_logits = get_logits
        self._wait = native.native_function("llama_synchronize", None, ctypes.c_void_p)

    def run(self, request: RunBareLoop) -> BareLoopRun:
        try:
            # Which tokens they are makes no difference to the time.
            prompt = [place % min(self._n_vocab, 1000) for place in range(request.num_prompt_tokens)]
            self._fill_row(0, 0, 0, 0)  # a first step warms up, and is dropped
            self._decode(1)
            self._library.llama_memory_seq_rm(self._library.llama_get_memory(self._context), 0, -1, -1)
            began = time.perf_counter()
            tokens = self._read_all(prompt)
            previous = time.perf_counter()
            prefill_s, step_s = previous - began, []
            for index in range(request.num_tokens - 1):
                tokens = self._step(tokens, len(prompt) + index)
                now = time.perf_counter()
                step_s.append(now - previous)
                previous = now
        finally:
            self._library.llama_batch_free(self._batch)
        return BareLoopRun(
            request_id=request.request_id, n_threads=self._n_threads, prefill_s=prefill_s, step_s=tuple(step_s)
        )

    def _read_all(self, prompt: list[int]) -> list[int]:
        """Read the prompt in every sequence, as many of them in a step as fit whole."""
        tokens: list[int] = []
        num_together = max(1, self._most // len(prompt))
        for first in range(0, self._num_sequences, num_together):
            sequences = range(first, min(first + num_together, self._num_sequences))
            tokens += self._read(sequences, prompt)
        return tokens

    def _read(self, sequences: range, prompt: list[int]) -> list[int]:
        for start in range(0, len(prompt), self._most):
            block = prompt[start : start + self._most]
            rows = [(sequence, start + place) for sequence in sequences for place in range(len(block))]
            for row, (sequence, position) in enumerate(rows):
                self._fill_row(row, sequence, prompt[position], position)
                self._batch.logits[row] = position == len(prompt) - 1
            self._decode(len(rows))
        return [self._likeliest(len(block) * (place + 1) - 1) for place in range(len(sequences))]

    def _step(self, tokens: list[int], position: int) -> list[int]:
        for sequence, token in enumerate(tokens):
            self._fill_row(sequence, sequence, token, position)
        self._decode(len(tokens))
        return [self._likeliest(row) for row in range(len(tokens))]

    def _fill_row(self, row: int, sequence: int, token: int, position: int) -> None:
        batch = self._batch
        batch.token[row] = token
        batch.pos[row] = position
        batch.n_seq_id[row] = 1
        batch.seq_id[row][0] = sequence
        batch.logits[row] = True

    def _decode(self, num_rows: int) -> None:
        self._batch.n_tokens = num_rows
        status = self._library.llama_decode(self._context, self._batch)
        if status:
            raise DecodeFailed(f"The bare loop could not compute a step (llama.cpp status {status}).")
        self._wait(self._address)

    def _likeliest(self, row: int) -> int:
        address = self._get_logits(self._address, row)
        if not address:
            raise DecodeFailed("A step of the bare loop has no logits.")
        values = (ctypes.c_float * self._n_vocab).from_address(address)
        return int(np.frombuffer(memoryview(values), np.float32).argmax())
