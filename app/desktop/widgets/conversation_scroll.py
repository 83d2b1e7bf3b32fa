"""ConversationScroll: which part of a conversation is in view, what is made ready for it, and when it follows new text.

The place in the text at the top of the view stays where it is whatever turns out about heights above it. The scroll
bar is never set while painting.
"""

import time
from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QFocusEvent, QKeyEvent, QResizeEvent, QShowEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractSlider, QApplication, QFrame, QPushButton, QScrollArea, QWidget

from app.desktop.rendering.blocks import BlockParser
from app.desktop.theme.theme import Theme
from app.desktop.widgets.conversation_column import MAX_COLUMN, Anchor, ConversationColumn
from app.desktop.widgets.focus_ring import FocusRing
from app.desktop.widgets.message_rows import MessageRow
from app.desktop.widgets.shown_turn import ShownTurn
from app.settings import FollowMode

_STICK_DISTANCE = 4
_MAX_ROUNDS = 8
_SLICE_S = 0.006
_IDLE_MS = 4


class ConversationScroll(QScrollArea):
    """A column of rows that follows the newest text unless the user looks elsewhere.

    Attributes:
        follow_mode: what happens while a reply is written.
    """

    def __init__(
        self,
        theme: Theme,
        parser: Callable[[], BlockParser],
        make_row: Callable[[ShownTurn], MessageRow],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._is_following = True
        self._is_syncing = False
        self._pending: Anchor | None = None
        self._start: ShownTurn | None = None  # the reply whose beginning stays in view
        self.follow_mode = FollowMode.END
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._column = ConversationColumn(theme, parser, make_row)
        self.setWidget(self._column)
        self._latest = QPushButton(self.tr("↓ Latest"), self)
        self._latest.setProperty("kind", "pill")
        self._latest.setAccessibleName(self.tr("Latest"))
        self._latest.setToolTip(self.tr("Go to the newest text"))
        self._latest.setCursor(Qt.CursorShape.PointingHandCursor)
        self._latest.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._latest.clicked.connect(self.follow)
        self._latest.hide()
        self._frame = FocusRing(theme, self, is_inside=True)
        self._idle = QTimer(self)
        self._idle.setInterval(_IDLE_MS)
        self._idle.timeout.connect(self._on_idle)
        bar = self.verticalScrollBar()
        bar.setSingleStep(theme.px(40))
        bar.actionTriggered.connect(self._on_user_scrolled)
        bar.sliderMoved.connect(self._on_user_scrolled)
        bar.rangeChanged.connect(self._on_range_changed)
        bar.valueChanged.connect(self._on_value_changed)
        self._on_range_changed()

    @property
    def is_following(self) -> bool:
        """Whether new text scrolls into view."""
        return self._is_following

    @property
    def latest_button(self) -> QPushButton:
        """Goes to the newest text; visible while the user looks elsewhere."""
        return self._latest

    def follow(self) -> None:
        """Go to the newest text and stay with it."""
        self._start = self._pending = None
        self._is_following = True
        self._to_end()
        self._sync()
        self._is_following = self.follow_mode is not FollowMode.OFF

    def go_to_start(self) -> None:
        """Go to the oldest message."""
        self._is_following = False
        self.verticalScrollBar().setValue(0)
        self._update_latest()

    def scroll_page(self, direction: int) -> None:
        """Scroll by a page as if the user had pressed the key."""
        action = QAbstractSlider.SliderAction
        add, sub = action.SliderPageStepAdd, action.SliderPageStepSub
        self.verticalScrollBar().triggerAction(add if direction > 0 else sub)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """See QWidget; an upward turn stops following at once."""
        if event.angleDelta().y() > 0 and self.verticalScrollBar().maximum() > 0:
            self._is_following = False
        super().wheelEvent(event)
        if event.angleDelta().y() < 0:
            self._is_following = self._is_at_end()
        self._update_latest()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget; Home and End go to the ends."""
        if event.key() == Qt.Key.Key_End:
            self.follow()
        elif event.key() == Qt.Key.Key_Home:
            self.go_to_start()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget; what was at the top of the view stays there."""
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._relayout()
        else:
            if self._is_following:
                self._to_end()
            self._sync()
        self._place_overlays()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """See QWidget; who comes by Tab sees where the keys are."""
        super().focusInEvent(event)
        if event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            self._frame.show_around(self.viewport())

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """See QWidget."""
        super().focusOutEvent(event)
        self._frame.show_around(None)

    def showEvent(self, event: QShowEvent) -> None:
        """See QWidget; what came while it was not shown is made now."""
        super().showEvent(event)
        pending, self._pending = self._pending, None
        self._relayout(pending)

    def _go_to(self, anchor: Anchor) -> None:
        """Show a place at the top, as far as there is enough below it."""
        self._is_following = False
        if not self.isVisible():
            self._pending = anchor
            return
        self._hold(anchor)
        self._sync(anchor)
        self._is_following = self._is_at_end() and self.follow_mode is not FollowMode.OFF

    def _scroll_by(self, pixels: int) -> None:
        """Scroll as if the user had."""
        bar = self.verticalScrollBar()
        self._is_following = False
        bar.setValue(bar.value() + pixels)
        self._on_user_scrolled()

    @property
    def focused_number(self) -> int | None:
        """Which of the messages has the keys, from 0; None where they are elsewhere."""
        focus = QApplication.focusWidget()
        if focus is None:
            return None
        return next((s.index for s, row in self._column.realised() if focus is row or row.isAncestorOf(focus)), None)

    def focus_number(self, number: int) -> None:
        """Give the keys to a message, or to the last where there are fewer."""
        if turns := self._column.turns:
            self._column.realise_turn(turns[min(number, len(turns) - 1)]).setFocus()

    def _is_near_view(self, top: int, bottom: int) -> bool:
        value, page = self.verticalScrollBar().value(), self.viewport().height()
        return self.isVisible() and top < value + 2 * page and bottom > value - page

    def _anchor(self) -> Anchor | None:
        return self._column.anchor_at(self.verticalScrollBar().value(), self.viewport().height())

    def _relayout(self, anchor: Anchor | None = None) -> None:
        """Fit all to the width of the view."""
        if anchor is None and not self._is_following:
            anchor = self._anchor()
        width = self._text_width()
        self._is_syncing = True
        self._column.fit((self.viewport().width() - width) // 2, width)
        self._column.restack()
        self._is_syncing = False
        self._hold(anchor)
        self._sync(anchor)
        self._place_overlays()

    def _sync(self, anchor: Anchor | None = None) -> None:
        """Make what is in view, and hold the place that is looked at."""
        if self._is_syncing or not self.isVisible() or not self._column.text_width:
            return
        if anchor is None and not self._is_following:
            anchor = self._anchor()
        bar, page = self.verticalScrollBar(), self.viewport().height()
        margin = self._theme.px(24)
        self._is_syncing = True
        try:
            for _ in range(_MAX_ROUNDS):
                before = bar.value()
                has_changed = self._column.realise(before - margin, before + page + margin)
                self._hold(anchor)
                if not has_changed and bar.value() == before:
                    break
        finally:
            self._is_syncing = False
        self._after_sync()
        if not self._is_ready():
            self._idle.start()

    def _after_sync(self) -> None:
        bar, page = self.verticalScrollBar(), self.viewport().height()
        self._column.drop_outside(bar.value() - 2 * page, bar.value() + 3 * page)
        self._update_latest()

    def _hold(self, anchor: Anchor | None) -> None:
        """Scroll to where the place is now that is to stay in view."""
        if self._is_following:
            self._to_end()
            return
        y = self._column.y_of(anchor) if anchor is not None else None
        if y is not None:
            self.verticalScrollBar().setValue(y)

    def _on_idle(self) -> None:
        """Make a screen before and behind the view, a slice at a time."""
        bar, page = self.verticalScrollBar(), self.viewport().height()
        anchor, value = None if self._is_following else self._anchor(), bar.value()
        deadline = time.perf_counter() + _SLICE_S
        self._is_syncing = True
        try:
            self._column.realise(value, value + 2 * page, deadline)
            if time.perf_counter() < deadline:
                self._column.realise(value - page, value, deadline)
            self._hold(anchor)
        finally:
            self._is_syncing = False
        self._update_latest()
        if self._is_ready() or not self.isVisible():
            self._idle.stop()
            self._column.forget_blocks()

    def _is_ready(self) -> bool:
        value, page = self.verticalScrollBar().value(), self.viewport().height()
        return self._column.is_realised(value - page, value + 2 * page)

    def _text_width(self) -> int:
        available = self.viewport().width()
        return max(1, min(self._theme.px(MAX_COLUMN), available - 2 * self._margin()))

    def _margin(self) -> int:
        return self._theme.px(24 if self.viewport().width() > self._theme.px(560) else 14)

    def _place_overlays(self) -> None:
        """Place the pill beside the text; where there is no room, in a strip of its own below it."""
        px = self._theme.px
        self._frame.follow()
        area = self.viewport().geometry()
        beside = (area.width() - self._text_width()) // 2
        self._latest.setText(self.tr("↓ Latest"))
        size = self._latest.sizeHint()
        strip = 0
        if beside < size.width() + px(12):
            self._latest.setText("↓")
            size = self._latest.sizeHint()
        if beside < size.width() + px(4) and not self._latest.isHidden():
            self._latest.setText(self.tr("↓ Latest"))
            size = self._latest.sizeHint()
            strip = size.height() + px(8)
        if self.viewportMargins().bottom() != strip:
            self.setViewportMargins(0, 0, 0, strip)
            area = self.viewport().geometry()
        right = area.left() + (area.width() + self._text_width()) // 2
        if strip:
            place = (right - size.width(), area.bottom() + px(4))
        else:
            place = (right + px(6 if self._latest.text() != "↓" else 2), area.bottom() - size.height() - px(8))
        self._latest.setGeometry(*place, size.width(), size.height())

    def _is_at_end(self) -> bool:
        return self.verticalScrollBar().sliderPosition() >= self._end()

    def _end(self) -> int:
        """Return from which value on the end is in view; the strip of the pill goes away there."""
        return self.verticalScrollBar().maximum() - self.viewportMargins().bottom() - _STICK_DISTANCE

    def _to_end(self) -> None:
        bar = self.verticalScrollBar()
        target = bar.maximum()
        if self._start is not None:
            target = min(target, max(0, self._start.top - self._theme.px(12)))
        bar.setValue(target)
        self._update_latest()

    def _on_user_scrolled(self) -> None:
        self._start = None
        self._is_following = self._is_at_end() and self.follow_mode is not FollowMode.OFF
        self._update_latest()

    def _on_value_changed(self) -> None:
        self._sync()

    def _on_range_changed(self) -> None:
        bar = self.verticalScrollBar()
        bar.setEnabled(bar.maximum() > 0)  # the stylesheet hides the handle of a disabled bar
        if self._is_following and not self._is_syncing:
            self._to_end()
        self._update_latest()

    def _update_latest(self) -> None:
        is_away = self.verticalScrollBar().value() < self._end()
        is_shown = is_away and (not self._is_following or self._start is not None)
        if is_shown is self._latest.isHidden():
            self._latest.setVisible(is_shown)
            self._place_overlays()
