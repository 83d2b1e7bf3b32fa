"""What the window remembers survives the file, and what the file holds cannot harm the window."""

import math
import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QRect
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.window_state import (
    SideState,
    WindowState,
    WindowStateSaver,
    fitted_geometry,
    read_window_state,
    window_table,
)

WHOLE = WindowState(
    geometry=QRect(40, 30, 1100, 700),
    is_maximized=True,
    sidebar=SideState(width=300, is_wanted=False),
    inspector=SideState(is_wanted=True),
    collapsed=("sampling", "memory"),
    chat_id="c-1",
)
SCREENS = [QRect(0, 0, 1920, 1040), QRect(1920, 0, 1280, 1024)]


@pytest.mark.parametrize("state", [WHOLE, WindowState()], ids=["everything", "nothing"])
def test_state_survives_the_file(state: WindowState) -> None:
    text = tomli_w.dumps(window_table(state))
    assert read_window_state(tomllib.loads(text)) == state


def test_nothing_is_written_for_what_is_usual() -> None:
    assert window_table(WindowState()) == {}


@pytest.mark.parametrize(
    "table",
    [
        {"x": "0", "y": 0, "width": 800, "height": 600},
        {"x": 0, "y": 0, "width": 0, "height": 0},
        {"x": 0, "y": 0, "width": -800, "height": 600},
        {"x": 0, "y": 0, "width": 10**9, "height": 600},
        {"x": 10**30, "y": 0, "width": 800, "height": 600},
        {"x": math.nan, "y": math.inf, "width": 800, "height": 600},
        {"x": True, "y": False, "width": 800, "height": 600},
        {"width": 800, "height": 600},
        {"is_maximized": "yes"},
        {"sidebar": 3, "inspector": ["a"]},
        {"sidebar": {"width": "wide", "is_wanted": 1}, "inspector": {"width": -5}},
        {"collapsed": "sampling"},
        {"collapsed": [1, None, {}, "", "a" * 1000, "a\nb"]},
        {"chat_id": 7},
        {"chat_id": ""},
        {"chat_id": "x" * 5000},
    ],
)
def test_what_cannot_be_used_takes_its_default(table: dict[str, Any]) -> None:
    assert read_window_state(table) == WindowState()


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(["x", "y", "width", "height", "is_maximized", "sidebar", "inspector", "collapsed", "chat_id"])


@given(st.dictionaries(NAMES, JUNK))
def test_no_file_harms_the_window(table: dict[str, Any]) -> None:
    state = read_window_state(table)
    assert read_window_state(window_table(state)) == state
    geometry = fitted_geometry(state.geometry, SCREENS)
    assert geometry is None or any(screen.intersects(geometry) for screen in SCREENS)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, None),
        (QRect(100, 50, 900, 700), QRect(100, 50, 900, 700)),
        (QRect(2000, 100, 900, 700), QRect(2000, 100, 900, 700)),
        (QRect(-500, 20, 900, 700), QRect(-500, 20, 900, 700)),
        (QRect(-880, 20, 900, 700), None),
        (QRect(100, -300, 900, 700), None),
        (QRect(100, 1030, 900, 700), None),
        (QRect(5000, 100, 900, 700), None),
        (QRect(0, 0, 9000, 9000), QRect(0, 0, 1920, 1040)),
    ],
    ids=["none", "usual", "second", "half-off", "nearly-off", "above", "below", "screen-gone", "huge"],
)
def test_window_is_put_where_it_can_be_taken_hold_of(wanted: QRect | None, expected: QRect | None) -> None:
    assert fitted_geometry(wanted, SCREENS) == expected


def test_without_a_screen_nothing_is_placed() -> None:
    assert fitted_geometry(QRect(0, 0, 900, 700), []) is None


def test_state_is_saved_once_after_many_changes(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.desktop.window_state._SAVE_DELAY_MS", 20)
    saved: list[Any] = []
    states = [WindowState()]
    saver = WindowStateSaver(lambda: states[0], saved.append, {})
    for number in range(10):
        states[0] = WindowState(chat_id=f"c{number}")
        saver.note_change()
    qtbot.waitUntil(lambda: bool(saved))
    assert saved == [{"chat_id": "c9"}]
    saver.note_change()
    saver.save_now()
    assert saved == [{"chat_id": "c9"}]
    saver.deleteLater()


def test_state_is_saved_at_the_end_without_waiting(qtbot: QtBot) -> None:
    saved: list[Any] = []
    saver = WindowStateSaver(lambda: WHOLE, saved.append, {})
    saver.note_change()
    saver.save_now()
    assert saved == [window_table(WHOLE)]
    saver.deleteLater()


@pytest.mark.parametrize(("wanted", "expected"), [(1.37, 1.37), (0.1, 0.8), (9.0, 2.0), (1.111111, 1.11)])
def test_zoom_takes_any_value_within_its_limits(theme: Theme, qtbot: QtBot, wanted: float, expected: float) -> None:
    with qtbot.waitSignal(theme.zoom_changed) as caught:
        theme.set_zoom(wanted)
    assert caught.args == [expected]
    assert theme.zoom == expected
    with qtbot.assertNotEmitted(theme.zoom_changed):
        theme.set_zoom(expected)


def test_zoom_steps_from_between_go_to_the_next_step(theme: Theme) -> None:
    theme.set_zoom(1.37)
    theme.zoom_in()
    assert theme.zoom == 1.5
    theme.set_zoom(1.37)
    theme.zoom_out()
    assert theme.zoom == 1.25
