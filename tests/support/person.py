"""A person at the window: sees what is on the screen, and has nothing but keys and a mouse.

What is pressed has to be seen, enabled and not covered by anything else. Presses go to the window as a whole, as those
of a desktop do, so that the focus, the shortcuts and the stacking of the widgets decide who gets them.
"""

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QWindow
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QListView, QMenu, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.building import WindowParts
from app.desktop.session.turns import ReplyTurn, UserTurn
from app.desktop.widgets.message_rows import MessageRow
from app.desktop.widgets.param_row import ParamRow

_TIMEOUT_MS = 30_000
_LEFT = Qt.MouseButton.LeftButton
_NONE = Qt.KeyboardModifier.NoModifier


class Person:
    """Types, presses and looks, in one window."""

    def __init__(self, parts: WindowParts, qtbot: QtBot) -> None:
        self.parts = parts
        self.window = parts.window
        self.view = parts.window.chat_view
        self.composer = parts.window.composer
        self._qtbot = qtbot

    # Waiting and looking

    def wait(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so."""
        self._qtbot.waitUntil(lambda: bool(is_so()), timeout=_TIMEOUT_MS)

    def wait_for_reply(self) -> None:
        """Wait until the shown chat is at rest."""
        self.wait(lambda: not self.parts.conversation.is_busy)

    @property
    def texts(self) -> list[str]:
        """The messages of the shown chat."""
        return [turn.text for turn in self.parts.conversation.turns]

    @property
    def last_reply(self) -> ReplyTurn:
        """The newest reply."""
        turn = self.parts.conversation.turns[-1]
        assert isinstance(turn, ReplyTurn)
        return turn

    @property
    def queued(self) -> list[str]:
        """The messages that wait for the end of the reply."""
        return [message.text for message in self.composer.queue.messages]

    def row(self, number: int) -> MessageRow:
        """Return a row of the conversation, -1 for the last."""
        return self.view.rows[number]

    def seen(self, number: int) -> str:
        """Return what can be read in a row."""
        widgets = [widget for _, widget in self.row(number).texts()]
        return "\n".join(widget.toPlainText() for widget in widgets if widget.isVisible())

    def titles(self) -> list[str]:
        """Return the lines of the list of chats, heads of groups left out."""
        chats = self.parts.sidebar.chats.chats
        return [entry.text for entry in chats.entries if entry.chat_id]

    # Keys

    def press(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = _NONE) -> None:
        """Press a key, wherever the focus is."""
        QTest.keyClick(self._top(), key, modifiers)

    def control(self, key: Qt.Key) -> None:
        """Press a key with Ctrl."""
        self.press(key, Qt.KeyboardModifier.ControlModifier)

    def type(self, text: str) -> None:
        """Type a text, wherever the focus is; a line break as one types it in a message."""
        for letter in text:
            if letter == "\n":
                self.press(Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
            else:
                QTest.sendKeyEvent(QTest.KeyAction.Click, self._top(), Qt.Key(ord(letter.upper())), letter, _NONE)

    def replace(self, text: str) -> None:
        """Type a text in the place of what a field holds."""
        self.control(Qt.Key.Key_A)
        self.type(text)

    def send(self, text: str) -> None:
        """Send a message as fast as one writes."""
        self.type(text)
        self.press(Qt.Key.Key_Return)

    def say(self, text: str) -> None:
        """Send a message and wait for the end of its reply."""
        num_before = len(self.texts)
        self.send(text)
        assert len(self.texts) == num_before + 2, "the message is there at once, and so is the place of its reply"
        self.wait_for_reply()

    # The mouse

    def click(self, widget: QWidget, place: QPoint | None = None, *, button: Qt.MouseButton = _LEFT) -> None:
        """Go to a widget and press there, once it stands still."""
        self._wait_until_it_stands(widget)
        place = widget.rect().center() if place is None else place
        assert widget.isVisible(), f"{_name(widget)} is not seen"
        assert not isinstance(widget, QAbstractButton) or widget.isEnabled(), f"{_name(widget)} is grey"
        at = widget.mapTo(widget.window(), place)
        hit = widget.window().childAt(at)
        assert hit is not None and (hit is widget or widget.isAncestorOf(hit)), f"{_name(widget)} is covered"
        QTest.mouseMove(_handle(widget), at)
        QTest.mouseClick(_handle(widget), button, _NONE, at)

    def point_at(self, widget: QWidget) -> None:
        """Go to a widget."""
        place = widget.mapTo(widget.window(), QPoint(widget.width() // 3, 8))
        QTest.mouseMove(_handle(widget), QPoint(1, 1))
        QTest.mouseMove(_handle(widget), place)

    def click_line(self, view: QListView, text: str, *, button: Qt.MouseButton = _LEFT) -> None:
        """Press a line of a list that begins with a text."""
        model = view.model()
        lines = [model.index(row, 0) for row in range(model.rowCount())]
        line = next(line for line in lines if str(line.data()).startswith(text))
        self.click(view.viewport(), view.visualRect(line).center(), button=button)

    def choose(self, label: str) -> None:
        """Press an entry of the menu that is open."""
        menu = self._menu()
        action = next(action for action in menu.actions() if _label(action) == label)
        assert action.isEnabled()
        QTest.mouseClick(_handle(menu), _LEFT, _NONE, menu.actionGeometry(action).center())

    def act(self, number: int, label: str) -> None:
        """Choose what is done with a message in its menu."""
        row = self.row(number)
        self.point_at(row)
        self.click(row.actions_bar.more)
        self.choose(label)

    def press_notice(self, key: str, label: str) -> None:
        """Press the button of a notice."""
        button = self.window.notices.button(key, label)
        assert button is not None, f"there is no notice {key!r}"
        self.click(button)

    def set_number(self, name: str, text: str) -> None:
        """Give a setting of the inspector another value."""
        row = next(row for row in self.window.inspector.findChildren(ParamRow) if row.name == name)
        self.click(row.field)
        self.replace(text)
        self.press(Qt.Key.Key_Tab)

    def _wait_until_it_stands(self, widget: QWidget) -> None:
        before: list[QPoint] = []

        def stands() -> bool:
            place = widget.mapTo(widget.window(), widget.rect().center())
            is_same = before == [place]
            before[:] = [place]
            return is_same

        self.wait(stands)

    def _menu(self) -> QMenu:
        self.wait(lambda: isinstance(QApplication.activePopupWidget(), QMenu))
        menu = QApplication.activePopupWidget()
        assert isinstance(menu, QMenu)
        return menu

    def _top(self) -> QWindow:
        popup = QApplication.activePopupWidget()
        return _handle(popup if popup is not None else QApplication.activeWindow() or self.window)


def own_texts(person: Person) -> list[str]:
    """Return what the person said, as it is shown."""
    return [turn.text for turn in person.parts.conversation.turns if isinstance(turn, UserTurn)]


def _handle(widget: QWidget) -> QWindow:
    handle = widget.window().windowHandle()
    assert handle is not None
    return handle


def _label(action: QAction) -> str:
    return action.text().split("\t")[0].replace("&", "")


def _name(widget: QWidget) -> str:
    return f"{type(widget).__name__} {widget.accessibleName() or widget.objectName()!r}"
