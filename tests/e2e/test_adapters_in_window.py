"""The real window with a real engine: an adapter is chosen by hand, changes the reply, and leaves no trace at 0."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.adapter_files import AdapterFiles
from app.desktop.theme.theme import Theme
from app.desktop.widgets.adapter_panel import AdapterPanel
from app.desktop.widgets.adapter_row import AdapterRow
from app.settings import Settings
from app.settings import Theme as ThemeMode
from engine import CacheMissCause, ModelParams, ProcessClient
from tests.support.adapters import STARTER, TINY, write_adapter
from tests.support.cold_check import EXACT
from tests.support.gguf_files import write_tiny_model
from tests.support.person import Person
from tests.support.real_window import RealWindows

pytestmark = pytest.mark.qt_log_ignore("plugin does not support", "propagateSizeHints")

_QUESTION = "The old lighthouse keeper wrote down the weather every day. What did he write on the last day?"


@pytest.fixture
def person(qtbot: QtBot, qapp: Any, tmp_path: Path) -> Iterator[Person]:
    """Return somebody before a window with a tiny model, beside which two adapters lie."""
    folder = tmp_path / "models"
    folder.mkdir()
    model = write_tiny_model(folder / "tiny.gguf", n_ctx_train=2048)
    write_adapter(folder / "style.gguf", TINY, strength=0.5)
    write_adapter(folder / "alien.gguf", STARTER)
    params = msgspec.to_builtins(ModelParams(n_ctx=2048, **EXACT))
    settings = Settings(
        load_params={str(model): params},
        sampling={"temperature": 0.0, "max_tokens": 16},
        theme=ThemeMode.LIGHT,
        window={"collapsed": ["live", "sampling", "model", "system_prompt"], "inspector": "open"},
    )

    theme = Theme(qapp, ThemeMode.LIGHT, family="DejaVu Sans")
    windows = RealWindows(qtbot, theme, tmp_path, settings, adapter_files=AdapterFiles(folder))
    parts = windows.show(ProcessClient(), size=(1300, 1000))
    if not parts.window.is_inspector_visible:
        parts.window.toggle_inspector()
    parts.window.inspector.set_collapsed(["live", "sampling", "model", "system_prompt"])
    person = windows.load(parts, str(model))
    person.composer.text_edit.setFocus()
    yield person
    windows.close()


def row(person: Person, label: str) -> AdapterRow:
    [panel] = person.window.inspector.findChildren(AdapterPanel)
    person.wait(lambda: any(row.adapter.label == label for row in panel.rows))
    return next(row for row in panel.rows if row.adapter.label == label)


def set_strength(person: Person, text: str) -> None:
    person.click(row(person, "style").strength.field)
    person.replace(text)
    person.press(Qt.Key.Key_Tab)


def ask_again(person: Person) -> tuple[str, int, CacheMissCause | None]:
    before = person.last_reply.turn_id
    person.click(person.composer.text_edit)
    person.control(Qt.Key.Key_R)
    person.wait(lambda: person.last_reply.turn_id != before)
    person.wait_for_reply()
    reply = person.last_reply
    assert reply.error is None and reply.metrics is not None
    return reply.text, reply.metrics.num_cached_tokens, reply.metrics.cache_miss_cause


def test_adapter_changes_the_reply_and_strength_0_is_none(person: Person) -> None:
    assert not row(person, "alien").box.isEnabled()
    person.say(_QUESTION)
    plain = person.last_reply.text
    person.click(row(person, "style").box)
    changed, num_cached, cause = ask_again(person)
    assert changed != plain
    assert (num_cached, cause) == (0, CacheMissCause.ADAPTER_CHANGED)
    set_strength(person, "0")
    without, num_cached, _ = ask_again(person)
    assert without == plain
    assert num_cached > 10
    set_strength(person, "1")
    again, num_cached, _ = ask_again(person)
    assert again == changed
    assert num_cached > 10


def test_file_that_is_gone_costs_one_sentence(person: Person, tmp_path: Path) -> None:
    person.click(row(person, "style").box)
    (tmp_path / "models" / "style.gguf").unlink()
    person.click(person.composer.text_edit)
    person.say(_QUESTION)
    assert person.last_reply.error is not None
    assert "style.gguf" in person.last_reply.error.message
    person.wait(lambda: person.window.notices.notices)
    assert person.window.notices.notices[0].text == "This chat goes on without style.gguf."
    assert ask_again(person)[0]
