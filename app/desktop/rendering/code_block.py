"""CodeBlock: a code block with its language and what can be done with it; text only, whatever the code holds."""

import re
from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QShowEvent, QTextCursor, QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QWidget

from app.desktop.rendering.code_display import FOLDED_LINES, MAX_LINES, CodeDisplay
from app.desktop.rendering.highlighting import CodeHighlighter, CodeLexer, LineSpans
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.theme.theme import Theme

_RELEX_MS = 250
_MAX_STREAMING_LINES = 300
_COPIED_MS = 1500
_PAD = 12
_HEAD = 30
_FOOT = 30
# Language as fences name it, and the ending of its files.
_ENDINGS = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "bash": "sh",
    "shell": "sh",
    "markdown": "md",
    "rust": "rs",
    "ruby": "rb",
    "c++": "cpp",
    "c#": "cs",
    "csharp": "cs",
    "kotlin": "kt",
    "yaml": "yml",
    "latex": "tex",
    "perl": "pl",
    "haskell": "hs",
    "powershell": "ps1",
    "text": "txt",
    "plaintext": "txt",
}
_PLAIN_ENDING = re.compile(r"[a-z][a-z0-9]{0,7}")


def suggested_file_name(language: str) -> str:
    """Return a file name for code of a language as a fence names it."""
    name = language.lower()
    ending = _ENDINGS.get(name, name)
    return f"code.{ending if _PLAIN_ENDING.fullmatch(ending) else 'txt'}"


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


