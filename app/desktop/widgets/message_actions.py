"""MessageActions: the buttons of one message and its menu; what they may do follows from the turn."""

import dataclasses
from collections.abc import Iterator

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QAbstractButton, QLabel, QPushButton, QToolButton, QWidget

from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, TurnAction
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer_draft import can_be_edited
from app.desktop.widgets.key_names import key_name

_SIDE = 26

translate = QCoreApplication.translate
# As `window_keys` has them; they do what they say with the message that has the keys, or else with the last one.
_KEYS_ANYWHERE: dict[TurnAction | str, str] = {
    TurnAction.PREVIOUS_VARIANT: "Alt+Left",
    TurnAction.NEXT_VARIANT: "Alt+Right",
}
_KEYS_OF_LAST_REPLY: dict[TurnAction | str, str] = {
    "copy": "Ctrl+Shift+C",
    TurnAction.CONTINUE: "Ctrl+Shift+R",
    TurnAction.RETRY: "Ctrl+R",
}


@dataclasses.dataclass(frozen=True)
class Offer:
    """What can be done with a turn.

    Attributes:
        action: None for what the row does itself.
        name: of what the row does itself: "copy", "copy_thinking".
    """

    label: str
    action: TurnAction | None = None
    name: str = ""


def offers(turn: Turn, *, is_last: bool) -> Iterator[Offer]:
    """Give what can be done with a turn at present, the usual first."""
    is_reply = isinstance(turn, ReplyTurn)
    if turn.text:
        words = translate("MessageActions", "Copy reply"), translate("MessageActions", "Copy message")
        yield Offer(words[0] if is_reply else words[1], name="copy")
    if isinstance(turn, ReplyTurn):
        if turn.thinking:
            yield Offer(translate("MessageActions", "Copy thinking"), name="copy_thinking")
        if turn.is_open:
            return
        if can_continue(turn, is_last=is_last):
            yield Offer(translate("MessageActions", "Continue"), TurnAction.CONTINUE)
        yield Offer(translate("MessageActions", "Ask again"), TurnAction.RETRY)
    if turn.num_variants > 1:
        if turn.variant > 0:
            yield Offer(translate("MessageActions", "Previous version"), TurnAction.PREVIOUS_VARIANT)
        if turn.variant + 1 < turn.num_variants:
            yield Offer(translate("MessageActions", "Next version"), TurnAction.NEXT_VARIANT)
    if can_edit(turn):
        yield Offer(translate("MessageActions", "Edit"), TurnAction.EDIT)
    yield Offer(translate("MessageActions", "Branch from here"), TurnAction.BRANCH)
    if is_reply:
        yield Offer(translate("MessageActions", "Details"), TurnAction.DETAILS)
    yield Offer(translate("MessageActions", "Delete"), TurnAction.DELETE)


def menu_text(offer: Offer, *, is_last: bool) -> str:
    """Return the entry of a menu: the label, and the key at the right where one does just the same."""
    keys = dict(_KEYS_ANYWHERE)
    if is_last:
        keys |= _KEYS_OF_LAST_REPLY
    key = keys.get(offer.action or offer.name, "")
    return f"{offer.label}\t{key_name(key)}" if key else offer.label


def can_edit(turn: Turn) -> bool:
    """Tell whether a text edit can hold a message; one of the user's that is longer is written anew in the composer."""
    return not isinstance(turn, ReplyTurn) or can_be_edited(turn.text)


def can_continue(turn: ReplyTurn, *, is_last: bool) -> bool:
    """Tell whether the model can be asked to go on with a reply."""
    return is_last and turn.can_go_on


