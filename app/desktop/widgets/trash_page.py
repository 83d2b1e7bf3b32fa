"""TrashPage: the chats that were deleted, to be taken back or deleted for good."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QDateTime,
    QEvent,
    QLocale,
    QModelIndex,
    QPersistentModelIndex,
    QSize,
    QStringListModel,
    Qt,
    Signal,
)
from PySide6.QtGui import QFocusEvent, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.desktop.itemmodels.chat_list import shown_title
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.look import set_look
from app.desktop.theme.theme import Theme
from app.desktop.widgets.escape_key import take_escape
from app.desktop.widgets.figures import LAST_SECOND
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.sidebar_rows import Index, RowList, mirrored, paint_line, paint_row
from app.store import ChatRow

_ROW_HEIGHT = 34
_PADDING = 12
_DATE_WIDTH = 190
_COLUMN = 760


class _TrashModel(QStringListModel):
    """The rows; only the count is that of Qt's own list."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows: Sequence[ChatRow] = ()

    def chat(self, row: int) -> ChatRow | None:
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def row_of(self, chat_id: str | None) -> int:
        return next((row for row, chat in enumerate(self._rows) if chat.id == chat_id), -1)

    def set_rows(self, rows: Sequence[ChatRow]) -> None:
        self._rows = rows
        self.setStringList([""] * len(rows))

    def deleted(self, chat: ChatRow) -> str:
        """Say when a chat was deleted."""
        seconds = int(min(max(chat.deleted_at or 0.0, 0.0), LAST_SECOND))
        moment = QLocale().toString(QDateTime.fromSecsSinceEpoch(seconds), QLocale.FormatType.ShortFormat)
        return self.tr("Deleted {moment}").format(moment=moment)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        chat = self.chat(index.row())
        if chat is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return shown_title(chat.title)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{shown_title(chat.title)}, {self.deleted(chat)}"
        return None

    def flags(self, index: QModelIndex | QPersistentModelIndex) -> Qt.ItemFlag:
        is_chat = self.chat(index.row()) is not None
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable if is_chat else Qt.ItemFlag.NoItemFlags


