"""The real window is as it was at the next start, whatever the settings file holds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.settings import SettingsStore

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys


def main():
    from app.desktop import application
    from app.paths import find_paths

    build = application.build_window

    def build_and_drive(*args, **kwargs):
        parts = build(*args, **kwargs)
        parts.window.first_painted.connect(lambda: drive(parts))
        return parts

    application.build_window = build_and_drive
    sys.exit(application.run_window(find_paths(sys.argv[1]), model="starter", fake_engine=True))


def drive(parts):
    window = parts.window
    print("was", window.geometry().getRect(), parts.theme.zoom, window.is_inspector_visible)
    window.setGeometry(31, 42, 733, 544)
    parts.theme.set_zoom(1.3)
    parts.theme.set_zoom(1.37)
    window.toggle_inspector()
    window.close()


if __name__ == "__main__":
    main()
"""


def run(tmp_path: Path) -> str:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    (tmp_path / "data").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "data")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_window_is_as_it_was_at_the_next_start(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path) == "was (31, 42, 733, 544) 1.37 True"


@pytest.mark.parametrize(
    "text",
    ["window = 3", "[window]\nx = 'a'\nwidth = -4\nsidebar = 7", "zoom = 99.0", "[window]\nx = 99999\ny = 99999"],
    ids=["no-table", "junk", "zoom", "off-screen"],
)
def test_window_opens_whatever_the_settings_hold(tmp_path: Path, text: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "settings.toml").write_text(text)
    assert run(tmp_path).endswith(", 800, 800) 1.0 False")  # the usual size, on the small screen there is
    settings, notice = SettingsStore(tmp_path / "data" / "settings.toml").load()
    assert (settings.zoom, notice) == (1.37, None)
