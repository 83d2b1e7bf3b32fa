"""Notices: calm lines above the composer, with the action that helps; they interrupt nothing."""

import dataclasses
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import shortened
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.crash_card import CrashCard
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.scroll_area import scroll_area

_MAX_CHARS = 500
# Buttons stand below the text where they would leave it less room than this.
_MIN_TEXT = 240


@dataclasses.dataclass(frozen=True, kw_only=True)
class Notice:
    """What a notice says and offers.

    Attributes:
        key: a later notice with the same key replaces this one.
        hint: a second, muted sentence.
        is_error: something went wrong, as against something to know.
        actions: label and call of each button; pressing one closes the notice.
    """

    key: str
    text: str
    hint: str = ""
    is_error: bool = False
    actions: Sequence[tuple[str, Callable[[], object]]] = ()


class _NoticeFrame(QFrame):
    """One notice.

    Signals:
        closed: dismissed, or one of its buttons was pressed.
    """

    closed = Signal()

    def __init__(self, theme: Theme, notice: Notice) -> None:
        super().__init__()
        self._theme = theme
        self.setObjectName("errorBlock" if notice.is_error else "notice")
        self._texts = QVBoxLayout()
        self._texts.addWidget(plain_label(shortened(notice.text, _MAX_CHARS), role="error" if notice.is_error else ""))
        if notice.hint:
            self._texts.addWidget(plain_label(shortened(notice.hint, _MAX_CHARS), role="muted"))
        self._buttons = QHBoxLayout()
        for label, call in notice.actions:
            button = QPushButton(label)
            button.setProperty("kind", "outline")
            button.clicked.connect(lambda _=False, call=call: self._act(call))
            self._buttons.addWidget(button)
        self._buttons.addStretch()
        self._body = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._body.addLayout(self._texts, 1)
        self._body.addLayout(self._buttons)
        close = GlyphButton(theme, "close", self.tr("Dismiss"), size=24)
        close.clicked.connect(self.closed)
        self._row = QHBoxLayout(self)
        self._row.addLayout(self._body, 1)
        self._row.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def fit(self, width: int) -> None:
        """Put the buttons beside the text, or below it where that would be squeezed."""
        is_narrow = width - self._buttons.sizeHint().width() < self._theme.px(_MIN_TEXT)
        down, beside = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._body.setDirection(down if is_narrow else beside)

    def _act(self, call: Callable[[], object]) -> None:
        self.closed.emit()
        call()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._row.setContentsMargins(px(14), px(8), px(6), px(8))
        self._row.setSpacing(px(6))
        self._body.setSpacing(px(6))
        self._buttons.setSpacing(px(6))
        self._texts.setSpacing(px(2))


class NoticeArea(QWidget):
    """A stack of notices; takes no place while there are none, and scrolls where there is little.

    Signals:
        height_changed: what is shown needs another height.
    """

    height_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: dict[str, tuple[Notice, _NoticeFrame]] = {}
        self._cards: list[CrashCard] = []
        self._body = QWidget()
        self._body.setObjectName("noticesBody")
        self._box = QVBoxLayout(self._body)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._area = area = scroll_area(self._body)
        area.setObjectName("notices")
        area.setFrameShape(QFrame.Shape.NoFrame)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)
        self._body.installEventFilter(self)
        self.hide()
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def notices(self) -> Sequence[Notice]:
        """What is shown, oldest first."""
        return [notice for notice, _ in self._shown.values()]

    def add_card(self, card: CrashCard) -> None:
        """Give a card its place above the notices, where it is seen while it is not hidden."""
        card.installEventFilter(self)
        self._cards.append(card)
        self._box.insertWidget(len(self._cards) - 1, card)
        self._update()

    def show_notice(self, notice: Notice) -> None:
        """Show a notice, in place of one with the same key."""
        self.dismiss(notice.key)
        frame = _NoticeFrame(self._theme, notice)
        frame.closed.connect(lambda: self.dismiss(notice.key))
        self._shown[notice.key] = (notice, frame)
        self._box.addWidget(frame)
        self._update()

    def dismiss(self, key: str) -> None:
        """Remove a notice."""
        _, widget = self._shown.pop(key, (None, None))
        if widget is not None:
            self._box.removeWidget(widget)
            widget.hide()
            widget.deleteLater()
        self._update()

    def button(self, key: str, label: str) -> QPushButton | None:
        """Return a button of a notice."""
        _, widget = self._shown.get(key, (None, None))
        buttons = widget.findChildren(QPushButton) if widget is not None else []
        return next((button for button in buttons if button.text() == label), None)

    def height_for(self, width: int) -> int:
        """Return the height at which nothing has to scroll."""
        parts: list[CrashCard | _NoticeFrame] = [*self._cards, *(frame for _, frame in self._shown.values())]
        for part in parts:
            part.fit(width - self._area.verticalScrollBar().sizeHint().width())
        return max(self._box.heightForWidth(width), self._box.minimumSize().height())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Come and go with the cards, and follow what they show."""
        if watched is self._body:
            if event.type() == QEvent.Type.LayoutRequest:
                self.height_changed.emit()
        elif event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
            self._update()
        return super().eventFilter(watched, event)

    def _update(self) -> None:
        is_needed = bool(self._shown) or any(not card.isHidden() for card in self._cards)
        self.setVisible(is_needed)
        self.height_changed.emit()

    def _on_theme_changed(self) -> None:
        self._box.setSpacing(self._theme.px(6))