class _TrashDelegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, model: _TrashModel, parent: RowList) -> None:
        super().__init__(parent)
        self._theme = theme
        self._model = model
        self._list = parent

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(self._theme.px(120), self._theme.px(_ROW_HEIGHT))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        px = self._theme.px
        chat = self._model.chat(index.row())
        if chat is None:
            return
        painter.save()
        paint_row(painter, self._theme, option, is_marked=index.row() == self._list.currentIndex().row())
        inner = option.rect.adjusted(px(_PADDING), 0, -px(_PADDING), 0)
        date_width = min(px(_DATE_WIDTH), inner.width() // 2)
        painter.setFont(self._theme.font(13))
        painter.setPen(self._theme.colour("text"))
        title = inner.adjusted(0, 0, -date_width - px(_PADDING), 0)
        paint_line(painter, mirrored(option, title), shown_title(chat.title))
        painter.setFont(self._theme.font(12))
        painter.setPen(self._theme.colour("muted"))
        date = inner.adjusted(inner.width() - date_width, 0, 0, 0)
        paint_line(painter, mirrored(option, date), self._model.deleted(chat), is_at_end=True)
        painter.restore()


class _PurgeButton(QPushButton):
    """Asks in its place: only a second press in a row counts.

    Signals:
        confirmed: it was pressed a second time.
    """

    confirmed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("purge")
        self.setProperty("kind", "outline")
        self._asks = False
        self.calm_down()
        self.clicked.connect(self._on_clicked)

    @property
    def asks(self) -> bool:
        """Whether the next press counts."""
        return self._asks

    def calm_down(self) -> None:
        """Ask anew at the next press."""
        self._show(False)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.calm_down()

    def sizeHint(self) -> QSize:
        # Of the longer text, so that nothing moves between the two presses.
        size = super().sizeHint()
        texts = (self.tr("Delete for good"), self.tr("Really delete?"))
        shown = self.fontMetrics().horizontalAdvance(self.text())
        longest = max(self.fontMetrics().horizontalAdvance(text) for text in texts)
        return QSize(size.width() - shown + longest + 8, size.height())

    def _on_clicked(self) -> None:
        if self._asks:
            self.calm_down()
            self.confirmed.emit()
        else:
            self._show(True)

    def _show(self, asks: bool) -> None:
        self._asks = asks
        self.setText(self.tr("Really delete?") if asks else self.tr("Delete for good"))
        set_look(self, "asks", asks)


class TrashPage(QFrame):
    """The page. What is asked for is seen once the rows come anew.

    Signals:
        restore_requested: the chat goes back to the others.
        purge_requested: the chat is to be deleted for good.
        closed: the user is done here.
    """

    restore_requested = Signal(str)
    purge_requested = Signal(str)
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("trashPage")
        self.setAccessibleName(self.tr("Trash"))
        self._head = plain_label(self.tr("Trash"), role="headline")
        self._note = plain_label(role="muted")
        self._empty = plain_label(self.tr("The trash is empty."), role="muted")
        self.close_button = GlyphButton(theme, "close", self.tr("Close (Esc)"), size=32)
        self.list = RowList(theme, self.tr("Deleted chats"))
        self.list.setObjectName("trashList")
        self._model = _TrashModel(self)
        self.list.setModel(self._model)
        self.list.setItemDelegate(_TrashDelegate(theme, self._model, self.list))
        self.list.setUniformItemSizes(True)
        self.restore = QPushButton(self.tr("Restore"))
        self.restore.setProperty("kind", "outline")
        self.purge = _PurgeButton()
        self._build()
        self.close_button.clicked.connect(self.closed)
        self.restore.clicked.connect(self._on_restore)
        self.purge.confirmed.connect(self._on_purge)
        self.list.escaped.connect(self.closed)
        self.list.selectionModel().currentChanged.connect(self._on_current_changed)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self.show_rows((), 0)

    @property
    def note(self) -> str:
        """What is said about how long chats stay."""
        return self._note.text()

    @property
    def chat_id(self) -> str | None:
        """The chat the buttons are about."""
        chat = self._model.chat(self.list.currentIndex().row())
        return chat.id if chat else None

    def show_rows(self, rows: Sequence[ChatRow], retention_days: int) -> None:
        """Show the chats in the trash; the one that was chosen stays so, or its neighbour takes its place."""
        before, row = self.chat_id, self.list.currentIndex().row()
        had_focus = self.restore.hasFocus() or self.purge.hasFocus()
        was_waited_for = self.list.isHidden() and self.close_button.hasFocus()
        self._model.set_rows(rows)
        kept = self._model.row_of(before)
        row = kept if kept >= 0 else min(max(row, 0), len(rows) - 1)
        self.list.setCurrentIndex(self._model.index(row) if rows else QModelIndex())
        if kept < 0:
            self.purge.calm_down()
        self._note.setText(self._note_of(retention_days))
        self._empty.setVisible(not rows)
        for part in (self.list, self.restore, self.purge):
            part.setVisible(bool(rows))
        if had_focus and not rows:
            self.close_button.setFocus()
        elif was_waited_for and rows:
            self.focus_list()

    def focus_list(self) -> None:
        """Go to the chats, or where there are none to the way out."""
        part: QWidget = self.close_button if self.list.isHidden() else self.list
        part.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def event(self, event: QEvent) -> bool:
        """Keep Esc, which means something else to the window."""
        return take_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget."""
        if event.key() == Qt.Key.Key_Escape and self.purge.asks:
            self.purge.calm_down()
        elif event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)

    def _build(self) -> None:
        self._column = QWidget()
        head = QHBoxLayout()
        head.addWidget(self._head, 1)
        head.addWidget(self.close_button)
        foot = QHBoxLayout()
        foot.addWidget(self.restore)
        foot.addWidget(self.purge)
        foot.addStretch(1)
        self._foot = foot
        self._box = QVBoxLayout(self._column)
        self._box.addLayout(head)
        for part in (self._note, self._empty):
            self._box.addWidget(part)
        self._box.addWidget(self.list, 1)
        self._box.addLayout(foot)
        self._box.addStretch(0)
        self._margins = QHBoxLayout(self)
        self._margins.addStretch(1)
        self._margins.addWidget(self._column, 100)
        self._margins.addStretch(1)

    def _note_of(self, days: int) -> str:
        if days <= 0:
            return self.tr("Deleted chats stay here until you delete them for good.")
        if days == 1:
            return self.tr("Deleted chats stay here for a day, then they are removed.")
        return self.tr("Deleted chats stay here for {days} days, then they are removed.").format(days=days)

    def _on_restore(self) -> None:
        if self.chat_id is not None:
            self.restore_requested.emit(self.chat_id)

    def _on_purge(self) -> None:
        if self.chat_id is not None:
            self.purge_requested.emit(self.chat_id)

    def _on_current_changed(self) -> None:
        self.purge.calm_down()
        self.list.viewport().update()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._margins.setContentsMargins(px(24), px(20), px(24), px(20))
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(px(12))
        self._foot.setSpacing(px(8))
        self._column.setMaximumWidth(px(_COLUMN))
