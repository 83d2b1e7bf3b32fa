"""ModelsPage: the model files of this computer by model, and what is done with one of them beside or in place of it."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.desktop.itemmodels.model_list import ModelListModel
from app.desktop.itemmodels.model_rows import Line, ModelRow, list_lines
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.theme.theme import Theme
from app.desktop.widgets.escape_key import take_escape
from app.desktop.widgets.models_details import FileDetails
from app.desktop.widgets.models_folders import FolderPanel
from app.desktop.widgets.models_head import ModelsHead
from app.desktop.widgets.models_jobs import JobStrips
from app.desktop.widgets.models_quantise import QuantisePanel
from app.desktop.widgets.models_rows import ModelsDelegate
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.sidebar_rows import RowList

# With less room than this the list and the panel take turns.
_WIDE = 680
_PANEL, _MIN_PANEL = 350, 290
_PANEL_SHARE = 0.4


class ModelsPage(QWidget):
    """The page. It knows rows only; who finds files, and acts on them, is told by signals.

    Signals:
        add_folder_asked: another folder is to be looked into.
        starter_asked: the starter model is to be loaded.
        rescan_asked: the folders are to be looked through again.
        closed: the user is done here.
    """

    add_folder_asked = Signal()
    starter_asked = Signal()
    rescan_asked = Signal()
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._models: Sequence[ModelRow] = ()
        self._is_scanning = False
        self._was_scanned = False
        self._is_panel_open = False
        self._is_filling = False
        self._is_by_mouse = False
        self.setObjectName("modelsPage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(self.tr("Models"))
        self.head = ModelsHead(theme)
        self.search, self.sort = self.head.search, self.head.sort
        self.folders_button, self.rescan_button = self.head.folders_button, self.head.rescan_button
        self.jobs = JobStrips(theme)
        self.list = RowList(theme, self.tr("Models"))
        self.list.setObjectName("modelsList")
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.model = ModelListModel(self)
        self.list.setModel(self.model)
        self.list.setItemDelegate(ModelsDelegate(theme, self.model, self.list))
        self.list.setUniformItemSizes(True)
        self.details = FileDetails(theme)
        self.quantise = QuantisePanel(theme)
        self.folders = FolderPanel(theme)
        self._summary = plain_label(role="meta")
        self._headline, self._lead = plain_label(role="headline"), plain_label(role="muted")
        self.add_button = QPushButton(self.tr("Add a folder …"))
        self.starter_button = QPushButton(self.tr("Use the starter model"))
        self.clear_button = QPushButton(self.tr("Show all"))
        self._build()
        self._connect()
        self.setFocusProxy(self.search)
        self._on_theme_changed()
        self._show_lines()

    @property
    def path(self) -> str:
        """The file that is chosen."""
        return self.model.line(self.list.currentIndex().row()).path

    @property
    def said(self) -> str:
        """What is said in the place of an empty list."""
        return "" if self._middle.isHidden() else f"{self._headline.text()} {self._lead.text()}"

    @property
    def summary(self) -> str:
        """How many models there are."""
        return self._summary.text()

    def show_models(self, models: Sequence[ModelRow]) -> None:
        """Show the models; the chosen file stays chosen while it is there."""
        self._models = models
        self._was_scanned = True
        self._show_lines()

    def show_scanning(self, *, is_scanning: bool) -> None:
        """Say whether the folders are being looked through."""
        self._is_scanning = is_scanning
        self.rescan_button.setEnabled(not is_scanning)
        self._show_middle()

    def choose(self, path: str) -> None:
        """Choose a file, if it is in the list."""
        row = self.model.row_of(path)
        if row >= 0:
            self.list.setCurrentIndex(self.model.index(row))

    def show_panel(self, panel: QWidget, *, takes_focus: bool = True) -> None:
        """Show the details, the folders or the levels to make beside the list, or in its place."""
        self._panels.setCurrentWidget(panel)
        self.folders_button.setChecked(panel is self.folders)
        self._is_panel_open = True
        self._fit()
        if takes_focus and panel is self.details:
            self.details.focus_actions()
        elif takes_focus:
            panel.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_list(self) -> None:
        """Go back to the list."""
        self._panels.setCurrentWidget(self.details)
        self.folders_button.setChecked(False)
        self._is_panel_open = False
        self._fit()
        target: QWidget = self.search if self.list.isHidden() else self.list
        target.setFocus(Qt.FocusReason.OtherFocusReason)

    def event(self, event: QEvent) -> bool:
        """Take the Escape key before the shortcuts of the window do."""
        return take_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go back a step by Escape, and from the search into the list by Down."""
        if event.key() == Qt.Key.Key_Escape:
            self._go_back()
        elif event.key() == Qt.Key.Key_Down and self.search.hasFocus() and not self.list.isHidden():
            self.list.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._fit()

    def _go_back(self) -> None:
        is_alone = self._is_panel_open and not self._is_wide
        if is_alone or self._panels.currentWidget() is not self.details:
            self.show_list()
        elif self.search.text():
            self.search.clear()
        else:
            self.closed.emit()

    def _connect(self) -> None:
        self.head.back_button.clicked.connect(self.closed)
        self.search.textChanged.connect(self._show_lines)
        self.sort.currentIndexChanged.connect(self._show_lines)
        self.folders_button.clicked.connect(self._on_folders)
        self.rescan_button.clicked.connect(self.rescan_asked)
        self.list.pressed.connect(self._on_row_pressed)
        self.list.row_chosen.connect(lambda _: self._on_row_chosen())
        self.list.escaped.connect(self._go_back)
        self.list.left_upwards.connect(self.search.setFocus)
        self.list.customContextMenuRequested.connect(self._on_menu)
        self.list.selectionModel().currentChanged.connect(self._on_current_changed)
        for panel in (self.details, self.quantise, self.folders):
            panel.back_asked.connect(self.show_list)
        self.folders.add_asked.connect(self.add_folder_asked)
        self.add_button.clicked.connect(self.add_folder_asked)
        self.starter_button.clicked.connect(self.starter_asked)
        self.clear_button.clicked.connect(self.search.clear)
        self._theme.changed.connect(self._on_theme_changed)

    def _build(self) -> None:
        self._middle = self._new_middle()
        self._left = QWidget()
        left = QVBoxLayout(self._left)
        left.setContentsMargins(0, 0, 0, 0)
        self._left_box = left
        left.addWidget(self.jobs)
        left.addWidget(self._summary)
        left.addWidget(self.list, 1)
        left.addWidget(self._middle, 1)
        self._panels = QStackedWidget()
        self._panels.setObjectName("modelPanels")
        for panel in (self.details, self.quantise, self.folders):
            panel.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
            self._panels.addWidget(panel)
        body = QHBoxLayout()
        body.setContentsMargins(0, 0, 0, 0)
        body.setSpacing(0)
        body.addWidget(self._left, 1)
        body.addWidget(self._panels)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self.head)
        outer.addLayout(body, 1)

    def _new_middle(self) -> QWidget:
        middle = QWidget()
        self._middle_box = box = QVBoxLayout(middle)
        box.addStretch(1)
        for label in (self._headline, self._lead):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            box.addWidget(label)
        row = QHBoxLayout()
        row.addStretch(1)
        for button in (self.add_button, self.starter_button, self.clear_button):
            button.setProperty("kind", "outline")
            row.addWidget(button)
        self.add_button.setProperty("kind", "primary")
        row.addStretch(1)
        box.addLayout(row)
        box.addStretch(2)
        return middle

    def _show_lines(self) -> None:
        path, row = self.path, self.list.currentIndex().row()
        order = self.sort.currentData()
        lines = list_lines(self._models, search=self.search.text(), sort=order)
        self._is_filling = True
        self.model.set_lines(lines)
        kept = self.model.row_of(path)
        if kept < 0:
            kept = _nearest_file(lines, row)
        if kept >= 0 and kept != self.list.currentIndex().row():
            self.list.setCurrentIndex(self.model.index(kept))
        self._is_filling = False
        self._show_current()
        self._show_middle()
        self._say_summary(lines)

    def _say_summary(self, lines: Sequence[Line]) -> None:
        num_files = sum(line.file is not None for line in lines)
        num_models = sum(line.file is None and line.model is not None for line in lines)
        text = self.tr("{models} models, {files} files") if num_models != 1 else self.tr("1 model, {files} files")
        if num_models == num_files == 1:
            text = self.tr("1 model, 1 file")
        self._summary.setText(text.format(models=f"{num_models:,}", files=f"{num_files:,}"))
        self._summary.setVisible(bool(lines))

    def _show_middle(self) -> None:
        is_empty = self.model.rowCount() == 0
        is_searched = is_empty and bool(self._models)
        self.list.setVisible(not is_empty)
        self._middle.setVisible(is_empty)
        can_begin = is_empty and not is_searched and not self._is_scanning
        self.add_button.setVisible(can_begin)
        self.starter_button.setVisible(can_begin)
        self.clear_button.setVisible(is_searched)
        if is_searched:
            text = isolated(shortened(self.search.text(), 60))
            self._headline.setText(self.tr("Nothing matches"))
            self._lead.setText(self.tr("No model, file or folder is called “{text}”.").format(text=text))
        elif self._is_scanning:
            self._headline.setText(self.tr("Looking for models"))
            self._lead.setText(self.tr("Files are read where they lie; nothing is copied or changed."))
        elif self._was_scanned:
            self._headline.setText(self.tr("No models yet"))
            self._lead.setText(
                self.tr("Add a folder that holds .gguf files, or begin with the small model that comes with Fireside.")
            )
        else:
            self._headline.setText("")
            self._lead.setText("")
        self._fit()

    def _show_current(self) -> None:
        line = self.model.line(self.list.currentIndex().row())
        self.details.show_file(line.model if line.file is not None else None, line.file)

    def _on_current_changed(self) -> None:
        self.list.viewport().update()
        if self._is_filling:  # nobody has chosen anything
            return
        if self._panels.currentWidget() is not self.details:
            self._panels.setCurrentWidget(self.details)
            self.folders_button.setChecked(False)
        self._show_current()

    def _on_row_pressed(self) -> None:
        self._is_by_mouse = True

    def _on_row_chosen(self) -> None:
        is_by_mouse, self._is_by_mouse = self._is_by_mouse, False
        if self.path:
            # Whoever clicks goes on in the list, where that is still seen.
            self.show_panel(self.details, takes_focus=not (is_by_mouse and self._is_wide))

    def _on_menu(self, place: QPoint) -> None:
        index = self.list.indexAt(place)
        if self.list.is_row(index.row()):
            self.list.setCurrentIndex(index)
            self.details.menu().popup(self.list.viewport().mapToGlobal(place))

    def _on_folders(self, is_open: bool) -> None:
        if is_open:
            self.show_panel(self.folders)
        else:
            self.show_list()

    @property
    def _is_wide(self) -> bool:
        return self.width() >= self._theme.px(_WIDE)

    def _fit(self) -> None:
        px = self._theme.px
        is_wide = self._is_wide
        beside = min(max(round(self.width() * _PANEL_SHARE), px(_MIN_PANEL)), px(_PANEL))
        self._panels.setFixedWidth(beside if is_wide else max(self.width(), 1))
        has_panel = self._is_panel_open or (is_wide and not self.list.isHidden())
        self._panels.setVisible(has_panel)
        self._left.setVisible(is_wide or not self._is_panel_open)
        for panel in (self.details, self.quantise, self.folders):
            panel.set_alone(is_alone=not is_wide or panel is not self.details)
        for label in (self._headline, self._lead):
            label.setMinimumWidth(1)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._left_box.setContentsMargins(px(12), px(8), px(12), px(8))
        self._left_box.setSpacing(px(4))
        self._summary.setContentsMargins(px(12), px(4), 0, px(2))
        self._middle_box.setContentsMargins(px(16), px(16), px(16), px(16))
        self._middle_box.setSpacing(px(10))
        self.list.scheduleDelayedItemsLayout()
        self._fit()


def _nearest_file(lines: Sequence[Line], row: int) -> int:
    """Return the row of the file that is nearest to a row that has gone."""
    files = [number for number, line in enumerate(lines) if line.file is not None]
    return min(files, key=lambda number: abs(number - max(row, 0)), default=-1)
