"""What each layer of a model keeps for the tokens it has seen, and the bytes this takes: to the byte as llama.cpp does.

Sources: llama.cpp, src/llama-kv-cache.cpp (rows and cells), src/llama-kv-cache-iswa.cpp (size of a window's cache) and
src/llama-memory-recurrent.cpp (states). Which layer keeps what is told by models/kv_rules.py.
"""

import dataclasses
from typing import NamedTuple

from models.quant_types import BLOCK_SIZES, BlockSize, TensorType

CTX_STEP = 256  # llama.cpp rounds contexts and window caches up to multiples of it
PLAIN_TYPES = ("f16", "f32", "bf16")
CACHE_TYPES = (*PLAIN_TYPES, "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_STATE_BYTES = 4  # states are kept as 32-bit numbers whatever the cache types


class LayerCache(NamedTuple):
    """What one layer keeps.

    Attributes:
        has_cache: whether it is one of the layers that keep keys and values, even if they have no width.
        key_width, value_width: numbers for each token.
        is_windowed: whether only the tokens of a window are kept.
        state: numbers for each sequence, whatever its length.
    """

    has_cache: bool = False
    key_width: int = 0
    value_width: int = 0
    is_windowed: bool = False
    state: int = 0


class CacheBytes(NamedTuple):
    """Bytes of a cache.

    Attributes:
        state: of all sequences together.
    """

    keys: int
    values: int
    state: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.keys + self.values + self.state


@dataclasses.dataclass(frozen=True)
class CacheSettings:
    """How a cache is made; by default as the engine does.

    Attributes:
        type_k, type_v: of CACHE_TYPES.
        n_seq_max: sequences that share the context.
        n_batch, n_ubatch: most tokens of a step, and of what is computed at a time.
        has_flash: whether attention is fused; without, values are kept as wide as in the widest layer.
    """

    type_k: str = "f16"
    type_v: str = "f16"
    n_seq_max: int = 4
    n_batch: int = 2048
    n_ubatch: int = 512
    has_flash: bool = True

    def step_tokens(self, n_ctx: int) -> int:
        """Return how many tokens are computed at a time."""
        n_batch = min(max(self.n_batch, self.n_ubatch, self.n_seq_max), max(n_ctx, 1))
        return min(n_batch, max(self.n_ubatch, self.n_seq_max))


@dataclasses.dataclass(frozen=True)
class KVLayout:
    """What the layers of a model keep.

    Attributes:
        layers: all of them, in their order.
        window: tokens a windowed layer looks back.
        key_heads, value_heads: sizes of the heads, which must be whole blocks of a cache type.
        needs_equal_types: whether keys and values must have the same type.
        doubts: why the real cache may be another one; empty where it is exact.
    """

    layers: tuple[LayerCache, ...]
    window: int = 0
    key_heads: tuple[int, ...] = ()
    value_heads: tuple[int, ...] = ()
    needs_equal_types: bool = False
    doubts: tuple[str, ...] = ()

    def types_reason(self, settings: CacheSettings) -> str:
        """Return why the cache types cannot be used, and the engine takes f16 instead; empty where they can."""
        if settings.type_v not in PLAIN_TYPES and not settings.has_flash:
            return "quantised values need flash attention"
        if settings.type_k != settings.type_v and self.needs_equal_types:
            return "this model needs the same type for keys and values"
        sides = ((settings.type_k, "key", self.key_heads), (settings.type_v, "value", self.value_heads))
        for cache_type, what, heads in sides:
            block = _block(cache_type).num_elements
            if odd := [size for size in heads if size % block]:
                return f"the heads of {odd[0]} {what} numbers are no whole blocks of {cache_type}"
        return ""

    def window_cells(self, n_ctx: int, settings: CacheSettings) -> int:
        """Return the cells of a layer with a window: it is kept for each sequence, and one step more."""
        kept = self.window * max(settings.n_seq_max, 1) + settings.step_tokens(n_ctx)
        return padded(min(padded(n_ctx), kept))

    def layer_bytes(self, n_ctx: int, settings: CacheSettings) -> tuple[CacheBytes, ...]:
        """Return what each layer's part of the cache of a context takes."""
        cells, in_window = padded(n_ctx), self.window_cells(n_ctx, settings)
        n_seq_max = max(settings.n_seq_max, 1)
        widest = max((layer.value_width for layer in self.layers), default=0)
        parts = []
        for layer in self.layers:
            count = (in_window if layer.is_windowed else cells) if layer.has_cache else 0
            value_width = layer.value_width if settings.has_flash else widest
            parts.append(
                CacheBytes(
                    row_bytes(settings.type_k, layer.key_width) * count,
                    row_bytes(settings.type_v, value_width) * count,
                    layer.state * _STATE_BYTES * n_seq_max,
                )
            )
        return tuple(parts)

    def cache_bytes(self, n_ctx: int, settings: CacheSettings) -> CacheBytes:
        """Return what the cache of a context takes."""
        parts = self.layer_bytes(n_ctx, settings)
        return CacheBytes(*(sum(part[index] for part in parts) for index in range(3)))

    def bytes_per_token(self, settings: CacheSettings) -> int:
        """Return what one more token takes in the layers that keep every token; where there are none, in all."""
        keeping = [layer for layer in self.layers if layer.key_width and not layer.is_windowed] or self.layers
        type_k, type_v = settings.type_k, settings.type_v
        return sum(row_bytes(type_k, layer.key_width) + row_bytes(type_v, layer.value_width) for layer in keeping)


def padded(count: int) -> int:
    """Return the number of cells llama.cpp makes for so many."""
    return (count + CTX_STEP - 1) // CTX_STEP * CTX_STEP


def row_bytes(cache_type: str, num_elements: int) -> int:
    """Return the bytes of a row of numbers in a cache type."""
    block = _block(cache_type)
    return num_elements * block.num_bytes // block.num_elements


def _block(cache_type: str) -> BlockSize:
    return BLOCK_SIZES[TensorType[cache_type.upper()]]
