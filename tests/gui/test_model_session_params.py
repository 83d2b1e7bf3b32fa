"""A model is loaded with the settings that are kept for it, and remembered with them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.desktop.bridge.background import Background
from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.model_session import ModelSession, ModelState
from app.known_models import KnownModels
from engine import LoadModel, ModelLoaded, ModelParams
from tests.gui.scripted_engine import Choice, ScriptedClient, describe


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def make_session(client: ScriptedClient, data_dir: Path, tmp_path: Path) -> Iterator[Callable[..., ModelSession]]:
    bridge = EngineBridge(client)
    bridge.start()
    background = Background(bridge)
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF")

    def make(**kwargs: Any) -> ModelSession:
        known = KnownModels(data_dir / "known-models.json")
        return ModelSession(
            bridge, background, lambda wanted: Choice(path, "A", wanted or "starter"), bridge, known=known, **kwargs
        )

    yield make
    background.close()
    bridge.close(1.0)
    bridge.deleteLater()


def load(session: ModelSession, client: ScriptedClient, qtbot: QtBot, name: str) -> LoadModel:
    before = client.count(LoadModel)
    session.choose(name)
    qtbot.waitUntil(lambda: client.count(LoadModel) > before)
    request = client.last(LoadModel)
    client.emit(ModelLoaded(request_id=request.request_id, description=describe()))
    qtbot.waitUntil(lambda: session.state is ModelState.READY)
    return request


def test_each_model_is_loaded_with_its_own_settings(make_session, client: ScriptedClient, qtbot: QtBot) -> None:
    kept = {"small": ModelParams(n_ctx=2048)}
    session = make_session(params=lambda name: kept.get(name, ModelParams()))
    assert load(session, client, qtbot, "small").params == ModelParams(n_ctx=2048)
    assert session.params == ModelParams(n_ctx=2048)
    assert (session.is_loaded("small"), session.is_loaded("other")) == (True, False)
    assert load(session, client, qtbot, "other").params == ModelParams()
    assert session.params == ModelParams()
    kept["other"] = ModelParams(type_k="q8_0")
    session.load_again()
    assert not session.is_loaded("other")
    qtbot.waitUntil(lambda: client.last(LoadModel).params == ModelParams(type_k="q8_0"))


def test_a_model_is_known_for_the_settings_it_was_loaded_with(
    make_session, client: ScriptedClient, qtbot: QtBot, data_dir: Path, tmp_path: Path
) -> None:
    params = ModelParams(n_ctx=2048)
    session = make_session(params=lambda name: params)
    assert not load(session, client, qtbot, "small").is_known
    known, path = KnownModels(data_dir / "known-models.json"), str(tmp_path / "a.gguf")
    qtbot.waitUntil(lambda: known.has(path, params))
    assert not known.has(path, ModelParams())
    assert load(session, client, qtbot, "small").is_known
    params = ModelParams(n_ctx=4096)
    assert not load(session, client, qtbot, "small").is_known


@pytest.mark.allow_log("ERROR app.desktop.session.model_session: choosing a model failed")
def test_settings_stay_those_of_the_model_that_is_loaded_when_another_is_refused(
    client: ScriptedClient, make_session, qtbot: QtBot
) -> None:
    asked = []

    def params(name: str) -> ModelParams:
        asked.append(name)
        if name == "bad":
            raise OSError("no such settings")
        return ModelParams(n_ctx=1024)

    session = make_session(params=params)
    load(session, client, qtbot, "small")
    with qtbot.waitSignal(session.refused):
        session.choose("bad")
    assert asked == ["small", "bad"]
    assert session.params == ModelParams(n_ctx=1024)
    assert session.is_loaded("small")
