"""The rows of a conversation: what all have in common, and what the user said, exactly as typed."""

import datetime
import functools
from collections.abc import Iterator

from PySide6.QtCore import QDateTime, QEvent, QLocale, QPoint, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QFocusEvent, QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QLabel, QMenu, QPlainTextEdit, QPushButton, QTextEdit, QWidget

from app.desktop.rendering.plain import shortened
from app.desktop.rendering.plain_text import PlainText
from app.desktop.session.turns import ReplyTurn, Turn, TurnAction, UserTurn, words_of
from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer_draft import can_be_edited
from app.desktop.widgets.document_chips import DocumentChips
from app.desktop.widgets.figures import LAST_SECOND, count_text
from app.desktop.widgets.message_actions import MessageActions, Offer, menu_text, offers
from app.desktop.widgets.message_editor import MessageEditor
from app.desktop.widgets.reply_contents import Part
from app.desktop.widgets.shown_turn import ShownTurn
from app.document_text import Document, join_documents

_PREVIEW_LINES = 16
_PREVIEW_CHARS = 2_000
_MAX_SHOWN_CHARS = 20_000  # more would take long to lay out; copying gives everything
_MAX_SPOKEN_CHARS = 4_000

TextWidget = QTextEdit | QPlainTextEdit


class MessageRow(QWidget):
    """A row that says how high it is for a width; only what is near the view of it are widgets.

    Signals:
        resized: its height for the present width changed.
        unfolded: the same, because the user opened or closed a part of it.
        action_requested: TurnAction.
        edit_submitted: the new text.
        text_made: Part or None, the widget that holds its text: it came into being or was filled anew.
        menu_made: QMenu that is about to be shown for the row.
    """

    resized = Signal()
    unfolded = Signal()
    action_requested = Signal(object)
    edit_submitted = Signal(str)
    text_made = Signal(object, object)
    menu_made = Signal(object)

    def __init__(self, theme: Theme, shown: ShownTurn, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown = shown
        self._is_last = False
        self._width = 0
        self._is_hovered = False
        self._actions: MessageActions | None = None
        self.editor: MessageEditor | None = None
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)

    @property
    def turn(self) -> Turn:
        """What it shows."""
        return self._shown.turn

    @property
    def actions_bar(self) -> MessageActions:
        """The buttons of the row, made when they are first needed."""
        if self._actions is None:
            self._actions = MessageActions(self._theme, self.turn, self)
            self._actions.requested.connect(self._on_action)
            self._actions.copy_requested.connect(self.copy)
            self._actions.menu_requested.connect(self.open_menu)
            self._actions.show()
            self._refresh_actions()
        return self._actions

    @property
    def is_held(self) -> bool:
        """Whether it must stay a widget: it is edited, has the focus, or its menu is open."""
        focus = QApplication.focusWidget()
        has_focus = focus is not None and (focus is self or self.isAncestorOf(focus))
        return self.editor is not None or has_focus or bool(self.findChildren(QMenu))

    def fit(self, width: int) -> int:
        """Lay out for `width` and return the height."""
        self._width = width
        return self._place()

    def realise(self, top: int, bottom: int, deadline: float = float("inf")) -> bool:
        """Make widgets of what lies between `top` and `bottom`; return whether any height changed."""
        return False

    def is_realised(self, top: int, bottom: int) -> bool:
        """Tell whether all between `top` and `bottom` are widgets."""
        return True

    def drop_outside(self, top: int, bottom: int) -> None:
        """Remove widgets that are not between `top` and `bottom`."""

    def part_at(self, y: int) -> Part | None:
        """Return the part that stands at or below `y` and is a widget; None where the row is one piece."""
        return None

    def top_of(self, part: Part) -> int | None:
        """Return where a part begins; None where it is gone."""
        return None

    def texts(self) -> Iterator[tuple[Part | None, TextWidget]]:
        """Give the widgets that hold the text of the message, top to bottom."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Show the turn's present state."""
        raise NotImplementedError

    def restyle(self) -> None:
        """Take the theme's present look."""
        raise NotImplementedError

    def copy(self) -> None:
        """Put the message on the clipboard, as it was written."""
        QGuiApplication.clipboard().setText(self.turn.text)

    def set_is_last(self, is_last: bool) -> None:
        """Tell whether nothing follows; the last message shows its buttons always."""
        if is_last != self._is_last:
            self._is_last = is_last
            self.refresh()

    def begin_edit(self) -> None:
        """Let the user change the text where it stands; one too long for that is written anew in the composer."""
        if not can_be_edited(words_of(self.turn)):
            if isinstance(self.turn, UserTurn):
                self.action_requested.emit(TurnAction.BRANCH)
            return
        if self.editor is None:
            is_reply = not isinstance(self.turn, UserTurn)
            self.editor = MessageEditor(self._theme, words_of(self.turn), is_reply=is_reply, parent=self)
            self.editor.submitted.connect(self._on_submitted)
            self.editor.cancelled.connect(self.end_edit)
            self.editor.height_changed.connect(self._on_height_changed)
            self.editor.show()
            self.refresh()
            self._on_height_changed()
        self.editor.text_edit.setFocus()

    def end_edit(self) -> None:
        """Show the message again."""
        if self.editor is not None:
            editor, self.editor = self.editor, None
            self.setFocus()
            editor.hide()
            editor.deleteLater()
            self.refresh()
            self._on_height_changed()

    def menu(self) -> QMenu:
        """Return all that can be done with the message, to be shown once."""
        menu = QMenu(self)
        menu.aboutToHide.connect(menu.deleteLater)
        for offer in offers(self.turn, is_last=self._is_last):
            is_last_reply = self._is_last and isinstance(self.turn, ReplyTurn)
            menu.addAction(menu_text(offer, is_last=is_last_reply), functools.partial(self._perform, offer))
        self.menu_made.emit(menu)
        return menu

    def open_menu(self, place: QPoint | None = None) -> None:
        """Offer all that can be done with the message."""
        menu = self.menu()
        if place is None:
            anchor = self._actions if self._actions is not None and not self._actions.isHidden() else self
            place = anchor.mapToGlobal(anchor.rect().bottomRight())
            place.setX(place.x() - menu.sizeHint().width())
        menu.popup(place)
        menu.setActiveAction(menu.actions()[0])

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """See QWidget."""
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        self.open_menu(None if by_key else event.globalPos())

    def enterEvent(self, event: QEnterEvent) -> None:
        """See QWidget."""
        super().enterEvent(event)
        self._set_hovered(True)

    def leaveEvent(self, event: QEvent) -> None:
        """See QWidget."""
        super().leaveEvent(event)
        self._set_hovered(False)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """See QWidget."""
        super().focusInEvent(event)
        # Read by screen readers when the message is reached; not kept up to date while it streams.
        self.setAccessibleDescription(shortened(words_of(self.turn), _MAX_SPOKEN_CHARS))
        self._refresh_actions()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """See QWidget."""
        super().focusOutEvent(event)
        self._refresh_actions()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget; Enter offers what can be done."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.hasFocus():
            self.open_menu()
        else:
            super().keyPressEvent(event)

    def _set_hovered(self, is_hovered: bool) -> None:
        self._is_hovered = is_hovered
        self._refresh_actions()

    def _refresh_actions(self) -> None:
        is_active = self._is_hovered or self.hasFocus() or (self._is_last and not isinstance(self.turn, UserTurn))
        is_stored = isinstance(self.turn, ReplyTurn) and self.turn.is_stored
        if self._actions is None and not (is_active or is_stored) and self.turn.num_variants < 2:
            return
        self.actions_bar.refresh(is_active=is_active, is_last=self._is_last)
        self.actions_bar.setVisible(self.editor is None)
        if self._width:
            self._place()

    def _perform(self, offer: Offer) -> None:
        if offer.action is not None:
            self._on_action(offer.action)
        elif offer.name == "copy":
            self.copy()
        else:
            self._copy_thinking()

    def _on_action(self, action: TurnAction) -> None:
        if action is TurnAction.EDIT:
            self.begin_edit()
        else:
            self.action_requested.emit(action)

    def _on_submitted(self, text: str) -> None:
        self.end_edit()
        documents = self.turn.parts[0] if isinstance(self.turn, UserTurn) else ()
        self.edit_submitted.emit(join_documents(documents, text))

    def _on_height_changed(self) -> None:
        if self._width:
            self._place()
            self.resized.emit()

    def _copy_thinking(self) -> None:
        raise NotImplementedError

    def _place(self) -> int:
        raise NotImplementedError


