"""ThinkingFold: what a model thought before its answer, folded away behind one line that says how long it thought.

While it is closed its text costs nothing: it is laid out when it is opened, and from then on only its end is touched.
"""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget

from app.desktop.rendering.plain_text import DimText
from app.desktop.session.turns import ReplyTurn
from app.desktop.theme.glyphs import paint_glyph
from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import duration_text, elapsed_text

# What grows is laid out and painted as a whole, so its length is the cost of one update.
_MAX_PIECE_CHARS = 1_600
_INDENT = 16


def cut_pieces(text: str) -> list[str]:
    """Return the parts of `text` that get a widget each, cut at line breaks where there are some."""
    pieces = []
    while len(text) > _MAX_PIECE_CHARS:
        end = max(text.rfind("\n", 0, _MAX_PIECE_CHARS), 0)
        if end:
            pieces.append(text[:end])
            text = text[end + 1 :]  # the border of two widgets is the line break
            continue
        end = text.rfind(" ", 0, _MAX_PIECE_CHARS) + 1 or _MAX_PIECE_CHARS
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text]


def thinking_text(turn: ReplyTurn) -> str:
    """Return the line that stands for the thinking of a reply."""
    if turn.thinking_s is None:
        return "Thinking"
    if turn.is_thinking:
        return f"Thinking … {elapsed_text(turn.thinking_s)}"
    return f"Thought for {duration_text(turn.thinking_s)}"


class FoldHead(QPushButton):
    """The line that opens and closes the fold."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setCheckable(True)
        self.setProperty("kind", "fold")
        self.setToolTip("Show or hide what the model thought")
        self.setAccessibleDescription("Shows or hides what the model thought")

    def sizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(super().sizeHint().width(), self._theme.px(26))

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget; adds the glyph."""
        super().paintEvent(event)
        side = self._theme.px(14)
        box = QRectF(self._theme.px(3), (self.height() - side) / 2, side, side)
        painter = QPainter(self)
        glyph = "chevron_down" if self.isChecked() else "chevron_right"
        paint_glyph(painter, glyph, box, self._theme.colour("text" if self.underMouse() else "muted"))
        painter.end()


class ThinkingFold(QWidget):
    """Shows the thinking of one reply.

    Signals:
        height_changed: the height for the present width is another one, because of new text.
        toggled: the user opened or closed it.
    """

    height_changed = Signal()
    toggled = Signal()

    def __init__(self, theme: Theme, turn: ReplyTurn, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._turn = turn
        self._pieces: list[str] = []
        self._widgets: list[DimText] = []
        self._heights: list[int] = []
        self._width = 0
        self.head = FoldHead(theme, self)
        self.head.toggled.connect(self._on_toggled)
        self.refresh()

    @property
    def is_open(self) -> bool:
        """Whether the thinking can be read."""
        return self.head.isChecked()

    @property
    def text_widgets(self) -> Sequence[DimText]:
        """The widgets that hold the text, top to bottom; none while it is closed."""
        return self._widgets

    def refresh(self) -> None:
        """Say how long the model has thought; takes no place where it has not."""
        text = thinking_text(self._turn)
        if text != self.head.text():
            self.head.setText(text)
            self._place_head()
        self.setVisible(bool(self._turn.thinking))

    def append(self, text: str) -> None:
        """Take in what the turn's thinking has grown by."""
        self.refresh()
        if not self.is_open or not text:
            return
        if not self._pieces:
            self._show_all()
        else:
            last = len(self._pieces) - 1
            self._pieces[last:] = cut_pieces(self._pieces[last] + text)
            self._show(last)
        self.height_changed.emit()

    def reread(self) -> None:
        """Take the turn's thinking anew: it was replaced or came all at once."""
        self.refresh()
        if self.is_open:
            self._show_all()
            self.height_changed.emit()

    def set_open(self, is_open: bool) -> None:
        """Open or close it without the user."""
        if is_open != self.is_open:
            self.head.blockSignals(True)
            self.head.setChecked(is_open)
            self.head.blockSignals(False)
            self._show_all()
            self.height_changed.emit()

    def fit(self, width: int) -> int:
        """Lay out for `width` and return the height."""
        if width != self._width:
            self._width = width
            self._heights = [-1] * len(self._widgets)
        px = self._theme.px
        self._place_head()
        top, inner = self.head.height() + px(4), max(1, width - px(_INDENT))
        for index, widget in enumerate(self._widgets):
            if self._heights[index] < 0:
                self._heights[index] = widget.fit(inner)
            widget.setGeometry(px(_INDENT), top, inner, self._heights[index])
            top += self._heights[index]
        height = top if self._widgets else self.head.height()
        self.resize(width, height)
        return height

    def restyle(self) -> None:
        """Take the theme's present look."""
        for widget in self._widgets:
            widget.restyle()
        self._heights = [-1] * len(self._widgets)

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget; adds the bar beside the text."""
        super().paintEvent(event)
        if self._widgets:
            px, top = self._theme.px, self.head.height() + self._theme.px(4)
            painter = QPainter(self)
            painter.fillRect(px(5), top, px(2), self.height() - top, self._theme.colour("border"))
            painter.end()

    def _on_toggled(self) -> None:
        self._show_all()
        self.toggled.emit()

    def _show_all(self) -> None:
        self._pieces = cut_pieces(self._turn.thinking) if self.is_open and self._turn.thinking else []
        self._show(0)

    def _show(self, first: int) -> None:
        for index in range(first, len(self._pieces)):
            if index == len(self._widgets):
                widget = DimText(self._theme, self)
                widget.setAccessibleName("Thinking")
                widget.show()
                self._widgets.append(widget)
                self._heights.append(-1)
            self._widgets[index].set_text(self._pieces[index])
            self._heights[index] = -1
        for widget in self._widgets[len(self._pieces) :]:
            widget.hide()
            widget.deleteLater()
        del self._widgets[len(self._pieces) :], self._heights[len(self._pieces) :]

    def _place_head(self) -> None:
        size = self.head.sizeHint()
        self.head.setGeometry(0, 0, min(size.width(), self._width), size.height())
