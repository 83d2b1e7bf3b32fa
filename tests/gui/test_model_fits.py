"""What the Models page says of memory: of a tiny model, and of what there is."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.bridge.model_jobs import Job
from app.desktop.itemmodels.model_rows import Fit
from app.desktop.library_opening import open_shelf
from app.desktop.model_fits import fit_figures
from app.desktop.session.user_settings import UserSettings
from app.paths import find_paths
from app.settings import Settings
from engine import ModelParams
from models import Room, read_gguf_info
from tests.gui.scripted_engine import ScriptedClient
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


def test_shelf_of_the_user_finds_the_starter_and_says_whether_it_fits(data_dir: Path, qapp: QApplication) -> None:
    paths = find_paths(str(data_dir))
    bridge = EngineBridge(ScriptedClient())
    shelf = open_shelf(paths, UserSettings(Settings(), lambda name, value: None), bridge, ScriptedClient)
    job = Job(lambda progress: None)
    assert shelf.known() == ()
    assert any("smollm2" in model.name.lower() for model in shelf.scan(job).models)
    (model,) = shelf.fits(job)
    assert model.files[0].fit in (Fit.FITS, Fit.TIGHT, Fit.TOO_LARGE)
    assert model.files[0].free_bytes > 0
    assert not model.files[0].is_ours
