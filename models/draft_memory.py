"""What a draft model takes beside the model it drafts for, and where: its place is its own."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from models.compute_buffer import compute_bytes
from models.device_layers import layer_sizes, moved_bytes, num_on_devices
from models.gguf_info import GGUFInfo
from models.hyperparameters import Hyperparameters
from models.kv_layout import CacheSettings, KVLayout

DOUBTFUL_CACHE = 2  # times what keys and values take in all layers: no known memory takes more
_VOCABULARY_ENTRY_BYTES, _MERGE_BYTES = 290, 180  # what llama.cpp and the engine keep of each


class DraftPlace(NamedTuple):
    """Where a draft model goes.

    Attributes:
        host_bytes: of the machine's memory.
        moved_bytes: of weights and cache that are on graphics devices instead.
        compute_bytes: of buffers there.
        num_layers: on graphics devices.
    """

    host_bytes: int
    moved_bytes: int = 0
    compute_bytes: int = 0
    num_layers: int = 0


def draft_bytes(draft: GGUFInfo, n_ctx: int, cache: CacheSettings) -> int:
    """Return what a second model takes in the same process: weights, vocabulary, buffers, and a cache of its own.

    Args:
        draft: of a split model with the weights of all its files.
        n_ctx, cache: of the model it drafts for; its own cache has as many tokens and sequences, and is kept as f16.
    """
    return draft_place(draft, n_ctx, cache, n_gpu_layers=0, device_free_bytes=()).host_bytes


def draft_place(
    draft: GGUFInfo, n_ctx: int, cache: CacheSettings, *, n_gpu_layers: int | None, device_free_bytes: Sequence[int]
) -> DraftPlace:
    """Return where a second model goes; see `draft_bytes`.

    Args:
        n_gpu_layers: its layers on graphics devices, the output counted as one; None takes as many as fit.
        device_free_bytes: what the model it drafts for leaves there.
    """
    sizes, layout = draft.hyperparameters, draft.kv_layout
    if sizes is None or layout is None:
        return DraftPlace(draft.weight_bytes)
    settings = dataclasses.replace(cache, type_k="f16", type_v="f16")
    factor = DOUBTFUL_CACHE if layout.doubts else 1
    kept = layout.cache_bytes(n_ctx, settings).total * factor
    compute = compute_bytes(sizes, layout, n_ctx, settings)
    host = draft.weight_bytes + kept + compute + vocabulary_bytes(sizes)
    layers = layer_sizes(draft.weights, _cache_by_layer(layout, n_ctx, settings, factor))
    count = num_on_devices(layers, compute, wanted=n_gpu_layers, free=device_free_bytes)
    if not count:
        return DraftPlace(host)
    moved = moved_bytes(layers, count)
    tied = 0 if draft.weights.has_output else draft.weights.input_bytes  # a copy: the table stays
    return DraftPlace(host - (moved - tied), moved, compute, count)


def vocabulary_bytes(sizes: Hyperparameters) -> int:
    """Return what the vocabulary of a loaded model takes."""
    return sizes.num_vocabulary * _VOCABULARY_ENTRY_BYTES + sizes.num_merges * _MERGE_BYTES


def _cache_by_layer(layout: KVLayout, n_ctx: int, cache: CacheSettings, factor: int) -> list[int]:
    return [factor * layer.total for layer in layout.layer_bytes(n_ctx, cache)]
