"""What the user chose reaches the file, and a file that cannot be written is told of once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.desktop.bridge.background import Background
from app.desktop.settings_saving import SettingsSaving
from app.desktop.widgets.notices import Notice
from app.settings import SettingsStore


class Window:
    """Stands in for the places where notices are shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.num_shown = 0

    def show(self, notice: Notice) -> None:
        self.shown.append(notice.key)
        self.num_shown += 1

    def dismiss(self, key: str) -> None:
        self.shown.remove(key)


@pytest.fixture
def background() -> Iterator[Background]:
    background = Background()
    yield background
    background.close()
    background.deleteLater()


@pytest.mark.allow_log("the settings are not saved")
def test_file_that_cannot_be_written_is_told_once_and_written_later(
    background: Background, qtbot: QtBot, tmp_path: Path
) -> None:
    folder = tmp_path / "config"
    folder.write_text("in the way")
    store, window = SettingsStore(folder / "settings.toml"), Window()
    saving = SettingsSaving(store)
    saving.begin(background, window.show, window.dismiss)
    saving.save("zoom", 1.5)
    qtbot.waitUntil(lambda: window.shown == ["settings-unsaved"])
    saving.save("retention_days", 7)
    with pytest.raises(Exception, match="could not be saved"):
        saving.write_pending()
    folder.unlink()
    saving.save("last_model", "starter")
    qtbot.waitUntil(lambda: window.shown == [])
    settings, _ = store.load()
    assert (settings.zoom, settings.retention_days, settings.last_model) == (1.5, 7, "starter")
    assert window.num_shown == 1


def test_what_no_thread_came_to_is_written_at_the_end(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path / "settings.toml")
    saving = SettingsSaving(store)
    saving.save("zoom", 1.1)
    saving.save("zoom", 1.25)
    saving.close()
    assert store.load()[0].zoom == 1.25
