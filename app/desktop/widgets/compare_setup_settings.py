"""ColumnSettings: what a column of a comparison has of its own beside its model: cache, threads, sampling, adapter."""

from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.session.chat_adapters import MAX_SCALE
from app.desktop.session.compare_setup import CACHE_TYPES, MAX_THREADS, ColumnSetup
from app.desktop.theme.theme import Theme
from app.desktop.widgets.file_dialog import ask_for_file
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.still_combo_box import StillComboBox
from app.desktop.widgets.still_spin_box import StillNumberBox, StillSpinBox

_NAME_CHARS = 40
_BOX = 30


class _Spot(NamedTuple):
    """Where a setting stands in the grid: row, place, and how many places it takes."""

    row: int
    place: int
    num_places: int = 1


# In the order of the settings: cache, threads, temperature, adapter, strength.
_WIDE = (_Spot(0, 0), _Spot(0, 1), _Spot(0, 2), _Spot(1, 0, 2), _Spot(1, 2))
_NARROW = (_Spot(0, 0), _Spot(0, 1), _Spot(1, 0), _Spot(1, 1), _Spot(2, 1))


class ColumnSettings(QWidget):
    """See above.

    Signals:
        changed: something else was chosen.
    """

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._folder = ""
        self._before = 0
        self.cache_box = StillComboBox(theme)
        self.cache_box.addItems(CACHE_TYPES)
        self.cache_box.setToolTip(self.tr("The type in which the cache is kept; smaller takes less memory"))
        self.cache_box.activated.connect(self.changed)
        self.threads_box = StillSpinBox()
        self.threads_box.setRange(0, MAX_THREADS)
        self.threads_box.setSpecialValueText(self.tr("auto"))
        self.threads_box.setToolTip(self.tr("Threads that compute; auto chooses the best count"))
        self.temperature_box = StillNumberBox()
        self.temperature_box.setRange(0.0, 2.0)
        self.temperature_box.setSingleStep(0.1)
        self.temperature_box.setDecimals(1)
        self.temperature_box.setToolTip(self.tr("0 takes the likeliest token each time"))
        self.adapter_box = StillComboBox(theme)
        self.adapter_box.addItem(self.tr("none"), "")
        self.adapter_box.addItem(self.tr("Open a file …"), None)
        self.adapter_box.activated.connect(self._on_adapter)
        self.strength_box = StillNumberBox()
        self.strength_box.setRange(0.0, MAX_SCALE)
        self.strength_box.setSingleStep(0.05)
        self.strength_box.setDecimals(2)
        self.strength_box.setValue(1.0)
        self.strength_box.setToolTip(self.tr("1 is as it was trained, 0 is without it"))
        for spin in (self.threads_box, self.temperature_box, self.strength_box):
            spin.valueChanged.connect(self.changed)
        self._grid = QGridLayout(self)
        self._parts = [
            self._part(self.tr("KV cache"), self.cache_box),
            self._part(self.tr("Threads"), self.threads_box),
            self._part(self.tr("Temperature"), self.temperature_box),
            self._part(self.tr("Adapter"), self.adapter_box),
            self._part(self.tr("Strength"), self.strength_box),
        ]
        self._show_strength()
        self.set_narrow(is_narrow=False)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def adapter(self) -> str:
        """The path of the adapter; empty for none."""
        return str(self.adapter_box.currentData() or "")

    @property
    def summary(self) -> str:
        """What is not as usual, in some words."""
        setup, words = self.setup(""), []
        if setup.cache != CACHE_TYPES[0]:
            words.append(self.tr("{type} cache").format(type=setup.cache))
        if setup.n_threads:
            threads = self.tr("1 thread") if setup.n_threads == 1 else self.tr("{number} threads")
            words.append(threads.format(number=setup.n_threads))
        if setup.temperature:
            words.append(self.tr("temperature {value}").format(value=self.temperature_box.text()))
        if setup.adapter:
            name = isolated(shortened(Path(setup.adapter).stem, _NAME_CHARS))
            strength = f" × {self.strength_box.text()}" if setup.scale != 1 else ""
            words.append(f"{name}{strength}")
        return " · ".join(words)

    def setup(self, model: str) -> ColumnSetup:
        """Return a model with what is chosen."""
        return ColumnSetup(
            model,
            self.cache_box.currentText(),
            self.temperature_box.value(),
            self.threads_box.value(),
            self.adapter,
            self.strength_box.value(),
        )

    def choose(self, setup: ColumnSetup) -> None:
        """Choose all that is not the model."""
        self.cache_box.setCurrentText(setup.cache)
        self.temperature_box.setValue(setup.temperature)
        self.threads_box.setValue(setup.n_threads)
        self.choose_adapter(setup.adapter)
        self.strength_box.setValue(setup.scale)

    def choose_adapter(self, path: str) -> None:
        """Choose an adapter, empty for none; one that is not offered is added."""
        row = self.adapter_box.findData(path)
        if row < 0:
            row = self.adapter_box.count() - 1
            self.adapter_box.insertItem(row, isolated(shortened(Path(path).stem, _NAME_CHARS)), path)
        self._before = row
        self.adapter_box.setCurrentIndex(row)
        self._show_strength()

    def set_narrow(self, *, is_narrow: bool) -> None:
        """Put the settings into fewer columns where there is little room."""
        for part, spot in zip(self._parts, _NARROW if is_narrow else _WIDE, strict=True):
            self._grid.addWidget(part, spot.row, spot.place, 1, spot.num_places)
        for place in range(3):
            self._grid.setColumnStretch(place, int(place < 2 or not is_narrow))

    def _part(self, title: str, box: QWidget) -> QWidget:
        part = QWidget()
        rows = QVBoxLayout(part)
        rows.setContentsMargins(0, 0, 0, 0)
        label = plain_label(title, role="meta")
        label.setWordWrap(False)
        label.setBuddy(box)
        box.setAccessibleName(title)
        rows.addWidget(label)
        rows.addWidget(box)
        return part

    def _on_adapter(self, row: int) -> None:
        if self.adapter_box.itemData(row) is None:
            self.adapter_box.setCurrentIndex(self._before)
            self._open_file()
            return
        self._before = row
        self._show_strength()
        self.changed.emit()

    def _open_file(self) -> None:
        kinds = f"{self.tr('LoRA adapters')} (*.gguf);;{self.tr('All files')} (*)"
        title = self.tr("Open an adapter")
        ask_for_file(self.window(), title, self._on_file_chosen, kinds=kinds, folder=self._folder)

    def _on_file_chosen(self, path: str) -> None:
        self._folder = str(Path(path).parent)
        self.choose_adapter(path)
        self.changed.emit()

    def _show_strength(self) -> None:
        self._parts[-1].setVisible(bool(self.adapter))
        self.adapter_box.setToolTip(
            tool_tip_text(self.adapter or self.tr("A LoRA adapter that the replies are made with"))
        )

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._grid.setContentsMargins(px(20), px(4), 0, px(4))
        self._grid.setHorizontalSpacing(px(14))
        self._grid.setVerticalSpacing(px(8))
        for part in self._parts:
            layout = part.layout()
            assert layout is not None
            layout.setSpacing(px(3))
        for spin in (self.threads_box, self.temperature_box, self.strength_box):
            spin.lineEdit().setTextMargins(px(6), 0, 0, 0)
            spin.setFixedHeight(px(_BOX))
        for box in (self.cache_box, self.adapter_box):
            box.setFixedHeight(px(_BOX))
