"""ChatList: the chats by groups, with what can be done to one of them."""

from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, QEvent, QModelIndex, QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QFont, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
    QWidget,
)

from app.desktop.itemmodels.chat_list import ChatListModel, Entry, shown_title
from app.desktop.rendering.plain import has_visible_text, tool_tip_text
from app.desktop.theme.glyphs import paint_glyph
from app.desktop.theme.theme import Theme
from app.desktop.widgets.sidebar_rows import Index, RowList, mirrored, paint_line, paint_row

_ROW_HEIGHT = 30
_PADDING = 10
_MORE_WIDTH = 28
_PIN_WIDTH = 16
_MAX_TITLE = 500


class _ChatDelegate(QStyledItemDelegate):
    """Paints the lines and makes the editor of a title.

    Signals:
        title_typed: chat and its new title.
    """

    title_typed = Signal(str, str)

    def __init__(self, theme: Theme, chats: ChatListModel, parent: "ChatList") -> None:
        super().__init__(parent)
        self._theme = theme
        self._chats = chats
        self._list = parent

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(self._theme.px(60), self._theme.px(_ROW_HEIGHT))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        entry = self._chats.entry(index.row())
        painter.save()
        if entry.is_head:
            self._paint_head(painter, option, entry)
        else:
            self._paint_chat(painter, option, entry)
        painter.restore()

    def _paint_head(self, painter: QPainter, option: QStyleOptionViewItem, entry: Entry) -> None:
        px = self._theme.px
        painter.setFont(self._theme.font(11, weight=QFont.Weight.DemiBold))
        painter.setPen(self._theme.colour("muted"))
        paint_line(painter, option.rect.adjusted(px(_PADDING), px(6), -px(_PADDING), 0), entry.text)

    def _paint_chat(self, painter: QPainter, option: QStyleOptionViewItem, entry: Entry) -> None:
        theme, chats = self._theme, self._chats
        paint_row(painter, theme, option, is_marked=entry.chat_id == chats.open_id)
        is_unread = chats.is_unread(entry.chat_id)
        painter.setFont(theme.font(13, weight=QFont.Weight.DemiBold if is_unread else QFont.Weight.Normal))
        painter.setPen(theme.colour("text" if has_visible_text(entry.text) else "muted"))
        paint_line(painter, self._title_box(option, entry), shown_title(entry.text))
        slot = self.more_box(option)
        if entry.is_pinned or entry.is_private:
            side = theme.px(12)
            left = slot.left() - side if option.direction != Qt.LayoutDirection.RightToLeft else slot.right()
            box = QRectF(left, slot.center().y() - side / 2 + 0.5, side, side)
            paint_glyph(painter, "lock" if entry.is_private else "pin", box, theme.colour("muted"))
        if option.state & (QStyle.StateFlag.State_MouseOver | QStyle.StateFlag.State_HasFocus):
            side = theme.px(16)
            box = QRectF(slot.center().x() - side / 2, slot.center().y() - side / 2 + 0.5, side, side)
            paint_glyph(painter, "dots", box, theme.colour("text" if self._list.is_over_more else "muted"))
        elif chats.is_streaming(entry.chat_id) or is_unread:
            self._paint_dot(painter, QPointF(QRectF(slot).center()), is_open=chats.is_streaming(entry.chat_id))

    def _paint_dot(self, painter: QPainter, centre: QPointF, *, is_open: bool) -> None:
        accent = self._theme.colour("accent")
        radius = self._theme.px(8) / 2
        painter.setPen(QPen(accent, self._theme.px(2)) if is_open else Qt.PenStyle.NoPen)
        painter.setBrush(QColor(Qt.GlobalColor.transparent) if is_open else accent)
        painter.drawEllipse(centre, radius, radius)

    def _title_box(self, option: QStyleOptionViewItem, entry: Entry) -> QRect:
        px = self._theme.px
        right = px(_MORE_WIDTH) + (px(_PIN_WIDTH) if entry.is_pinned or entry.is_private else 0)
        return mirrored(option, option.rect.adjusted(px(_PADDING), 0, -right, 0))

    def more_box(self, option: QStyleOptionViewItem) -> QRect:
        """Return where the dots of a row stand."""
        box = QRect(option.rect)
        box.setLeft(box.right() - self._theme.px(_MORE_WIDTH) + 1)
        return mirrored(option, box)

    def helpEvent(self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index) -> bool:
        entry = self._chats.entry(index.row())
        if entry.is_head or event.type() != QEvent.Type.ToolTip:
            return False
        title = shown_title(entry.text)
        is_cut = view.fontMetrics().horizontalAdvance(title) > self._title_box(option, entry).width()
        if self._list.is_over_more:
            QToolTip.showText(event.globalPos(), self.tr("More"), view)
        else:
            QToolTip.showText(event.globalPos(), tool_tip_text(title) if is_cut else "", view)
        return True

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setMaxLength(_MAX_TITLE)
        editor.setPlaceholderText(shown_title(""))
        editor.setAccessibleName(self.tr("Title"))
        return editor

    def setEditorData(self, editor: QWidget, index: Index) -> None:
        # Only at first: a list that changes meanwhile must not take away what is being typed.
        if isinstance(editor, QLineEdit) and not editor.isModified():
            editor.setText(" ".join(self._chats.entry(index.row()).text.split()))
            editor.selectAll()

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        if not isinstance(editor, QLineEdit):
            return
        entry = self._chats.entry(index.row())
        title = " ".join(editor.text().split())
        if entry.chat_id and has_visible_text(title) and title != entry.text:
            self._chats.set_title(entry.chat_id, title)
            self.title_typed.emit(entry.chat_id, title)

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(option.rect.adjusted(0, 1, 0, -1))


