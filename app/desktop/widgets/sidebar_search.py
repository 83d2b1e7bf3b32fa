"""SearchField: the line in which one types what to search all chats for."""

from PySide6.QtCore import QEvent, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from app.desktop.theme.glyphs import GlyphButton, paint_glyph
from app.desktop.theme.theme import Theme
from app.desktop.widgets.escape_key import take_escape

_QUIET_MS = 120


class SearchField(QLineEdit):
    """The field; it tells what is sought once typing pauses, and at once when nothing is.

    Signals:
        sought: the text, without blanks around it.
        entered: Enter or Down was pressed.
        escaped: Esc was pressed.
    """

    sought = Signal(str)
    entered = Signal()
    escaped = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._told = ""
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(_QUIET_MS)
        self._pause.timeout.connect(self.tell)
        keys = QKeySequence("Ctrl+K").toString(QKeySequence.SequenceFormat.NativeText)
        self.setPlaceholderText(self.tr("Search chats  ({keys})").format(keys=keys))
        self.setAccessibleName(self.tr("Search all chats"))
        self._clear = GlyphButton(theme, "close", self.tr("Clear the search"), self, size=22)
        self._clear.hide()
        self._clear.clicked.connect(self.escaped)
        self.textChanged.connect(self._on_text_changed)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def text_sought(self) -> str:
        """What is typed, without blanks around it."""
        return self.text().strip()

    def tell(self) -> None:
        """Tell now what is sought, unless that is known."""
        self._pause.stop()
        if self.text_sought != self._told:
            self._told = self.text_sought
            self.sought.emit(self._told)

    def event(self, event: QEvent) -> bool:
        """Keep Esc, which means something else to the window."""
        return take_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget."""
        if event.key() == Qt.Key.Key_Escape:
            self.escaped.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Down):
            self.tell()
            self.entered.emit()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._place_button()

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget."""
        super().paintEvent(event)
        px = self._theme.px
        side = px(14)
        left = px(9) if not self.isRightToLeft() else self.width() - px(9) - side
        painter = QPainter(self)
        box = QRectF(left, (self.height() - side) / 2, side, side)
        paint_glyph(painter, "search", box, self._theme.colour("muted"))
        painter.end()

    def _on_text_changed(self) -> None:
        self._clear.setVisible(bool(self.text()))
        if self.text_sought:
            self._pause.start()
        else:
            self.tell()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        near, far = px(22), px(24)
        self.setTextMargins(*((near, 0, far, 0) if not self.isRightToLeft() else (far, 0, near, 0)))
        self.setFixedHeight(px(32))
        self._place_button()

    def _place_button(self) -> None:
        px = self._theme.px
        side = self._clear.width()
        left = self.width() - side - px(5) if not self.isRightToLeft() else px(5)
        self._clear.move(left, (self.height() - side) // 2)
