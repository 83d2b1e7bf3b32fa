"""ConversationSelection: one selection over many messages, copied as what was written.

Within one segment the selection is Qt's own. It lives as two places in the text, so it outlasts the widgets.
"""

import dataclasses
from collections.abc import Iterator

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeyEvent, QKeySequence, QMouseEvent, QTextCursor, QTextDocument
from PySide6.QtWidgets import QApplication, QMenu, QScrollArea

from app.desktop.rendering.blocks import Block, BlockKind
from app.desktop.rendering.safe_browser import selected_text
from app.desktop.widgets.conversation_column import ConversationColumn
from app.desktop.widgets.message_rows import MessageRow, TextWidget
from app.desktop.widgets.reply_contents import Part
from app.desktop.widgets.shown_turn import ShownTurn

_SCROLL_MS = 30
_MAX_STEP = 60
_FAR = 1 << 30
_Order = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Spot:
    """A place in the text of a conversation."""

    shown: ShownTurn
    part: Part | None
    position: int


class ConversationSelection(QObject):
    """Follows the mouse over the texts of a conversation.

    Signals:
        scroll_requested: pixels, because the pointer left the view while it selects.
    """

    scroll_requested = Signal(int)

    def __init__(self, view: QScrollArea, column: ConversationColumn) -> None:
        super().__init__(view)
        self._view = view
        self._column = column
        self._anchor: Spot | None = None
        self._head: Spot | None = None
        self._is_all = False
        self._is_dragging = False
        self._origin: TextWidget | None = None
        self._pointer = QPoint()
        self._scroll_timer = QTimer(self)
        self._scroll_timer.setInterval(_SCROLL_MS)
        self._scroll_timer.timeout.connect(self._on_scroll_timer)

    @property
    def is_active(self) -> bool:
        """Whether more than a part of one segment is selected."""
        return self._is_all or self._bounds() is not None

    def watch(self, shown: ShownTurn, part: Part | None, text: TextWidget) -> None:
        """Take part in what happens in a text widget that came into being or was filled anew."""
        if not text.property("watched"):
            text.setProperty("watched", True)
            text.installEventFilter(self)
            text.viewport().installEventFilter(self)
        if self.is_active:
            self._show_in(shown, part, text)

    def select_all(self) -> None:
        """Select the whole conversation."""
        self.clear()
        self._is_all = bool(self._column.turns)
        self._show()

    def clear(self, *, but: TextWidget | None = None) -> None:
        """Select nothing; `but` keeps what Qt selected in it."""
        self._anchor = self._head = self._origin = None
        self._is_all = self._is_dragging = False
        self._scroll_timer.stop()
        for _, _, _, text in self._texts():
            text.setProperty("held", False)
            if text is not but and text.textCursor().hasSelection():
                _select(text, 0, 0)

    def prune(self) -> None:
        """Select nothing where one of the ends is gone."""
        if any(spot is not None and self._order(spot)[0] < 0 for spot in (self._anchor, self._head)):
            self.clear()

    def extend_menu(self, menu: QMenu) -> None:
        """Add to the menu of a message what the selection offers."""
        focus = QApplication.focusWidget()
        own = focus if isinstance(focus, TextWidget) and focus.textCursor().hasSelection() else None
        if (self.is_active or own is not None) and menu.actions():
            first = menu.actions()[0]
            action = QAction(self.tr("Copy selection"), menu)
            action.triggered.connect(lambda: self.copy() or (own is not None and own.copy()))
            menu.insertAction(first, action)
            menu.insertSeparator(first)
        menu.addSeparator()
        menu.addAction(self.tr("Select all"), self.select_all)

    def copy(self) -> bool:
        """Put the selection on the clipboard; False where it is inside one segment or nothing."""
        text = self.text()
        if text:
            QGuiApplication.clipboard().setText(text)
        return bool(text)

    def text(self) -> str:
        """Return what is selected: whole messages and segments as they were written, parts of them as text."""
        if self._is_all:
            return "\n\n".join(shown.turn.text for shown in self._column.turns if shown.turn.text)
        bounds = self._bounds()
        if bounds is None:
            return ""
        first, last = bounds
        turns = self._column.turns[first.shown.index : last.shown.index + 1]
        pieces = [self._text_of(shown, first, last) for shown in turns]
        return "\n\n".join(piece for piece in pieces if piece)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """See QObject."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            return self.take_key(event)
        if not isinstance(event, QMouseEvent):
            return False
        match event.type():
            case QEvent.Type.MouseButtonPress if event.button() == Qt.MouseButton.LeftButton:
                return self._on_press(watched, event)
            case QEvent.Type.MouseMove if self._is_dragging and event.buttons() & Qt.MouseButton.LeftButton:
                return self._on_move(event)
            case QEvent.Type.MouseButtonRelease if self._is_dragging:
                self._is_dragging = False
                self._scroll_timer.stop()
        return False

    def take_key(self, event: QKeyEvent) -> bool:
        """Copy or select all if that is what the key asks for, and tell whether it did."""
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
            return True
        return event.matches(QKeySequence.StandardKey.Copy) and self.copy()

    def _on_press(self, watched: QObject, event: QMouseEvent) -> bool:
        owner = next((o for o in self._texts() if watched is o[3].viewport()), None)
        if owner is None:
            return False
        shown, _, part, text = owner
        spot = Spot(shown, part, text.cursorForPosition(event.position().toPoint()).position())
        has_shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if has_shift and self._anchor is not None and not self._is_all:
            self._head = spot
            self._is_dragging = True
            if self._is_inside_one():
                return False
            self._show()
            return True
        self.clear(but=text)
        self._anchor, self._origin, self._is_dragging = spot, text, True
        text.setProperty("held", True)
        return False

    def _on_move(self, event: QMouseEvent) -> bool:
        self._pointer = event.globalPosition().toPoint()
        y = self._view.viewport().mapFromGlobal(self._pointer).y()
        is_outside = not 0 <= y < self._view.viewport().height()
        if is_outside and not self._scroll_timer.isActive():
            self._scroll_timer.start()
        elif not is_outside:
            self._scroll_timer.stop()
        return self._move_head()

    def _move_head(self) -> bool:
        """Select to where the pointer is; return whether that is more than Qt can do by itself."""
        spot = self._spot_at(self._pointer)
        if spot is None:
            return False
        had_more = self._head is not None and not self._is_inside_one()
        self._head = spot
        if not self._is_inside_one():
            self._show()
            return True
        if had_more:
            self._show()
        return False

    def _on_scroll_timer(self) -> None:
        area = self._view.viewport()
        y = area.mapFromGlobal(self._pointer).y()
        beyond = y if y < 0 else max(0, y - area.height() + 1)
        self.scroll_requested.emit(max(-_MAX_STEP, min(_MAX_STEP, beyond)))
        self._move_head()

    def _is_inside_one(self) -> bool:
        anchor, head = self._anchor, self._head
        return anchor is None or head is None or (anchor.shown is head.shown and anchor.part is head.part)

    def _bounds(self) -> tuple[Spot, Spot] | None:
        """Return both ends in order; None where Qt's own selection is all there is."""
        if self._anchor is None or self._head is None or self._is_inside_one():
            return None
        ends = sorted((self._anchor, self._head), key=self._order)
        return None if self._order(ends[0])[0] < 0 else (ends[0], ends[1])

    def _order(self, spot: Spot) -> _Order:
        """Return a key that sorts by place; negative for a place that is gone."""
        return (*self._place(spot.shown, spot.part), spot.position)

    def _place(self, shown: ShownTurn, part: Part | None) -> tuple[int, int]:
        if self._column.shown(shown.turn.turn_id) is not shown:
            return (-1, 0)
        if part is None or shown.contents is None:
            return (shown.index, 0)
        try:
            return (shown.index, shown.contents.parts.index(part))
        except ValueError:
            return (-1, 0)

    def _texts(self) -> Iterator[tuple[ShownTurn, MessageRow, Part | None, TextWidget]]:
        for shown, row in self._column.realised():
            for part, text in row.texts():
                yield shown, row, part, text

    def _spot_at(self, point: QPoint) -> Spot | None:
        """Return the place in the text that is nearest, up or down."""
        best: tuple[int, Spot | None] = (_FAR, None)
        for shown, _, part, text in self._texts():
            area = text.viewport()
            place = area.mapFromGlobal(point)
            distance = max(-place.y(), place.y() - area.height() + 1, 0)
            if distance < best[0] and text.isVisible():
                best = distance, Spot(shown, part, text.cursorForPosition(place).position())
                if distance == 0:
                    break
        return best[1]

    def _show(self) -> None:
        for shown, _, part, text in self._texts():
            self._show_in(shown, part, text)

    def _show_in(self, shown: ShownTurn, part: Part | None, text: TextWidget) -> None:
        begin, end = self._range_in(shown, part, text.document().characterCount() - 1)
        ends = (self._anchor, self._head)
        text.setProperty("held", any(spot is not None and (spot.shown, spot.part) == (shown, part) for spot in ends))
        _select(text, begin, end)

    def _range_in(self, shown: ShownTurn, part: Part | None, length: int) -> tuple[int, int]:
        """Return from where to where a segment is selected."""
        if self._is_all:
            return 0, length
        bounds = self._bounds()
        if bounds is None:
            anchor, head = self._anchor, self._head
            if anchor is None or head is None or (anchor.shown, anchor.part) != (shown, part):
                return 0, 0
            return anchor.position, head.position
        first, last = bounds
        place = self._place(shown, part)
        low, high = self._order(first)[:2], self._order(last)[:2]
        if not low <= place <= high:
            return 0, 0
        return (first.position if place == low else 0), (last.position if place == high else length)

    def _text_of(self, shown: ShownTurn, first: Spot, last: Spot) -> str:
        """Return what is selected of one message between two places."""
        parts: list[Part | None] = [None]
        if shown.contents is not None:
            parts = list(shown.contents.parts)
        texts = self._texts_of(shown)
        pieces: list[str] = []
        run: list[Part] = []
        is_whole = True
        for part in parts:
            text = texts.get(part)
            length = text.document().characterCount() - 1 if text is not None else _FAR
            begin, end = self._range_in(shown, part, length)
            if begin <= 0 and end >= length:
                if part is not None:
                    run.append(part)
                continue
            is_whole = False
            self._end_run(shown, run, pieces)
            if begin != end and text is not None:
                cursor = QTextCursor(text.document())
                _stretch(cursor, begin, end)
                pieces.append(selected_text(cursor))
        if is_whole:
            return shown.turn.text
        self._end_run(shown, run, pieces)
        return "\n\n".join(pieces)

    def _texts_of(self, shown: ShownTurn) -> dict[Part | None, TextWidget]:
        row = self._column.row(shown)
        return dict(row.texts()) if row is not None else {}

    def _end_run(self, shown: ShownTurn, run: list[Part], pieces: list[str]) -> None:
        if run and shown.contents is not None:
            if all(part.is_exact for part in run):
                pieces.append(shown.contents.source(run[0], run[-1]))
            else:
                pieces += [plain_text(part.block) for part in run if part.block is not None]
        run.clear()


def plain_text(block: Block) -> str:
    """Return what a segment says, where its source is not known by itself."""
    if block.kind is BlockKind.CODE:
        return f"```{block.language}\n{block.code}\n```"
    document = QTextDocument()
    document.setHtml(block.html)
    cursor = QTextCursor(document)
    cursor.select(QTextCursor.SelectionType.Document)
    return selected_text(cursor)


def _select(text: TextWidget, begin: int, end: int) -> None:
    cursor = text.textCursor()
    if (cursor.anchor(), cursor.position()) == (begin, end) or (begin == end and not cursor.hasSelection()):
        return
    _stretch(cursor, begin, end)
    bar = text.horizontalScrollBar()
    value = bar.value()
    text.setTextCursor(cursor)
    bar.setValue(value)  # the end of a selection is no reason to scroll sideways


def _stretch(cursor: QTextCursor, begin: int, end: int) -> None:
    cursor.setPosition(begin)
    cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
