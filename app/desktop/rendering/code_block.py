"""CodeBlock: a code block with its language and a Copy button; text only, whatever the code holds."""

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication, QTextCursor, QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QWidget

from app.desktop.rendering.highlighting import CodeHighlighter, CodeLexer, LineSpans
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.theme.theme import Theme

_RELEX_MS = 250
_MAX_STREAMING_LINES = 300
_COPIED_MS = 1500
_PAD = 12


class CodeText(QPlainTextEdit):
    """The text of a code block: read-only, left to right, not wrapped."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.NoWrap)
        option.setTextDirection(Qt.LayoutDirection.LeftToRight)
        self.document().setDefaultTextOption(option)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Take sideways movement only."""
        if abs(event.angleDelta().x()) > abs(event.angleDelta().y()):
            super().wheelEvent(event)
        else:
            event.ignore()


class CodeBlock(QFrame):
    """Shows code that may still grow."""

    def __init__(self, theme: Theme, lexer: CodeLexer, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._lexer = lexer
        self._code = ""
        self._language = ""
        self._num_lexed_chars = -1
        self._text_width = 0.0
        self._line_heights: list[float] = []
        self._line_widths: list[float] = []
        self.setObjectName("codeBlock")
        self._head = QWidget(self)
        self._head.setObjectName("codeHead")
        self._head.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._label = QLabel(self._head)
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setProperty("role", "language")
        self._copy = QPushButton("Copy", self._head)
        self._copy.setProperty("kind", "small")
        self._copy.setAccessibleName("Copy code")
        self._copy.setToolTip("Copy code")
        self._copy.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._copy.setCursor(Qt.CursorShape.PointingHandCursor)
        self._copy.clicked.connect(self.copy)
        row = QHBoxLayout(self._head)
        row.setContentsMargins(theme.px(_PAD), 0, theme.px(4), 0)
        row.addWidget(self._label, 1)
        row.addWidget(self._copy)
        self._text = CodeText(self)
        self._highlighter = CodeHighlighter(self._text.document(), theme.colours)
        self._relex_timer = QTimer(self)
        self._relex_timer.setSingleShot(True)
        self._relex_timer.setInterval(_RELEX_MS)
        self._relex_timer.timeout.connect(self._relex)
        self._copied_timer = QTimer(self)
        self._copied_timer.setSingleShot(True)
        self._copied_timer.setInterval(_COPIED_MS)
        self._copied_timer.timeout.connect(lambda: self._copy.setText("Copy"))
        self._show_language()
        self.restyle()

    @property
    def code(self) -> str:
        """The exact code."""
        return self._code

    @property
    def text_widget(self) -> QPlainTextEdit:
        """The widget that holds the text."""
        return self._text

    def set_code(self, code: str, language: str, *, is_growing: bool) -> None:
        """Show `code`; what it shares with the code before stays where it is."""
        if language != self._language:
            self._language = language
            self._show_language()
            self._num_lexed_chars = -1
        if code != self._code:
            self._replace(code)
        if not is_growing:
            self._relex_timer.stop()
            if self._num_lexed_chars != len(code):
                self._relex()
        elif not self._relex_timer.isActive() and code.count("\n") < _MAX_STREAMING_LINES:
            self._relex_timer.start()

    def copy(self) -> None:
        """Put the exact code on the clipboard."""
        QGuiApplication.clipboard().setText(self._code)
        self._copy.setText("Copied")
        self._copied_timer.start()

    def restyle(self) -> None:
        """Take the theme's present look."""
        font = self._theme.code_font()
        self._text.setFont(font)
        self._text.document().setDefaultFont(font)
        self._text.setTabStopDistance(4 * self._text.fontMetrics().horizontalAdvance(" "))
        self._highlighter.set_colours(self._theme.colours)
        self._measure(0)

    def fit(self, width: int) -> int:
        """Place head and text for `width` and return the height."""
        px = self._theme.px
        head, pad = px(30), px(_PAD)
        inner = width - 2 - 2 * pad
        self._head.setGeometry(1, 1, width - 2, head)
        height = round(sum(self._line_heights)) + 2
        # The text keeps its right edge free only inside: code may scroll under the edge of the block.
        is_wider = self._text_width > inner + pad
        bar = self._text.horizontalScrollBar().sizeHint().height() if is_wider else 0
        self._text.setGeometry(1 + pad, 1 + head + px(10), inner + pad, height + bar)
        return head + px(10) + height + (bar if bar else px(10)) + 2

    def _show_language(self) -> None:
        name = isolated(shortened(self._language, 40))
        self._label.setText(name or "code")
        self._text.setAccessibleName(f"Code, {name}" if name else "Code")

    def _replace(self, code: str) -> None:
        old, self._code = self._code, code
        document = self._text.document()
        first_changed = max(0, document.blockCount() - 1)
        cursor = QTextCursor(document)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if code.startswith(old):
            cursor.insertText(code[len(old) :])
        else:
            cursor.select(QTextCursor.SelectionType.Document)
            cursor.insertText(code)
            first_changed = 0
        self._measure(first_changed)

    def _measure(self, first_line: int) -> None:
        """Measure lines from `first_line` on; the text edit itself lays them out only when they come into view."""
        layout = self._text.document().documentLayout()
        block = self._text.document().findBlockByNumber(first_line)
        del self._line_heights[first_line:], self._line_widths[first_line:]
        while block.isValid():
            self._line_heights.append(layout.blockBoundingRect(block).height())
            line = block.layout().lineAt(0)
            self._line_widths.append(line.naturalTextWidth() if line.isValid() else 0.0)
            block = block.next()
        self._text_width = max((self._text_width if first_line else 0.0, *self._line_widths[first_line:]))

    def _relex(self) -> None:
        code, language = self._code, self._language
        self._num_lexed_chars = len(code)

        def show(spans: LineSpans) -> None:
            if self._code.startswith(code) and self._language == language:
                self._highlighter.set_spans(spans)

        self._lexer.request(code, language, show)
