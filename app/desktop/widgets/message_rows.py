"""The rows of a conversation: what the user said, exactly as typed, and what the model answered with its numbers."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QGuiApplication
from PySide6.QtWidgets import QFrame, QLabel, QMenu, QPushButton, QWidget

from app.desktop.rendering.blocks import BlockParser
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.rendering.plain_text import PlainText
from app.desktop.session.turns import ReplyState, ReplyTurn, UserTurn
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.error_block import ErrorBlock
from app.desktop.widgets.figures import count_text
from app.desktop.widgets.reply_body import ReplyBody
from app.desktop.widgets.reply_outcome import (
    dropped_details,
    dropped_text,
    outcome_details,
    outcome_mark,
    outcome_numbers,
    progress_text,
)
from app.desktop.widgets.thinking_fold import ThinkingFold

_PREVIEW_LINES = 16
_PREVIEW_CHARS = 2_000
_MAX_SHOWN_CHARS = 50_000  # more would take long to lay out; copying gives everything
_COPIED_MS = 1500


class MessageRow(QWidget):
    """A row that says how high it is for a width.

    Signals:
        resized: its height for the present width changed.
        unfolded: the same, because the user opened or closed a part of it.
    """

    resized = Signal()
    unfolded = Signal()

    def fit(self, width: int) -> int:
        """Lay out for `width` and return the height."""
        raise NotImplementedError

    def restyle(self) -> None:
        """Take the theme's present look."""
        raise NotImplementedError


