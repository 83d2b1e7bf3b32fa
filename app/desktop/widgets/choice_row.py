"""ChoiceRow: a setting with a few named values, of which those that cannot be used now say why."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.desktop.rendering.plain import tool_tip_text
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.param_row import new_note
from app.desktop.widgets.still_combo_box import StillComboBox


class Option(NamedTuple):
    """One value and what it is called."""

    value: Any
    label: str
    help: str = ""


class ChoiceRow(QWidget):
    """Label and list.

    Signals:
        changed: the user chose another value.
    """

    changed = Signal()

    def __init__(
        self, theme: Theme, name: str, title: str, parent: QWidget | None = None, *, help_text: str = ""
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._help = help_text
        self.name = name
        self.title = title
        label = ElidedLabel()
        label.set_whole(title)
        label.setToolTip(help_text)
        self.box = StillComboBox(theme)
        self.box.setSizeAdjustPolicy(self.box.SizeAdjustPolicy.AdjustToContents)  # as far as there is room
        self.box.setAccessibleName(title)
        self.box.setAccessibleDescription(help_text)
        self._model = QStandardItemModel(self.box)
        self.box.setModel(self._model)
        self.box.activated.connect(self._on_activated)
        label.setBuddy(self.box)
        head = QHBoxLayout()
        head.setContentsMargins(0, 0, 0, 0)
        head.addWidget(label, 1)
        head.addWidget(self.box)
        self._note: QLabel | None = None
        self._outer = outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(theme.px(2))
        outer.addLayout(head)
        self._value: Any = None
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def value(self) -> Any:
        """The chosen value."""
        return self._value

    @property
    def inputs(self) -> list[QWidget]:
        """What the Tab key reaches."""
        return [self.box]

    @property
    def note(self) -> str:
        """What is said below it."""
        return self._note.text() if self._note is not None else ""

    def set_options(self, options: Sequence[Option]) -> None:
        """Offer these values."""
        self._model.clear()
        for option in options:
            item = QStandardItem(option.label)
            item.setData(option.value, Qt.ItemDataRole.UserRole)
            item.setData(option.help, Qt.ItemDataRole.UserRole + 1)
            self._model.appendRow(item)
        self.set_value(self._value)

    def set_value(self, value: Any) -> None:
        """Show a value that the user did not choose here; one that is not offered is added."""
        self._value = value
        row = self._row_of(value)
        if row < 0 and value is not None:
            item = QStandardItem(str(value))
            item.setData(value, Qt.ItemDataRole.UserRole)
            self._model.appendRow(item)
            row = self._model.rowCount() - 1
        self.box.setCurrentIndex(row)
        self._show_tip()

    def set_note(self, text: str) -> None:
        """Say something below it; nothing for an empty text."""
        if self._note is None:
            if not text:
                return
            self._note = new_note("meta")
            self._outer.addWidget(self._note)
        self._note.setText(text)
        self._note.setVisible(bool(text))

    def show_faults(self, fault_of: Callable[[Any], str]) -> None:
        """Close the values that cannot be used, each with the reason; empty for those that can."""
        for row in range(self._model.rowCount()):
            item = self._model.item(row)
            fault = fault_of(item.data(Qt.ItemDataRole.UserRole))
            item.setEnabled(not fault)
            item.setToolTip(tool_tip_text(fault or item.data(Qt.ItemDataRole.UserRole + 1) or ""))
            item.setAccessibleDescription(fault)
        self._show_tip()

    def fault(self, value: Any) -> str:
        """Return why a value cannot be chosen; empty where it can."""
        item = self._model.item(self._row_of(value))
        return "" if item is None or item.isEnabled() else item.toolTip()

    def _row_of(self, value: Any) -> int:
        rows = range(self._model.rowCount())
        return next((row for row in rows if self._model.item(row).data(Qt.ItemDataRole.UserRole) == value), -1)

    def _on_activated(self, row: int) -> None:
        value = self._model.item(row).data(Qt.ItemDataRole.UserRole)
        if value != self._value:
            self._value = value
            self._show_tip()
            self.changed.emit()

    def _show_tip(self) -> None:
        item = self._model.item(self.box.currentIndex())
        own = item.toolTip() if item is not None and item.isEnabled() else ""
        self.box.setToolTip(own or self._help)

    def _on_theme_changed(self) -> None:
        self.box.setMinimumWidth(self._theme.px(104))
        self.box.setMaximumWidth(self._theme.px(150))
