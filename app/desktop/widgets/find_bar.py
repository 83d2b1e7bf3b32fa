"""FindBar: finds a text in the open chat and goes from place to place."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QLineEdit, QWidget

from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.store import count_places

MAX_PLACES = 5_000  # of a single letter in a long chat; more would only cost time

_WIDTH = 380
_PRESSING = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_GOING = (Qt.Key.Key_F3, *_PRESSING)


class Place(NamedTuple):
    """Where a text was found.

    Attributes:
        turn_id: the message.
        number: counts the places within that message, from 0.
    """

    turn_id: str
    number: int


def find_in_turns(turns: Sequence[tuple[str, str]], query: str) -> list[Place]:
    """Return where some messages, given as id and text, hold `query`, capitals or not: at most the first MAX_PLACES.

    It is taken as it is, blanks around it included, and a blank one is nowhere. May be called in any thread.
    """
    places: list[Place] = []
    for turn_id, text in turns:
        num_found = min(count_places(text, query), MAX_PLACES - len(places))
        places += [Place(turn_id, number) for number in range(num_found)]
        if len(places) >= MAX_PLACES:
            break
    return places


class FindBar(QFrame):
    """The bar. It hides itself when it is closed.

    Signals:
        query_changed: what is sought now; its places are given to `set_places`.
        place_shown: message and number of the place to bring into view.
        closed: the focus goes back to where it was.
    """

    query_changed = Signal(str)
    place_shown = Signal(str, int)
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._places: Sequence[Place] = ()
        self._at = -1
        self._is_new_query = False
        self.setObjectName("findBar")
        self.setAccessibleName(self.tr("Find in this chat"))
        self.field = QLineEdit()
        self.field.setProperty("quiet", True)
        self.field.setPlaceholderText(self.tr("Find in this chat"))
        self.field.setAccessibleName(self.tr("Find in this chat"))
        self._count = QLabel()
        self._count.setTextFormat(Qt.TextFormat.PlainText)
        self._count.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._count.setProperty("role", "meta")
        self.previous = GlyphButton(theme, "chevron_up", self.tr("Previous place (Shift+F3)"))
        self.next = GlyphButton(theme, "chevron_down", self.tr("Next place (F3)"))
        self.close_button = GlyphButton(theme, "close", self.tr("Close (Esc)"))
        self._row = QHBoxLayout(self)
        self._row.addWidget(self.field, 1)
        for part in (self._count, self.previous, self.next, self.close_button):
            self._row.addWidget(part)
        self.field.textChanged.connect(self._on_text_changed)
        self.previous.clicked.connect(lambda: self.go(-1))
        self.next.clicked.connect(lambda: self.go(1))
        self.close_button.clicked.connect(self.leave)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self._show_count()

    @property
    def place(self) -> Place | None:
        """The place that is shown."""
        return self._places[self._at] if 0 <= self._at < len(self._places) else None

    @property
    def summary(self) -> str:
        """What is said about the places."""
        return self._count.text()

    def sizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(self._theme.px(_WIDTH), self._theme.px(44))

    def open_with(self, text: str = "") -> None:
        """Show the bar, with a text to find or with the one before."""
        self.show()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        is_same = not text or text == self.field.text()
        if not is_same:
            self.field.setText(text)
        self.field.selectAll()
        if is_same:
            self._on_text_changed()

    def set_places(self, places: Sequence[Place], *, near: str | None = None) -> None:
        """Give the places of what is sought.

        The first answer to a query shows a place; a later one, when the chat has changed, keeps to the place there was.

        Args:
            near: the message in view, where the first place is looked for while there is none to keep to.
        """
        before = self.place
        self._at = self._nearest(places, before, near)
        self._places = places
        self._show_count()
        if self._is_new_query:
            self._is_new_query = False
            self._tell_place()

    def go(self, step: int) -> None:
        """Show the next place, or the previous for -1; after the last comes the first."""
        if self._places:
            self._at = (self._at + step) % len(self._places)
            self._show_count()
            self._tell_place()

    def leave(self) -> None:
        """Close the bar."""
        self.hide()
        self.closed.emit()

    def event(self, event: QEvent) -> bool:
        """Keep the keys of the bar, which mean something else to the window."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and _is_own_key(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget; what the field and the buttons do not take comes here."""
        if event.key() == Qt.Key.Key_Escape:
            self.leave()
        elif event.key() in _PRESSING and isinstance(button := self.focusWidget(), GlyphButton):
            button.click()
        elif event.key() in _GOING:
            self.go(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
        else:
            super().keyPressEvent(event)

    def _nearest(self, places: Sequence[Place], before: Place | None, near: str | None) -> int:
        if not places:
            return -1
        if before is None:
            return next((at for at, place in enumerate(places) if place.turn_id == near), 0)
        in_turn = [at for at, place in enumerate(places) if place.turn_id == before.turn_id]
        if in_turn:
            return in_turn[min(before.number, len(in_turn) - 1)]
        return min(self._at, len(places) - 1)

    def _show_count(self) -> None:
        count = len(self._places)
        if not self.field.text().strip():
            text = ""
        elif not count:
            text = self.tr("Nothing found")
        else:
            shown = f"{count}+" if count >= MAX_PLACES else str(count)
            text = self.tr("{number} of {count}").format(number=self._at + 1, count=shown)
        self._count.setText(text)
        for button in (self.previous, self.next):
            button.setEnabled(count > 0)

    def _tell_place(self) -> None:
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self._count.text()))
        if self.place is not None:
            self.place_shown.emit(*self.place)

    def _on_text_changed(self) -> None:
        self._is_new_query = True
        if not self.field.text().strip():
            self._places, self._at = (), -1
            self._show_count()
        self.query_changed.emit(self.field.text())

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._row.setContentsMargins(px(8), px(6), px(6), px(6))
        self._row.setSpacing(px(4))
        self.field.setFixedHeight(px(28))
        # As wide as it gets in most chats, so that the field keeps its size.
        self._count.setMinimumWidth(self._count.fontMetrics().horizontalAdvance(self.tr("Nothing found")))
        self.updateGeometry()


def _is_own_key(event: QKeyEvent) -> bool:
    return event.key() == Qt.Key.Key_Escape or event.key() in _GOING
