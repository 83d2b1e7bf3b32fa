"""ModelListModel: the lines of the Models page as a view reads them."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QStringListModel, Qt

from app.desktop.itemmodels.model_rows import Fit, Line
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.widgets.figures import bytes_text, count_text, rate_with_unit

_MAX_NAME = 120


# Of Qt's own list of strings only the count is used, as in the list of chats.
class ModelListModel(QStringListModel):
    """The lines; heads cannot be chosen."""

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._lines: list[Line] = []

    @property
    def lines(self) -> Sequence[Line]:
        """The lines."""
        return self._lines

    def line(self, row: int) -> Line:
        """Return a line; an empty head where there is none."""
        return self._lines[row] if 0 <= row < len(self._lines) else Line()

    def row_of(self, path: str) -> int:
        """Return the row of a file, or -1."""
        if not path:
            return -1
        return next((row for row, line in enumerate(self._lines) if line.path == path), -1)

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Show other lines; nothing is laid out anew where the same ones stand in the same places."""
        is_same_place = [_place(line) for line in lines] == [_place(line) for line in self._lines]
        self._lines = list(lines)
        if not is_same_place:
            self.setStringList([""] * len(lines))
        elif lines:
            self.dataChanged.emit(self.index(0), self.index(len(lines) - 1))

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """See QAbstractItemModel."""
        line = self.line(index.row())
        if role == Qt.ItemDataRole.DisplayRole:
            return shown_name(line.text)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._spoken(line)
        return None

    def flags(self, index: QModelIndex | QPersistentModelIndex) -> Qt.ItemFlag:
        """See QAbstractItemModel; heads are passed over by the keyboard."""
        if self.line(index.row()).file is None:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemNeverHasChildren

    def _spoken(self, line: Line) -> str:
        file, model = line.file, line.model
        if file is None or model is None:
            return shown_name(line.text)
        parts = [shown_name(model.name), shown_name(file.label), bytes_text(file.num_bytes)]
        if file.kind:
            parts.append(file.kind)
        if file.problem:
            parts.append(isolated(shortened(file.problem, 300)))
        if file.fit is not Fit.UNKNOWN:
            parts.append(self.fit_text(file.fit))
        if file.tokens_per_s is not None:
            parts.append(self.tr("about {rate}").format(rate=rate_with_unit(file.tokens_per_s)))
        if file.n_ctx_train:
            parts.append(self.tr("context {count}").format(count=count_text(file.n_ctx_train)))
        if file.place:
            parts.append(isolated(file.place))
        return ", ".join(parts)

    def fit_text(self, fit: Fit) -> str:
        """Return in a word or two whether a model finds its memory."""
        return {
            Fit.UNKNOWN: "",
            Fit.FITS: self.tr("Fits"),
            Fit.TIGHT: self.tr("Tight"),
            Fit.TOO_LARGE: self.tr("Does not fit"),
        }[fit]


def shown_name(name: str) -> str:
    """Return a name from a file as one line to show."""
    return isolated(shortened(name, _MAX_NAME))


def _place(line: Line) -> tuple[str, str]:
    return line.text if line.file is None else "", line.path
