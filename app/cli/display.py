"""Whether a window can be opened here, told before Qt is asked: Qt ends the process where it cannot."""

import ctypes
import os
import sys
from collections.abc import Mapping

_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")

# Debian and Ubuntu packages of what Qt's wheel does not bring along.
QT_PACKAGES = (
    "libglib2.0-0 libgl1 libegl1 libxkbcommon0 libfontconfig1 libdbus-1-3 "
    "libxcb-cursor0 libxcb-icccm4 libxcb-keysyms1 libxcb-shape0 libxkbcommon-x11-0"
)


# What Qt's plugin for X11 links to; where one is missing, Qt prints advice and aborts.
_X11_LIBRARIES = (
    "libxcb-cursor.so.0",
    "libxcb-icccm.so.4",
    "libxcb-keysyms.so.1",
    "libxcb-shape.so.0",
    "libxkbcommon-x11.so.0",
)


def why_no_window(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> tuple[str | None, str]:
    """Return why no window can be opened, and what to do; None and nothing where one can."""
    environment = os.environ if environment is None else environment
    if platform in ("win32", "darwin"):
        return None, ""
    if not any(environment.get(name) for name in _VARIABLES):
        return "There is no display for a window (neither DISPLAY nor WAYLAND_DISPLAY is set).", ""
    chosen = environment.get("QT_QPA_PLATFORM") or ("wayland" if environment.get("WAYLAND_DISPLAY") else "xcb")
    missing = [name for name in _X11_LIBRARIES if not _is_there(name)] if chosen.startswith("xcb") else []
    if missing:
        return f"The window cannot be opened: {', '.join(missing)} is missing.", qt_install_line(None)
    return None, ""


def qt_install_line(error: ImportError | None) -> str:
    """Return what to do when Qt cannot be imported, or misses a library."""
    if isinstance(error, ModuleNotFoundError):
        return "Install it with `pip install PySide6-Essentials`."
    return f"Install what it needs with `sudo apt-get install {QT_PACKAGES}`."


def _is_there(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
