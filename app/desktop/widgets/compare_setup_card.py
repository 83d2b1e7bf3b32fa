"""ColumnCard: the model and the settings of one column that is to be compared."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.session.compare_setup import ColumnSetup, ModelOption
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_lane import SeriesDot
from app.desktop.widgets.compare_setup_settings import ColumnSettings
from app.desktop.widgets.figures import bytes_text
from app.desktop.widgets.file_dialog import ask_for_file
from app.desktop.widgets.fold_section import FoldSection
from app.desktop.widgets.still_combo_box import StillComboBox

_NARROW = 520
_LABEL_CHARS = 70


class ColumnCard(QFrame):
    """See above.

    Signals:
        changed: another model or setting was chosen.
        remove_requested: the column is not wanted.
    """

    changed = Signal()
    remove_requested = Signal()

    def __init__(self, theme: Theme, number: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._options: dict[str, ModelOption] = {}
        self._before = -1
        self._folder = ""
        self.setObjectName("columnCard")
        name = self.tr("Column {number}").format(number=number + 1)
        self.setAccessibleName(name)
        self.model_box = StillComboBox(theme)
        self.model_box.setAccessibleName(self.tr("Model of column {number}").format(number=number + 1))
        self.model_box.activated.connect(self._on_activated)
        self.settings = ColumnSettings(theme)
        self.settings.changed.connect(self._on_settings_changed)
        self.fold = FoldSection(theme, "column", self.tr("Settings"), self.settings)
        self.fold.head.setAccessibleName(self.tr("Settings of column {number}").format(number=number + 1))
        self.fold.set_open(False)
        self.remove_button = GlyphButton(theme, "close", self.tr("Remove this column"), size=28)
        self.remove_button.clicked.connect(self.remove_requested)
        self._top = QHBoxLayout()
        self._top.addWidget(SeriesDot(theme, number))
        self._top.addWidget(self.model_box, 1)
        self._top.addWidget(self.remove_button)
        self._box = QVBoxLayout(self)
        self._box.addLayout(self._top)
        self._box.addWidget(self.fold)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def setup(self) -> ColumnSetup:
        """What is chosen; its model is empty where none is."""
        return self.settings.setup(str(self.model_box.currentData() or ""))

    @property
    def num_bytes(self) -> int:
        """Size of the model's file; 0 where that is not known."""
        option = self._options.get(self.setup.model)
        return option.num_bytes if option is not None else 0

    def show_models(self, options: Sequence[ModelOption]) -> None:
        """Offer these models, and a file of the user's."""
        before = self.setup.model
        own = [option for option in self._options.values() if option.name == before]
        self._options = {option.name: option for option in (*options, *own)}
        self.model_box.clear()
        for option in self._options.values():
            size = f" · {bytes_text(option.num_bytes)}" if option.num_bytes else ""
            self.model_box.addItem(f"{isolated(shortened(option.label, _LABEL_CHARS))}{size}", option.name)
        self.model_box.addItem(self.tr("Open a file …"), None)
        self.choose(before)

    def choose(self, name: str) -> None:
        """Choose a model; one that is not offered is added."""
        if name and name not in self._options:
            option = ModelOption(name, Path(name).stem)
            self._options[name] = option
            self.model_box.insertItem(self.model_box.count() - 1, isolated(shortened(option.label, _LABEL_CHARS)), name)
        self._before = self.model_box.findData(name) if name else (0 if self._options else -1)
        self.model_box.setCurrentIndex(self._before)
        self.model_box.setToolTip(tool_tip_text(name))

    def choose_settings(self, setup: ColumnSetup) -> None:
        """Choose everything."""
        self.choose(setup.model)
        self.settings.choose(setup)
        self._show_summary()

    def set_removable(self, *, is_removable: bool) -> None:
        """Tell whether the column can be taken away."""
        self.remove_button.setVisible(is_removable)

    def fit(self, width: int) -> None:
        """Lay the settings out for a width."""
        self.settings.set_narrow(is_narrow=width < self._theme.px(_NARROW))

    def _on_settings_changed(self) -> None:
        self._show_summary()
        self.changed.emit()

    def _show_summary(self) -> None:
        self.fold.head.set_summary(self.settings.summary)

    def _on_activated(self, index: int) -> None:
        if self.model_box.itemData(index) is None:
            self.model_box.setCurrentIndex(self._before)
            self._open_file()
            return
        self._before = index
        self.model_box.setToolTip(tool_tip_text(self.setup.model))
        self.changed.emit()

    def _open_file(self) -> None:
        kinds = f"{self.tr('GGUF models')} (*.gguf);;{self.tr('All files')} (*)"
        ask_for_file(self.window(), self.tr("Open a model"), self._on_file_chosen, kinds=kinds, folder=self._folder)

    def _on_file_chosen(self, path: str) -> None:
        self._folder = str(Path(path).parent)
        self.choose(path)
        self.changed.emit()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(10), px(8), px(8), px(6))
        self._box.setSpacing(px(2))
        self._top.setSpacing(px(6))
        self.model_box.setMinimumWidth(px(120))