class _HeadButton(QPushButton):
    """A button of the head; of all only one is on the way of Tab, the arrow keys reach its neighbours."""

    def __init__(self, text: str, name: str, head: QWidget) -> None:
        super().__init__(text, head)
        self._head = head
        self.setProperty("kind", "small")
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget."""
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        row = sorted(self._head.findChildren(_HeadButton), key=lambda button: button.x())
        index = row.index(self) + step
        if step and 0 <= index < len(row):
            row[index].setFocus(Qt.FocusReason.TabFocusReason)
        else:
            super().keyPressEvent(event)


class CodeBlock(QFrame):
    """Shows code that may still grow; long code that is whole when it is first shown is folded.

    Signals:
        save_requested: the exact code and a file name for it.
        resized: the user folded, unfolded or wrapped it; its height for the present width is another one.
    """

    save_requested = Signal(str, str)
    resized = Signal()

    def __init__(self, theme: Theme, lexer: CodeLexer, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._lexer = lexer
        self._code = ""
        self._language = ""
        self._num_lexed_chars = -1
        self._display = CodeDisplay()
        self._is_folded = False
        self._width = 0
        self._measured_width = 0
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
        self._wrap: _HeadButton | None = None
        self._save: _HeadButton | None = None
        self._foot: QPushButton | None = None
        self._copy = _HeadButton(self.tr("Copy"), self.tr("Copy code"), self._head)
        self._copy.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._copy.clicked.connect(self.copy)
        self._row = QHBoxLayout(self._head)
        self._row.setContentsMargins(theme.px(_PAD), 0, theme.px(4), 0)
        self._row.setSpacing(0)
        self._row.addWidget(self._label, 1)
        self._row.addWidget(self._copy)
        self._text = CodeText(self)
        self._highlighter = CodeHighlighter(self._text.document(), theme.colours)
        self._relex_timer = QTimer(self)
        self._relex_timer.setSingleShot(True)
        self._relex_timer.setInterval(_RELEX_MS)
        self._relex_timer.timeout.connect(self._relex)
        self._copied_timer = QTimer(self)
        self._copied_timer.setSingleShot(True)
        self._copied_timer.setInterval(_COPIED_MS)
        self._copied_timer.timeout.connect(lambda: self._copy.setText(self.tr("Copy")))
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

    @property
    def is_folded(self) -> bool:
        """Whether only the first lines are shown."""
        return self._is_folded

    @property
    def head_buttons(self) -> Sequence[QPushButton]:
        """Wrap, Save and Copy; while the code grows only Copy."""
        return [button for button in (self._wrap, self._save, self._copy) if button is not None]

    @property
    def foot_button(self) -> QPushButton | None:
        """Shows all lines, or says what is not shown; None where nothing is left out."""
        return None if self._foot is None or self._foot.isHidden() else self._foot

    def set_code(self, code: str, language: str, *, is_growing: bool) -> None:
        """Show `code`; what it shares with the code before stays where it is."""
        if language != self._language:
            self._language = language
            self._show_language()
            self._num_lexed_chars = -1
        if code != self._code:
            # What was read while it grew is never folded away.
            is_first = not self._code and not is_growing
            self._is_folded = is_first and code.count("\n") >= FOLDED_LINES
            self._replace(code)
        if not is_growing:
            self._complete_head()
            self._relex_timer.stop()
            if self._num_lexed_chars != len(code):
                self._relex()
        elif not self._relex_timer.isActive() and code.count("\n") < _MAX_STREAMING_LINES:
            self._relex_timer.start()

    def copy(self) -> None:
        """Put the exact code on the clipboard."""
        QGuiApplication.clipboard().setText(self._code)
        self._copy.setText(self.tr("Copied"))
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
        self._width = width
        head, pad = px(_HEAD), px(_PAD)
        inner = width - 2 - 2 * pad
        self._head.setGeometry(1, 1, width - 2, head)
        if self._is_wrapped and inner != self._measured_width:
            self._text.resize(inner, self._text.height())
            self._measured_width = inner
            self._measure(0)
        height = round(sum(self._line_heights)) + 2
        # The text keeps its right edge free only inside: code may scroll under the edge of the block.
        is_wider = not self._is_wrapped and self._text_width > inner + pad
        bar = self._text.horizontalScrollBar().sizeHint().height() if is_wider else 0
        text_width = inner if self._is_wrapped else inner + pad
        self._text.setGeometry(1 + pad, 1 + head + px(10), text_width, height + bar)
        bottom = head + px(10) + height + (bar if bar else px(10)) + 2
        if self._foot is None or self._foot.isHidden():
            return bottom
        foot_width = min(self._foot.sizeHint().width(), width - 2 - px(8))
        self._foot.setGeometry(1 + px(4), bottom - px(4), foot_width, px(_FOOT) - px(4))
        return bottom + px(_FOOT) - px(2)

    def showEvent(self, event: QShowEvent) -> None:
        """See QWidget; the text learns its width only now, on which the height of wrapped lines depends."""
        super().showEvent(event)
        if self._is_wrapped:
            self._measured_width = 0
            self.resized.emit()

    @property
    def _is_wrapped(self) -> bool:
        return self._wrap is not None and self._wrap.isChecked()

    def _complete_head(self) -> None:
        """Add what is of use only for whole code; making it costs as much as the rest of a streaming block."""
        if self._wrap is not None:
            return
        self._wrap = _HeadButton(self.tr("Wrap"), self.tr("Wrap long lines"), self._head)
        self._wrap.setCheckable(True)
        self._wrap.toggled.connect(self._on_wrap_toggled)
        self._save = _HeadButton(self.tr("Save"), self.tr("Save code as a file"), self._head)
        self._save.clicked.connect(lambda: self.save_requested.emit(self._code, suggested_file_name(self._language)))
        for index, button in enumerate((self._wrap, self._save), 1):
            self._row.insertWidget(index, button)
            button.show()

    def _on_wrap_toggled(self, is_on: bool) -> None:
        mode = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere if is_on else QTextOption.WrapMode.NoWrap
        self._text.setWordWrapMode(mode)
        edit = QPlainTextEdit.LineWrapMode
        self._text.setLineWrapMode(edit.WidgetWidth if is_on else edit.NoWrap)
        self._measured_width = 0
        if not is_on:
            self._measure(0)
        self.resized.emit()

    def _on_unfold(self) -> None:
        self._is_folded = False
        code, self._code = self._code, ""
        self._replace(code)
        self._relex()
        self.resized.emit()

    def _show_language(self) -> None:
        name = isolated(shortened(self._language, 40))
        self._label.setText(name or self.tr("code"))
        self._text.setAccessibleName(self.tr("Code, {language}").format(language=name) if name else self.tr("Code"))

    def _show_foot(self) -> None:
        """Say what is not shown."""
        if self._is_folded:
            text = self.tr("Show all {count} lines").format(count=self._code.count("\n") + 1)
        elif self._display.has_more:
            text = self.tr("Only the first {count} lines are shown; copying gives all").format(count=MAX_LINES)
        elif self._display.num_cut_lines:
            text = self.tr("A line is too long to be shown whole; copying gives all of it")
        else:
            text = ""
        if text and self._foot is None:
            self._foot = QPushButton(self)
            self._foot.setProperty("kind", "small")
            self._foot.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            self._foot.clicked.connect(self._on_unfold)
        if self._foot is not None:
            self._foot.setText(text)
            self._foot.setToolTip(text)
            self._foot.setEnabled(self._is_folded)
            self._foot.setVisible(bool(text))

    def _replace(self, code: str) -> None:
        old, self._code = self._code, code
        document = self._text.document()
        first_changed = max(0, document.blockCount() - 1)
        cursor = QTextCursor(document)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if old and code.startswith(old):
            cursor.insertText(self._display.feed(code[len(old) :]))
        else:
            self._display = CodeDisplay(max_lines=FOLDED_LINES if self._is_folded else MAX_LINES)
            cursor.select(QTextCursor.SelectionType.Document)
            cursor.insertText(self._display.feed(code))
            first_changed = 0
        self._show_foot()
        self._measured_width = 0
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
