"""The list of chats: which group each belongs to, and the model that a view reads."""

import itertools
import operator
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple

from PySide6.QtCore import (
    QCoreApplication,
    QLocale,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QStringListModel,
    Qt,
)

from app.desktop.rendering.plain import has_visible_text, isolated, shortened
from app.store import ChatRow

_MAX_TITLE = 300
_MONTHS = 5  # rank of the groups that are months; those before have names
_Group = tuple[int, int]
_PRIVATE: _Group = (-1, 0)


class Entry(NamedTuple):
    """One line of the list: a chat, or the head of a group.

    Attributes:
        text: the title as it is stored, or what the head says.
        chat_id: empty for a head.
        is_private: whether it is kept in memory alone.
    """

    text: str
    chat_id: str = ""
    is_pinned: bool = False
    is_private: bool = False

    @property
    def is_head(self) -> bool:
        """Whether this is no chat."""
        return not self.chat_id


def chat_entries(rows: Sequence[ChatRow], now: datetime, private_ids: frozenset[str] = frozenset()) -> list[Entry]:
    """Return the lines for some chats, in their order within each group; may be called in any thread.

    Args:
        now: of the clock on the wall; chats from after it count as today's.
        private_ids: those that stand at the top, in a group of their own.
    """
    starts = [
        datetime.combine(now.date() - timedelta(days=days), time.min, tzinfo=now.tzinfo).timestamp()
        for days in (0, 1, 7, 30)
    ]
    groups: dict[_Group, list[Entry]] = {}
    for row in rows:
        is_private = row.id in private_ids
        group = (0, 0) if row.is_pinned else _group_of(row.changed_at, starts, now)
        group = _PRIVATE if is_private else group
        groups.setdefault(group, []).append(Entry(row.title, row.id, row.is_pinned, is_private))
    entries: list[Entry] = []
    for group in sorted(groups):
        entries.append(Entry(_head(group)))
        entries += groups[group]
    return entries


def _group_of(changed_at: float, starts: Sequence[float], now: datetime) -> _Group:
    for rank, start in enumerate(starts, 1):
        if changed_at >= start:
            return rank, 0
    moment = datetime.fromtimestamp(max(0.0, changed_at), now.tzinfo)  # no system knows dates of any size
    return _MONTHS, -(moment.year * 12 + moment.month - 1)


def _head(group: _Group) -> str:
    rank, months = group
    if group == _PRIVATE:
        return QCoreApplication.translate("ChatList", "Private, in memory only")
    if rank == _MONTHS:
        year, month = divmod(-months, 12)
        text = QCoreApplication.translate("ChatList", "{month} {year}")
        return text.format(month=QLocale().standaloneMonthName(month + 1), year=year)
    return (
        QCoreApplication.translate("ChatList", "Pinned"),
        QCoreApplication.translate("ChatList", "Today"),
        QCoreApplication.translate("ChatList", "Yesterday"),
        QCoreApplication.translate("ChatList", "Previous 7 days"),
        QCoreApplication.translate("ChatList", "Previous 30 days"),
    )[rank]


def shown_title(title: str) -> str:
    """Return a title, which may be any text or none, as one line to show."""
    if not has_visible_text(title):
        return QCoreApplication.translate("ChatList", "New chat")
    return isolated(shortened(title, _MAX_TITLE))


