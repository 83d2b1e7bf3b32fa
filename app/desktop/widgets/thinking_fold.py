"""ThinkingFold: what a model thought before its answer, folded away behind one line that says how long it thought.

While it is closed its text costs nothing. When it is open only what is near the view are widgets, and while it grows
only its end is touched.
"""

import time
from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.desktop.rendering.plain_text import DimText
from app.desktop.session.turns import ReplyTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import duration_text, elapsed_text
from app.desktop.widgets.fold_head import FoldHead
from app.desktop.widgets.height_estimates import TextMeasures
from app.desktop.widgets.reply_contents import Part

# What grows is laid out and painted as a whole, so its length is the cost of one update.
_MAX_PIECE_CHARS = 1_600
_INDENT = 16


def cut_ranges(text: str, begin: int = 0) -> list[tuple[int, int]]:
    """Return the parts of `text` from `begin` on that get a widget each, cut at line breaks where there are some."""
    ranges = []
    while len(text) - begin > _MAX_PIECE_CHARS:
        limit = begin + _MAX_PIECE_CHARS
        end = text.rfind("\n", begin + 1, limit)
        if end > 0:
            ranges.append((begin, end))
            begin = end + 1  # the border of two widgets is the line break
            continue
        end = text.rfind(" ", begin, limit) + 1 or limit
        ranges.append((begin, end))
        begin = end
    return [*ranges, (begin, len(text))]


def thinking_text(turn: ReplyTurn) -> str:
    """Return the line that stands for the thinking of a reply."""
    if turn.thinking_s is None:
        return QCoreApplication.translate("ThinkingFold", "Thinking")
    if turn.is_thinking:
        words = QCoreApplication.translate("ThinkingFold", "Thinking … {time}")
        return words.format(time=elapsed_text(turn.thinking_s))
    return QCoreApplication.translate("ThinkingFold", "Thought for {time}").format(time=duration_text(turn.thinking_s))


class ThinkingFold(QWidget):
    """Shows the thinking of one reply.

    Signals:
        height_changed: the height for the present width is another one, because of new text.
        toggled: the user opened or closed it.
    """

    height_changed = Signal()
    toggled = Signal()

    def __init__(self, theme: Theme, turn: ReplyTurn, measures: TextMeasures, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._turn = turn
        self._measures = measures
        self._widgets: dict[Part, DimText] = {}
        self._width = 0
        self.parts: list[Part] = []
        self.head = FoldHead(theme, self)
        self.head.setToolTip(self.tr("Show or hide what the model thought"))
        self.head.setAccessibleDescription(self.tr("Shows or hides what the model thought"))
        self.head.toggled.connect(self._on_toggled)
        self.refresh()

    @property
    def is_open(self) -> bool:
        """Whether the thinking can be read."""
        return self.head.isChecked()

    @property
    def text_widgets(self) -> Sequence[DimText]:
        """The widgets that hold the text, top to bottom: those near the view, and none while it is closed."""
        return [self._widgets[part] for part in self.parts if part in self._widgets]

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
        if not self.parts:
            self._show_all()
        else:
            last = len(self.parts) - 1
            before = self.parts.pop()
            self._add_from(before.begin)
            widget = self._widgets.pop(before, None)
            if widget is not None:
                self._widgets[self.parts[last]] = widget
                self._fill(self.parts[last])
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
        """Lay out for `width` and return the height; text is measured when it is in view."""
        self._width = width
        px = self._theme.px
        self._place_head()
        top, inner = self._top(), self._inner()
        for part in self.parts:
            if part in self._widgets:
                self._widgets[part].setGeometry(px(_INDENT), top, part.width or inner, part.height)
            top += part.height
        height = top if self.parts else self.head.height()
        self.resize(width, height)
        return height

    def realise(self, top: int, bottom: int, deadline: float = float("inf")) -> bool:
        """Make widgets of the text between `top` and `bottom`; return whether any height changed."""
        y, has_changed = self._top(), False
        for part in self.parts:
            if y >= bottom or time.perf_counter() > deadline:
                break
            if y + part.height > top and not self._is_ready(part):
                self._fill(part)
                has_changed = True
            y += part.height
        return has_changed

    def is_realised(self, top: int, bottom: int) -> bool:
        """Tell whether all between `top` and `bottom` are widgets."""
        y = self._top()
        for part in self.parts:
            if y < bottom and y + part.height > top and not self._is_ready(part):
                return False
            y += part.height
        return True

    def drop_outside(self, top: int, bottom: int) -> None:
        """Remove widgets that are not between `top` and `bottom` nor held by the user."""
        for part, widget in list(self._widgets.items()):
            is_outside = widget.y() + widget.height() < top or widget.y() > bottom
            if is_outside and not widget.hasFocus() and not widget.textCursor().hasSelection():
                self._drop(part)

    def part_at(self, y: int) -> Part | None:
        """Return the part that stands at or below `y` and is a widget."""
        bottom = self._top()
        for part in self.parts:
            bottom += part.height
            if bottom > y and part in self._widgets:
                return part
        return None

    def top_of(self, part: Part) -> int | None:
        """Return where a part begins; None where it is gone."""
        top = self._top()
        for other in self.parts:
            if other is part:
                return top
            top += other.height
        return None

    def restyle(self) -> None:
        """Take the theme's present look."""
        for part in self.parts:
            part.width = 0
        for widget in self._widgets.values():
            widget.restyle()

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget; adds the bar beside the text."""
        super().paintEvent(event)
        if self.parts:
            px, top = self._theme.px, self._top()
            painter = QPainter(self)
            painter.fillRect(px(5), top, px(2), self.height() - top, self._theme.colour("border"))
            painter.end()

    def _on_toggled(self) -> None:
        self._show_all()
        self.toggled.emit()

    def _show_all(self) -> None:
        for part in list(self._widgets):
            self._drop(part)
        self.parts = []
        if self.is_open and self._turn.thinking:
            self._add_from(0)

    def _add_from(self, begin: int) -> None:
        text = self._turn.thinking
        self.parts += [
            Part(start, end, height=self._measures.of_plain(text[start:end])) for start, end in cut_ranges(text, begin)
        ]

    def _is_ready(self, part: Part) -> bool:
        return part in self._widgets and part.width == self._inner()

    def _fill(self, part: Part) -> None:
        """Show and measure a part."""
        widget = self._widgets.get(part)
        if widget is None:
            widget = self._widgets[part] = DimText(self._theme, self)
            widget.setAccessibleName(self.tr("Thinking"))
            widget.show()
        widget.set_text(self._turn.thinking[part.begin : part.end])
        part.width = self._inner()
        part.height = widget.fit(part.width)

    def _drop(self, part: Part) -> None:
        widget = self._widgets.pop(part)
        widget.hide()
        widget.deleteLater()

    def _top(self) -> int:
        return self.head.height() + self._theme.px(4)

    def _inner(self) -> int:
        return max(1, self._width - self._theme.px(_INDENT))

    def _place_head(self) -> None:
        size = self.head.sizeHint()
        self.head.setGeometry(0, 0, min(size.width(), self._width), size.height())
