"""How much memory the KV cache of a model would take with another context or other cache types."""

from typing import NamedTuple

from engine import MemoryKind, ModelDescription

# Bytes that 32 numbers take; llama.cpp keeps the quantised ones in blocks of that many.
_BYTES_OF_32 = {
    "f32": 128,
    "f16": 64,
    "bf16": 64,
    "q8_0": 34,
    "q5_1": 24,
    "q5_0": 22,
    "q4_1": 20,
    "q4_0": 18,
    "iq4_nl": 18,
}


class KVMemory(NamedTuple):
    """A size, and whether it is exact."""

    num_bytes: int
    is_exact: bool


def kv_memory(description: ModelDescription, n_ctx: int, *, type_k: str, type_v: str) -> KVMemory | None:
    """Return what a context would take; None where the model keeps no token by token.

    With other cache types it is an estimate: keys and values are taken to be of one size, as they mostly are.
    """
    if not description.kv_bytes_per_token or not n_ctx:
        return None
    before = _size(description.type_k, description.type_v)
    after = _size(type_k, type_v)
    if not before or not after:
        return None
    is_same = (type_k, type_v) == (description.type_k, description.type_v)
    scale = 1.0 if is_same else after / before
    is_exact = is_same and description.memory is MemoryKind.PLAIN
    return KVMemory(round(description.kv_bytes_per_token * n_ctx * scale), is_exact)


def memory_share(cache_type: str) -> float:
    """Return what a cache type takes, as a share of f16."""
    return _BYTES_OF_32[cache_type] / _BYTES_OF_32["f16"]


def _size(type_k: str, type_v: str) -> int:
    key, value = _BYTES_OF_32.get(type_k, 0), _BYTES_OF_32.get(type_v, 0)
    return key + value if key and value else 0
