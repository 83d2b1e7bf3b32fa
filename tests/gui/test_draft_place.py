"""Where the draft model is computed: offered where there is a graphics processor, kept, and used at once."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QComboBox

from app.desktop.widgets.draft_panel import DraftPanel
from app.draft_models import DraftCandidate, DraftCheck
from app.settings import Settings
from app.speculation import MAX_GPU_LAYERS
from engine import DescribeEngine, Device, EngineDescribed, EngineDescription, SetDraft
from tests.gui.scripted_engine import Desk

DRAFT = "/models/small.gguf"
CPU = Device(name="CPU", description="A processor", kind="cpu", total_bytes=8 << 30, free_bytes=None)
GPU = Device(name="CUDA0", description="A card", kind="gpu", total_bytes=8 << 30, free_bytes=6 << 30)


class Files:
    """Stands in for what looks at files."""

    def find(self, target: Path, **_: Any) -> types.SimpleNamespace:
        found = DraftCandidate(
            path=Path(DRAFT), name="small", title="small", file_bytes=1, check=DraftCheck(memory_bytes=1)
        )
        return types.SimpleNamespace(reason="", hint="", notes=(), candidates=(found,), suggestion=None)

    def check(self, target: Path, draft: Path, **_: Any) -> DraftCheck:
        return DraftCheck(memory_bytes=1)


@pytest.fixture
def open_desk(make_desk: Callable[..., Desk]) -> Callable[..., Desk]:
    """Open a window on a machine with some devices, and a draft model."""

    def open_one(*devices: Device, **kept: object) -> Desk:
        drafting = {"starter": {"mode": "both", "path": DRAFT, **kept}}
        desk = make_desk(settings=Settings(drafting=drafting), draft_files=Files)
        if not desk.window.is_inspector_visible:
            desk.window.toggle_inspector()
        desk.window.inspector.set_collapsed(["system_prompt", "sampling", "adapters", "model"])
        desk.load()
        request = desk.client.last(DescribeEngine)
        description = EngineDescription(binding="1", library="1", features="", devices=devices, default_threads=1)
        desk.client.emit(EngineDescribed(request_id=request.request_id, description=description))
        desk.qtbot.waitUntil(lambda: desk.client.count(SetDraft) == 1)
        return desk

    return open_one


def panel_of(desk: Desk) -> DraftPanel:
    [panel] = desk.window.inspector.findChildren(DraftPanel)
    return panel


def choose(box: QComboBox, text: str) -> None:
    index = box.findText(text)
    assert index >= 0
    box.setCurrentIndex(index)
    box.activated.emit(index)


def test_no_place_is_offered_when_there_is_only_a_processor(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(CPU)
    assert not panel_of(desk).place.isVisible()
    assert desk.client.last(SetDraft).params.n_gpu_layers is None


@pytest.mark.parametrize(("text", "layers"), [("Processor", 0), ("Graphics", MAX_GPU_LAYERS)])
def test_a_place_that_is_chosen_is_kept_and_the_draft_model_loaded_there(
    text: str, layers: int, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(CPU, GPU)
    desk.qtbot.waitUntil(lambda: panel_of(desk).place.isVisible())
    choose(panel_of(desk).place.box, text)
    desk.qtbot.waitUntil(lambda: desk.client.count(SetDraft) == 3)
    assert (desk.client.last(SetDraft).path, desk.client.last(SetDraft).params.n_gpu_layers) == (DRAFT, layers)
    assert desk.saved[-1] == ("drafting", {"starter": {"mode": "both", "path": DRAFT, "gpu_layers": layers}})
    choose(panel_of(desk).place.box, "As its model")
    desk.qtbot.waitUntil(lambda: desk.client.count(SetDraft) == 5)
    assert desk.client.last(SetDraft).params.n_gpu_layers is None


def test_a_kept_place_is_used_and_shown(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(CPU, GPU, gpu_layers=0)
    assert desk.client.last(SetDraft).params.n_gpu_layers == 0
    assert panel_of(desk).place.box.currentText() == "Processor"
