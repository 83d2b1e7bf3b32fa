"""The Models page on a machine whose graphics device has no memory of its own."""

from pathlib import Path

from app.desktop.model_fits import fit_figures
from engine import ModelParams
from models import Room, read_gguf_info

GIB = 1 << 30


def test_memory_that_is_shared_with_graphics_counts_once(starter_path: Path) -> None:
    info = read_gguf_info(starter_path)
    alone = fit_figures((info,), ModelParams(n_ctx=4096), Room(8 * GIB))
    shared = Room(8 * GIB, device_free_bytes=(6 * GIB,), is_unified=True)
    figures = fit_figures((info,), ModelParams(n_ctx=4096), shared)
    # The table of the vocabulary is the output too, of which such a device gets a copy.
    assert (figures.needed_bytes, figures.free_bytes) == (alone.needed_bytes + info.weights.input_bytes, 8 * GIB)
    separate = fit_figures((info,), ModelParams(n_ctx=4096), Room(8 * GIB, device_free_bytes=(6 * GIB,)))
    assert separate.free_bytes == 14 * GIB
