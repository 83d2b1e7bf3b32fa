"""A loaded model with its context: batches in, logits out, and the sequences of its memory."""

import ctypes
import hashlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.backend import AdapterKey, BatchPart, DecodeStatus, DraftSampler, StateBytes, StateKeys
from engine.backend_llama.adapters import ModelAdapters
from engine.backend_llama.draft_sampler import new_draft_sampler
from engine.backend_llama.library import library, native_function, native_log, return_memory
from engine.backend_llama.sampler import LlamaSampler, new_sampler
from engine.backend_llama.vocabulary import LlamaVocabulary
from engine.errors import DecodeFailed
from engine.grammar import Matcher
from engine.messages import Adapter, MemoryKind, ModelDescription
from engine.params import MAX_DRAFT, SamplingParams

_WHOLE_STATE, _PARTIAL_STATE = 0, 1  # llama.cpp's flags: all of a sequence, or what its cells do not hold


class AbortFlag:
    """A byte that native code polls, without the GIL: llama.cpp is given libc's `strlen` as its abort callback.

    A non-empty string has a length, which reads as true.
    """

    def __init__(self) -> None:
        libc = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
        address = ctypes.cast(libc.strlen, ctypes.c_void_p).value
        self.callback = library().ggml_abort_callback(address)
        self._buffer = ctypes.create_string_buffer(2)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)

    def set(self, value: bool) -> None:
        """Raise or clear the flag."""
        self._buffer[0] = b"\1" if value else b"\0"


class _Views(NamedTuple):
    """The arrays of a batch, for writing single items."""

    tokens: memoryview
    positions: memoryview
    wants: memoryview
    seq_pointers: memoryview


