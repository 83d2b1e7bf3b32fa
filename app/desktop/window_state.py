"""The state of the window that outlives it: where it was, how wide its sides were, and what was open.

It is kept as a plain table among the settings. The file may hold anything, so whatever cannot be used is left out.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QObject, QRect, QSize, QTimer
from PySide6.QtGui import QGuiApplication

_SAVE_DELAY_MS = 800
_MAX_TEXT = 200
_MAX_SECTIONS = 50
_MIN_SIZE = QSize(200, 150)
# What must be on a screen, so that a person can take hold of the window.
_GRIP = QSize(80, 40)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SideState:
    """One side of the window.

    Attributes:
        width: in pixels of the design; None takes the usual one.
        is_wanted: what the user chose; None lets the width of the window decide.
    """

    width: int | None = None
    is_wanted: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowState:
    """What a window remembers.

    Attributes:
        geometry: outside of a full or maximised window; None takes the usual place.
        collapsed: names of the sections of the inspector that are folded.
        chat_id: the chat that was open; None for an empty one.
    """

    geometry: QRect | None = None
    is_maximized: bool = False
    sidebar: SideState = SideState()
    inspector: SideState = SideState()
    collapsed: tuple[str, ...] = ()
    chat_id: str | None = None


def read_window_state(table: Mapping[str, Any]) -> WindowState:
    """Return the state that a table of the settings tells of; what cannot be used takes its default."""
    collapsed = table.get("collapsed")
    names = collapsed if isinstance(collapsed, list | tuple) else ()
    return WindowState(
        geometry=_geometry(table),
        is_maximized=table.get("is_maximized") is True,
        sidebar=_side(table.get("sidebar")),
        inspector=_side(table.get("inspector")),
        collapsed=tuple(name for name in names[:_MAX_SECTIONS] if _text(name)),
        chat_id=_text(table.get("chat_id")),
    )


def window_table(state: WindowState) -> dict[str, Any]:
    """Return the table that `read_window_state` understands; what is at its default is left out."""
    table: dict[str, Any] = {}
    if state.geometry is not None:
        place = state.geometry
        table |= {"x": place.x(), "y": place.y(), "width": place.width(), "height": place.height()}
    if state.is_maximized:
        table["is_maximized"] = True
    for name, side in (("sidebar", state.sidebar), ("inspector", state.inspector)):
        values = {key: value for key, value in dataclasses.asdict(side).items() if value is not None}
        if values:
            table[name] = values
    if state.collapsed:
        table["collapsed"] = list(state.collapsed)
    if state.chat_id is not None:
        table["chat_id"] = state.chat_id
    return table


def fitted_geometry(wanted: QRect | None, screens: Sequence[QRect] | None = None) -> QRect | None:
    """Return where a window can be seen and taken hold of; None where nothing usable is wanted.

    Args:
        screens: the areas of the screens that windows may cover; None asks the desktop.
    """
    if screens is None:
        screens = [screen.availableGeometry() for screen in QGuiApplication.screens()]
    if wanted is None or not screens:
        return None
    for screen in screens:
        seen = screen.intersected(QRect(wanted.topLeft(), QSize(wanted.width(), _GRIP.height())))
        if seen.width() >= _GRIP.width() and seen.height() >= _GRIP.height():
            size = wanted.size().boundedTo(screen.size())
            return QRect(wanted.topLeft(), size)
    return None  # the screen is gone: the desktop knows a better place


def _geometry(table: Mapping[str, Any]) -> QRect | None:
    numbers = [_number(table.get(name)) for name in ("x", "y", "width", "height")]
    x, y, width, height = numbers
    if x is None or y is None or width is None or height is None:
        return None
    if width < _MIN_SIZE.width() or height < _MIN_SIZE.height():
        return None
    return QRect(x, y, width, height)


def _side(value: object) -> SideState:
    if not isinstance(value, Mapping):
        return SideState()
    width = _number(value.get("width"))
    is_wanted = value.get("is_wanted")
    return SideState(
        width=width if width is not None and width > 0 else None,
        is_wanted=is_wanted if isinstance(is_wanted, bool) else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_TEXT and value.isprintable() else None


def _number(value: object) -> int | None:
    """Return a number that is no farther off than any screen, in whatever form it was written."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return round(value) if abs(value) <= 100_000 else None


class WindowStateSaver(QObject):
    """Saves the state a moment after it last changed, and at the end.

    Args:
        read: returns the state of now.
        save: keeps a table.
        saved: the table that is kept already.
    """

    def __init__(
        self,
        read: Callable[[], WindowState],
        save: Callable[[Mapping[str, Any]], None],
        saved: Mapping[str, Any],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._read = read
        self._save = save
        self._saved = dict(saved)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_SAVE_DELAY_MS)
        self._timer.timeout.connect(self.save_now)

    def note_change(self) -> None:
        """Save soon; changes until then are saved together."""
        self._timer.start()

    def save_now(self) -> None:
        """Save what changed since the last time, if anything did."""
        self._timer.stop()
        table = window_table(self._read())
        if table != self._saved:
            self._saved = table
            self._save(table)
