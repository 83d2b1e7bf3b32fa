"""TextTable: rows of texts as a table view reads them."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

_ROOT = QModelIndex()


class TextTable(QAbstractTableModel):
    """A table that does not change.

    Args:
        heads: of the columns.
        at_end: columns whose texts stand at the end, as numbers do.
    """

    def __init__(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        at_end: Sequence[int] = (),
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._heads = tuple(heads)
        self._rows = rows
        self._at_end = frozenset(at_end)

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = _ROOT) -> int:
        """See QAbstractItemModel."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: QModelIndex | QPersistentModelIndex = _ROOT) -> int:
        """See QAbstractItemModel."""
        return 0 if parent.isValid() else len(self._heads)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """See QAbstractItemModel."""
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            text = self._rows[index.row()][index.column()]
            return text if role == Qt.ItemDataRole.DisplayRole else text.replace("<", "‹")
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignTrailing if index.column() in self._at_end else Qt.AlignmentFlag.AlignLeading
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """See QAbstractItemModel."""
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self._heads[section]
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignTrailing if section in self._at_end else Qt.AlignmentFlag.AlignLeading
            return side | Qt.AlignmentFlag.AlignVCenter
        return None