class MessageActions(QWidget):
    """A line of buttons, as wide as they are; those that are seldom needed are in the menu.

    Signals:
        requested: TurnAction.
        copy_requested: the text is to be copied.
        menu_requested: the rest is to be offered.
    """

    requested = Signal(object)
    copy_requested = Signal()
    menu_requested = Signal()

    def __init__(self, theme: Theme, turn: Turn, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._turn = turn
        is_reply = isinstance(turn, ReplyTurn)
        emit = self.requested.emit
        self.continue_button = QPushButton(self.tr("Continue"), self)
        self.continue_button.setProperty("kind", "action")
        self.continue_button.setToolTip(self.tr("Let the model go on with this reply"))
        self.continue_button.clicked.connect(lambda: emit(TurnAction.CONTINUE))
        self.again_button = QPushButton(self.tr("Ask again"), self)
        self.again_button.setProperty("kind", "action")
        self.again_button.setToolTip(self.tr("Let the model write a new reply"))
        self.again_button.clicked.connect(lambda: emit(TurnAction.RETRY))
        self.previous = _arrow(self, "‹", self.tr("Previous version"))
        self.previous.clicked.connect(lambda: emit(TurnAction.PREVIOUS_VARIANT))
        self.number = QLabel(self)
        self.number.setProperty("role", "meta")
        self.number.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.next = _arrow(self, "›", self.tr("Next version"))
        self.next.clicked.connect(lambda: emit(TurnAction.NEXT_VARIANT))
        copy_label = self.tr("Copy reply") if is_reply else self.tr("Copy message")
        self.copy = GlyphButton(theme, "copy", copy_label, self, size=_SIDE)
        self.copy.clicked.connect(self.copy_requested)
        self.retry = GlyphButton(theme, "retry", self.tr("Ask again"), self, size=_SIDE)
        self.retry.clicked.connect(lambda: emit(TurnAction.RETRY))
        self.edit = GlyphButton(theme, "pencil", self.tr("Edit"), self, size=_SIDE)
        self.edit.clicked.connect(lambda: emit(TurnAction.EDIT))
        self.more = GlyphButton(theme, "dots", self.tr("More"), self, size=_SIDE)
        self.more.clicked.connect(self.menu_requested)
        for button in self.findChildren(QAbstractButton):
            button.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        for text_button in (self.continue_button, self.again_button):
            text_button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def refresh(self, *, is_active: bool, is_last: bool) -> None:
        """Show what can be done at present.

        Args:
            is_active: whether the message is looked at; else only what tells something is seen.
        """
        turn = self._turn
        reply = turn if isinstance(turn, ReplyTurn) else None
        is_done = reply is None or not reply.is_open
        # A failed reply has its button in the error; one that was to go on has both ways.
        is_failed = reply is not None and reply.state is ReplyState.FAILED and not reply.is_continuation
        self.continue_button.setVisible(reply is not None and can_continue(reply, is_last=is_last))
        is_stored = reply is not None and reply.is_stored
        self.again_button.setVisible(is_stored)
        has_variants = turn.num_variants > 1
        for widget in (self.previous, self.number, self.next):
            widget.setVisible(has_variants)
        if has_variants:
            self.number.setText(f"{turn.variant + 1} / {turn.num_variants}")
            self.number.setAccessibleName(
                self.tr("Version {number} of {count}").format(number=turn.variant + 1, count=turn.num_variants)
            )
            self.previous.setEnabled(is_done and turn.variant > 0)
            self.next.setEnabled(is_done and turn.variant + 1 < turn.num_variants)
        self.copy.setVisible(is_active and is_done and bool(turn.text))
        self.retry.setVisible(is_active and is_done and reply is not None and not (is_failed or is_stored))
        self.edit.setVisible(is_active and is_done and can_edit(turn))
        self.more.setVisible(is_active and is_done)
        self._place()

    def _place(self) -> None:
        px, x, height = self._theme.px, 0, self._theme.px(_SIDE)
        for widget in (
            self.continue_button,
            self.again_button,
            self.copy,
            self.retry,
            self.edit,
            self.more,
            self.previous,  # at the end, so that they stay where they are when the buttons come
            self.number,
            self.next,
        ):
            if widget.isHidden():
                continue
            size = widget.sizeHint()
            is_square = isinstance(widget, QToolButton)
            width = px(_SIDE if isinstance(widget, GlyphButton) else 20) if is_square else size.width()
            side = min(size.height(), height) if not is_square else height
            widget.setGeometry(x, (height - side) // 2, width, side)
            x += width + px(4 if widget in (self.continue_button, self.again_button, self.more) else 0)
        self.resize(x, height)


def _arrow(parent: QWidget, text: str, label: str) -> QToolButton:
    button = QToolButton(parent)
    button.setProperty("glyph", True)
    button.setText(text)
    button.setAccessibleName(label)
    button.setToolTip(label)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    return button
