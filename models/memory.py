"""Whether a model fits a machine, from its header alone: what it takes, what is free, and how fast it could write.

Pure arithmetic; what is free is asked by the caller, when it matters. Bytes of the cache are those of llama.cpp
(models/kv_layout.py). The buffers of a step and what the engine takes by itself are estimates, whose constants were
measured with benchmarks/fit.py, and which a machine's own measurements correct (Room.offset_bytes).
"""

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import NamedTuple

from models.compute_buffer import compute_bytes
from models.device_layers import layer_sizes, moved_bytes, num_on_devices
from models.draft_memory import DOUBTFUL_CACHE, DraftPlace, draft_bytes, draft_place, vocabulary_bytes
from models.gguf_info import GGUFInfo
from models.hyperparameters import Hyperparameters
from models.kv_layout import CTX_STEP, CacheBytes, CacheSettings, KVLayout
from models.quant_types import TensorType
from models.weight_sums import joined

AUTO_CTX = 8192  # the engine takes no more where no context was asked for
MAX_CTX = 1 << 24
TIGHT_SHARE = 0.9  # of what is free: beyond, too little is left for other programs


_PROGRAM_BYTES = 52 << 20  # of a worker: Python, llama.cpp and numpy
_NO_CACHE = CacheBytes(0, 0, 0)


