"""ChatChoice: past chats by their titles, of which some become the prompts of a comparison."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.desktop.rendering.plain import has_visible_text, isolated, shortened
from app.desktop.theme.theme import Theme
from app.desktop.widgets.check_box import paint_box
from app.desktop.widgets.figures import count_text
from app.desktop.widgets.plain_label import plain_label
from app.store import ChatRow

_TITLE_CHARS = 120
_ROW, _HEIGHT = 28, 170
_CHOOSING = (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)
Index = QModelIndex | QPersistentModelIndex


class ChatChoice(QWidget):
    """See above.

    Signals:
        changed: other chats are chosen.
    """

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: Sequence[ChatRow] = ()
        self.find_edit = QLineEdit()
        self.find_edit.setPlaceholderText(self.tr("Find by title"))
        self.find_edit.setAccessibleName(self.tr("Find by title"))
        self.find_edit.textChanged.connect(self._show_found)
        self._titles = _Titles(self)
        self._titles.chosen_changed.connect(self._on_chosen)
        self.list = _List(self._titles)
        self.list.setItemDelegate(_Painter(theme, self.list))
        self.list.setObjectName("compareChats")
        self.list.setAccessibleName(self.tr("Past chats"))
        self._told = plain_label(role="meta")
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        for part in (self.find_edit, self.list, self._told):
            self._box.addWidget(part)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self._tell()

    @property
    def chosen(self) -> tuple[str, ...]:
        """Ids of the chats, in the order of the list."""
        known = [row.id for row in self._rows if row.id in self._titles.chosen]
        return tuple(known) if self._rows else tuple(self._titles.chosen)

    @property
    def told(self) -> str:
        """How many are chosen."""
        return self._told.text()

    def show_chats(self, rows: Sequence[ChatRow]) -> None:
        """Offer these chats; what was chosen stays so."""
        self._rows = rows
        self._titles.chosen &= {row.id for row in rows}
        self._show_found()
        self._on_chosen()

    def choose(self, chat_ids: Sequence[str]) -> None:
        """Choose these and no others."""
        self._titles.chosen = set(chat_ids)
        self._show_found()
        self._tell()

    def _show_found(self) -> None:
        wanted = self.find_edit.text().strip().casefold()
        self._titles.show_rows([row for row in self._rows if wanted in row.title.casefold()])

    def _on_chosen(self) -> None:
        self._tell()
        self.changed.emit()

    def _tell(self) -> None:
        for part in (self.find_edit, self.list):
            part.setVisible(bool(self._rows))
        if self._rows:
            words = self.tr("{chosen} of {total} chats; each is asked its last message again, with all before it.")
            self._told.setText(words.format(chosen=count_text(len(self.chosen)), total=count_text(len(self._rows))))
        else:
            self._told.setText(self.tr("No chat is kept yet."))

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setSpacing(px(6))
        self.list.setFixedHeight(px(_HEIGHT))


class _Titles(QAbstractListModel):
    """The titles that are found, and which chats are chosen, found or not."""

    chosen_changed = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows: Sequence[ChatRow] = ()
        self.chosen: set[str] = set()

    def show_rows(self, rows: Sequence[ChatRow]) -> None:
        """Show these."""
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """See QAbstractItemModel."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """See QAbstractItemModel."""
        row = self._rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            title = row.title if has_visible_text(row.title) else self.tr("Chat without a title")
            return isolated(shortened(title, _TITLE_CHARS))
        if role == Qt.ItemDataRole.CheckStateRole:
            return Qt.CheckState.Checked if row.id in self.chosen else Qt.CheckState.Unchecked
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """See QAbstractItemModel."""
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable

    def toggle(self, index: Index) -> None:
        """Choose a chat, or no longer."""
        self.chosen ^= {self._rows[index.row()].id}
        self.dataChanged.emit(index, index, [Qt.ItemDataRole.CheckStateRole])
        self.chosen_changed.emit()


class _Painter(QStyledItemDelegate):
    """Paints a row: a box of the theme, and the title beside it."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """See QStyledItemDelegate."""
        return QSize(self._theme.px(100), self._theme.px(_ROW))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """See QStyledItemDelegate."""
        px, area = self._theme.px, option.rect
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, self._theme.colour("selection"))
        side = px(16)
        box = QRectF(area.left() + px(8), area.top() + (area.height() - side) / 2, side, side)
        is_chosen = index.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
        paint_box(painter, self._theme, box, is_checked=is_chosen, edge="accent" if is_chosen else "control_border")
        painter.setPen(self._theme.colour("text"))
        beside = area.adjusted(px(34), 0, -px(8), 0)
        text = painter.fontMetrics().elidedText(index.data(), Qt.TextElideMode.ElideRight, beside.width())
        painter.drawText(beside, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()


class _List(QListView):
    """A click anywhere in a row, Space or Enter chooses it."""

    def __init__(self, titles: _Titles) -> None:
        super().__init__()
        self._titles = titles
        self.setModel(titles)
        self.clicked.connect(titles.toggle)
        self.setUniformItemSizes(True)
        self.setEditTriggers(QListView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """See QWidget."""
        if event.key() in _CHOOSING and self.currentIndex().isValid():
            self._titles.toggle(self.currentIndex())
        else:
            super().keyPressEvent(event)
