"""The chat format that a person chooses for a model: used at once, kept, and shown in the menu."""

from collections.abc import Callable

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from engine import Generate
from tests.gui.scripted_engine import Desk

_FORMATS = ("file", "ChatML", "completion")


def formats(desk: Desk) -> dict[str, QAction]:
    menu = desk.parts.actions.menu()
    submenu = next(action.menu() for action in menu.actions() if action.text() == "Chat format")
    assert isinstance(submenu, QMenu)
    return {action.text(): action for action in submenu.actions()}


def test_chosen_format_is_used_and_kept_when_a_person_picks_it(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    desk.load(chat_format="file", chat_formats=_FORMATS)
    shown = formats(desk)
    assert list(shown) == ["As in the file", "ChatML", "None: plain text goes on"]
    assert [name for name, action in shown.items() if action.isChecked()] == ["As in the file"]
    desk.reply("hello", "Hello!")
    assert desk.client.last(Generate).options.chat_format is None
    shown["ChatML"].trigger()
    chosen = desk.parts.model.chosen
    assert chosen is not None
    assert desk.saved[-1] == ("chat_formats", {chosen.last_model: "ChatML"})
    assert formats(desk)["ChatML"].isChecked()
    desk.reply("hello again", "Hello again!")
    assert desk.client.last(Generate).options.chat_format == "ChatML"
    formats(desk)["As in the file"].trigger()
    assert desk.saved[-1] == ("chat_formats", {})


def test_no_format_is_offered_when_no_model_is_loaded(make_desk: Callable[..., Desk]) -> None:
    menu = make_desk().parts.actions.menu()
    assert not next(action for action in menu.actions() if action.text() == "Chat format").isEnabled()
