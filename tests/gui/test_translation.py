"""Everything the frame of the window says goes through the translation, and a file of translations is found."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QLocale
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.session.model_session import ModelState, Starter
from app.desktop.theme.theme import Theme
from app.desktop.translation import install_translation
from app.desktop.widgets.crash_card import CrashCard
from app.desktop.widgets.empty_state import EmptyState
from app.desktop.widgets.model_picker import ModelPicker
from app.desktop.widgets.notices import Notice, NoticeArea
from app.desktop.widgets.settings_page import SettingsPage
from app.desktop.widgets.shortcuts import Shortcut, ShortcutList
from app.desktop.widgets.side_panels import SidePanels
from app.desktop.widgets.top_bar import TopBar
from app.settings import Settings
from engine import ErrorInfo, Generate
from tests.gui.scripted_engine import Desk, finished
from tests.gui.translated import MarkingTranslator, untranslated

# What is in no language: the names of keys, of models and files, and what the engine said.
DATA = {"Small", "Esc", "Ctrl+N", "/home/a/settings.toml", "EngineDied"}

# One text in the compiled form that Qt reads: `Menu` of the top bar, in German.
COMPILED = bytes.fromhex(
    "3cb86418caef9c95cd211cbf60a1bddda7000000026465420000000800053c550000000069000000270300000008004d0065"
    "006e00fc080000000006000000044d656e750700000006546f704261720188000000020101"
)


class Model:
    """Stands in for a model session."""

    label = "Small"
    progress = 0.5
    error = None
    chosen = None
    is_busy = True

    def __init__(self, state: ModelState) -> None:
        self.state = state


@pytest.fixture
def translator(qapp: QApplication) -> Iterator[MarkingTranslator]:
    translator = MarkingTranslator()
    qapp.installTranslator(translator)
    yield translator
    qapp.removeTranslator(translator)


def settings_page(theme: Theme) -> QWidget:
    page = SettingsPage(theme)
    page.show_settings(Settings(zoom=1.5, retention_days=1))
    page.show_file("/home/a/settings.toml")
    return page


def crash_card(theme: Theme) -> QWidget:
    host = QWidget()
    card = CrashCard(theme, host)
    card.show_death(ErrorInfo("EngineDied", "EngineDied", ""), -9, ("EngineDied",))
    card.fit(10)
    return host


def notices(theme: Theme) -> QWidget:
    host = QWidget()
    NoticeArea(theme, host).show_notice(Notice(key="x", text="Small"))
    return host


def empty_state(state: ModelState) -> Callable[[Theme], QWidget]:
    def build(theme: Theme) -> QWidget:
        widget = EmptyState(theme)
        widget.set_first_run(True)
        widget.show_model(Model(state))  # type: ignore[arg-type]
        return widget

    return build


def picker(state: ModelState) -> Callable[[Theme], QWidget]:
    def build(theme: Theme) -> QWidget:
        widget = ModelPicker(theme, lambda: Starter(name="starter", label="Small"), None)
        widget.show_model(Model(state))  # type: ignore[arg-type]
        widget.remember("/home/a/Small.gguf")
        widget.menu()
        return widget

    return build


def shortcuts(theme: Theme) -> QWidget:
    say = QCoreApplication.translate
    rows = [Shortcut(label=say("Keys", "Stop"), keys=("Esc",)), Shortcut(label=say("Keys", "New"), keys=("Ctrl+N",))]
    return ShortcutList(theme, rows)


def sides(theme: Theme) -> QWidget:
    surface = QWidget()
    SidePanels(theme, surface, QWidget(), QWidget())
    return surface


WIDGETS: dict[str, Callable[[Theme], QWidget]] = {
    "top-bar": TopBar,
    "settings": settings_page,
    "crash": crash_card,
    "notices": notices,
    "shortcuts": shortcuts,
    "sides": sides,
    **{f"empty-{state.value}": empty_state(state) for state in ModelState},
    **{f"picker-{state.value}": picker(state) for state in ModelState},
}


@pytest.mark.parametrize("name", WIDGETS)
def test_every_text_is_translated(name: str, theme: Theme, translator: MarkingTranslator, qtbot: QtBot) -> None:
    widget = WIDGETS[name](theme)
    qtbot.addWidget(widget)
    assert untranslated(widget, lambda text: text in DATA or text.endswith("Small.gguf")) == []


def test_text_that_goes_around_the_translation_is_found(translator: MarkingTranslator, qtbot: QtBot) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    QLabel("plain", widget)
    QLabel(widget.tr("translated"), widget)
    QLabel("12 %", widget)
    widget.setToolTip("tip")
    assert [line.rpartition(": ")[2] for line in untranslated(widget)] == ["tip", "plain"]


def test_nothing_is_installed_without_a_file(qapp: QApplication, tmp_path: Path) -> None:
    assert install_translation(qapp, QLocale("de_CH"), tmp_path / "missing") is None
    assert install_translation(qapp, QLocale("de_CH"), tmp_path) is None


@pytest.mark.parametrize("name", ["fireside_de_CH.qm", "fireside_de.qm"], ids=["country", "language"])
def test_file_of_the_language_is_installed(qapp: QApplication, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(COMPILED)
    translator = install_translation(qapp, QLocale("de_CH"), tmp_path)
    assert translator is not None
    assert QCoreApplication.translate("TopBar", "Menu") == "Menü"
    qapp.removeTranslator(translator)
    translator.deleteLater()


def test_damaged_file_is_left_alone(qapp: QApplication, tmp_path: Path) -> None:
    (tmp_path / "fireside_de.qm").write_bytes(COMPILED[:20] + b"\xff" * 40)
    translator = install_translation(qapp, QLocale("de_CH"), tmp_path)
    assert QCoreApplication.translate("TopBar", "Menu") == "Menu"
    if translator is not None:
        qapp.removeTranslator(translator)
        translator.deleteLater()


def test_whole_window_with_a_chat_goes_through_the_translation(
    translator: MarkingTranslator, make_desk: Callable[..., Desk]
) -> None:
    desk = make_desk()
    desk.load()
    desk.reply("QUESTION", "ANSWER\n\n```py\nx = 1\n```\n\n| A |\n|--|\n| B |")
    desk.parts.conversation.retry()
    desk.parts.conversation.submit("QUESTION")
    desk.client.emit(finished(desk.client.last(Generate).request_id, "ANSWER", thinking="hm", thinking_s=1.0))
    desk.window.inspector.set_collapsed(())
    desk.parts.actions.show_settings()
    desk.qtbot.waitUntil(lambda: not desk.parts.conversation.queue)
    data = {"QUESTION", "Small", "/models/small.gguf", "Fireside"}
    assert untranslated(desk.window, lambda text: text in data) == []
    actions = [*desk.parts.actions.menu().actions()]
    assert [action.text() for action in actions if action.text() and "⟦" not in action.text()] == []
    keys = desk.parts.actions.shortcuts
    assert [key for key in keys if "⟦" not in key.label or "⟦" not in key.group] == []
