"""ComparePage: set-up, columns and result of a comparison, and the line that tells how far it is."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.desktop.rendering.blocks import BlockParser
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.plain import shortened
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_columns import ColumnsView
from app.desktop.widgets.compare_diff import DiffView
from app.desktop.widgets.compare_result import ResultView
from app.desktop.widgets.compare_setup_view import SetupView
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.escape_key import take_escape
from app.desktop.widgets.plain_label import plain_label

_WITH_TITLE = 560


class ComparePage(QWidget):
    """See above.

    Signals:
        pause_toggled, stop_requested: the buttons of a run.
        again_requested: what is done is to be done once more.
        closed: the user is done here; a run goes on.
    """

    pause_toggled = Signal()
    stop_requested = Signal()
    again_requested = Signal()
    closed = Signal()

    def __init__(
        self,
        theme: Theme,
        parser: Callable[[], BlockParser],
        lexer: CodeLexer,
        parent: QWidget | None = None,
        *,
        formulas: FormulaImages | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("comparePage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(self.tr("Compare"))
        self.back_button = GlyphButton(theme, "back", self.tr("Back (Esc)"), size=32)
        self.back_button.clicked.connect(self.closed)
        self._title = ElidedLabel()
        self._title.setProperty("role", "title")
        self._title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._title.set_whole(self.tr("Compare"))
        self.setup = SetupView(theme)
        self.columns = ColumnsView(theme, parser, lexer, formulas=formulas)
        self.result = ResultView(theme)
        self.diff = DiffView(theme)
        self._views: tuple[QWidget, ...] = (self.setup, self.columns, self.result)
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self._tabs: list[QPushButton] = []
        for number, text in enumerate((self.tr("Set-up"), self.tr("Columns"), self.tr("Result"))):
            tab = QPushButton(text)
            tab.setCheckable(True)
            tab.setEnabled(number == 0)
            self._group.addButton(tab, number)
            self._tabs.append(tab)
        self._group.idClicked.connect(lambda number: self.show_view(self._views[number]))
        self._stack = QStackedWidget()
        for view in (*self._views, self.diff):
            self._stack.addWidget(view)
        self._make_line()
        self._build()
        self.columns.diff_button.toggled.connect(self._on_diff_toggled)
        self.diff_back = QPushButton(self.tr("Back to the columns"))
        self.diff_back.setProperty("kind", "outline")
        self.diff_back.clicked.connect(lambda: self.columns.diff_button.setChecked(False))
        self.diff.add_button(self.diff_back)
        self.show_view(self.setup)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def view(self) -> QWidget | None:
        """Which of the views is shown."""
        return self._stack.currentWidget()

    @property
    def tabs(self) -> list[QPushButton]:
        """The buttons of the views."""
        return self._tabs

    @property
    def told(self) -> str:
        """How far it is."""
        return self._told.whole

    @property
    def banner(self) -> str:
        """What is to be known of all that is shown; empty for nothing."""
        return "" if self._banner.isHidden() else self._banner.text()

    def show_view(self, view: QWidget) -> None:
        """Show set-up, columns or result."""
        if view is not self.columns:
            self.columns.diff_button.setChecked(False)
        focus, tab = QApplication.focusWidget(), self._tabs[self._views.index(view)]
        had_focus = focus is not None and self.isAncestorOf(focus)
        self._stack.setCurrentWidget(view)
        tab.setChecked(True)
        self.setFocusProxy(tab)
        if had_focus:
            tab.setFocus()

    def set_available(self, view: QWidget, *, is_available: bool) -> None:
        """Tell whether there is something to see in a view."""
        self._tabs[self._views.index(view)].setEnabled(is_available)

    def show_progress(self, text: str, share: float | None) -> None:
        """Tell how far it is; None for a share that is not known."""
        self._told.set_whole(text)
        self._bar.setVisible(share is not None)
        if share is not None:
            self._bar.setValue(round(share * 1000))

    def set_running(self, *, is_running: bool, can_go_on: bool = False, can_begin_again: bool = False) -> None:
        """Tell whether replies are being made.

        Args:
            can_go_on: whether more could be, when the user wants to go on.
            can_begin_again: whether all are there, and could be made once more.
        """
        self.pause_button.setVisible(is_running or can_go_on)
        self.pause_button.setText(self.tr("Go on") if can_go_on else self.tr("Pause"))
        self.pause_button.setToolTip("" if can_go_on else self.tr("The reply in progress comes to its end first"))
        self.stop_button.setVisible(is_running)
        # What is disabled or hidden would give the focus to whatever comes next in the window.
        if self.setup.start_button.hasFocus():
            self._tabs[0].setFocus()
        elif self.again_button.hasFocus() and not can_begin_again:
            self._tabs[1].setFocus()
        self.again_button.setVisible(can_begin_again)
        self.setup.set_running(is_running=is_running)
        self.columns.set_running(is_running=is_running)

    def show_line(self, *, is_shown: bool) -> None:
        """Show the line that tells how far it is."""
        self._line.setVisible(is_shown)

    def show_banner(self, text: str) -> None:
        """Say something of all that is shown; nothing for an empty text."""
        self._banner.setText(shortened(text, 600))
        self._banner.setVisible(bool(text))

    def event(self, event: QEvent) -> bool:
        """Take the Escape key before the shortcuts of the window do."""
        return take_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Close by Escape, the differences first."""
        if event.key() != Qt.Key.Key_Escape:
            super().keyPressEvent(event)
        elif self.columns.diff_button.isChecked():
            self.columns.diff_button.setChecked(False)
        else:
            self.closed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._title.setVisible(self.width() >= self._theme.px(_WITH_TITLE))

    def _make_line(self) -> None:
        self._line = QFrame()
        self._line.setObjectName("compareLine")
        self._told = ElidedLabel()
        self._told.setProperty("role", "meta")
        self._told.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._bar = QProgressBar()
        self._bar.setRange(0, 1000)
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(self.tr("Progress of the comparison"))
        self.pause_button = QPushButton(self.tr("Pause"))
        self.stop_button = QPushButton(self.tr("Stop"))
        self.again_button = QPushButton(self.tr("Run again"))
        for button in (self.pause_button, self.stop_button, self.again_button):
            button.setProperty("kind", "outline")
        self.stop_button.setToolTip(self.tr("The reply in progress is lost; all others are kept"))
        self.again_button.setToolTip(
            self.tr("The same models, settings and prompts once more, with a result of its own")
        )
        self.again_button.hide()
        self.again_button.clicked.connect(self.again_requested)
        self.pause_button.clicked.connect(self.pause_toggled)
        self.stop_button.clicked.connect(self.stop_requested)
        self._line_row = QHBoxLayout(self._line)
        texts = QVBoxLayout()
        texts.setSpacing(self._theme.px(4))
        texts.addWidget(self._told)
        texts.addWidget(self._bar)
        self._line_row.addLayout(texts, 1)
        self._line_row.addWidget(self.pause_button)
        self._line_row.addWidget(self.stop_button)
        self._line_row.addWidget(self.again_button)
        self._line.hide()
        self._banner = plain_label(role="problem")
        self._banner.setObjectName("compareBanner")
        self._banner.hide()

    def _build(self) -> None:
        head = QFrame()
        head.setObjectName("pageHead")
        self._head_row = QHBoxLayout(head)
        self._head_row.addWidget(self.back_button)
        self._head_row.addWidget(self._title, 1)
        for tab in self._tabs:
            self._head_row.addWidget(tab)
        self._head_row.addStretch(0)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        for part in (head, self._line, self._banner):
            outer.addWidget(part)
        outer.addWidget(self._stack, 1)

    def _on_diff_toggled(self, is_on: bool) -> None:
        if is_on:
            self.diff.set_lanes([lane.label for lane in self.columns.lanes.values()])
            self._stack.setCurrentWidget(self.diff)
            self.diff.one_box.setFocus()
            self.diff.ask()
        elif self._stack.currentWidget() is self.diff:
            self._stack.setCurrentWidget(self.columns)
            self.columns.diff_button.setFocus()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._head_row.setContentsMargins(px(8), px(4), px(8), px(4))
        self._head_row.setSpacing(px(6))
        self._line_row.setContentsMargins(px(16), px(6), px(12), px(6))
        self._line_row.setSpacing(px(8))
        self._banner.setContentsMargins(px(16), px(4), px(16), px(6))
