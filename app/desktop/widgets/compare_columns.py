"""ColumnsView: the lanes of a comparison, which prompt they show, and the next message to all of them."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QLineEdit, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.compare.events import CellDone, CellStarted, CellText, ColumnFailed, ColumnLoaded, ColumnLoading
from app.compare.plan import Place
from app.compare.results import Mode
from app.desktop.rendering.blocks import BlockParser
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.compare_board import CompareBoard, LaneKey, Shown
from app.desktop.theme.theme import Theme
from app.desktop.widgets.check_box import CheckBox
from app.desktop.widgets.compare_lane import FIGURES, CompareLane
from app.desktop.widgets.compare_strip import LaneStrip
from app.desktop.widgets.figures import rate_with_unit
from app.desktop.widgets.still_combo_box import StillComboBox

_PROMPT_CHARS = 60
_NARROW = 820


class ColumnsView(QWidget):
    """See above. It shows a board and changes nothing of it.

    Signals:
        turn_submitted: the prompt to whose replies a text is the next message, the text.
        chat_requested: LaneKey that is to go on as a chat.
        link_activated, save_requested: see ChatView.
    """

    turn_submitted = Signal(str, str)
    chat_requested = Signal(object)
    link_activated = Signal(str)
    save_requested = Signal(str, str)

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
        self._parser, self._lexer, self._formulas = parser, lexer, formulas
        self._board: CompareBoard | None = None
        self._lanes: dict[LaneKey, CompareLane] = {}
        self._shown = Shown()
        self._is_synching = False
        self._writing: set[str] = set()
        self._scrolled_lane: CompareLane | None = None
        self.prompt_box = StillComboBox(theme)
        self.prompt_box.setAccessibleName(self.tr("Prompt"))
        self.repeat_box = StillComboBox(theme)
        self.repeat_box.setAccessibleName(self.tr("Repeat"))
        for box in (self.prompt_box, self.repeat_box):
            box.activated.connect(self._on_chosen)
        self.follow_box = CheckBox(theme, self.tr("Follow"))
        self.follow_box.setToolTip(self.tr("Show the reply that is being made"))
        self.follow_box.setChecked(True)
        self.sync_box = CheckBox(theme, self.tr("Scroll together"))
        self.sync_box.setToolTip(self.tr("When one column is scrolled, the others show the same message"))
        self.sync_box.setChecked(True)
        self.diff_button = QPushButton(self.tr("Differences"))
        self.diff_button.setProperty("kind", "outline")
        self.diff_button.setCheckable(True)
        self.diff_button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.strip = LaneStrip(theme)
        self.message_edit = QLineEdit()
        self.message_edit.setPlaceholderText(self.tr("Next message to all columns"))
        self.message_edit.setAccessibleName(self.tr("Next message to all columns"))
        self.send_button = QPushButton(self.tr("Send"))
        self.send_button.setProperty("kind", "primary")
        self.message_edit.textChanged.connect(self._show_can_send)
        self.message_edit.returnPressed.connect(self._on_send)
        self.send_button.clicked.connect(self._on_send)
        self._choice = QFrame()
        self._choice_row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._choice)
        self._boxes_row, self._ways_row = QHBoxLayout(), QHBoxLayout()
        self._boxes_row.addWidget(self.prompt_box, 1)
        self._boxes_row.addWidget(self.repeat_box)
        for part in (self.follow_box, self.sync_box):
            part.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
            self._ways_row.addWidget(part)
        self._ways_row.addStretch(1)
        self._ways_row.addWidget(self.diff_button)
        self._choice_row.addLayout(self._boxes_row, 1)
        self._choice_row.addLayout(self._ways_row)
        self._foot = QFrame()
        self._foot.setObjectName("compareFoot")
        self._foot_row = QHBoxLayout(self._foot)
        self._foot_row.addWidget(self.message_edit, 1)
        self._foot_row.addWidget(self.send_button)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(0)
        self._box.addWidget(self._choice)
        self._box.addWidget(self.strip, 1)
        self._box.addWidget(self._foot)
        self.set_running(is_running=False)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def lanes(self) -> dict[LaneKey, CompareLane]:
        """The lanes by whose they are."""
        return self._lanes

    @property
    def shown(self) -> Shown:
        """Which prompt and repeat is looked at."""
        return self._shown

    def show_board(self, board: CompareBoard) -> None:
        """Show another comparison, or the same one with prompts that came later."""
        is_same = self._board is board
        self._board = board
        if not is_same:
            self._make_lanes(board)
        self._fill_boxes(board)
        for lane in self._lanes.values():
            lane.chat_button.setEnabled(True)
        if not is_same or self._shown.prompt not in {prompt.id for prompt in board.roots}:
            self._shown = Shown(board.roots[0].id if board.roots else "", 0)
        self._show_shown()

    def set_running(self, *, is_running: bool) -> None:
        """Tell whether replies are being made; only when they are not the next message can be sent."""
        self.message_edit.setEnabled(not is_running and self._board is not None)
        self._show_can_send()
        if not is_running:
            for lane in self._lanes.values():
                if not lane.fault:
                    lane.show_live("")

    def take(self, event: object) -> None:
        """Show what has come; the board has it already."""
        match event:
            case CellStarted(place):
                self._on_started(place)
            case CellText():
                self._on_text(event)
            case CellDone(cell):
                self._on_done(Place(cell.column, cell.prompt, cell.repeat))
            case ColumnLoading(column):
                self._tell(column, self.tr("loading …"))
            case ColumnLoaded(column, _):
                self._tell(column, "")
            case ColumnFailed(column, message, hint):
                for key, lane in self._lanes.items():
                    if key.column == column:
                        lane.show_fault(message, hint)
                self._show_figures()
            case _:
                pass

    def show_place(self, shown: Shown) -> None:
        """Look at another prompt or repeat."""
        if shown != self._shown:
            self._shown = shown
            self._show_shown()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Put the ways of looking beside what is looked at, or below it where there is little room."""
        is_narrow = self.width() < self._theme.px(_NARROW) and not self.prompt_box.isHidden()
        down, beside = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._choice_row.setDirection(down if is_narrow else beside)
        self.repeat_box.setMinimumWidth(self._theme.px(130))

    def _make_lanes(self, board: CompareBoard) -> None:
        self._lanes = {}
        for number, key in enumerate(board.lanes):
            lane = CompareLane(
                self._theme, number, board.label(key), self._parser, self._lexer, formulas=self._formulas
            )
            lane.chat_requested.connect(lambda key=key: self.chat_requested.emit(key))
            lane.chat.link_activated.connect(self.link_activated)
            lane.chat.save_requested.connect(self.save_requested)
            lane.chat.scrolled.connect(lambda lane=lane: self._on_scrolled(lane))
            lane.chat.verticalScrollBar().valueChanged.connect(lambda _, lane=lane: self._on_moved(lane))
            column = board.columns[key.column]
            lane.show_fault(column.error, column.hint)
            self._lanes[key] = lane
        self._scrolled_lane = None
        self._writing.clear()
        self.strip.set_lanes(list(self._lanes.values()))

    def _fill_boxes(self, board: CompareBoard) -> None:
        self.prompt_box.clear()
        for prompt in board.roots:
            name = "" if len(board.roots) == 1 else f"{prompt.id} · "
            text = f"{name}{isolated(shortened(prompt.text, _PROMPT_CHARS))}"
            self.prompt_box.addItem(text, prompt.id)
        self.repeat_box.clear()
        for repeat in range(board.comparison.repeats):
            text = self.tr("Repeat {number} of {count}").format(number=repeat + 1, count=board.comparison.repeats)
            self.repeat_box.addItem(text, repeat)
        is_board = board.comparison.mode is Mode.SAMPLES
        self.prompt_box.setVisible(len(board.roots) > 1)
        self.repeat_box.setVisible(board.has_repeats)
        self.follow_box.setVisible((len(board.roots) > 1 or board.has_repeats) and not is_board)
        self.sync_box.setVisible(len(self._lanes) > 1)
        self.diff_button.setVisible(len(self._lanes) > 1)
        self._fit()
        self._choice.setVisible(len(self._lanes) > 1 or len(board.roots) > 1 or board.has_repeats)

    def _show_shown(self) -> None:
        board = self._board
        if board is None:
            return
        self.prompt_box.setCurrentIndex(self.prompt_box.findData(self._shown.prompt))
        self.repeat_box.setCurrentIndex(self.repeat_box.findData(self._shown.repeat))
        for key, lane in self._lanes.items():
            lane.chat.set_turns(board.chat(key, self._shown))
        self._show_figures()

    def _show_figures(self) -> None:
        board = self._board
        if board is None:
            return
        best = board.best(self._shown, FIGURES)
        for key, lane in self._lanes.items():
            reply = board.reply(key, self._shown)
            values = reply.cell.values if reply is not None and reply.cell is not None else {}
            lane.show_figures(values, [name for name, column in best.items() if column == key.column])

    def _on_started(self, place: Place) -> None:
        board = self._board
        if board is None:
            return
        shown = Shown(board.root_of(place.prompt), place.repeat if board.has_repeats else 0)
        if self.follow_box.isChecked() and shown != self._shown:
            self.show_place(shown)
            return
        for key, lane in self._lanes.items():
            if board.shows(key, place) and self._is_shown(place):
                lane.chat.set_turns(board.chat(key, self._shown))
                lane.chat.follow()

    def _on_text(self, piece: CellText) -> None:
        board = self._board
        if board is None:
            return
        reply = board.replies[piece.place]
        for key, lane in self._lanes.items():
            if not board.shows(key, piece.place):
                continue
            rate = piece.num_tokens / piece.decode_s if piece.decode_s > 0 else None
            is_begun = bool(piece.text or piece.thinking)
            words = self.tr("writing …") if is_begun else self.tr("reading …")
            lane.show_rate(rate_with_unit(rate) if rate is not None else words)
            if self._is_shown(piece.place):
                if reply.turn_id not in self._writing:
                    self._writing.add(reply.turn_id)
                    lane.chat.refresh(reply.turn_id)  # it says that it writes
                if piece.was_thinking:
                    lane.chat.take_back(reply.turn_id)
                if piece.thinking:
                    lane.chat.append_thinking(reply.turn_id, piece.thinking)
                if piece.text:
                    lane.chat.append_text(reply.turn_id, piece.text)

    def _on_done(self, place: Place) -> None:
        board = self._board
        if board is None:
            return
        reply = board.replies[place]
        for key, lane in self._lanes.items():
            if not board.shows(key, place):
                continue
            rate = reply.cell.values.get("decode_rate") if reply.cell is not None else None
            lane.show_live(rate_with_unit(rate) if rate is not None else "")
            if self._is_shown(place):
                was_following = lane.chat.is_following
                if lane.chat.row(reply.turn_id) is None:
                    lane.chat.set_turns(board.chat(key, self._shown))
                lane.chat.refresh(reply.turn_id)
                if was_following:
                    lane.chat.follow()
        if self._is_shown(place):
            self._show_figures()

    def _is_shown(self, place: Place) -> bool:
        board = self._board
        if board is None or board.root_of(place.prompt) != self._shown.prompt:
            return False
        return not board.has_repeats or place.repeat == self._shown.repeat

    def _tell(self, column: str, text: str) -> None:
        for key, lane in self._lanes.items():
            if key.column == column and not lane.fault:
                lane.show_live(text)

    def _on_chosen(self) -> None:
        self.follow_box.setChecked(False)
        prompt, repeat = self.prompt_box.currentData(), self.repeat_box.currentData()
        self.show_place(Shown(str(prompt or ""), int(repeat or 0)))

    def _on_scrolled(self, lane: CompareLane) -> None:
        if not self._is_synching:
            self._scrolled_lane = lane

    def _on_moved(self, lane: CompareLane) -> None:
        """Let the others follow a lane that the user scrolled."""
        if self._is_synching or self._scrolled_lane is not lane or not self.sync_box.isChecked():
            return
        self._scrolled_lane = None  # what moves it next may be its own growth
        self._is_synching = True
        try:
            point = lane.chat.scroll_point()
            for other in self._lanes.values():
                if other is lane or not self.strip.is_in_view(other):
                    continue
                if lane.chat.is_at_end:
                    other.chat.follow()
                else:
                    other.chat.go_to_point(*point)
        finally:
            self._is_synching = False

    def _show_can_send(self) -> None:
        self.send_button.setEnabled(self.message_edit.isEnabled() and bool(self.message_edit.text().strip()))

    def _on_send(self) -> None:
        text = self.message_edit.text().strip()
        board = self._board
        chain = board.chain(self._shown.prompt) if board is not None else []
        if text and chain and self.send_button.isEnabled():
            self.message_edit.clear()
            self.turn_submitted.emit(chain[-1].id, text)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._choice_row.setContentsMargins(px(12), px(4), px(12), px(4))
        self._choice_row.setSpacing(px(10))
        self._foot_row.setContentsMargins(px(12), px(8), px(12), px(10))
        self._foot_row.setSpacing(px(8))
        self.send_button.ensurePolished()
        self.message_edit.setFixedHeight(self.send_button.sizeHint().height())
        for row in (self._boxes_row, self._ways_row):
            row.setSpacing(px(10))
        self._fit()
        self.setTabOrder(self.message_edit, self.send_button)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
