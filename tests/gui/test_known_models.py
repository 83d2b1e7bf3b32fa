"""A file that was loaded before is loaded without a trial, in this window and in the next; any other is tried."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from app.known_models import KnownModels
from engine import ErrorInfo, Failed, LoadModel, ModelParams
from tests.gui.scripted_engine import Choice, Desk


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dir ä日 #?%20&'\"🙂" / "a b.gguf"
    path.parent.mkdir()
    path.write_bytes(b"GGUF1234")
    return path


def has_asked(desk: Desk, count: int) -> bool:
    return desk.client.count(LoadModel) == count


def test_file_needs_no_trial_when_it_was_loaded_before(
    make_desk: Callable[..., Desk], model: Path, data_dir: Path
) -> None:
    def choose(wanted: str | None) -> Choice:
        return Choice(model, "a b", "a b.gguf")

    first = make_desk(choose)
    first.load()
    request = first.client.last(LoadModel)
    assert (request.path, request.is_known) == (str(model), False)
    known = KnownModels(data_dir / "known-models.json")
    first.qtbot.waitUntil(lambda: known.has(str(model), request.params))
    second = make_desk(choose)
    second.load()
    assert second.client.last(LoadModel).is_known
    model.write_bytes(b"GGUF12345")
    third = make_desk(choose)
    third.load()
    assert not third.client.last(LoadModel).is_known


def test_file_that_failed_to_load_is_tried_again(make_desk: Callable[..., Desk], model: Path) -> None:
    desk = make_desk(lambda wanted: Choice(model, "a b", "a b.gguf"))
    error = ErrorInfo("UnsupportedModel", "llama.cpp cannot load it.", "The file may be damaged.")
    for count in (1, 2):
        desk.parts.model.choose(None)
        desk.qtbot.waitUntil(functools.partial(has_asked, desk, count))
        request = desk.client.last(LoadModel)
        assert not request.is_known
        desk.client.emit(Failed(request_id=request.request_id, error=error))
        desk.qtbot.waitUntil(lambda: desk.parts.model.error == error)


@pytest.mark.allow_log("WARNING app.desktop.bridge.engine_bridge: the engine died")
def test_file_is_tried_again_when_the_engine_died_of_it(
    make_desk: Callable[..., Desk], model: Path, data_dir: Path
) -> None:
    known = KnownModels(data_dir / "known-models.json")
    known.add(str(model), ModelParams())
    desk = make_desk(lambda wanted: Choice(model, "a b", "a b.gguf"))
    desk.parts.model.choose(None)
    desk.qtbot.waitUntil(functools.partial(has_asked, desk, 1))
    request = desk.client.last(LoadModel)
    assert request.is_known
    desk.die(request.request_id)
    desk.qtbot.waitUntil(lambda: not known.has(str(model), ModelParams()))
