"""How large the buffers are that hold the results of a step: an estimate from the sizes of a model.

llama.cpp plans them node by node; those of the widest layer live at once. The factors are read off its plans for the
shapes of Llama 2 and 3, Qwen 3, Mixtral, Gemma 3 and the tiny models of the tests, and are within 20 % of all of them;
docs/models-memory.md says more.
"""

from models.hyperparameters import Hyperparameters
from models.kv_layout import CacheSettings, KVLayout, padded

_NUMBER_BYTES = 4
_MASK_BYTES = 2  # of each token and cell, as fused attention takes it
_STATE_WIDTHS = 7  # of what a layer with a state computes with
_DRAFT_ROWS = 32  # of results, for a draft that is checked


def compute_bytes(sizes: Hyperparameters, layout: KVLayout, n_ctx: int, settings: CacheSettings) -> int:
    """Return what the buffers of a step take, the rows of results that are handed out included."""
    tokens, width = settings.step_tokens(n_ctx), sizes.embedding_length
    feed_forward = 3 * sizes.feed_forward_length + 4 * width
    experts = 2 * sizes.feed_forward_length + 2 * sizes.expert_used_count * width
    activations = tokens * max(feed_forward, experts, _STATE_WIDTHS * sizes.state_width) * _NUMBER_BYTES
    row = sizes.num_vocabulary * _NUMBER_BYTES
    num_rows = max(settings.n_seq_max, 1)
    cells = _masked_cells(layout, n_ctx, settings)
    masks = tokens * sum(cells) * _MASK_BYTES
    scores = 0 if settings.has_flash else tokens * max(sizes.head_counts) * max(cells, default=0) * _NUMBER_BYTES
    output = min(num_rows + _DRAFT_ROWS, tokens) * row  # comes when the layers are done, in their place
    return max(activations + masks + scores, output) + num_rows * row


def _masked_cells(layout: KVLayout, n_ctx: int, settings: CacheSettings) -> list[int]:
    """Return the cells that a token may look at: in layers that keep every token, and in those with a window."""
    cells, cached = [], [layer for layer in layout.layers if layer.has_cache]
    if any(not layer.is_windowed for layer in cached):
        cells.append(padded(n_ctx))
    if any(layer.is_windowed for layer in cached):
        cells.append(layout.window_cells(n_ctx, settings))
    return cells
