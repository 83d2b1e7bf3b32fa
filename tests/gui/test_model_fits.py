"""What the Models page says of memory: of a tiny model, and of what there is."""

from pathlib import Path

import pytest

from app.desktop.itemmodels.model_rows import Fit
from app.desktop.model_fits import fit_figures
from engine import ModelParams
from models import Room, read_gguf_info
from tests.support.gguf_files import write_tiny_model

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free_bytes", "fit"), [(64 * GIB, Fit.FITS), (1 << 20, Fit.TOO_LARGE)], ids=["much", "little"]
)
def test_fit_is_of_what_is_free(tmp_path: Path, free_bytes: int, fit: Fit) -> None:
    info = read_gguf_info(write_tiny_model(tmp_path / "tiny.gguf"))
    figures = fit_figures((info,), ModelParams(), Room(free_bytes=free_bytes, read_bandwidth=10e9))
    assert figures.fit is fit
    assert figures.needed_bytes > 1 << 20
    assert figures.free_bytes == free_bytes
    assert figures.tokens_per_s is not None


def test_what_is_given_back_counts_as_free(tmp_path: Path) -> None:
    info = read_gguf_info(write_tiny_model(tmp_path / "tiny.gguf"))
    figures = fit_figures((info,), ModelParams(), Room(free_bytes=1 << 20, released_bytes=64 * GIB))
    assert figures.fit is Fit.FITS
    assert figures.tokens_per_s is None  # nobody has measured the memory


def test_load_settings_of_the_model_count(tmp_path: Path) -> None:
    info = read_gguf_info(write_tiny_model(tmp_path / "tiny.gguf"))
    room = Room(free_bytes=64 * GIB)
    small, large = (fit_figures((info,), ModelParams(n_ctx=n_ctx), room) for n_ctx in (256, 65_536))
    assert small.needed_bytes < large.needed_bytes
