"""SamplerOrder: which sampler steps are taken, and in which order."""

from collections.abc import Sequence

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication, QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme
from engine import SAMPLER_NAMES

_ROW_HEIGHT = 24
_TITLES = {
    "penalties": QT_TRANSLATE_NOOP("SamplerOrder", "Penalties"),
    "dry": QT_TRANSLATE_NOOP("SamplerOrder", "DRY"),
    "top_n_sigma": QT_TRANSLATE_NOOP("SamplerOrder", "Top-n-sigma"),
    "top_k": QT_TRANSLATE_NOOP("SamplerOrder", "Top-k"),
    "typical_p": QT_TRANSLATE_NOOP("SamplerOrder", "Typical-p"),
    "top_p": QT_TRANSLATE_NOOP("SamplerOrder", "Top-p"),
    "min_p": QT_TRANSLATE_NOOP("SamplerOrder", "Min-p"),
    "xtc": QT_TRANSLATE_NOOP("SamplerOrder", "XTC"),
    "temperature": QT_TRANSLATE_NOOP("SamplerOrder", "Temperature"),
}


def sampler_title(name: str) -> str:
    """Return what a person calls a sampler step."""
    return QCoreApplication.translate("SamplerOrder", str(_TITLES.get(name, name)))


class SamplerOrder(QWidget):
    """A list of all steps: checked ones are taken, top to bottom.

    Signals:
        changed: the user chose other steps or another order.
    """

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.list = QListWidget()
        self.list.setObjectName("samplerOrder")
        self.list.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.list.setDefaultDropAction(Qt.DropAction.MoveAction)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setAccessibleName(self.tr("Order of the samplers"))
        how = self.tr("Unchecked steps are left out. Drag a step, or press Alt+Up and Alt+Down, to move it.")
        self.list.setAccessibleDescription(how)
        self.list.setToolTip(how)
        self.list.installEventFilter(self)
        self.list.itemChanged.connect(self._on_item_changed)
        self.list.model().rowsMoved.connect(self._on_moved)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.list)
        self._shown: tuple[str, ...] = ()
        self._is_filling = False
        self.set_value(())
        theme.changed.connect(self._fit)
        self._fit()

    @property
    def value(self) -> tuple[str, ...]:
        """The steps in their order; empty for all of them in the usual one."""
        items = [self.list.item(row) for row in range(self.list.count())]
        names = tuple(
            item.data(Qt.ItemDataRole.UserRole) for item in items if item.checkState() == Qt.CheckState.Checked
        )
        return () if names == SAMPLER_NAMES else names

    def set_value(self, names: Sequence[str]) -> None:
        """Show steps without a signal."""
        taken = tuple(names) or SAMPLER_NAMES
        self._is_filling = True
        self.list.clear()
        for name in (*taken, *(name for name in SAMPLER_NAMES if name not in taken)):
            item = QListWidgetItem(sampler_title(name))
            item.setData(Qt.ItemDataRole.UserRole, name)
            item.setFlags(
                Qt.ItemFlag.ItemIsEnabled
                | Qt.ItemFlag.ItemIsSelectable
                | Qt.ItemFlag.ItemIsUserCheckable
                | Qt.ItemFlag.ItemIsDragEnabled
            )
            item.setCheckState(Qt.CheckState.Checked if name in taken else Qt.CheckState.Unchecked)
            self.list.addItem(item)
        self._is_filling = False
        self._shown = self.value
        self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Move a step by keys."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
            if step and event.modifiers() & Qt.KeyboardModifier.AltModifier:
                self._move(step)
                return True
        return False

    def _move(self, step: int) -> None:
        row = self.list.currentRow()
        target = row + step
        if row < 0 or not 0 <= target < self.list.count():
            return
        self._is_filling = True
        item = self.list.takeItem(row)
        self.list.insertItem(target, item)
        self.list.setCurrentRow(target)
        self._is_filling = False
        self._tell()

    def _on_item_changed(self, item: QListWidgetItem) -> None:
        if self._is_filling:
            return
        if not any(self.list.item(row).checkState() == Qt.CheckState.Checked for row in range(self.list.count())):
            item.setCheckState(Qt.CheckState.Checked)  # no step at all would mean every step
            return
        self._tell()

    def _on_moved(self) -> None:
        if not self._is_filling:
            self._tell()

    def _tell(self) -> None:
        if self.value != self._shown:
            self._shown = self.value
            self.changed.emit()

    def _fit(self) -> None:
        self.list.setFixedHeight(self._theme.px(_ROW_HEIGHT) * self.list.count() + 2 * self._theme.px(4))
