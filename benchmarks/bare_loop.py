"""The thinnest loop on the same library: what any engine on top of it can at best reach. Nothing of the engine is
used but the import of the binding."""

import ctypes
import itertools
import time
from typing import Any, NamedTuple

import numpy as np

_N_BATCH = 2048


class BareRun(NamedTuple):
    """Times of one run, in seconds; `gaps_s` between the tokens after the first."""

    prefill_s: float
    gaps_s: list[float]

    @property
    def decode_rate(self) -> float:
        """Tokens a second after the first one."""
        return len(self.gaps_s) / sum(self.gaps_s)


class BareLoop:
    """One model, one sequence, one growing context; greedy by argmax over the logits in place.

    Args:
        llama: the binding's low-level module.
        path: model file.

    Attributes:
        num_outputs: the most tokens of a batch whose logits are computed.
    """

    num_outputs = 1

    def __init__(self, llama: Any, path: str, *, n_ctx: int, n_threads: int) -> None:
        self._llama = llama
        self._model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, _N_BATCH, 512
        params.n_threads = params.n_threads_batch = n_threads
        params.n_outputs_max = self.num_outputs
        self._context = llama.llama_init_from_model(self._model, params)
        self._vocab = llama.llama_model_get_vocab(self._model)
        self._n_vocab = llama.llama_vocab_n_tokens(self._vocab)
        self._batch = llama.llama_batch_init(_N_BATCH, 0, 1)
        self._held: list[int] = []

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a rendered prompt."""
        data = text.encode()
        tokens = (ctypes.c_int32 * (len(data) + 2))()
        count = self._llama.llama_tokenize(self._vocab, data, len(data), tokens, len(tokens), False, True)
        return tokens[:count]

    def run(self, prompt: list[int], num_tokens: int) -> BareRun:
        """Read `prompt` into an empty context and generate `num_tokens`, end tokens or not."""
        llama = self._llama
        llama.llama_memory_seq_rm(llama.llama_get_memory(self._context), 0, -1, -1)
        self._held = []
        began = time.perf_counter()
        token = self._read(prompt, 0)
        previous = time.perf_counter()
        prefill_s, gaps = previous - began, []
        for index in range(num_tokens - 1):
            token = self._step([token], len(prompt) + index)
            now = time.perf_counter()
            gaps.append(now - previous)
            previous = now
        return BareRun(prefill_s, gaps)

    def read_behind(self, tokens: list[int], num_known: int) -> float:
        """Return the seconds in which the tokens after the first `num_known` are read, once those are in the context.

        What the context holds of them from the call before is kept.
        """
        common = sum(
            1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(self._held, tokens, strict=False))
        )
        start = min(common, num_known)
        llama = self._llama
        llama.llama_memory_seq_rm(llama.llama_get_memory(self._context), 0, start, -1)
        self._read(tokens[start:num_known], start)
        began = time.perf_counter()
        self._read(tokens[num_known:], num_known)
        seconds = time.perf_counter() - began
        self._held = list(tokens)
        return seconds

    def close(self) -> None:
        """Free everything."""
        self._llama.llama_batch_free(self._batch)
        self._llama.llama_free(self._context)
        self._llama.llama_model_free(self._model)

    def _read(self, tokens: list[int], first: int) -> int:
        """Read tokens in batches; return the one that comes next, 0 where there were none."""
        token = 0
        for start in range(0, len(tokens), _N_BATCH):
            token = self._step(tokens[start : start + _N_BATCH], first + start)
        return token

    def _wants_logits(self, index: int, count: int) -> bool:
        return index == count - 1

    def _step(self, tokens: list[int], start: int) -> int:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for index, token in enumerate(tokens):
            batch.token[index] = token
            batch.pos[index] = start + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = 0
            batch.logits[index] = self._wants_logits(index, len(tokens))
        if self._llama.llama_decode(self._context, batch) != 0:
            raise RuntimeError("the bare loop could not decode")
        logits = self._llama.llama_get_logits_ith(self._context, -1)
        return int(np.ctypeslib.as_array(logits, (self._n_vocab,)).argmax())
