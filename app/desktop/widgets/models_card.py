"""ModelCard: what a model file holds: the most important, all metadata, the tensors, the chat template."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.desktop.itemmodels.model_list import shown_name
from app.desktop.itemmodels.model_rows import Inspection, TensorRow
from app.desktop.itemmodels.text_table import TextTable
from app.desktop.rendering.plain import isolated, shortened, visible
from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import bytes_text, count_text
from app.desktop.widgets.models_details import breakable
from app.desktop.widgets.plain_label import plain_label

_WIDTH, _HEIGHT = 640, 620
_MAX_CELL = 400
_MAX_LICENCE = 4_000
_MAX_TEMPLATE = 100_000


class ModelCard(QDialog):
    """Shows one file as it was read; Esc closes it.

    Args:
        name: of the model and its level.
    """

    def __init__(self, theme: Theme, name: str, inspection: Inspection, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("detailsCard")
        self.setWindowTitle(shown_name(name))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.tabs: dict[str, QPushButton] = {}
        self._pages = QStackedWidget()
        self._group = QButtonGroup(self)
        self._tab_row = QHBoxLayout()
        self._overview = self._new_overview(inspection)
        self._add("overview", self.tr("Overview"), self._overview)
        self.metadata = self._new_table(
            self.tr("Metadata"),
            (self.tr("Key"), self.tr("Value")),
            [(_cell(fact.label), _cell(fact.value)) for fact in inspection.metadata],
            widths=(250, 0),
        )
        self._add("metadata", self.tr("Metadata"), self.metadata)
        self.tensors = self._new_table(
            self.tr("Tensors"),
            (self.tr("Name"), self.tr("Type"), self.tr("Shape"), self.tr("Size")),
            [(_cell(row.name), row.type_name, row.shape, bytes_text(row.num_bytes)) for row in inspection.tensors],
            widths=(0, 80, 130, 90),  # 0 takes what the others leave
            at_end=(3,),
        )
        self._add("tensors", self.tr("Tensors"), self.tensors)
        self._add("template", self.tr("Chat template"), self._new_template(inspection.template))
        self._tab_row.addStretch(1)
        self.close_button = QPushButton(self.tr("Close"))
        self.close_button.setProperty("kind", "outline")
        self.close_button.setAutoDefault(False)
        self.close_button.clicked.connect(self.close)
        px = theme.px
        self._tab_row.setSpacing(px(4))
        self._tab_row.setContentsMargins(px(16), px(12), px(16), px(8))
        foot = QHBoxLayout()
        foot.setContentsMargins(px(20), px(10), px(20), px(14))
        foot.addStretch(1)
        foot.addWidget(self.close_button)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addLayout(self._tab_row)
        outer.addWidget(self._pages, 1)
        outer.addLayout(foot)
        room = self.screen().availableSize() * 0.85
        if parent is not None:
            room = room.boundedTo(parent.window().size())
        self.resize(min(px(_WIDTH), room.width()), min(px(_HEIGHT), room.height()))
        self.show_tab("overview")
        self.tabs["overview"].setFocus()

    def show_tab(self, name: str) -> None:
        """Show one of the tabs."""
        self.tabs[name].setChecked(True)
        self._pages.setCurrentIndex(list(self.tabs).index(name))

    @property
    def texts(self) -> list[str]:
        """What the overview says."""
        return [label.text() for label in self._overview.findChildren(QLabel)]

    def _add(self, name: str, label: str, page: QWidget) -> None:
        button = QPushButton(label)
        button.setCheckable(True)
        button.setAutoDefault(False)
        button.setProperty("kind", "small")
        button.clicked.connect(lambda: self.show_tab(name))
        self.tabs[name] = button
        self._group.addButton(button)
        self._tab_row.addWidget(button)
        self._pages.addWidget(page)

    def _new_overview(self, inspection: Inspection) -> QWidget:
        px = self._theme.px
        body = QWidget()
        body.setObjectName("detailsBody")
        box = QVBoxLayout(body)
        box.setContentsMargins(px(20), px(8), px(20), px(8))
        box.setSpacing(px(14))
        facts = QGridLayout()
        facts.setHorizontalSpacing(px(16))
        facts.setVerticalSpacing(px(5))
        facts.setColumnStretch(1, 1)
        for row, fact in enumerate(inspection.facts):
            text = _cell(fact.value)
            is_path = "/" in text or "\\" in text
            value = plain_label(breakable(text) if is_path else text, is_selectable=True)
            value.setAccessibleName(f"{fact.label}: {fact.value}")
            facts.addWidget(plain_label(fact.label, role="muted"), row, 0, Qt.AlignmentFlag.AlignTop)
            facts.addWidget(value, row, 1)
        box.addLayout(facts)
        types = types_of(inspection.tensors)
        if types:
            box.addWidget(_section(self.tr("Tensors by type")))
            box.addLayout(self._new_types(types))
        if inspection.licence:
            box.addWidget(_section(self.tr("Licence")))
            licence = visible(shortened(inspection.licence, _MAX_LICENCE))
            box.addWidget(plain_label(licence, is_selectable=True))
        box.addStretch(1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setAccessibleName(self.tr("Overview"))
        area.setWidget(body)
        return area

    def _new_types(self, types: Sequence[tuple[str, int, int]]) -> QGridLayout:
        px = self._theme.px
        grid = QGridLayout()
        grid.setHorizontalSpacing(px(20))
        grid.setVerticalSpacing(px(4))
        grid.setColumnStretch(3, 1)
        for row, (name, count, num_bytes) in enumerate(types):
            counted = self.tr("1 tensor") if count == 1 else self.tr("{count} tensors").format(count=count_text(count))
            texts = (name, counted, bytes_text(num_bytes))
            for column, text in enumerate(texts):
                label = plain_label(text)
                label.setWordWrap(False)
                side = Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft
                grid.addWidget(label, row, column, side)
        return grid

    def _new_table(
        self,
        label: str,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        widths: Sequence[int],
        at_end: Sequence[int] = (),
    ) -> QTableView:
        px = self._theme.px
        table = QTableView()
        table.setObjectName("modelTable")
        table.setModel(TextTable(heads, rows, at_end=at_end, parent=table))
        table.setAccessibleName(label)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setTabKeyNavigation(False)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.verticalHeader().hide()
        table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        table.verticalHeader().setDefaultSectionSize(px(26))
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        for column, width in enumerate(widths):
            header.resizeSection(column, px(width))
        header.setSectionResizeMode(widths.index(0), QHeaderView.ResizeMode.Stretch)
        return table

    def _new_template(self, template: str) -> QWidget:
        edit = QPlainTextEdit(visible(shortened(template, _MAX_TEMPLATE)))
        edit.setObjectName("modelTemplate")
        edit.setReadOnly(True)
        edit.setTabChangesFocus(True)
        edit.setAccessibleName(self.tr("Chat template"))
        edit.setPlaceholderText(self.tr("This file has no chat template."))
        edit.setFont(self._theme.code_font())
        return edit


def types_of(tensors: Sequence[TensorRow]) -> list[tuple[str, int, int]]:
    """Return name, number of tensors and bytes of each type, the one with most bytes first."""
    sums: dict[str, tuple[int, int]] = {}
    for tensor in tensors:
        count, num_bytes = sums.get(tensor.type_name, (0, 0))
        sums[tensor.type_name] = count + 1, num_bytes + tensor.num_bytes
    return sorted(((name, *both) for name, both in sums.items()), key=lambda each: (-each[2], each[0]))


def _cell(text: str) -> str:
    return isolated(visible(shortened(text, _MAX_CELL)))


def _section(title: str) -> QLabel:
    return plain_label(title.upper(), role="section")
