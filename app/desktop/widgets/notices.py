"""Notices: calm lines above the composer, with the action that helps; they interrupt nothing."""

import dataclasses
from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import shortened
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme

_MAX_CHARS = 500


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
    actions: Sequence[tuple[str, Callable[[], None]]] = ()


class NoticeArea(QWidget):
    """A stack of notices; takes no place while there are none."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: dict[str, tuple[Notice, QWidget]] = {}
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(theme.px(6))
        self.hide()

    @property
    def notices(self) -> Sequence[Notice]:
        """What is shown, oldest first."""
        return [notice for notice, _ in self._shown.values()]

    def show_notice(self, notice: Notice) -> None:
        """Show a notice, in place of one with the same key."""
        self.dismiss(notice.key)
        widget = self._build(notice)
        self._shown[notice.key] = (notice, widget)
        self._box.addWidget(widget)
        self.show()

    def dismiss(self, key: str) -> None:
        """Remove a notice."""
        _, widget = self._shown.pop(key, (None, None))
        if widget is not None:
            self._box.removeWidget(widget)
            widget.hide()
            widget.deleteLater()
        self.setVisible(bool(self._shown))

    def button(self, key: str, label: str) -> QPushButton | None:
        """Return a button of a notice."""
        _, widget = self._shown.get(key, (None, None))
        buttons = widget.findChildren(QPushButton) if widget is not None else []
        return next((button for button in buttons if button.text() == label), None)

    def _build(self, notice: Notice) -> QWidget:
        px = self._theme.px
        frame = QFrame()
        frame.setObjectName("errorBlock" if notice.is_error else "notice")
        texts = QVBoxLayout()
        texts.setSpacing(px(2))
        texts.addWidget(_label(notice.text, "error" if notice.is_error else ""))
        if notice.hint:
            texts.addWidget(_label(notice.hint, "muted"))
        row = QHBoxLayout(frame)
        row.setContentsMargins(px(14), px(8), px(6), px(8))
        row.setSpacing(px(6))
        row.addLayout(texts, 1)
        for label, call in notice.actions:
            button = QPushButton(label)
            button.setProperty("kind", "outline")
            button.clicked.connect(lambda _=False, call=call: self._act(notice.key, call))
            row.addWidget(button)
        close = GlyphButton(self._theme, "close", "Dismiss", size=24)
        close.clicked.connect(lambda: self.dismiss(notice.key))
        row.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        return frame

    def _act(self, key: str, call: Callable[[], None]) -> None:
        self.dismiss(key)
        call()


def _label(text: str, role: str) -> QLabel:
    label = QLabel(shortened(text, _MAX_CHARS))
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setProperty("role", role)
    return label
