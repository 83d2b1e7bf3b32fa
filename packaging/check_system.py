"""Finds out whether Qt's libraries load here, and names what to install where they do not. Run it in the environment.

python packaging/check_system.py                     what the tests need (drawing off screen)
python packaging/check_system.py --window            what a window on a Linux desktop needs as well
python packaging/check_system.py --missing-packages  for scripts: the Debian packages to install, one a line
"""

import argparse
import ctypes
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

# Found by installing on a bare Debian 12: each of these is needed, and the rest follows as their dependencies.
OFFSCREEN = {
    "libglib-2.0.so.0": "libglib2.0-0",
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfontconfig.so.1": "libfontconfig1",
    "libdbus-1.so.3": "libdbus-1-3",
}
WINDOW = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
IMPORTS = "from PySide6 import QtCore, QtGui, QtWidgets, QtSvg, QtNetwork, QtPrintSupport"


def missing_libraries(wanted: dict[str, str]) -> list[str]:
    """Return the libraries of `wanted` that the loader does not find."""
    missing = []
    for library in wanted:
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.append(library)
    return missing


def qt_problem(plugin: str) -> str:
    """Return why Qt or its platform plug-in does not load, or nothing.

    It is tried in a process of its own: a library that cannot be loaded can also end the process.
    """
    spec = importlib.util.find_spec("PySide6")
    if spec is None or not spec.submodule_search_locations:
        return "PySide6 is not installed"
    path = Path(spec.submodule_search_locations[0], "Qt", "plugins", "platforms", f"lib{plugin}.so")
    code = IMPORTS + (f"\nimport ctypes; ctypes.CDLL({str(path)!r})" if path.exists() else "")
    tried = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    if tried.returncode == 0:
        return ""
    return (tried.stderr.strip().splitlines() or [f"the process ended with {tried.returncode}"])[-1]


def main() -> int:
    """Check, print what is missing, and return the exit code."""
    parser = argparse.ArgumentParser(description="Checks the system libraries of Qt.")
    parser.add_argument("--window", action="store_true", help="also what a window on a desktop needs")
    parser.add_argument("--missing-packages", action="store_true", help="only print the packages that are missing")
    arguments = parser.parse_args()
    wanted = OFFSCREEN | WINDOW if arguments.window else OFFSCREEN
    missing = missing_libraries(wanted) if sys.platform == "linux" else []
    if arguments.missing_packages:
        print("\n".join(wanted[library] for library in missing), end="")
        return 0
    problem = "" if missing else qt_problem("qxcb" if arguments.window else "qoffscreen")
    if not missing and not problem:
        return 0
    if not missing and (found := re.search(r"(lib[\w.+-]+\.so[\w.]*)", problem)) and "cannot open" in problem:
        missing = [found[1]]
    purpose = "The window" if arguments.window else "Qt"
    if missing:
        print(f"{purpose} cannot start: {', '.join(missing)} not found on this system.")
    else:
        print(f"{purpose} cannot start: {problem}")
    if sys.platform == "linux":
        print(f"On Debian and Ubuntu: apt-get install {' '.join(wanted.values())}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
