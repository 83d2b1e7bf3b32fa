"""What is remembered of the use of models, whatever the settings hold."""

import dataclasses
from typing import Any

import pytest

from app.desktop.model_records import times_of_use
from app.desktop.session.user_settings import UserSettings
from app.settings import Settings
from tests.gui.scripted_engine import Desk


def settings_with(used: dict[str, Any]) -> UserSettings:
    return UserSettings(dataclasses.replace(Settings(), models_used=used), lambda name, value: None)


@pytest.mark.parametrize("value", ["soon", True, None, [1.0], float("nan"), float("inf")], ids=str)
def test_what_is_no_time_is_left_out(value: object) -> None:
    assert times_of_use(settings_with({"/a": value, "/b": 7.0})) == {"/b": 7.0}


def test_only_the_latest_are_kept(desk: Desk) -> None:
    desk.parts.settings.set("models_used", {f"/{number}": float(number) for number in range(500)})
    desk.load()
    kept = times_of_use(desk.parts.settings)
    assert len(kept) == 200
    assert "/models/small.gguf" in kept
    assert {"/499", "/301"} <= set(kept)
    assert "/300" not in kept