class UserRow(MessageRow):
    """The user's message on a tinted block; a very long one is folded."""

    def __init__(self, theme: Theme, turn: UserTurn, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._turn = turn
        self._is_unfolded = False
        self._is_long = turn.text.count("\n") > _PREVIEW_LINES or len(turn.text) > _PREVIEW_CHARS
        self._block = QFrame(self)
        self._block.setObjectName("userBlock")
        self._speaker = QLabel("You", self._block)
        self._speaker.setProperty("role", "speaker")
        self._text = PlainText(theme, self._block)
        self._text.setAccessibleName("You")
        self._unfold = QPushButton("Show all", self._block)
        self._unfold.setProperty("kind", "small")
        self._unfold.clicked.connect(self._on_unfold)
        self._unfold.setVisible(self._is_long)
        self._copy = GlyphButton(theme, "copy", "Copy message", self._block, size=26)
        self._copy.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._copy.clicked.connect(self.copy)
        self._copy.hide()
        self._show_text()

    @property
    def text_widget(self) -> PlainText:
        """The widget that holds the text."""
        return self._text

    def copy(self) -> None:
        """Put the message on the clipboard, as it was typed."""
        QGuiApplication.clipboard().setText(self._turn.text)

    def fit(self, width: int) -> int:
        """See MessageRow."""
        px = self._theme.px
        pad, top = px(14), px(10)
        speaker = self._speaker.sizeHint().height()
        self._speaker.setGeometry(pad, top, width - 2 * pad - px(30), speaker)
        self._copy.move(width - px(8) - self._copy.width(), px(6))
        y = top + speaker + px(4)
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

    def restyle(self) -> None:
        """See MessageRow."""
        self._text.restyle()

    def enterEvent(self, event: QEnterEvent) -> None:
        """See QWidget."""
        super().enterEvent(event)
        self._copy.show()

    def leaveEvent(self, event: QEvent) -> None:
        """See QWidget."""
        super().leaveEvent(event)
        self._copy.hide()

    def _show_text(self) -> None:
        text = self._turn.text
        if self._is_unfolded:
            self._unfold.setVisible(len(text) > _MAX_SHOWN_CHARS)
            self._unfold.setEnabled(False)
            self._unfold.setText("The rest is not shown; copying gives the whole message")
            text = text[:_MAX_SHOWN_CHARS]
        elif self._is_long:
            num_lines = text.count("\n") + 1
            self._unfold.setText(f"Show all {count_text(num_lines)} lines, {count_text(len(text))} characters")
            text = "\n".join(text[:_PREVIEW_CHARS].split("\n")[:_PREVIEW_LINES]) + " …"
        self._text.set_text(text)

    def _on_unfold(self) -> None:
        self._is_unfolded = True
        self._show_text()
        self.unfolded.emit()


class ReplyRow(MessageRow):
    """A reply: name, what was left out, thinking, body, an error in place, and a line of numbers of fixed height.

    Signals:
        retry_requested, continue_requested, load_requested: the buttons of the row.
        link_activated, link_hovered: see SafeBrowser.
    """

    retry_requested = Signal()
    continue_requested = Signal()
    load_requested = Signal()
    link_activated = Signal(str)
    link_hovered = Signal(str)

    def __init__(
        self,
        theme: Theme,
        turn: ReplyTurn,
        parser: Callable[[], BlockParser],
        lexer: CodeLexer,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._turn = turn
        self._is_last = True
        self._can_load = False
        self._width = 0
        self._was_open = True
        self._name = QLabel(self)
        self._name.setTextFormat(Qt.TextFormat.PlainText)
        self._name.setProperty("role", "model")
        self._dropped = QLabel(self)
        self._dropped.setTextFormat(Qt.TextFormat.PlainText)
        self._dropped.setWordWrap(True)
        self._dropped.setProperty("role", "meta")
        self.fold = ThinkingFold(theme, turn, self)
        self.fold.height_changed.connect(self._on_height_changed)
        self.fold.toggled.connect(self._on_fold_toggled)
        self.body = ReplyBody(theme, parser, lexer, self)
        self.body.height_changed.connect(self._on_height_changed)
        self.body.link_activated.connect(self.link_activated)
        self.body.link_hovered.connect(self.link_hovered)
        self.error = ErrorBlock(theme, self)
        self.error.hide()
        self.error.retry_requested.connect(self._on_error_retry)
        self.error.load_requested.connect(self.load_requested)
        self._meta = ElidedLabel(self)
        self._meta.setProperty("role", "meta")
        self._copy = GlyphButton(theme, "copy", "Copy reply", self, size=26)
        self._copy.clicked.connect(self.copy)
        self._retry = GlyphButton(theme, "retry", "Ask again", self, size=26)
        self._retry.clicked.connect(self.retry_requested)
        self._continue = QPushButton("Continue", self)
        self._continue.setProperty("kind", "action")
        self._continue.setToolTip("Let the model go on with this reply")
        self._continue.clicked.connect(self.continue_requested)
        for button in (self._copy, self._retry):
            button.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._copied_timer = QTimer(self)
        self._copied_timer.setSingleShot(True)
        self._copied_timer.setInterval(_COPIED_MS)
        self._copied_timer.timeout.connect(lambda: self._copy.set_glyph("copy"))
        if turn.text:
            self.body.set_text(turn.text)
        self.refresh()

    @property
    def meta_text(self) -> str:
        """The line below the reply."""
        return self._meta.whole

    @property
    def dropped_text(self) -> str:
        """The line that says what the model did not see, empty where it saw everything."""
        return "" if self._dropped.isHidden() else self._dropped.text()

    @property
    def continue_button(self) -> QPushButton:
        """Lets the model go on; visible where it can."""
        return self._continue

    def append(self, text: str) -> None:
        """Show a piece of the answer, which the turn has already."""
        if not self.body.is_growing:
            self.body.resume(self._turn.text.removesuffix(text))
        self.fold.refresh()
        self.body.append(text)

    def append_thinking(self, text: str) -> None:
        """Show a piece of the thinking, which the turn has already."""
        was_hidden = self.fold.isHidden()
        self.fold.append(text)
        if was_hidden:
            self._on_height_changed()

    def take_back(self) -> None:
        """Show the answer so far as thinking, which it turned out to be."""
        self.body.clear()
        self.fold.reread()
        self._on_height_changed()

    def restart(self) -> None:
        """Remove the earlier text: the new one begins."""
        self.fold.set_open(False)
        self.fold.refresh()
        self.body.clear()
        self._on_height_changed()

    def set_is_last(self, is_last: bool) -> None:
        """Only the last reply can be asked for again."""
        self._is_last = is_last
        self.refresh()

    def set_can_load(self, can_load: bool) -> None:
        """Offer to load the model instead of asking again: there is none at present."""
        if can_load != self._can_load:
            self._can_load = can_load
            self.refresh()

    def refresh(self) -> None:
        """Show the turn's present state."""
        turn = self._turn
        name = isolated(shortened(turn.model_name, 120))
        self._name.setText(name)
        self.body.set_name(name)
        if not turn.is_open:
            self.body.finish()
        before = self._parts()
        self._refresh_fold()
        self._dropped.setVisible(turn.dropped is not None)
        if turn.dropped is not None:
            self._dropped.setText(dropped_text(turn.dropped))
            self._dropped.setToolTip(dropped_details(turn.dropped))
        is_failed = turn.state is ReplyState.FAILED and turn.error is not None
        if turn.error is not None and is_failed:
            self.error.show_error(turn.error, can_load=self._can_load, can_retry=self._is_last)
        self.error.setVisible(is_failed)
        text = progress_text(turn) if turn.is_open else self._outcome_text()
        self._meta.set_whole(text)
        # The whole line too: in a narrow window its end is cut.
        self._meta.setToolTip("" if turn.is_open else "\n".join((text, outcome_details(turn))).strip())
        self._copy.setVisible(not turn.is_open and bool(turn.text))
        is_begun = is_failed and turn.is_continuation  # then the error offers to go on
        self._retry.setVisible(not turn.is_open and (not is_failed or is_begun) and self._is_last)
        self._continue.setVisible(turn.can_go_on and self._is_last)
        if is_failed or before != self._parts():
            self._on_height_changed()
        elif self._width:
            self._place()

    def copy(self) -> None:
        """Put the reply on the clipboard, as Markdown."""
        QGuiApplication.clipboard().setText(self._turn.text)
        self._copy.set_glyph("check")
        self._copied_timer.start()

    def fit(self, width: int) -> int:
        """See MessageRow."""
        self._width = width
        self.body.fit(width)
        return self._place()

    def restyle(self) -> None:
        """See MessageRow."""
        self.fold.restyle()
        self.body.restyle()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """See QWidget; offers what the buttons offer."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Copy reply", self.copy)
        if self._turn.thinking:
            thinking = self._turn.thinking
            menu.addAction("Copy thinking", lambda: QGuiApplication.clipboard().setText(thinking))
        if self._continue.isVisible():
            menu.addAction("Continue", self.continue_requested.emit)
        if self._retry.isVisible():
            menu.addAction("Ask again", self.retry_requested.emit)
        menu.popup(event.globalPos())

    def _parts(self) -> tuple[bool, str, bool]:
        """Return what the height depends on beside the texts."""
        return self.error.isHidden(), self.dropped_text, self.fold.isHidden()

    def _refresh_fold(self) -> None:
        turn = self._turn
        self.fold.refresh()
        if self._was_open and not turn.is_open and turn.thinking and not turn.text.strip():
            self.fold.set_open(True)  # else the reply would look empty
        self._was_open = turn.is_open

    def _on_fold_toggled(self) -> None:
        if self._width:
            self._place()
            (self.resized if self._turn.is_open else self.unfolded).emit()

    def _on_error_retry(self) -> None:
        (self.continue_requested if self._turn.is_continuation else self.retry_requested).emit()

    def _outcome_text(self) -> str:
        parts = (outcome_mark(self._turn), outcome_numbers(self._turn))
        return " · ".join(part for part in parts if part)

    def _on_height_changed(self) -> None:
        if self._width:
            self._place()
            self.resized.emit()

    def _place(self) -> int:
        px, width = self._theme.px, self._width
        name = self._name.sizeHint().height()
        self._name.setGeometry(0, 0, width, name)
        y = name + px(6)
        if not self._dropped.isHidden():
            height = self._dropped.heightForWidth(width)
            self._dropped.setGeometry(0, y, width, height)
            y += height + px(4)
        if not self.fold.isHidden():
            height = self.fold.fit(width)
            self.fold.move(0, y - px(2))
            y += height + px(8 if self.fold.is_open else 2)
        self.body.move(0, y)
        if self.body.segments:
            y += self.body.height() + px(6)
        if not self.error.isHidden():
            height = self.error.fit(width)
            self.error.setGeometry(0, y + px(4), width, height)
            y += height + px(8)
        # The line keeps its height in every state, so nothing jumps when a reply ends.
        line = px(26)
        x = width
        for button in (self._retry, self._copy):
            if not button.isHidden():
                x -= button.width()
                button.move(x, y + (line - button.height()) // 2)
        if not self._continue.isHidden():
            size = self._continue.sizeHint()
            x -= size.width() + px(4)
            self._continue.setGeometry(x, y + (line - size.height()) // 2, size.width(), size.height())
        self._meta.setGeometry(0, y, max(0, x - px(8)), line)
        return y + line
