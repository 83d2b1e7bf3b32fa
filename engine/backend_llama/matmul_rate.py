"""How fast the library multiplies matrices on the processor: the ceiling of prefill."""

import ctypes
import time
from typing import Any

from engine.backend_llama import library as native

_WIDTH, _ROWS, _TOKENS = 1024, 1024, 512  # a layer of a small model, and a micro-batch
_F32, _F16 = 0, 1
_ARENA_BYTES = 16 << 20
_NUM_PASSES = 4
_POINTER = ctypes.c_void_p


class _Settings(ctypes.Structure):
    """How an arena for tensors is made; the binding does not declare it."""

    _fields_ = (("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


def matmul_rate(n_threads: int) -> float | None:
    """Return floating-point operations a second of F16 weights times F32 activations; None if it failed."""
    arena = native.native_function("ggml_init", _POINTER, _Settings)(_Settings(_ARENA_BYTES, None, False))
    if not arena:
        return None
    try:
        graph = _product(arena)
        compute = native.native_function("ggml_graph_compute_with_ctx", ctypes.c_int, _POINTER, _POINTER, ctypes.c_int)
        fastest = 0.0
        for _ in range(_NUM_PASSES):
            began = time.perf_counter()
            if compute(arena, graph, n_threads):
                return None
            fastest = max(fastest, 2 * _WIDTH * _ROWS * _TOKENS / max(time.perf_counter() - began, 1e-9))
        return fastest
    finally:
        native.native_function("ggml_free", None, _POINTER)(arena)


def _product(arena: Any) -> Any:
    new = native.native_function("ggml_new_tensor_2d", _POINTER, _POINTER, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    data = native.native_function("ggml_get_data", _POINTER, _POINTER)
    size = native.native_function("ggml_nbytes", ctypes.c_size_t, _POINTER)
    factors = new(arena, _F16, _WIDTH, _ROWS), new(arena, _F32, _WIDTH, _TOKENS)
    for factor in factors:
        ctypes.memset(data(factor), 0, size(factor))
    product = native.native_function("ggml_mul_mat", _POINTER, _POINTER, _POINTER, _POINTER)(arena, *factors)
    graph = native.native_function("ggml_new_graph", _POINTER, _POINTER)(arena)
    native.native_function("ggml_build_forward_expand", None, _POINTER, _POINTER)(graph, product)
    return graph
