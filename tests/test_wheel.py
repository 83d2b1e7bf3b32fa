"""What is shipped: a wheel built from the tree holds the three packages and its metadata, whole and alone."""

import email
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("app", "engine", "models")
# Built from a copy: the build leaves folders behind.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "out", "*.egg-info", "__pycache__", ".*_cache")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel as pip would, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)
    code = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=folder / "tree", capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return zipfile.ZipFile(folder / built.stdout.split()[-1])


def test_wheel_holds_only_the_packages(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    info = {name for name in tops if name.startswith("fireside_chat-") and name.endswith(".dist-info")}
    assert len(info) == 1
    assert tops - info == set(PACKAGES)


def test_wheel_holds_every_file_of_the_packages(wheel: zipfile.ZipFile) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert wanted - set(wheel.namelist()) == set(), "name the kind of file under package-data in pyproject.toml"


def test_wheel_has_the_command_the_licence_and_the_name(wheel: zipfile.ZipFile) -> None:
    info = next(name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    assert "fireside = app.__main__:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert any(name.startswith(f"{info}/") and name.endswith("LICENSE") for name in wheel.namelist())
    metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert (metadata["Name"], metadata["License-Expression"]) == ("fireside-chat", "MIT")
    assert metadata["Requires-Python"] == ">=3.11"