class LlamaBackend:
    """See Backend.

    Args:
        model, context: pointers, owned from now on.
        abort: the flag that the context was created with.
    """

    def __init__(
        self, model: Any, context: Any, *, vocabulary: LlamaVocabulary, abort: AbortFlag, n_seq_max: int
    ) -> None:
        self._library = library()
        self.model = model
        self.context = context
        self.vocabulary = vocabulary
        self.description: ModelDescription  # set by the loader when the probes are done
        self.state_keys: StateKeys  # and so are these
        self._abort = abort
        self._adapters = ModelAdapters(model, context)
        self.kind = MemoryKind.PLAIN  # found out by the loader's probe
        self.n_swa = self._library.llama_model_n_swa(model)
        self._memory = self._library.llama_get_memory(context)
        self.vocab = vocabulary.handle
        self.n_vocab = len(vocabulary.pieces)
        self._output_index: list[int] = []
        self._context_address = ctypes.cast(context, ctypes.c_void_p).value
        self._get_logits = native_function("llama_get_logits_ith", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
        capacity = self._library.llama_n_batch(context)
        self._capacity = capacity
        self._tokens = np.zeros(capacity, np.int32)
        self._positions = np.zeros(capacity, np.int32)
        self._wants = np.zeros(capacity, np.int8)
        self._counts = np.ones(capacity, np.int32)
        self._seq_ids = np.arange(n_seq_max, dtype=np.int32)
        self._seq_address_list = [self._seq_ids.ctypes.data + 4 * seq_id for seq_id in range(n_seq_max)]
        self._seq_pointers = np.zeros(capacity, np.uintp)
        self._views = _Views(self._tokens.data, self._positions.data, self._wants.data, self._seq_pointers.data)
        self._batch = self._new_batch()

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        """See Backend."""
        end = 0
        self._output_index = []
        for seq_id, position, tokens, wants_logits, num_drafted in parts:
            start, end = end, end + len(tokens)
            if not tokens or end > self._capacity:  # native code would write past its arrays
                raise DecodeFailed("A step does not fit the batch.", "Please report it.")
            if end - start == 1:  # a decode row; items of a view cost a fifth of array slices
                self._views.tokens[start] = tokens[0]
                self._views.positions[start] = position
                self._views.seq_pointers[start] = self._seq_address_list[seq_id]
            else:
                self._tokens[start:end] = tokens
                self._positions[start:end] = range(position, position + end - start)
                self._wants[start:end] = 0
                self._seq_pointers[start:end] = self._seq_address_list[seq_id]
            if num_drafted:
                self._wants[end - 1 - num_drafted : end - 1] = 1
                self._output_index.extend(range(end - 1 - num_drafted, end - 1))
            self._views.wants[end - 1] = wants_logits
            if wants_logits:
                self._output_index.append(end - 1)
        self._batch.n_tokens = end
        status = self._library.llama_decode(self.context, self._batch)
        if status == 0:
            return DecodeStatus.DONE
        if status == 1:
            return DecodeStatus.NO_ROOM
        if status == 2:
            return DecodeStatus.ABORTED
        raise DecodeFailed(
            f"The model could not compute a step (llama.cpp status {status}).",
            "Try again; if it happens again, load the model with a smaller context.",
            "\n".join(native_log.errors),
        )

    def new_sampler(
        self,
        params: SamplingParams,
        seed: int,
        prompt: Sequence[int],
        *,
        matcher: Matcher | None = None,
        is_thinking: bool = False,
        is_drafted: bool = False,
    ) -> LlamaSampler:
        """See Backend."""
        return new_sampler(self, params, seed, prompt, matcher=matcher, is_thinking=is_thinking, is_drafted=is_drafted)

    def new_draft_sampler(self, params: SamplingParams, seed: int, *, num_ids: int | None = None) -> DraftSampler:
        """See Backend."""
        return new_draft_sampler(self, params, seed, min(num_ids or self.n_vocab, self.n_vocab))

    def load_adapters(self, adapters: Sequence[Adapter]) -> AdapterKey:
        """See Backend."""
        return self._adapters.load(adapters)

    def use_adapters(self, key: AdapterKey) -> None:
        """See Backend."""
        self._adapters.use(key)

    def set_threads(self, n_decode: int, n_prefill: int) -> None:
        """See Backend; takes a microsecond."""
        self._library.llama_set_n_threads(self.context, n_decode, n_prefill)

    def output_index(self, row: int) -> int:
        """See LogitSource."""
        return self._output_index[row]

    def logits(self, row: int) -> npt.NDArray[np.float32]:
        """See LogitSource."""
        # A sampler may outlive its draft model.
        address = self._get_logits(self._context_address, self._output_index[row]) if self.context else None
        if not address:
            raise DecodeFailed("The step has no logits.", "Please report it.")
        values = (ctypes.c_float * self.n_vocab).from_address(address)
        return np.frombuffer(memoryview(values), np.float32)

    def row_digest(self, row: int) -> bytes:
        """See Backend."""
        return hashlib.blake2b(self.logits(row).data, digest_size=16).digest()

    @property
    def max_step_tokens(self) -> int:
        """See Backend.

        Where layers keep a window, a step must be one micro-batch: llama.cpp places all of them on trial first, and
        placing the second can drop cells that the first still looks at, without a word.
        """
        return int(self._library.llama_n_ubatch(self.context)) if self.n_swa > 0 else self._capacity

    @property
    def max_step_logits(self) -> int:
        """See Backend."""
        return len(self._seq_ids) + MAX_DRAFT

    @property
    def mixes_parts(self) -> bool:
        """See Backend; a hybrid memory cuts a step of different lengths into several micro-batches."""
        return not (self.kind is MemoryKind.HYBRID and self.n_swa > 0)

    @property
    def shares_cells_only(self) -> bool:
        """See SequenceMemory."""
        return self.kind is MemoryKind.PLAIN

    @property
    def survives_abort(self) -> bool:
        """See SequenceMemory; a recurrent state is written in place, layer by layer."""
        return self.kind in (MemoryKind.PLAIN, MemoryKind.WINDOW)

    def can_go_on(self, seq_id: int, num_tokens: int) -> bool:
        """See SequenceMemory; llama.cpp itself would go on with a window that has holes."""
        if self.kind is MemoryKind.PLAIN:
            return True
        if self.kind is MemoryKind.WINDOW:
            first_held = self._library.llama_memory_seq_pos_min(self._memory, self._valid(seq_id))
            return bool(first_held <= max(0, num_tokens - self.n_swa))
        return num_tokens == self.seq_len(seq_id)

    def checkpoint(self, seq_id: int) -> StateBytes:
        """See SequenceMemory."""
        return b"" if self.kind is MemoryKind.PLAIN else self._state(seq_id, _PARTIAL_STATE)

    def set_checkpoint(self, seq_id: int, state: StateBytes) -> bool:
        """See SequenceMemory."""
        return self._set_state(seq_id, state, _PARTIAL_STATE)

    def seq_rm(self, seq_id: int, start: int) -> bool:
        """See SequenceMemory."""
        return bool(self._library.llama_memory_seq_rm(self._memory, self._valid(seq_id), start, -1))

    def seq_cp(self, source: int, target: int, end: int) -> None:
        """See SequenceMemory."""
        self._library.llama_memory_seq_cp(self._memory, self._valid(source), self._valid(target), 0, end)

    def seq_len(self, seq_id: int) -> int:
        """See SequenceMemory."""
        return int(self._library.llama_memory_seq_pos_max(self._memory, self._valid(seq_id))) + 1

    def seq_state(self, seq_id: int) -> StateBytes:
        """See SequenceMemory."""
        return self._state(seq_id, _WHOLE_STATE)

    def set_seq_state(self, seq_id: int, state: StateBytes) -> bool:
        """See SequenceMemory."""
        return self._set_state(seq_id, state, _WHOLE_STATE)

    def _state(self, seq_id: int, flags: int) -> StateBytes:
        size = self._library.llama_state_seq_get_size_ext(self.context, self._valid(seq_id), flags)
        data = np.empty(size, np.uint8)
        pointer = data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        written = self._library.llama_state_seq_get_data_ext(self.context, pointer, size, seq_id, flags)
        return data.data[:written]  # not a copy: this may be a gigabyte

    def _set_state(self, seq_id: int, state: StateBytes, flags: int) -> bool:
        data = np.frombuffer(state, np.uint8)
        pointer = data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        size = len(state)
        read = self._library.llama_state_seq_set_data_ext(self.context, pointer, size, self._valid(seq_id), flags)
        return size > 0 and int(read) == size

    def raise_abort(self) -> None:
        """See Backend."""
        self._abort.set(True)

    def clear_abort(self) -> None:
        """See Backend."""
        self._abort.set(False)

    def close(self) -> None:
        """See Backend; samplers must be closed before."""
        if self.context:
            self._adapters.use(())
            self._library.llama_free(self.context)
            self.context = None
            self._output_index = []
        if self.model:
            self._adapters.close()
            self._library.llama_model_free(self.model)
            self.model = None
            return_memory()

    def _valid(self, seq_id: int) -> int:
        if not 0 <= seq_id < len(self._seq_ids):  # native code would end the process
            raise ValueError(f"no sequence {seq_id}")
        return seq_id

    def _new_batch(self) -> Any:
        batch = self._library.llama_batch()
        batch.n_tokens = 0
        for field, array in (
            ("token", self._tokens),
            ("pos", self._positions),
            ("n_seq_id", self._counts),
            ("seq_id", self._seq_pointers),
            ("logits", self._wants),
        ):
            field_type = dict(self._library.llama_batch._fields_)[field]
            setattr(batch, field, ctypes.cast(array.ctypes.data, field_type))
        return batch