# Of Qt's own list of strings only the count is used: a view asks for it once for each row it lays out, and answering
# from Python takes fifteen times as long as laying ten thousand rows out.
class ChatListModel(QStringListModel):
    """The lines of the list, which chat is open, and what goes on in the others."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: list[Entry] = []
        self._coming: list[Entry] = []
        self._open_id: str | None = None
        self._streaming: frozenset[str] = frozenset()
        self._unread: frozenset[str] = frozenset()
        # Connected before anybody else can be: all others see the lines and their number change together.
        for changed in (self.rowsInserted, self.rowsRemoved, self.rowsMoved, self.modelReset):
            changed.connect(self._take_coming)

    @property
    def entries(self) -> Sequence[Entry]:
        """The lines."""
        return self._entries

    @property
    def open_id(self) -> str | None:
        """The chat that is open."""
        return self._open_id

    def entry(self, row: int) -> Entry:
        """Return a line; an empty head where there is none."""
        return self._entries[row] if 0 <= row < len(self._entries) else Entry("")

    def row_of(self, chat_id: str | None) -> int:
        """Return the row of a chat, or -1."""
        if not chat_id:
            return -1
        return next((row for row, entry in enumerate(self._entries) if entry.chat_id == chat_id), -1)

    def is_streaming(self, chat_id: str) -> bool:
        """Tell whether a reply is in progress in a chat."""
        return chat_id in self._streaming

    def is_unread(self, chat_id: str) -> bool:
        """Tell whether a reply has ended in a chat since it was looked at."""
        return chat_id in self._unread

    def set_entries(self, entries: Sequence[Entry]) -> None:
        """Show other lines, by the smallest step where one row or a run of rows makes the difference."""
        old, new = self._entries, list(entries)
        start = _num_equal(old, new)
        end = min(_num_equal(old[::-1], new[::-1]), min(len(old), len(new)) - start)
        gone, come = old[start : len(old) - end], new[start : len(new) - end]
        if not gone and not come:
            return
        self._coming = new
        parent, last = QModelIndex(), start + len(gone) - 1
        if not come:
            self.removeRows(start, len(gone))
        elif not gone:
            self.insertRows(start, len(come))
        elif [entry.chat_id for entry in gone] == [entry.chat_id for entry in come]:
            self._take_coming()
            self.dataChanged.emit(self.index(start), self.index(last))
        elif [gone[-1], *gone[:-1]] == come:
            self.moveRows(parent, last, 1, parent, start)
        elif [*gone[1:], gone[0]] == come:
            self.moveRows(parent, start, 1, parent, last + 1)
        else:
            self.setStringList([""] * len(new))

    def set_title(self, chat_id: str, title: str) -> None:
        """Show another title before the list comes anew."""
        row = self.row_of(chat_id)
        if row >= 0:
            self._entries[row] = self._entries[row]._replace(text=title)
            self.dataChanged.emit(self.index(row), self.index(row))

    def set_open(self, chat_id: str | None) -> None:
        """Mark the chat that is open."""
        changed = {self._open_id, chat_id} if chat_id != self._open_id else set()
        self._open_id = chat_id
        self._repaint(changed)

    def set_marks(self, streaming: frozenset[str], unread: frozenset[str]) -> None:
        """Mark the chats with a reply in progress, and those with one that was not seen."""
        changed = (self._streaming ^ streaming) | (self._unread ^ unread)
        self._streaming, self._unread = streaming, unread
        self._repaint(changed)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """See QAbstractItemModel."""
        entry = self.entry(index.row())
        if role == Qt.ItemDataRole.EditRole:
            return entry.text
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.text if entry.is_head else shown_title(entry.text)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return entry.text if entry.is_head else self._spoken(entry)
        return None

    def flags(self, index: QModelIndex | QPersistentModelIndex) -> Qt.ItemFlag:
        """See QAbstractItemModel; heads are passed over by the keyboard."""
        if self.entry(index.row()).is_head:
            return Qt.ItemFlag.NoItemFlags
        item = Qt.ItemFlag
        return item.ItemIsEnabled | item.ItemIsSelectable | item.ItemIsEditable | item.ItemNeverHasChildren

    def _take_coming(self) -> None:
        self._entries = self._coming

    def _spoken(self, entry: Entry) -> str:
        parts = [shown_title(entry.text)]
        if entry.chat_id == self._open_id:
            parts.append(self.tr("open"))
        if entry.is_private:
            parts.append(self.tr("private"))
        if entry.is_pinned:
            parts.append(self.tr("pinned"))
        if self.is_streaming(entry.chat_id):
            parts.append(self.tr("reply in progress"))
        elif self.is_unread(entry.chat_id):
            parts.append(self.tr("unread reply"))
        return ", ".join(parts)

    def _repaint(self, chat_ids: frozenset[str] | set[str | None]) -> None:
        if not chat_ids:
            return
        for row, entry in enumerate(self._entries):
            if entry.chat_id in chat_ids:
                self.dataChanged.emit(self.index(row), self.index(row))


def _num_equal(first: Sequence[Entry], second: Sequence[Entry]) -> int:
    """Return how many lines from the start on are the same."""
    differs = map(operator.ne, first, second)
    return next(itertools.compress(itertools.count(), differs), min(len(first), len(second)))