class ChatList(RowList):
    """The list itself.

    Signals:
        menu_requested: chat, and where on the screen its menu goes.
        renamed: chat and its new title.
        rename_ended: the editor is closed, whatever came of it.
        text_typed: letters, which are for the search.
    """

    menu_requested = Signal(str, QPoint)
    renamed = Signal(str, str)
    rename_ended = Signal()
    text_typed = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        self._chats = ChatListModel()
        super().__init__(theme, "", parent)
        self.setAccessibleName(self.tr("Chats"))
        self._chats.setParent(self)
        self._held: Sequence[Entry] | None = None
        self._is_more_pressed = False
        self.is_over_more = False
        self.setModel(self._chats)
        self.setUniformItemSizes(True)
        self._delegate = _ChatDelegate(theme, self._chats, self)
        self.setItemDelegate(self._delegate)
        self._delegate.title_typed.connect(self.renamed)
        self._delegate.closeEditor.connect(self._on_editor_closed)

    @property
    def chats(self) -> ChatListModel:
        """What is shown."""
        return self._chats

    @property
    def is_renaming(self) -> bool:
        """Whether a title is being typed."""
        return self.state() == QAbstractItemView.State.EditingState

    def show_entries(self, entries: Sequence[Entry]) -> None:
        """Show other lines, with the same chat under the keyboard and the same ones in view.

        While a title is being typed the list stands still.
        """
        if self.is_renaming:
            self._held = entries
            return
        self._held = None
        bar = self.verticalScrollBar()
        at_keyboard = self._chats.entry(self.currentIndex().row()).chat_id
        anchor, offset = self._anchor() if bar.value() > 0 else ("", 0)
        self._chats.set_entries(entries)
        self.doItemsLayout()
        row = self._chats.row_of(at_keyboard or self._chats.open_id)
        if row != self.currentIndex().row():
            self._set_row(row)
        anchor_row = self._chats.row_of(anchor)
        if anchor_row >= 0:
            bar.setValue(bar.value() + self.visualRect(self._chats.index(anchor_row)).top() - offset)
        elif not anchor:
            bar.setValue(0)

    def set_open(self, chat_id: str | None) -> None:
        """Mark the chat that is open and bring it into view."""
        if chat_id == self._chats.open_id:
            return
        self._chats.set_open(chat_id)
        row = self._chats.row_of(chat_id)
        if row >= 0 and not self.is_renaming:
            self._set_row(row)
            self.scrollTo(self._chats.index(row))

    def begin_rename(self, chat_id: str) -> None:
        """Let the title of a chat be typed in its place."""
        row = self._chats.row_of(chat_id)
        if row >= 0:
            index = self._chats.index(row)
            self.setCurrentIndex(index)
            self.scrollTo(index)
            self.edit(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget."""
        current = self._chats.entry(self.currentIndex().row())
        if current.chat_id and event.key() == Qt.Key.Key_F2:
            self.begin_rename(current.chat_id)
        elif current.chat_id and _asks_for_menu(event):
            self.menu_requested.emit(current.chat_id, self._below(self.currentIndex()))
        else:
            super().keyPressEvent(event)

    def keyboardSearch(self, search: str) -> None:
        """Search for what is typed instead of jumping to a title that begins with it."""
        if has_visible_text(search):
            self.text_typed.emit(search)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """See QWidget."""
        is_by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        index = self.indexAt(event.pos()) if is_by_mouse else self.currentIndex()
        self._ask_for_menu(index, event.globalPos() if is_by_mouse else self._below(index))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Leave the dots of a row to the release of the button."""
        is_left = event.button() == Qt.MouseButton.LeftButton
        self._is_more_pressed = is_left and self._is_over_more(event.position().toPoint())
        if not self._is_more_pressed and is_left:
            super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Open the menu of a row at its dots."""
        was_pressed, self._is_more_pressed = self._is_more_pressed, False
        point = event.position().toPoint()
        if not was_pressed:
            super().mouseReleaseEvent(event)
        elif self._is_over_more(point):
            index = self.indexAt(point)
            self._ask_for_menu(index, self._below(index))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """See QWidget."""
        super().mouseMoveEvent(event)
        is_over = self._is_over_more(event.position().toPoint())
        if is_over != self.is_over_more:
            self.is_over_more = is_over
            self.viewport().update()

    def leaveEvent(self, event: QEvent) -> None:
        """See QWidget."""
        super().leaveEvent(event)
        self.is_over_more = False

    def _is_own_key(self, event: QKeyEvent) -> bool:
        return super()._is_own_key(event) or event.key() == Qt.Key.Key_F2

    def _ask_for_menu(self, index: QModelIndex, place: QPoint) -> None:
        entry = self._chats.entry(index.row())
        if entry.chat_id:
            self.setCurrentIndex(index)
            self.menu_requested.emit(entry.chat_id, place)

    def _below(self, index: QModelIndex) -> QPoint:
        box = self.visualRect(index)
        return self.viewport().mapToGlobal(QPoint(box.left() + self.theme.px(_PADDING), box.bottom()))

    def _is_over_more(self, point: QPoint) -> bool:
        index = self.indexAt(point)
        if not index.isValid() or self._chats.entry(index.row()).is_head:
            return False
        option = QStyleOptionViewItem()
        self.initViewItemOption(option)
        option.rect = self.visualRect(index)
        return self._delegate.more_box(option).contains(point)

    def _anchor(self) -> tuple[str, int]:
        """Return the first chat that is seen whole, and where."""
        index = self.indexAt(QPoint(self.theme.px(_PADDING), 1))
        for row in range(max(0, index.row()), index.row() + 4):
            entry = self._chats.entry(row)
            top = self.visualRect(self._chats.index(row)).top()
            if entry.chat_id and top >= 0:
                return entry.chat_id, top
        return "", 0

    def _set_row(self, row: int) -> None:
        self.setCurrentIndex(self._chats.index(row) if row >= 0 else QModelIndex())

    def _on_editor_closed(self) -> None:
        if self._held is not None:
            # The view is still closing the editor.
            self.setState(QAbstractItemView.State.NoState)
            self.show_entries(self._held)
        self.rename_ended.emit()


def _asks_for_menu(event: QKeyEvent) -> bool:
    is_shifted = event.modifiers() == Qt.KeyboardModifier.ShiftModifier
    return event.key() == Qt.Key.Key_Menu or (event.key() == Qt.Key.Key_F10 and is_shifted)
