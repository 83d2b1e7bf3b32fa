"""RowList: a list whose rows are painted by us, and what the painters of its rows share."""

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QGuiApplication, QKeyEvent, QPainter, QPen
from PySide6.QtWidgets import QListView, QStyle, QStyleOptionViewItem, QWidget

from app.desktop.theme.theme import Theme

Index = QModelIndex | QPersistentModelIndex

_CHOOSING = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class RowList(QListView):
    """A list of one column, used with the mouse or with Up, Down, Enter and Esc. The Delete key does nothing.

    Signals:
        row_chosen: by a click or Enter.
        escaped: Esc was pressed.
        left_upwards: Up was pressed in the first row.
    """

    row_chosen = Signal(int)
    escaped = Signal()
    left_upwards = Signal()

    def __init__(self, theme: Theme, label: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self.setAccessibleName(label)
        self.setFrameShape(QListView.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setEditTriggers(QListView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QListView.SelectionMode.NoSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setTextElideMode(Qt.TextElideMode.ElideNone)
        self.clicked.connect(self._choose)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def is_row(self, row: int) -> bool:
        """Tell whether a row can be chosen; heads cannot."""
        return bool(self.model().flags(self.model().index(row, 0)) & Qt.ItemFlag.ItemIsEnabled)

    def event(self, event: QEvent) -> bool:
        """Keep Esc, which means something else to the window."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and self._is_own_key(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget."""
        before = self.currentIndex()
        if event.key() == Qt.Key.Key_Escape:
            self.escaped.emit()
        elif event.key() in _CHOOSING:
            self._choose(before)
        else:
            super().keyPressEvent(event)
            if event.key() == Qt.Key.Key_Up and self.currentIndex() == before:
                self.left_upwards.emit()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Start at the first row that can be chosen."""
        self._start()
        super().focusInEvent(event)

    def scrollTo(self, index: Index, hint: QListView.ScrollHint = QListView.ScrollHint.EnsureVisible) -> None:
        """Show a row, with the head above it."""
        super().scrollTo(index, hint)
        if index.row() > 0 and not self.is_row(index.row() - 1):
            super().scrollTo(self.model().index(index.row() - 1, 0), hint)

    def _is_own_key(self, event: QKeyEvent) -> bool:
        return event.key() == Qt.Key.Key_Escape

    def _choose(self, index: Index) -> None:
        if self.is_row(index.row()):
            self.row_chosen.emit(index.row())

    def _start(self) -> None:
        if self.currentIndex().isValid():
            return
        count = self.model().rowCount()
        first = next((row for row in range(count) if self.is_row(row)), None)
        if first is not None:
            self.setCurrentIndex(self.model().index(first, 0))

    def _on_theme_changed(self) -> None:
        self.verticalScrollBar().setSingleStep(self.theme.px(30))
        self.scheduleDelayedItemsLayout()


def paint_row(painter: QPainter, theme: Theme, option: QStyleOptionViewItem, *, is_marked: bool = False) -> None:
    """Paint what lies behind a row: marked, under the mouse, and the ring of the keyboard."""
    state = option.state
    box = QRectF(option.rect).adjusted(1, 1, -1, -1)
    radius = theme.px(6)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    is_under_mouse = bool(state & QStyle.StateFlag.State_MouseOver)
    if is_marked or is_under_mouse:
        painter.setBrush(theme.colour("selection" if is_marked else "hover"))
        painter.drawRoundedRect(box, radius, radius)
    if state & QStyle.StateFlag.State_HasFocus:
        painter.setPen(QPen(theme.colour("accent"), 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box.adjusted(1, 1, -1, -1), radius - 1, radius - 1)


def paint_line(painter: QPainter, box: QRect, text: str, *, is_at_end: bool = False) -> None:
    """Paint one line with the font and pen of the painter, cut where there is no room.

    It stands at the start of the box in the direction of the window, whatever its own, or at the end.
    """
    cut = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, box.width())
    painter.drawText(box, side_of_window(is_end=is_at_end) | Qt.AlignmentFlag.AlignVCenter, cut)


def side_of_window(*, is_end: bool = False) -> Qt.AlignmentFlag:
    """Return the side on which lines start in the direction of the window, or end, whatever the text."""
    is_right = is_end != (QGuiApplication.layoutDirection() == Qt.LayoutDirection.RightToLeft)
    return (Qt.AlignmentFlag.AlignRight if is_right else Qt.AlignmentFlag.AlignLeft) | Qt.AlignmentFlag.AlignAbsolute


def mirrored(option: QStyleOptionViewItem, box: QRect) -> QRect:
    """Return where a box of a row stands in the direction of the window."""
    return QStyle.visualRect(option.direction, option.rect, box)
