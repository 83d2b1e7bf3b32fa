"""Whether a window can be opened."""

import pytest

import app.cli.display
from app.cli.display import QT_PACKAGES, qt_install_line, why_no_window


@pytest.fixture(autouse=True)
def libraries_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.cli.display, "_is_there", lambda name: True)


@pytest.mark.parametrize(
    ("environment", "platform"),
    [
        ({"DISPLAY": ":0"}, "linux"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux"),
        ({"QT_QPA_PLATFORM": "offscreen"}, "linux"),
        ({}, "win32"),
        ({}, "darwin"),
    ],
)
def test_window_can_be_opened(environment: dict[str, str], platform: str) -> None:
    assert why_no_window(environment, platform) == (None, "")


def test_missing_display_is_said() -> None:
    reason, _ = why_no_window({"DISPLAY": ""}, "linux")
    assert reason is not None
    assert "no display" in reason


def test_missing_library_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.cli.display, "_is_there", lambda name: "cursor" not in name)
    reason, hint = why_no_window({"DISPLAY": ":0"}, "linux")
    assert reason is not None
    assert "libxcb-cursor.so.0" in reason
    assert f"apt-get install {QT_PACKAGES}" in hint
    assert why_no_window({"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"}, "linux") == (None, "")


def test_missing_qt_and_missing_libraries_have_different_lines() -> None:
    assert "pip install" in qt_install_line(ModuleNotFoundError("No module named 'PySide6'"))
    assert "apt-get install" in qt_install_line(ImportError("libGL.so.1: cannot open shared object file"))
