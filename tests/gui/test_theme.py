"""Both looks can be read, and PySide keeps None alive."""

import sys
from typing import Any

import pytest
from PySide6.QtCore import QObject
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication

from app.desktop.theme.theme import Theme
from app.desktop.theme.tokens import DARK, LIGHT, Colours
from app.settings import Theme as ThemeMode

LOOKS = pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
SURFACES = ("bg", "surface", "raised", "user_block", "code", "code_head")


def contrast(first: str, second: str) -> float:
    """Return the WCAG 2 contrast ratio of two colours, 1 to 21."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@LOOKS
@pytest.mark.parametrize("surface", [*SURFACES, "selection", "hover", "drafted"])
def test_text_can_be_read_everywhere(look: Colours, surface: str) -> None:
    assert contrast(look.text, getattr(look, surface)) >= 7
    assert contrast(look.muted, getattr(look, surface)) >= 4.5


@LOOKS
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("role", ["accent", "link", "ok", "warn", "error"])
def test_coloured_text_can_be_read(look: Colours, surface: str, role: str) -> None:
    assert contrast(getattr(look, role), getattr(look, surface)) >= 4.5


@LOOKS
@pytest.mark.parametrize("role", ["text", "link"])
def test_prose_can_be_read_where_it_is_tinted_as_drafted(look: Colours, role: str) -> None:
    assert contrast(getattr(look, role), look.drafted) >= 4.5
    assert contrast(look.drafted, look.bg) >= 1.15  # it can be told from what is not


@LOOKS
def test_controls_can_be_seen(look: Colours) -> None:
    assert contrast(look.on_accent, look.accent) >= 4.5
    assert contrast(look.on_accent, look.accent_hover) >= 4.5
    for surface in ("bg", "surface", "raised"):
        assert contrast(look.control_border, getattr(look, surface)) >= 3
        assert contrast(look.accent, getattr(look, surface)) >= 3


@LOOKS
def test_code_colours_can_be_read(look: Colours) -> None:
    from pygments.styles import get_style_by_name

    style = get_style_by_name(look.code_style)
    colours = {style.style_for_token(kind)["color"] for kind, _ in style} - {None}
    assert colours
    assert all(contrast(f"#{colour}", look.code) >= 4.5 for colour in colours)


def test_contrast_of_known_pairs() -> None:
    assert round(contrast("#000000", "#FFFFFF"), 1) == 21.0
    assert contrast("#777777", "#777777") == 1.0


def test_mode_switches_palette_and_stylesheet(theme: Theme, qapp: QApplication) -> None:
    theme.set_mode(ThemeMode.DARK)
    assert qapp.palette().color(QPalette.ColorRole.Window).name().upper() == DARK.bg
    assert DARK.accent in qapp.styleSheet()
    theme.set_mode(ThemeMode.LIGHT)
    assert qapp.palette().color(QPalette.ColorRole.Window).name().upper() == LIGHT.bg
    assert DARK.accent not in qapp.styleSheet()


def test_unknown_system_look_is_light(theme: Theme) -> None:
    theme.set_mode(ThemeMode.SYSTEM)
    assert theme.colours is LIGHT


def test_calls_do_not_use_up_none(qapp: QApplication) -> None:
    thing = QObject()
    before = sys.getrefcount(None)
    for _ in range(500):
        thing.setObjectName("a")
        thing.parent()
    assert sys.getrefcount(None) > before - 100


def test_zoom_has_limits(theme: Theme, make_desk: Any) -> None:
    for _ in range(20):
        theme.zoom_in()
    assert theme.zoom == 2.0
    for _ in range(20):
        theme.zoom_out()
    assert theme.zoom == 0.8