class Verdict(enum.Enum):
    """Whether a model can be loaded."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does not fit"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Wish:
    """How a model would be loaded; by default as the engine does.

    Attributes:
        n_ctx: tokens it can hold at once; 0 takes what the engine would.
        cache: how the cache is made.
        n_gpu_layers: layers on graphics devices, the output counted as one; None takes as many as fit.
        experts_on_cpu: layers, from the first, whose experts stay with the processor.
        draft: a second model that is loaded beside it to propose tokens.
        draft_gpu_layers: its layers on graphics devices; None takes as many as fit there beside the model.
        adapter_bytes: of all adapters.
        is_forced: load it whatever the numbers say.
    """

    n_ctx: int = 0
    cache: CacheSettings = dataclasses.field(default_factory=CacheSettings)
    n_gpu_layers: int | None = None
    experts_on_cpu: int = 0
    draft: GGUFInfo | None = None
    draft_gpu_layers: int | None = None
    adapter_bytes: int = 0
    is_forced: bool = False


@dataclasses.dataclass(frozen=True)
class Room:
    """What a machine has for a model, now.

    Attributes:
        free_bytes: memory that can be filled.
        released_bytes: what models give back that are unloaded first.
        device_free_bytes: of each graphics device that is to be used.
        is_unified: whether those have no memory of their own, but take of the machine's.
        offset_bytes: by how much a load takes more here than reckoned, as learned from earlier ones.
        read_bandwidth: bytes a second that the threads of a model read from memory; 0 is not measured.
        repacked_types: weights that are copied into another layout.
    """

    free_bytes: int
    released_bytes: int = 0
    device_free_bytes: tuple[int, ...] = ()
    offset_bytes: int = 0
    read_bandwidth: float = 0.0
    is_unified: bool = False
    repacked_types: frozenset[TensorType] = frozenset()


@dataclasses.dataclass(frozen=True)
class Fit:
    """What a model takes, and whether there is room.

    Attributes:
        n_ctx: context that was reckoned with.
        type_k, type_v: of its cache; f16 where others cannot be used.
        weight_bytes: of the model, wherever they go.
        cache: of the context, wherever it goes.
        compute_bytes: buffers for the results of a step.
        program_bytes: what the engine takes by itself, the vocabulary included.
        draft_bytes: all of the second model.
        adapter_bytes: of all adapters.
        needed_bytes: of the machine's memory; where the cache is not known to the byte, the most it can be.
        least_needed_bytes: the least it can be; the same where the cache is known.
        peak_bytes: high-water resident memory of the engine, with what the system can take back.
        free_bytes: what there is, with what is given back.
        device_needed_bytes, device_free_bytes: of all graphics devices together.
        n_gpu_layers, draft_gpu_layers: layers on graphics devices, of the model and of the second one.
        largest_n_ctx: the longest context that fits, no longer than the trained one; 0 where none does, None where
            that is not known.
        active_bytes: weights that one token reads.
        kv_bytes_per_token: what one more token takes in the cache.
        decode_rate, full_decode_rate: the most tokens a second with an empty and a full context; None is not known.
        reasons: what is not known or was changed, as sentences.
        is_allowed: whether to load it: it may fit, or it is forced.
    """

    verdict: Verdict
    n_ctx: int
    type_k: str
    type_v: str
    weight_bytes: int
    cache: CacheBytes
    compute_bytes: int
    program_bytes: int
    draft_bytes: int
    adapter_bytes: int
    needed_bytes: int
    least_needed_bytes: int
    peak_bytes: int
    free_bytes: int
    device_needed_bytes: int = 0
    device_free_bytes: int = 0
    n_gpu_layers: int = 0
    draft_gpu_layers: int = 0
    largest_n_ctx: int | None = None
    active_bytes: int = 0
    kv_bytes_per_token: int = 0
    decode_rate: float | None = None
    full_decode_rate: float | None = None
    reasons: tuple[str, ...] = ()
    is_allowed: bool = True


def fit(info: GGUFInfo, wish: Wish, room: Room, *, parts: Sequence[GGUFInfo] = ()) -> Fit:
    """Return what a model takes when it is loaded as wished, and whether there is room.

    Args:
        info: of the file, the first one of a split model.
        parts: the other files of a split model.
    """
    return _Reckoning(info, wish, room, parts).fit()


def decode_rate(
    read_bandwidth: float, active_bytes: int, kv_bytes_per_token: int, num_context_tokens: int
) -> float | None:
    """Return the most tokens a second for one reply where memory is read at so many bytes a second; None is not known.

    Each token reads the active weights, and the cache of its context, once. The engine's `bandwidth_share` of a rate
    that was measured is this formula the other way around.
    """
    size = active_bytes + kv_bytes_per_token * num_context_tokens
    return read_bandwidth / size if size > 0 and 0 < read_bandwidth < math.inf else None


class _Parts(NamedTuple):
    """What a model takes with a context of some size.

    Attributes:
        host_bytes: of the machine's memory; device_bytes of graphics devices.
        num_layers, num_draft_layers: on graphics devices.
    """

    cache: CacheBytes
    compute_bytes: int
    host_bytes: int
    device_bytes: int
    num_layers: int
    num_draft_layers: int


class _Reckoning:
    """The arithmetic of one fit."""

    def __init__(self, info: GGUFInfo, wish: Wish, room: Room, parts: Sequence[GGUFInfo]) -> None:
        self._info, self._wish, self._room = info, wish, room
        self._weights = joined((info.weights, *(part.weights for part in parts)))
        self._sizes = info.hyperparameters
        self._layout = info.kv_layout if info.kv_layout is not None else KVLayout(())
        self._free = max(room.free_bytes, 0) + max(room.released_bytes, 0)
        self._reasons = [f"{info.path.name}: {doubt}." for doubt in self._layout.doubts]
        self._cache = self._usable(wish.cache)

    def fit(self) -> Fit:
        """Return the result."""
        if self._sizes is None or not self._layout.layers:
            return self._unknown()
        n_ctx = min(self._wish.n_ctx, MAX_CTX) or self._auto_ctx(self._sizes)
        if n_ctx > self._sizes.n_ctx_train > 0:
            trained = self._sizes.n_ctx_train
            self._reasons.append(f"The context of {n_ctx:,} tokens is longer than the {trained:,} it was trained for.")
        parts = self._parts(self._sizes, n_ctx)
        least = parts.host_bytes - (parts.cache.total if self._layout.doubts else 0)
        verdict = self._verdict(parts, least)
        active = self._weights.active_bytes(self._sizes.expert_share)
        per_token = self._layout.bytes_per_token(self._cache)
        bandwidth = 0.0 if parts.num_layers else self._room.read_bandwidth
        return Fit(
            verdict=verdict,
            n_ctx=n_ctx,
            type_k=self._cache.type_k,
            type_v=self._cache.type_v,
            weight_bytes=self._weights.total_bytes,
            cache=parts.cache,
            compute_bytes=parts.compute_bytes,
            program_bytes=self._program_bytes(self._sizes),
            draft_bytes=self._draft_bytes(n_ctx),
            adapter_bytes=self._wish.adapter_bytes,
            needed_bytes=parts.host_bytes,
            least_needed_bytes=least,
            peak_bytes=parts.host_bytes + self._copied_bytes(parts.num_layers),
            free_bytes=self._free,
            device_needed_bytes=parts.device_bytes,
            device_free_bytes=sum(self._room.device_free_bytes),
            n_gpu_layers=parts.num_layers,
            draft_gpu_layers=parts.num_draft_layers,
            largest_n_ctx=None if self._layout.doubts else self._largest_ctx(self._sizes),
            active_bytes=active,
            kv_bytes_per_token=per_token,
            decode_rate=decode_rate(bandwidth, active, per_token, 0),
            full_decode_rate=decode_rate(bandwidth, active, per_token, n_ctx),
            reasons=tuple(self._reasons),
            is_allowed=self._wish.is_forced or verdict is not Verdict.DOES_NOT_FIT,
        )

    def _unknown(self) -> Fit:
        if self._sizes is None:
            self._reasons.append(f"{self._info.path.name} is no model of its own, so it keeps no context.")
        least = self._weights.total_bytes + _PROGRAM_BYTES + self._room.offset_bytes
        verdict = Verdict.DOES_NOT_FIT if least > self._free else Verdict.UNKNOWN
        return Fit(
            verdict=verdict,
            n_ctx=self._wish.n_ctx,
            type_k=self._cache.type_k,
            type_v=self._cache.type_v,
            weight_bytes=self._weights.total_bytes,
            cache=_NO_CACHE,
            compute_bytes=0,
            program_bytes=_PROGRAM_BYTES,
            draft_bytes=0,
            adapter_bytes=self._wish.adapter_bytes,
            needed_bytes=least,
            least_needed_bytes=least,
            peak_bytes=least,
            free_bytes=self._free,
            reasons=tuple(self._reasons),
            is_allowed=self._wish.is_forced or verdict is not Verdict.DOES_NOT_FIT,
        )

    def _usable(self, cache: CacheSettings) -> CacheSettings:
        reason = self._layout.types_reason(cache)
        if not reason:
            return cache
        self._reasons.append(
            f"The cache is kept as f16: keys as {cache.type_k} with values as {cache.type_v} cannot be used ({reason})."
        )
        return dataclasses.replace(cache, type_k="f16", type_v="f16")

    # --- what it takes ---

    def _parts(self, sizes: Hyperparameters, n_ctx: int) -> _Parts:
        layers = self._layout.layer_bytes(n_ctx, self._cache)
        if self._layout.doubts:
            layers = tuple(CacheBytes(*(DOUBTFUL_CACHE * part for part in layer)) for layer in self._unwindowed(n_ctx))
        cache = CacheBytes(*(sum(layer[index] for layer in layers) for index in range(3)))
        compute = compute_bytes(sizes, self._layout, n_ctx, self._cache)
        on_device = layer_sizes(
            self._weights, [layer.total for layer in layers], experts_on_cpu=self._wish.experts_on_cpu
        )
        free = self._room.device_free_bytes
        count = num_on_devices(on_device, compute, wanted=self._wish.n_gpu_layers, free=free)
        moved = moved_bytes(on_device, count)
        tied = 0 if self._weights.has_output or not count else self._weights.input_bytes  # a copy: the table stays
        device = moved + (compute if count else 0)
        draft = self._draft_place(n_ctx, device)
        host = self._weights.total_bytes + cache.total - (moved - tied)
        host += moved + draft.moved_bytes if self._room.is_unified else 0
        host += compute + self._program_bytes(sizes) + self._wish.adapter_bytes + draft.host_bytes
        device += draft.moved_bytes + draft.compute_bytes
        return _Parts(cache, compute, host, device, count, draft.num_layers)

    def _unwindowed(self, n_ctx: int) -> tuple[CacheBytes, ...]:
        layers = tuple(layer._replace(is_windowed=False) for layer in self._layout.layers)
        return dataclasses.replace(self._layout, layers=layers).layer_bytes(n_ctx, self._cache)

    def _program_bytes(self, sizes: Hyperparameters) -> int:
        return max(_PROGRAM_BYTES + vocabulary_bytes(sizes) + self._room.offset_bytes, 0)

    def _copied_bytes(self, num_device_layers: int) -> int:
        """Return the bytes of the file that were only read to be copied into another layout."""
        copied = sum(size for kind, size in self._weights.matrix_bytes if kind in self._room.repacked_types)
        return copied if not num_device_layers else 0

    def _draft_bytes(self, n_ctx: int) -> int:
        return draft_bytes(self._wish.draft, n_ctx, self._cache) if self._wish.draft is not None else 0

    def _draft_place(self, n_ctx: int, taken: int) -> DraftPlace:
        """Return where the second model goes when the first has taken so many bytes of the graphics devices."""
        draft, free = self._wish.draft, self._room.device_free_bytes
        if draft is None:
            return DraftPlace(0)
        left = (max(sum(free) - taken, 0),) if free else ()
        wanted = self._wish.draft_gpu_layers
        return draft_place(draft, n_ctx, self._cache, n_gpu_layers=wanted, device_free_bytes=left)

    # --- whether there is room ---

    def _verdict(self, parts: _Parts, least: int) -> Verdict:
        device_free = sum(self._room.device_free_bytes)
        if least > self._free or parts.device_bytes > device_free:
            return Verdict.DOES_NOT_FIT
        if parts.host_bytes > self._free:
            return Verdict.UNKNOWN if self._layout.doubts else Verdict.DOES_NOT_FIT
        if parts.host_bytes > self._free * TIGHT_SHARE:
            return Verdict.TIGHT
        return Verdict.FITS

    def _auto_ctx(self, sizes: Hyperparameters) -> int:
        """Return the context the engine takes where none was asked for: half of what is free, at most, goes to it."""
        weights = self._weights.total_bytes
        budget = min(self._free // 2, max(self._free - weights, self._free // 8))
        n_ctx = min(sizes.n_ctx_train or AUTO_CTX, AUTO_CTX)
        while n_ctx > CTX_STEP:
            taken = self._layout.cache_bytes(n_ctx, self._cache).total
            taken += compute_bytes(sizes, self._layout, n_ctx, self._cache)
            if taken <= budget:
                break
            n_ctx = max(1 << ((n_ctx - 1).bit_length() - 1), CTX_STEP)
        return n_ctx

    def _largest_ctx(self, sizes: Hyperparameters) -> int:
        """Return the longest context that fits well, or where none does, the longest that fits at all."""
        longest = min(sizes.n_ctx_train or MAX_CTX, MAX_CTX) // CTX_STEP
        for accepted in ((Verdict.FITS,), (Verdict.FITS, Verdict.TIGHT)):
            low, high = 0, max(longest, 1)
            while low < high:
                middle = (low + high + 1) // 2
                parts = self._parts(sizes, middle * CTX_STEP)
                is_good = self._verdict(parts, parts.host_bytes) in accepted
                low, high = (middle, high) if is_good else (low, middle - 1)
            if low:
                return low * CTX_STEP
        return 0
