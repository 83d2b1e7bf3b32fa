"""Sums of squares of what each weight is multiplied with, heard from llama.cpp while it reads a text.

Which products count, and how they are summed, is that of llama.cpp's own tool (tools/imatrix/imatrix.cpp), so that its
files and ours mean the same.
"""

import contextlib
import ctypes
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from engine.backend import TensorImportance
from engine.backend_llama import library as native
from engine.backend_llama.context import AbortFlag
from engine.backend_llama.native_params import context_settings
from engine.errors import DecodeFailed, EngineStartFailed
from engine.params import ModelParams

_LOG = logging.getLogger(__name__)
_F32 = 0
_MIN_ROWS = 16  # smaller products are no text being read
_MAX_OPS = 256
_LARGE_VOCABULARY = 65_536  # from here on a row of logits for each token of a chunk would take gigabytes
_SMALL_STEP = 128
_STATUS_ABORTED = 2


class _Tensor(ctypes.Structure):
    """`ggml_tensor` of ggml.h."""


_Tensor._fields_ = (
    ("type", ctypes.c_int),
    ("buffer", ctypes.c_void_p),
    ("ne", ctypes.c_int64 * 4),
    ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int),
    ("op_params", ctypes.c_int32 * 16),
    ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(_Tensor) * 10),
    ("view_src", ctypes.c_void_p),
    ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p),
    ("name", ctypes.c_char * 64),
    ("extra", ctypes.c_void_p),
    ("padding", ctypes.c_char * 8),
)


def sum_importance(
    model: Any,
    params: ModelParams,
    abort: AbortFlag,
    chunks: Sequence[Sequence[int]],
    on_chunk: Callable[[int], bool],
) -> dict[str, TensorImportance] | None:
    """Read chunks of a text, each from an empty memory, and return the sums; None when it was given up.

    Args:
        on_chunk: told how many chunks are done; returns False to give up.

    Raises:
        DecodeFailed: the model could not compute them, or computes what is no number.
    """
    library = native.library()
    listener = _Listener(library)
    callback = library.ggml_backend_sched_eval_callback(listener.hear)
    length = len(chunks[0])
    n_vocab = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
    step = _SMALL_STEP if n_vocab > _LARGE_VOCABULARY else length
    own = msgspec.structs.replace(params, n_seq_max=1, n_batch=step, n_ubatch=step)
    settings = context_settings(own, n_ctx=length, type_k="f16", type_v="f16")
    settings.n_outputs_max = step  # all rows are wanted: else the last layer sees only the last of them
    settings.swa_full = False
    settings.cb_eval = callback
    settings.abort_callback, settings.abort_callback_data = abort.callback, abort.data
    context = library.llama_init_from_model(model, settings)
    if not context:
        raise DecodeFailed(
            "A context to read the text with could not be made.", "Close other programs, or use a smaller model."
        )
    batch = library.llama_batch_init(step, 0, 1)
    try:
        for number, chunk in enumerate(chunks):
            if not on_chunk(number) or not _read(library, context, batch, chunk, step):
                return None
            if listener.fault:
                raise DecodeFailed(listener.fault, "The file may be damaged: choose another one.")
        return listener.found()
    finally:
        library.llama_batch_free(batch)
        library.llama_free(context)


def _read(library: Any, context: Any, batch: Any, chunk: Sequence[int], step: int) -> bool:
    """Read one chunk; False where it was broken off."""
    library.llama_memory_clear(library.llama_get_memory(context), False)
    for start in range(0, len(chunk), step):
        tokens = chunk[start : start + step]
        for row, token in enumerate(tokens):
            batch.token[row], batch.pos[row] = token, start + row
            batch.n_seq_id[row], batch.seq_id[row][0], batch.logits[row] = 1, 0, True
        batch.n_tokens = len(tokens)
        status = library.llama_decode(context, batch)
        if status == _STATUS_ABORTED:
            return False
        if status:
            raise DecodeFailed(
                f"The text for the importance matrix could not be read (llama.cpp status {status}).",
                "Try again with more free memory.",
            )
    return True


