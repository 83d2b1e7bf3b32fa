"""The settings file: whatever is in it the program starts, and what was sound stays."""

import dataclasses
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import app.settings
from app.errors import SettingsError
from app.settings import Settings, SettingsStore, Theme, setting_infos
from app.settings_table import SCHEMA_VERSION

damaged_is_logged = pytest.mark.allow_log(r"WARNING app\.settings: settings file is damaged")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ä 日" / "settings.toml"


@pytest.fixture
def store(path: Path) -> SettingsStore:
    path.parent.mkdir()
    return SettingsStore(path)


def kept_aside(path: Path) -> list[Path]:
    return sorted(path.parent.glob("settings.toml.damaged-*"))


def test_defaults_where_there_is_no_file(path: Path) -> None:
    assert SettingsStore(path).load() == (Settings(), None)
    assert not path.parent.exists()


def test_saved_settings_come_back(store: SettingsStore, path: Path) -> None:
    settings = Settings(last_model="/models/é日👍 #.gguf", theme=Theme.DARK)
    store.save(settings)
    assert store.load() == (settings, None)
    table = tomllib.loads(path.read_bytes().decode("utf-8"))
    assert table == {
        "schema_version": SCHEMA_VERSION,
        "last_model": "/models/é日👍 #.gguf",
        "theme": "dark",
    }


@given(
    last_model=st.none() | st.text(st.characters(codec="utf-8")),
    theme=st.sampled_from(Theme),
    unknown=st.dictionaries(
        st.text(min_size=1)
        .filter(lambda name: name not in {*setting_infos(), "schema_version"})
        .map(lambda name: name.encode("utf-8", "replace").decode()),
        st.integers(-(2**60), 2**60) | st.booleans() | st.lists(st.integers(0, 9)),
        max_size=3,
    ),
)
def test_any_settings_come_back(
    tmp_path_factory: pytest.TempPathFactory, last_model: str | None, theme: Theme, unknown: dict[str, object]
) -> None:
    store = SettingsStore(tmp_path_factory.mktemp("settings") / "settings.toml")
    formats = {} if last_model is None else {last_model: "ChatML"}
    settings = Settings(last_model=last_model, theme=theme, chat_formats=formats, unknown=unknown)
    store.save(settings)
    assert store.load() == (settings, None)


