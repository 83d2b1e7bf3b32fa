"""SafeBrowser: the widget for documents made of untrusted text. It never reads a file and never opens a connection."""

from typing import Any

from PySide6.QtCore import QMimeData, QPointF, QRect, QRectF, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QTextBlockFormat,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QTextBrowser, QWidget

from app.desktop.rendering.code_anchors import code_of, labelled
from app.desktop.rendering.formula_document import Placement, paint_selected, place_formulas, source_text
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.formula_names import SCHEME
from app.desktop.theme.theme import Theme

_QUOTE_INDENT = 16
_MAX_QUOTE_LEVELS = 8
_COPIED_MS = 1500


class SafeBrowser(QTextBrowser):
    """Shows HTML of the Renderer at the height it needs.

    Signals:
        link_activated: the target, allowed but not yet agreed to.
        link_hovered: the target, empty when the pointer left it.
        refilled: formulas were drawn; the height may be another one.
    """

    link_activated = Signal(str)
    link_hovered = Signal(str)
    refilled = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, formulas: FormulaImages | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._formulas = formulas
        self._placement = Placement()
        self._placed_width = 0
        self._placed_ratio = 1.0
        self._html = ""
        self._is_styled = False
        self.setOpenLinks(False)
        self.setOpenExternalLinks(False)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextBrowserInteraction | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self.anchorClicked.connect(self._on_anchor_clicked)
        self.highlighted.connect(self._on_highlighted)
        self._last_copied = ""
        self._copied_timer = QTimer(self)
        self._copied_timer.setSingleShot(True)
        self._copied_timer.setInterval(_COPIED_MS)
        self._copied_timer.timeout.connect(lambda: self._show_copied(""))
        if formulas is not None:
            formulas.drawn.connect(self._on_drawn)

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Answer with the picture of a formula or with one transparent pixel.

        An empty answer would let Qt open the target itself.
        """
        target = name if isinstance(name, str) else name.toString()
        if self._formulas is not None and target.startswith(SCHEME):
            drawing = self._formulas.image(target, self.devicePixelRatioF())
            if drawing is not None:
                return drawing
        image = QImage(1, 1, QImage.Format.Format_ARGB32)
        image.fill(QColor(0, 0, 0, 0))
        return image

    @property
    def html(self) -> str:
        """What is shown, without colours."""
        return self._html

    @property
    def placement(self) -> Placement:
        """How far its formulas are."""
        return self._placement

    def set_html(self, source: str) -> None:
        """Show other HTML; a selection is kept."""
        if not self._is_styled:
            self._style()
        if source != self._html:
            self._html = source
            self._show()

    def restyle(self) -> None:
        """Show the same in the theme's present look."""
        self._style()
        self._show()

    def fit(self, width: int) -> int:
        """Lay out for `width` and return the height."""
        if width != self._placed_width and self._placement.width > min(width, self._placed_width or width):
            self._placed_width = width
            self._show()
        self._placed_width = width
        self.document().setTextWidth(width)
        return max(1, -int(-self.document().size().height() // 1))

    def createMimeDataFromSelection(self) -> QMimeData:
        """Return the selection as text alone, no-break blanks kept."""
        data = QMimeData()
        data.setText(selected_text(self.textCursor()))
        return data

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the conversation."""
        event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget; adds the bars beside quotes, which Qt does not draw."""
        painter = QPainter(self.viewport())
        px = self._theme.px
        layout = self.document().documentLayout()
        ends = [0] * _MAX_QUOTE_LEVELS  # where the bar of each level ended, to close the gap to the next block
        block = self.document().begin()
        while block.isValid():
            levels = min(int(block.blockFormat().leftMargin()) // px(_QUOTE_INDENT), _MAX_QUOTE_LEVELS)
            rect: QRectF = layout.blockBoundingRect(block)
            top, bottom = int(rect.top()), int(rect.bottom()) + 1
            for level in range(levels):
                begin = ends[level] or top
                bar = QRect(level * px(_QUOTE_INDENT) + px(2), begin, px(2), bottom - begin)
                painter.fillRect(bar, self._theme.colour("control_border"))
            ends = [bottom if level < levels else 0 for level in range(_MAX_QUOTE_LEVELS)]
            block = block.next()
        painter.end()
        super().paintEvent(event)
        if self._placement.width and self._placed_ratio != self.devicePixelRatioF():
            QTimer.singleShot(0, self, self._show)  # it moved to another screen
        if self._formulas is not None and self._placement.width and self.textCursor().hasSelection():
            painter = QPainter(self.viewport())
            shift = QPointF(-self.horizontalScrollBar().value(), -self.verticalScrollBar().value())
            paint_selected(painter, self.textCursor(), self._formulas, self.devicePixelRatioF(), shift)
            painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave Alt with an arrow to the message: there is no page to go back to."""
        has_alt = bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        if has_alt and event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            event.ignore()
        else:
            super().keyPressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """See QWidget."""
        super().mouseMoveEvent(event)
        if not self.anchorAt(event.position().toPoint()):
            self.link_hovered.emit("")

    def _style(self) -> None:
        document = self.document()
        document.setDefaultFont(self._theme.font(15))
        document.setIndentWidth(self._theme.px(26))
        document.setDefaultStyleSheet(self._theme.document_stylesheet)
        self._is_styled = True

    def _show(self) -> None:
        document = self.document()
        cursor = self.textCursor()
        anchor, position = cursor.anchor(), cursor.position()
        # Laid out once, when the height is asked for, and not at each step.
        document.setLayoutEnabled(False)
        self._fill(self._html)
        document.setLayoutEnabled(True)
        if anchor != position:
            last = document.characterCount() - 1
            cursor = self.textCursor()
            cursor.setPosition(min(anchor, last))
            cursor.setPosition(min(position, last), QTextCursor.MoveMode.KeepAnchor)
            self.setTextCursor(cursor)

    def _fill(self, source: str) -> None:
        self.document().setHtml(
            labelled(
                source,
                copy=self.tr("Copy code"),
                copied=self.tr("Copied"),
                last_copied=self._last_copied,
                cut=self.tr("This line is too long to be shown whole; copying the reply gives all of it."),
            )
        )
        self._trim_ends()
        self._placement = Placement()
        if f'<img src="{SCHEME}' in source:
            self._placed_ratio = self.devicePixelRatioF()
            self._placement = place_formulas(self.document(), self._theme, self._formulas, self._placed_width)
            # Pictures have no words for a screen reader.
            whole = QTextCursor(self.document())
            whole.select(QTextCursor.SelectionType.Document)
            self.setAccessibleDescription(selected_text(whole))
        elif self.accessibleDescription():
            self.setAccessibleDescription("")

    def _on_drawn(self) -> None:
        if self._placement.is_pending:
            self._show()
            self.refilled.emit()

    def _trim_ends(self) -> None:
        """Drop the space above the first and below the last block: the gap between segments is the row's."""
        first, last = self.document().firstBlock(), self.document().lastBlock()
        for block, set_margin in ((first, _set_top), (last, _set_bottom)):
            block_format = QTextBlockFormat(block.blockFormat())
            if set_margin(block_format):
                QTextCursor(block).setBlockFormat(block_format)

    def _on_anchor_clicked(self, url: QUrl) -> None:
        target = url.toString()
        code = code_of(target)
        if code is None:
            self.link_activated.emit(target)
        else:
            QGuiApplication.clipboard().setText(code)
            self._show_copied(target)
            self._copied_timer.start()

    def _show_copied(self, target: str) -> None:
        self._last_copied = target
        self._show()

    def _on_highlighted(self, url: QUrl) -> None:
        target = url.toString()
        self.link_hovered.emit(target if code_of(target) is None else "")


def _set_top(block_format: QTextBlockFormat) -> bool:
    had_margin = block_format.topMargin() > 0
    block_format.setTopMargin(0)
    return had_margin


def _set_bottom(block_format: QTextBlockFormat) -> bool:
    had_margin = block_format.bottomMargin() > 0
    block_format.setBottomMargin(0)
    return had_margin


def selected_text(cursor: QTextCursor) -> str:
    """Return the selection with real line breaks; QTextDocument.toPlainText would turn no-break blanks into blanks."""
    return (
        source_text(cursor).replace("\u2029", "\n").replace("\u2028", "\n").replace("\ufdd0", "").replace("\ufdd1", "")
    )


class TableBrowser(SafeBrowser):
    """A table; wider than the column it scrolls sideways, and words stay whole."""

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, formulas: FormulaImages | None = None) -> None:
        super().__init__(theme, parent, formulas=formulas)
        self.setWordWrapMode(QTextOption.WrapMode.WordWrap)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)

    def fit(self, width: int) -> int:
        """See SafeBrowser."""
        height = super().fit(width)
        is_wider = self.document().size().width() > width + 0.5
        return height + (self.horizontalScrollBar().sizeHint().height() if is_wider else 0) + 1

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Take sideways movement only."""
        if abs(event.angleDelta().x()) > abs(event.angleDelta().y()):
            super(SafeBrowser, self).wheelEvent(event)
        else:
            event.ignore()
