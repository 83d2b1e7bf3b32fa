"""SteadyScroll: a part that grows above what a person looks at does not push it away."""

from PySide6.QtCore import QEvent, QObject, QPoint
from PySide6.QtGui import QCursor, QResizeEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget


class SteadyScroll(QObject):
    """Scrolls along when a part of a scroll area changes its height above the pointer, the focus, or the view.

    Args:
        part: of what `area` scrolls; its height changes by itself.
    """

    def __init__(self, area: QScrollArea, part: QWidget) -> None:
        super().__init__(area)
        self._area = area
        self._part = part
        self._value = 0  # before the range that is now
        part.installEventFilter(self)
        area.verticalScrollBar().rangeChanged.connect(self._on_range_changed)

    def eventFilter(self, watched: object, event: QEvent) -> bool:
        """See QObject."""
        if isinstance(event, QResizeEvent) and event.oldSize().height() > 0 and self._part.isVisible():
            way = event.size().height() - event.oldSize().height()
            if way and event.size().width() == event.oldSize().width() and self._is_below(event.oldSize().height()):
                # What shrinks has shortened the range before, and that may have moved the view already.
                bar = self._area.verticalScrollBar()
                bar.setValue((bar.value() if way > 0 else self._value) + way)
        return False

    def _on_range_changed(self) -> None:
        self._value = self._area.verticalScrollBar().value()

    def _is_below(self, height: int) -> bool:
        """Tell whether what counts for the person lies below a part of this height."""
        view, body = self._area.viewport(), self._area.widget()
        if body is None:  # while the window is taken down
            return False
        end = self._part.mapTo(body, QPoint(0, height)).y()
        if end <= self._area.verticalScrollBar().value():
            return True
        at = view.mapFromGlobal(QCursor.pos())
        if view.rect().contains(at):
            return at.y() > body.mapTo(view, QPoint(0, end)).y()
        focus = QApplication.focusWidget()
        return focus is not None and body.isAncestorOf(focus) and focus.mapTo(body, QPoint()).y() >= end
