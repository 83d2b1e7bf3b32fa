"""SideEdge: the line between a side of the window and the conversation, by which the side is made wider or narrower."""

from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.desktop.theme.theme import Theme

GRAB = 7
_KEY_STEP = 16


class SideEdge(QWidget):
    """A line of one pixel that can be taken hold of beside it, and by the arrow keys.

    Args:
        label: what a screen reader calls it.

    Signals:
        pressed: a drag begins.
        dragged: how far the pointer is to the right of where it began, in pixels.
        stepped: how far an arrow key moves it, in pixels.
        reset: it was clicked twice.
        released: a drag ended.
    """

    pressed = Signal()
    dragged = Signal(int)
    stepped = Signal(int)
    reset = Signal()
    released = Signal()

    def __init__(self, theme: Theme, label: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._pressed_at: int | None = None
        self.setCursor(Qt.CursorShape.SplitHCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setAccessibleName(label)
        self.setToolTip(label)

    def place(self, x: int, top: int, height: int) -> None:
        """Put the line at `x`."""
        self.setGeometry(x - GRAB // 2, top, GRAB, height)

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget."""
        is_held = self._pressed_at is not None or self.hasFocus()
        width = 3 if is_held or self.underMouse() else 1
        role = "accent" if is_held else "control_border" if self.underMouse() else "border"
        painter = QPainter(self)
        painter.fillRect(QRect((GRAB - width) // 2, 0, width, self.height()), self._theme.colour(role))
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold."""
        if event.button() is Qt.MouseButton.LeftButton:
            self._pressed_at = round(event.globalPosition().x())
            self.pressed.emit()
            self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Follow the pointer."""
        if self._pressed_at is not None:
            self.dragged.emit(round(event.globalPosition().x()) - self._pressed_at)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go."""
        if self._pressed_at is not None:
            self._pressed_at = None
            self.update()
            self.released.emit()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Go back to the usual width."""
        self.reset.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move by the arrow keys."""
        steps = {int(Qt.Key.Key_Left): -1, int(Qt.Key.Key_Right): 1}
        if event.key() in steps:
            self.stepped.emit(steps[event.key()] * self._theme.px(_KEY_STEP))
        elif event.key() == Qt.Key.Key_Home:
            self.reset.emit()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the focus."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """See focusInEvent."""
        super().focusOutEvent(event)
        self.update()