@damaged_is_logged
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n \n",
        b"[a",
        b"\0" * 4096,
        'theme = "dark"'.encode("utf-16"),
        b"\xff\xfe",
        b'theme = "d\xe4rk"',
        b"a = " + b"[" * 50_000,
        b"a = " + b"9" * 5000,
        b"# " + b"x" * (2 << 20),
        b".".join([b"a"] * 3000) + b" = 1",
        b"[drafting." + b".".join([b"a"] * 3000) + b"]",
    ],
    ids=[
        "empty",
        "blank",
        "[a",
        "NULs",
        "UTF-16",
        "BOM alone",
        "Latin-1",
        "nested",
        "long number",
        "huge",
        "dotted",
        "deep name",
    ],
)
def test_damaged_file_is_set_aside_and_told_once(store: SettingsStore, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    settings, notice = store.load()
    assert settings == Settings()
    [aside] = kept_aside(path)
    assert aside.read_bytes() == data
    assert notice is not None
    assert aside.name in notice
    assert store.load() == (Settings(), None)


@damaged_is_logged
@pytest.mark.parametrize(
    "line",
    [
        "theme = 3",
        'theme = "purple"',
        "theme = [1]",
        "theme = { a = 1 }",
        "last_model = 1",
        "chat_formats = 3",
        "chat_formats = { a = 1 }",
        "window = 3",
        "zoom = 9",
        "zoom = true",
        "retention_days = 0",
    ],
)
def test_wrong_value_costs_only_itself(store: SettingsStore, path: Path, line: str) -> None:
    good = 'last_model = "starter"' if line.startswith("theme") else 'theme = "dark"'
    path.write_text(f"schema_version = 1\n{good}\n{line}\n[later]\nwidth = 3\n", "utf-8")
    settings, notice = store.load()
    assert notice is not None
    assert (settings.last_model, settings.theme) in {("starter", Theme.SYSTEM), (None, Theme.DARK)}
    assert len(kept_aside(path)) == 1
    assert store.load() == (settings, None)
    assert settings.unknown == {"later": {"width": 3}}


def test_unknown_keys_are_kept(store: SettingsStore, path: Path) -> None:
    path.write_text('tint = 3\ntheme = "dark"\n[later]\nx = [1, 2]\n', "utf-8")
    settings, notice = store.load()
    assert notice is None
    store.save(dataclasses.replace(settings, last_model="starter"))
    table = tomllib.loads(path.read_text("utf-8"))
    assert (table["tint"], table["later"], table["theme"]) == (3, {"x": [1, 2]}, "dark")


@damaged_is_logged
def test_folder_of_that_name_is_set_aside(store: SettingsStore, path: Path) -> None:
    (path / "inner").mkdir(parents=True)
    settings, notice = store.load()
    assert settings == Settings()
    assert notice is not None
    [aside] = kept_aside(path)
    assert (aside / "inner").is_dir()
    store.save(Settings(theme=Theme.LIGHT))
    assert store.load() == (Settings(theme=Theme.LIGHT), None)


def test_read_only_file_is_read_and_written(store: SettingsStore, path: Path) -> None:
    store.save(Settings(theme=Theme.DARK))
    path.chmod(0o400)
    assert store.load() == (Settings(theme=Theme.DARK), None)
    store.save(Settings(theme=Theme.LIGHT))
    assert store.load() == (Settings(theme=Theme.LIGHT), None)


@pytest.mark.allow_log(r"WARNING app\.settings: ")
def test_start_goes_on_where_nothing_can_be_set_aside(
    store: SettingsStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("[a", "utf-8")

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    settings, notice = store.load()
    assert settings == Settings()
    assert notice is not None
    assert str(path) in notice


def test_failed_save_leaves_the_old_file_and_nothing_else(
    store: SettingsStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(Settings(theme=Theme.DARK))

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SettingsError, match="could not be saved"):
        store.save(Settings(theme=Theme.LIGHT))
    assert [entry.name for entry in path.parent.iterdir()] == ["settings.toml"]
    assert store.load() == (Settings(theme=Theme.DARK), None)


def test_name_that_is_no_text_is_refused_and_the_old_file_stays(store: SettingsStore) -> None:
    store.save(Settings(theme=Theme.DARK))
    with pytest.raises(SettingsError):
        store.save(Settings(last_model="a\udcff"))
    assert store.load() == (Settings(theme=Theme.DARK), None)


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege on Windows")
def test_link_to_a_file_kept_elsewhere_stays_a_link(store: SettingsStore, path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles.toml"
    elsewhere.write_text('theme = "dark"\n', "utf-8")
    path.symlink_to(elsewhere)
    store.save(Settings(theme=Theme.LIGHT))
    assert path.is_symlink()
    assert "light" in elsewhere.read_text("utf-8")


def test_update_changes_one_setting_and_leaves_the_others(store: SettingsStore) -> None:
    store.save(Settings(theme=Theme.DARK))
    assert store.update(last_model="starter") == Settings(theme=Theme.DARK, last_model="starter")
    assert store.load()[0] == Settings(theme=Theme.DARK, last_model="starter")


def test_every_setting_says_what_it_is() -> None:
    infos = setting_infos()
    assert set(infos) == {field.name for field in dataclasses.fields(Settings)} - {"unknown"}
    for info in infos.values():
        assert info.label
        assert info.help.endswith(".")


def test_reader_sees_the_old_or_the_new_file_whole(store: SettingsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(Settings(theme=Theme.DARK))
    seen: list[Settings] = []
    sync: Callable[[int], None] = os.fsync

    def look(descriptor: int) -> None:
        seen.append(store.load()[0])
        sync(descriptor)

    monkeypatch.setattr("os.fsync", look)
    store.save(Settings(theme=Theme.LIGHT))
    assert [settings.theme for settings in seen] == [Theme.DARK, Theme.LIGHT][: len(seen)]


_SAVE_FOR_EVER = """
import itertools, pathlib, sys
from app.settings import Settings, SettingsStore
store = SettingsStore(pathlib.Path(sys.argv[1]))
for number in itertools.count():
    store.save(Settings(last_model="x" * (number % 50_000)))
    print(number, flush=True)
"""


@pytest.mark.parametrize("num_saves", [1, 20, 150])
def test_kill_in_the_middle_of_saving_leaves_a_whole_file(store: SettingsStore, path: Path, num_saves: int) -> None:
    line = [sys.executable, "-c", _SAVE_FOR_EVER, str(path)]
    with subprocess.Popen(line, cwd=Path(app.__file__).parents[1], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(num_saves):
            writer.stdout.readline()
        writer.kill()
    settings, notice = store.load()
    assert notice is None
    assert set(settings.last_model or "x") == {"x"}
