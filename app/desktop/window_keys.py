"""The keys of the window: what each does, for the window itself, its menu and the page that lists them."""

from collections.abc import Callable

from PySide6.QtCore import QCoreApplication

from app.desktop.chat_presenter import ChatPresenter
from app.desktop.find_presenter import FindPresenter
from app.desktop.list_presenter import ListPresenter
from app.desktop.theme.theme import Theme
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.shortcuts import Shortcut
from app.settings import SendKey

Calls = dict[str, Callable[[], None]]


def _tr(text: str) -> str:
    return QCoreApplication.translate("Shortcuts", text)


def chat_keys(chat: ChatPresenter, window: MainWindow, send_key: SendKey) -> tuple[Shortcut, ...]:
    """Return what is done with the shown chat and its messages."""
    view, writing, reading = window.chat_view, _tr("Writing"), _tr("Reading")
    send, new_line = ("Return", "Shift+Return") if send_key is SendKey.ENTER else ("Ctrl+Return", "Return")
    return (
        Shortcut(group=writing, label=_tr("Send"), keys=(send,)),
        Shortcut(group=writing, label=_tr("New line"), keys=(new_line,)),
        Shortcut(
            group=writing,
            label=_tr("Write a message"),
            keys=("Shift+Esc", "Ctrl+J"),
            call=window.composer.text_edit.setFocus,
        ),
        Shortcut(
            group=writing,
            label=_tr("Attach files"),
            keys=("Ctrl+Shift+A",),
            call=window.composer.attach_requested.emit,
        ),
        Shortcut(
            group=writing,
            label=_tr("Prepare: have the documents read ahead"),
            keys=("Ctrl+Shift+P",),
            call=window.composer.pasted.reading.prepare_requested.emit,
        ),
        Shortcut(group=writing, label=_tr("Edit the last message"), keys=("Up",)),
        Shortcut(group=writing, label=_tr("Earlier and later messages"), keys=("Alt+Up", "Alt+Down")),
        Shortcut(group=writing, label=_tr("Stop the reply"), keys=("Esc", "Ctrl+."), call=chat.stop),
        Shortcut(group=writing, label=_tr("Ask again"), keys=("Ctrl+R",), call=chat.retry),
        Shortcut(group=writing, label=_tr("Continue the reply"), keys=("Ctrl+Shift+R",), call=chat.continue_reply),
        Shortcut(group=writing, label=_tr("Undo the last change"), keys=("Ctrl+Alt+Z",), call=chat.undo),
        Shortcut(
            group=reading,
            label=_tr("Earlier version of a message"),
            keys=("Alt+Left",),
            call=lambda: view.step_variant(-1),
        ),
        Shortcut(
            group=reading,
            label=_tr("Later version of a message"),
            keys=("Alt+Right",),
            call=lambda: view.step_variant(1),
        ),
        Shortcut(group=reading, label=_tr("Message above or below"), keys=("Up", "Down", "K", "J")),
        Shortcut(group=reading, label=_tr("First message"), keys=("Ctrl+Home",), call=view.go_to_start),
        Shortcut(group=reading, label=_tr("Newest text"), keys=("Ctrl+End",), call=view.follow),
        Shortcut(group=reading, label=_tr("Show or hide the thinking"), keys=("Ctrl+T",), call=chat.toggle_thinking),
        Shortcut(group=reading, label=_tr("Copy the last reply"), keys=("Ctrl+Shift+C",), call=chat.copy_last_reply),
        Shortcut(
            group=reading, label=_tr("Copy the last code block"), keys=("Ctrl+Shift+;",), call=chat.copy_last_code
        ),
    )


def list_keys(
    lists: ListPresenter, find: FindPresenter, *, new_chat: Callable[[], None], new_private: Callable[[], None]
) -> tuple[Shortcut, ...]:
    """Return what is done with whole chats."""
    group = _tr("Chats")
    return (
        Shortcut(group=group, label=_tr("New chat"), keys=("Ctrl+N", "Ctrl+Shift+O"), call=new_chat),
        Shortcut(group=group, label=_tr("New private chat"), keys=("Ctrl+Shift+N",), call=new_private),
        Shortcut(group=group, label=_tr("Search all chats"), keys=("Ctrl+K",), call=lists.search),
        Shortcut(group=group, label=_tr("Find in this chat"), keys=("Ctrl+F",), call=find.open),
        Shortcut(group=group, label=_tr("Next place"), keys=("F3",), call=lambda: find.go(1)),
        Shortcut(group=group, label=_tr("Previous place"), keys=("Shift+F3",), call=lambda: find.go(-1)),
        Shortcut(group=group, label=_tr("Previous chat"), keys=("Ctrl+PgUp",), call=lambda: lists.step(-1)),
        Shortcut(group=group, label=_tr("Next chat"), keys=("Ctrl+PgDown",), call=lambda: lists.step(1)),
        Shortcut(group=group, label=_tr("Rename this chat"), keys=("F2",), call=lists.rename_current),
        Shortcut(group=group, label=_tr("Delete this chat"), keys=("Ctrl+Shift+Backspace",), call=lists.delete_current),
    )


def window_keys(window: MainWindow, theme: Theme, calls: Calls) -> tuple[Shortcut, ...]:
    """Return what is done with the window.

    Args:
        calls: what to do for "model", "models", "compare", "settings", "full_screen", "shortcuts" and "quit".
    """
    group = _tr("Window")
    return (
        Shortcut(group=group, label=_tr("Choose a model"), keys=("Ctrl+L",), call=calls["model"]),
        Shortcut(group=group, label=_tr("All models"), keys=("Ctrl+Shift+L",), call=calls["models"]),
        Shortcut(group=group, label=_tr("Compare models"), keys=("Ctrl+Shift+M",), call=calls["compare"]),
        Shortcut(group=group, label=_tr("Settings"), keys=("Ctrl+,",), call=calls["settings"]),
        Shortcut(group=group, label=_tr("Show or hide the chats"), keys=("Ctrl+B",), call=window.toggle_sidebar),
        Shortcut(group=group, label=_tr("Show or hide the inspector"), keys=("Ctrl+I",), call=window.toggle_inspector),
        Shortcut(group=group, label=_tr("Larger"), keys=("Ctrl++", "Ctrl+="), call=theme.zoom_in),
        Shortcut(group=group, label=_tr("Smaller"), keys=("Ctrl+-",), call=theme.zoom_out),
        Shortcut(group=group, label=_tr("Normal size"), keys=("Ctrl+0",), call=theme.reset_zoom),
        Shortcut(group=group, label=_tr("Full screen"), keys=("F11",), call=calls["full_screen"]),
        Shortcut(group=group, label=_tr("Keyboard shortcuts"), keys=("Ctrl+/",), call=calls["shortcuts"]),
        Shortcut(group=group, label=_tr("Quit"), keys=("Ctrl+Q",), call=calls["quit"]),
    )