class _Listener:
    """Hears every product before and after it is computed."""

    def __init__(self, library: Any) -> None:
        overhead = native.native_function("ggml_tensor_overhead", ctypes.c_size_t)()
        if ctypes.sizeof(_Tensor) != overhead - 32:  # the layout of another version: reading it would be nonsense
            raise EngineStartFailed(
                "This llama.cpp keeps tensors in a way that is not known.", "Install Fireside again."
            )
        op_name = native.native_function("ggml_op_name", ctypes.c_char_p, ctypes.c_int)
        names = {}
        for number in range(_MAX_OPS):
            name = op_name(number)
            names[name] = number
            if len(names) >= 2 and b"MUL_MAT" in names and b"MUL_MAT_ID" in names:
                break
        self._product, self._expert_product = names[b"MUL_MAT"], names[b"MUL_MAT_ID"]
        self._is_host = native.native_function("ggml_backend_buffer_is_host", ctypes.c_bool, ctypes.c_void_p)
        self._get = native.native_function(
            "ggml_backend_tensor_get", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
        )
        self._num_bytes = native.native_function("ggml_nbytes", ctypes.c_size_t, ctypes.c_void_p)
        self._sums: dict[str, npt.NDArray[np.float64]] = {}
        self._counts: dict[str, npt.NDArray[np.float64]] = {}
        self.fault = ""

    def hear(self, address: int, is_asked: bool, user_data: object) -> bool:
        """Say whether a product is wanted, and take it when it is computed."""
        try:
            tensor = _Tensor.from_address(address)
            if is_asked:
                return self._is_wanted(tensor)
            self._take(tensor)
        except Exception as error:  # an exception in a callback returns garbage to native code
            self.fault = self.fault or "The products of the model could not be read."
            _LOG.exception("a product was not summed: %s", error)
        return True

    def found(self) -> dict[str, TensorImportance]:
        """Return what was summed.

        Raises:
            DecodeFailed: a sum is no number.
        """
        found = {}
        for name, sums in self._sums.items():
            if not np.isfinite(sums).all():
                raise DecodeFailed(
                    f"The model computes values in {name!r} that are no numbers.", "Choose another file of the model."
                )
            counts = self._counts[name]
            found[name] = TensorImportance(
                num_columns=sums.shape[1],
                sums=sums.astype("<f4").tobytes(),
                counts=counts.astype("<f4").tobytes(),
            )
        return found

    def _is_wanted(self, tensor: _Tensor) -> bool:
        if tensor.op not in (self._product, self._expert_product):
            return False
        weight, inputs = tensor.src[0].contents, tensor.src[1].contents
        if not _name(weight).startswith("blk.") or inputs.type != _F32:
            return False
        return bool(tensor.op == self._expert_product or inputs.ne[1] >= _MIN_ROWS)

    def _take(self, tensor: _Tensor) -> None:
        weight, inputs = tensor.src[0].contents, tensor.src[1].contents
        name, columns = _name(weight), inputs.ne[0]
        num_matrices = weight.ne[2] * weight.ne[3]
        is_expert = tensor.op == self._expert_product
        sums = self._sums.setdefault(name, np.zeros((num_matrices, columns)))
        counts = self._counts.setdefault(name, np.zeros(num_matrices if is_expert else 1))
        with self._array(inputs, np.float32) as values:
            if is_expert:
                with self._array(tensor.src[2].contents, np.int32) as chosen:
                    _add_experts(sums, counts, values, chosen)
                return
            for i3 in range(inputs.ne[3]):
                for i2 in range(inputs.ne[2]):
                    rows = values[i3, i2]
                    sums[(i3 % weight.ne[3]) * weight.ne[2] + i2 % weight.ne[2]] += np.einsum(
                        "ij,ij->j", rows, rows, dtype=np.float64
                    )
            counts += inputs.ne[1] * inputs.ne[2] * inputs.ne[3] / num_matrices

    @contextlib.contextmanager
    def _array(self, tensor: _Tensor, kind: type[np.generic]) -> Any:
        """Yield the numbers of a tensor, outermost dimension first."""
        size = self._num_bytes(ctypes.addressof(tensor))
        if tensor.buffer and self._is_host(tensor.buffer):
            data: Any = (ctypes.c_byte * size).from_address(tensor.data)
        else:
            data = ctypes.create_string_buffer(size)
            self._get(ctypes.addressof(tensor), data, 0, size)
        yield np.ndarray(tuple(tensor.ne)[::-1], kind, data, strides=tuple(tensor.nb)[::-1])


def _add_experts(
    sums: npt.NDArray[np.float64],
    counts: npt.NDArray[np.float64],
    values: npt.NDArray[np.float32],
    chosen: npt.NDArray[np.int32],
) -> None:
    """Add the rows of each token to the experts that it was sent to.

    Args:
        values: [1, tokens, experts used or 1, columns].
        chosen: [1, 1, tokens, experts used].
    """
    per_token, ids = values[0], chosen[0, 0]
    for place in range(ids.shape[1]):
        rows, experts = per_token[:, place % per_token.shape[1]], ids[:, place]
        for expert in np.unique(experts):
            mine = rows[experts == expert]
            sums[expert] += np.einsum("ij,ij->j", mine, mine, dtype=np.float64)
            counts[expert] += len(mine)


def _name(tensor: _Tensor) -> str:
    """Return the name of a weight; a copy on another device is called `device#name#number`."""
    name = str(tensor.name.decode("utf-8", "replace"))
    return name.split("#")[1] if "#" in name else name
