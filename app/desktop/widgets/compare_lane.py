"""CompareLane: one column while it is compared: whose it is, its conversation, and its numbers with the best marked."""

import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.compare.results import MEASURES
from app.desktop.rendering.blocks import BlockParser
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.look import set_look
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_chat import CompareChat, measure_text
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.plain_label import plain_label

FIGURES = ("decode_rate", "ttft_s", "prefill_rate", "peak_memory_bytes")
_LABEL_CHARS = 120
_LIVE_S = 0.25


class SeriesDot(QWidget):
    """The mark of a column: a dot in its colour."""

    def __init__(self, theme: Theme, number: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._number = number
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget."""
        side = self._theme.px(9)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.series(self._number))
        painter.drawEllipse(QRectF((self.width() - side) / 2, (self.height() - side) / 2, side, side))
        painter.end()

    def _on_theme_changed(self) -> None:
        self.setFixedSize(self._theme.px(14), self._theme.px(14))
        self.update()


class CompareLane(QFrame):
    """A column.

    Args:
        number: its place, which gives the colour.

    Signals:
        chat_requested: it is to go on as a chat.
    """

    chat_requested = Signal()

    def __init__(
        self,
        theme: Theme,
        number: int,
        label: str,
        parser: Callable[[], BlockParser],
        lexer: CodeLexer,
        *,
        formulas: FormulaImages | None = None,
    ) -> None:
        super().__init__()
        self._theme = theme
        self.label = isolated(shortened(label, _LABEL_CHARS))
        self.setObjectName("compareLane")
        self.setAccessibleName(self.label)
        self._dot = SeriesDot(theme, number)
        self._name = ElidedLabel()
        self._name.setProperty("role", "title")
        self._name.set_whole(self.label)
        self._name.setToolTip(tool_tip_text(self.label))
        self._name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._live_at = 0.0
        self._live = plain_label(role="meta")
        self._live.setWordWrap(False)
        self.chat_button = GlyphButton(theme, "pencil", self.tr("Go on as a chat with {name}").format(name=self.label))
        self.chat_button.clicked.connect(self.chat_requested)
        self.chat_button.setEnabled(False)
        head = QFrame()
        head.setObjectName("laneHead")
        self._head = QHBoxLayout(head)
        for part, stretch in ((self._dot, 0), (self._name, 1), (self._live, 0), (self.chat_button, 0)):
            self._head.addWidget(part, stretch)
        self.chat = CompareChat(theme, parser, lexer, formulas=formulas)
        self.chat.setAccessibleName(self.tr("Conversation with {name}").format(name=self.label))
        self._fault = plain_label(role="error", is_selectable=True)
        self._hint = plain_label(role="muted", is_selectable=True)
        self._faults = QFrame()
        self._faults.setObjectName("errorBlock")
        self._fault_box = QVBoxLayout(self._faults)
        self._fault_box.addWidget(self._fault)
        self._fault_box.addWidget(self._hint)
        self._faults.hide()
        foot = QFrame()
        foot.setObjectName("laneFoot")
        self._grid = QGridLayout(foot)
        self._values: dict[str, QLabel] = {}
        for place, name in enumerate(FIGURES):
            caption, value = plain_label(self.tr(MEASURES[name].label), role="meta"), plain_label(role="figure")
            caption.setWordWrap(False)
            caption.setContentsMargins(0, theme.px(3) if place > 1 else 0, 0, 0)
            value.setWordWrap(False)
            self._values[name] = value
            self._grid.addWidget(caption, 2 * (place // 2), place % 2)
            self._grid.addWidget(value, 2 * (place // 2) + 1, place % 2)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(0)
        self._box.addWidget(head)
        self._box.addWidget(self._faults)
        self._box.addWidget(self.chat, 1)
        self._box.addWidget(foot)
        self.show_figures({}, ())
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def live(self) -> str:
        """What is told in the head."""
        return self._live.text()

    @property
    def fault(self) -> str:
        """Why there is nothing of it; empty where there is something."""
        return "" if self._faults.isHidden() else self._fault.text()

    def figure(self, name: str) -> str:
        """Return what is shown of a measure."""
        return self._values[name].text()

    def show_live(self, text: str) -> None:
        """Tell what it does at present."""
        self._live_at = time.monotonic()
        if text != self._live.text():
            self._live.setText(text)

    def show_rate(self, text: str) -> None:
        """Tell how fast it writes, some times a second: each change lays the head out anew."""
        if time.monotonic() - self._live_at >= _LIVE_S:
            self.show_live(text)

    def show_fault(self, message: str, hint: str) -> None:
        """Say why nothing more comes; nothing for an empty message."""
        self._faults.setVisible(bool(message))
        self._fault.setText(shortened(message, 600))
        self._hint.setText(shortened(hint, 600))
        self._hint.setVisible(bool(hint))
        if message:
            self.show_live(self.tr("failed"))

    def show_figures(self, values: dict[str, float], best: Sequence[str]) -> None:
        """Show the numbers.

        Args:
            best: names of the measures in which it is the best.
        """
        for name, label in self._values.items():
            text = measure_text(name, values.get(name))
            label.setText(f"{text} ★" if name in best else text)
            label.setAccessibleName(self.tr("{value}, the best").format(value=text) if name in best else text)
            set_look(label, "best", name in best)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._head.setContentsMargins(px(12), px(4), px(8), px(4))
        self._head.setSpacing(px(6))
        self._grid.setContentsMargins(px(14), px(6), px(14), px(8))
        self._grid.setHorizontalSpacing(px(12))
        self._grid.setVerticalSpacing(0)
        self._fault_box.setContentsMargins(px(12), px(8), px(12), px(8))