def time_text(turn: Turn) -> str:
    """Return when a turn was made, in the user's own writing; empty where it is not known."""
    if turn.created_at is None or not 0 <= turn.created_at <= LAST_SECOND:
        return ""
    moment = QDateTime.fromSecsSinceEpoch(int(turn.created_at))
    is_today = datetime.date.fromtimestamp(turn.created_at) == datetime.date.today()
    short = QLocale.FormatType.ShortFormat
    return QLocale().toString(moment.time(), short) if is_today else QLocale().toString(moment, short)


def is_long(text: str) -> bool:
    """Tell whether a message of the user is folded."""
    return text.count("\n") > _PREVIEW_LINES or len(text) > _PREVIEW_CHARS


def shown_text(shown: ShownTurn) -> str:
    """Return what is seen of a message of the user."""
    text = words_of(shown.turn)
    if shown.is_unfolded:
        return text[:_MAX_SHOWN_CHARS]
    if not is_long(text):
        return text
    return "\n".join(text[:_PREVIEW_CHARS].split("\n")[:_PREVIEW_LINES]) + " …"


class UserRow(MessageRow):
    """The user's message on a tinted block; a very long one is folded."""

    def __init__(self, theme: Theme, shown: ShownTurn, parent: QWidget | None = None) -> None:
        super().__init__(theme, shown, parent)
        self._block = QFrame(self)
        self._block.setObjectName("userBlock")
        self._speaker = QLabel(self.tr("You"), self._block)
        self._speaker.setProperty("role", "speaker")
        self.setAccessibleName(self.tr("You"))
        self._documents = DocumentChips(theme, self.documents, self._block)
        self._text = PlainText(theme, self._block)
        self._text.setAccessibleName(self.tr("You"))
        self._unfold = QPushButton(self.tr("Show all"), self._block)
        self._unfold.setProperty("kind", "small")
        self._unfold.clicked.connect(self.unfold)
        self._unfold.setVisible(is_long(words_of(self.turn)))
        self._show_text()
        self.refresh()

    @property
    def documents(self) -> tuple[Document, ...]:
        """What stands before the text."""
        return self.turn.parts[0] if isinstance(self.turn, UserTurn) else ()

    @property
    def text_widget(self) -> PlainText:
        """The widget that holds the text."""
        return self._text

    def texts(self) -> Iterator[tuple[Part | None, TextWidget]]:
        """See MessageRow."""
        yield None, self._text

    def refresh(self) -> None:
        """See MessageRow."""
        self._speaker.setToolTip(time_text(self.turn))
        is_edited = self.editor is not None
        self._block.setVisible(not is_edited)
        self._refresh_actions()

    def restyle(self) -> None:
        """See MessageRow."""
        self._refresh_actions()
        self._text.restyle()
        if self.editor is not None:
            self.editor.restyle()

    def unfold(self) -> None:
        """Show all of a long message, within what can be laid out at once."""
        if not self._shown.is_unfolded:
            self._shown.is_unfolded = True
            self._show_text()
            self.unfolded.emit()

    def _show_text(self) -> None:
        text = words_of(self.turn)
        if self._shown.is_unfolded:
            self._unfold.setVisible(len(text) > _MAX_SHOWN_CHARS)
            self._unfold.setEnabled(False)
            self._unfold.setText(self.tr("The rest is not shown; copying gives the whole message"))
        elif is_long(text):
            words = self.tr("Show all {lines} lines, {characters} characters")
            lines, characters = count_text(text.count("\n") + 1), count_text(len(text))
            self._unfold.setText(words.format(lines=lines, characters=characters))
        self._text.set_text(shown_text(self._shown))
        self.text_made.emit(None, self._text)

    def _place(self) -> int:
        px, width = self._theme.px, self._width
        if self.editor is not None:
            height = self.editor.fit(width)
            self.editor.setGeometry(0, 0, width, height)
            return height
        pad, top = px(14), px(10)
        line = self._speaker.sizeHint().height()
        actions = 0
        if self._actions is not None:
            actions = self._actions.width()
            self._actions.move(width - px(8) - actions, top + (line - self._actions.height()) // 2)
            self._actions.raise_()
        self._speaker.setGeometry(pad, top, min(self._speaker.sizeHint().width(), width - 2 * pad - actions), line)
        y = top + line + px(4)
        if self.documents:
            height = self._documents.sizeHint().height()
            self._documents.setGeometry(pad, y, width - 2 * pad, height)
            y += height + px(6)
        height = self._text.fit(width - 2 * pad)
        self._text.setGeometry(pad, y, width - 2 * pad, height)
        y += height
        if not self._unfold.isHidden():
            size = self._unfold.sizeHint()
            self._unfold.setGeometry(pad - px(8), y + px(4), size.width(), size.height())
            y += px(4) + size.height()
        y += px(12)
        self._block.setGeometry(0, 0, width, y)
        return y

    def _copy_thinking(self) -> None:
        """See MessageRow; the user's thinking is not known."""
