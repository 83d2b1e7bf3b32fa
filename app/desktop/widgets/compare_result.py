"""ResultView: what comes of a comparison: the advice, the joint table, the chart, and what limits all that."""

import math
from collections.abc import Iterable
from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QResizeEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QAbstractItemView,
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QMenu,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.compare.advice import AGREEMENT, Bar
from app.compare.results import MEASURES, Mode
from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.session.compare_outcome import CompareOutcome, OutcomeRow, Value
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_chart import ParetoChart
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.still_combo_box import StillComboBox

_COLUMN = 1240
_MAX_CHARS = 600
_NARROW = 480
_AXES = ("file_bytes", "decode_rate")
_ORDER = Qt.ItemDataRole.UserRole
_USUAL = (
    *("file_bytes", "peak_memory_bytes", "agreement", "decode_rate", "prefill_rate", "ttft_s", "load_s"),
    *("bandwidth_share", "joules_per_token", "cost_per_million_tokens", "num_generated_tokens"),
)


class _Table(QStandardItemModel):
    """Sorts by values; what has none comes last, whichever way."""

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if column < 0:
            return  # as they came
        is_down = order is Qt.SortOrder.DescendingOrder

        def key(row: list[QStandardItem]) -> tuple[bool, Any]:
            value = row[column].data(_ORDER)
            if isinstance(value, float):
                missing = math.isnan(value)
                return (not missing if is_down else missing, 0.0 if missing else value)
            return (False, str(value))

        rows = [self.takeRow(0) for _ in range(self.rowCount())]
        for row in sorted(rows, key=key, reverse=is_down):
            self.appendRow(row)

    def flags(self, index: QModelIndex | QPersistentModelIndex) -> Qt.ItemFlag:
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable


class ResultView(QScrollArea):
    """See above.

    Signals:
        report_requested: a report is to be saved.
        bar_changed: a file has to reach something else to be good enough.
    """

    report_requested = Signal()
    bar_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._outcome: CompareOutcome | None = None
        self._hidden: set[str] = set(MEASURES) - set(_USUAL)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._warning = plain_label(role="problem")
        self._sentence = plain_label(role="headline", is_selectable=True)
        self._evidence = plain_label(role="muted", is_selectable=True)
        self.agreement_spin, self.rate_spin = QSpinBox(), QSpinBox()
        for spin, most, unit, name in (
            (self.agreement_spin, 100, self.tr(" % same words"), self.tr("Least share of the same words")),
            (self.rate_spin, 1000, self.tr(" tok/s"), self.tr("Least tokens a second")),
        ):
            spin.setRange(0, most)
            spin.setSuffix(unit)
            spin.setAccessibleName(name)
            spin.setToolTip(name)
            spin.setKeyboardTracking(False)
            spin.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.agreement_spin.setSpecialValueText(self.tr("any words"))
        self.rate_spin.setSpecialValueText(self.tr("any speed"))
        self.agreement_spin.setValue(round(100 * AGREEMENT))
        self.agreement_spin.valueChanged.connect(self.bar_changed)
        self.rate_spin.valueChanged.connect(self.bar_changed)
        self._heading = plain_label(self.tr("All columns").upper(), role="section")
        self.columns_button = QPushButton(self.tr("Measures"))
        self.columns_button.setProperty("kind", "outline")
        self.columns_button.setToolTip(self.tr("Which measures the table shows"))
        self.columns_button.clicked.connect(self._open_menu)
        self.report_button = QPushButton(self.tr("Save report …"))
        self.report_button.setProperty("kind", "outline")
        self.report_button.clicked.connect(self.report_requested)
        self.table = QTableView()
        self.table.setObjectName("compareTable")
        self.table.setAccessibleName(self.tr("Measures of all columns"))
        self._model = _Table(self)
        self.table.setModel(self._model)
        self._prepare_table()
        self._marks = plain_label(
            self.tr("★ best of its measure   ~ too noisy to say   ± half of the spread of repeats"), role="meta"
        )
        self.x_box, self.y_box = StillComboBox(theme), StillComboBox(theme)
        self.x_box.setAccessibleName(self.tr("Measure across"))
        self.y_box.setAccessibleName(self.tr("Measure upwards"))
        for box in (self.x_box, self.y_box):
            box.activated.connect(self._show_chart)
        self.chart = ParetoChart(theme)
        self._standing = plain_label(role="muted", is_selectable=True)
        self._notes = plain_label(role="muted", is_selectable=True)
        self._build()
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def sentence(self) -> str:
        """What is advised."""
        return self._sentence.text()

    @property
    def evidence(self) -> str:
        """The numbers that say so."""
        return self._evidence.text()

    @property
    def notes(self) -> str:
        """What limits what can be said."""
        return self._notes.text()

    @property
    def warning(self) -> str:
        """What cannot be compared; empty where all can."""
        return "" if self._warning.isHidden() else self._warning.text()

    @property
    def bar(self) -> Bar:
        """What a file has to reach to be good enough."""
        agreement, rate = self.agreement_spin.value(), self.rate_spin.value()
        return Bar(agreement=agreement / 100 if agreement else None, decode_rate=float(rate) if rate else None)

    def cells(self) -> list[list[str]]:
        """Return the table as it is shown."""
        model, header = self._model, self.table.horizontalHeader()
        shown = [place for place in range(model.columnCount()) if not header.isSectionHidden(place)]
        return [[model.item(row, place).text() for place in shown] for row in range(model.rowCount())]

    def show_outcome(self, outcome: CompareOutcome) -> None:
        """Show what came of a comparison."""
        self._outcome = outcome
        mode = outcome.comparison.mode
        self._warning.setVisible(mode is Mode.SAMPLES)
        self._warning.setText(self.tr("The samples were made in one batch: their speed is not that of one reply."))
        self._sentence.setText(isolated(shortened(outcome.sentence, 400)))
        self._sentence.setVisible(bool(outcome.sentence))
        self._evidence.setText(_lines(outcome.evidence))
        self._evidence.setVisible(bool(outcome.evidence))
        self._bar.setVisible(bool(outcome.sentence))
        self._notes.setText(_lines(outcome.notes))
        self._notes.setVisible(bool(outcome.notes))
        safe = [row for row in outcome.rows if row.is_safe_to_delete]
        self._standing.setText(_lines(f"{row.label}: {row.standing}" for row in safe))
        self._standing.setVisible(bool(safe))
        self._fill_table(outcome)
        self._fill_axes(outcome)
        self._show_chart()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._fit()

    def _prepare_table(self) -> None:
        table = self.table
        table.setSortingEnabled(True)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setShowGrid(False)
        table.setTabKeyNavigation(False)
        table.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.verticalHeader().hide()
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        header.setHighlightSections(False)
        header.setSortIndicatorShown(True)

    def _build(self) -> None:
        self._inner = QWidget()
        self._inner.setObjectName("compareBody")
        self._column = QWidget()
        self._box = QVBoxLayout(self._column)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._head_row = QHBoxLayout()
        self._head_row.addWidget(self._heading, 1)
        self._head_row.addWidget(self.columns_button)
        self._head_row.addWidget(self.report_button)
        self._axis_row = QHBoxLayout()
        self._against = plain_label(self.tr("against"), role="muted")
        self._against.setWordWrap(False)
        self._axis_row.addWidget(self.y_box)
        self._axis_row.addWidget(self._against)
        self._axis_row.addWidget(self.x_box)
        self._axis_row.addStretch(1)
        self._bar = QWidget()
        self._bar_row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._bar)
        spins = QHBoxLayout()
        words = plain_label(self.tr("Good enough is at least"), role="muted")
        words.setWordWrap(False)
        self._bar_row.addWidget(words)
        for spin in (self.agreement_spin, self.rate_spin):
            spins.addWidget(spin)
        spins.addStretch(1)
        self._bar_row.addLayout(spins, 1)
        self._trade = plain_label(self.tr("What each costs").upper(), role="section")
        for part in (self._warning, self._sentence, self._evidence, self._bar):
            self._box.addWidget(part)
        self._box.addLayout(self._head_row)
        self._box.addWidget(self.table)
        self._box.addWidget(self._marks)
        self._box.addWidget(self._trade)
        self._box.addLayout(self._axis_row)
        self._box.addWidget(self.chart)
        self._box.addWidget(self._standing)
        self._box.addWidget(self._notes)
        self._box.addStretch(1)
        self._middle = QHBoxLayout(self._inner)
        self._middle.addStretch(1)
        self._middle.addWidget(self._column)
        self._middle.addStretch(1)
        self.setWidget(self._inner)

    def _fill_table(self, outcome: CompareOutcome) -> None:
        self._model.clear()
        titles = [self.tr("Model")]
        titles += [f"{self.tr(MEASURES[name].label)}\n{MEASURES[name].unit}".rstrip() for name in outcome.measures]
        self._model.setHorizontalHeaderLabels(titles)
        for row in outcome.rows:
            self._model.appendRow([self._name_item(row), *(self._item(row, name) for name in outcome.measures)])
        first = self._model.horizontalHeaderItem(0)
        if first is not None:
            first.setTextAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self._show_measures()
        self.table.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self._fit_table()

    def _name_item(self, row: OutcomeRow) -> QStandardItem:
        text = isolated(shortened(row.label, 60))
        if row.error:
            text = self.tr("{name} · failed").format(name=text)
        elif row.is_safe_to_delete:
            text = self.tr("{name} · safe to delete").format(name=text)
        item = QStandardItem(text)
        item.setData(row.label.lower(), _ORDER)
        item.setToolTip(tool_tip_text(row.error or row.standing or row.label))
        return item

    def _item(self, row: OutcomeRow, name: str) -> QStandardItem:
        value = row.values.get(name, Value(None, "–"))
        mark = " ★" if value.is_best else " ~" if value.is_noisy else ""
        item = QStandardItem(f"{value.text}{mark}")
        item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        item.setData(math.nan if value.value is None else value.value, _ORDER)
        words = [MEASURES[name].label, value.text, self.tr("best") if value.is_best else ""]
        item.setAccessibleText(" ".join(word for word in words if word))
        item.setToolTip(tool_tip_text(value.reason))
        return item

    def _fit_table(self) -> None:
        table = self.table
        table.resizeRowsToContents()
        height = table.horizontalHeader().sizeHint().height() + 2 * table.frameWidth()
        height += sum(table.rowHeight(row) for row in range(self._model.rowCount()))
        table.setFixedHeight(height + table.horizontalScrollBar().sizeHint().height())

    def _show_measures(self) -> None:
        if self._outcome is not None:
            for place, name in enumerate(self._outcome.measures, 1):
                self.table.setColumnHidden(place, name in self._hidden)

    def _fill_axes(self, outcome: CompareOutcome) -> None:
        for box, usual in ((self.x_box, _AXES[0]), (self.y_box, _AXES[1])):
            before = box.currentData() or usual
            box.clear()
            for name in outcome.axes:
                box.addItem(self.tr(MEASURES[name].label), name)
            box.setCurrentIndex(max(0, box.findData(before)))
        if self.x_box.currentIndex() == self.y_box.currentIndex() and len(outcome.axes) > 1:
            self.y_box.setCurrentIndex((self.x_box.currentIndex() + 1) % len(outcome.axes))
        has_chart = len(outcome.axes) > 1 and len(outcome.rows) > 1
        for part in (self._trade, self.x_box, self._against, self.y_box, self.chart):
            part.setVisible(has_chart)

    def _show_chart(self) -> None:
        if self._outcome is not None:
            x, y = self.x_box.currentData() or "", self.y_box.currentData() or ""
            self.chart.show_rows(self._outcome.rows, x, y)

    def menu(self) -> QMenu:
        """Return the menu of measures."""
        menu = QMenu(self)
        menu.aboutToHide.connect(menu.deleteLater)
        for name in self._outcome.measures if self._outcome is not None else ():
            action = menu.addAction(self.tr(MEASURES[name].label))
            action.setCheckable(True)
            action.setChecked(name not in self._hidden)
            action.triggered.connect(lambda is_shown, name=name: self._on_measure(name, is_shown))
        return menu

    def _open_menu(self) -> None:
        button = self.columns_button
        self.menu().popup(button.mapToGlobal(button.rect().bottomLeft()))

    def _on_measure(self, name: str, is_shown: bool) -> None:
        self._hidden = self._hidden - {name} if is_shown else self._hidden | {name}
        self._show_measures()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setSpacing(px(10))
        for row in (self._head_row, self._axis_row, self._bar_row):
            row.setSpacing(px(8))
        self._bar_row.setContentsMargins(0, 0, 0, 0)
        for spin in (self.agreement_spin, self.rate_spin):
            spin.setFixedWidth(px(136))
            spin.lineEdit().setTextMargins(px(6), 0, 0, 0)
        self._heading.setContentsMargins(0, px(8), 0, 0)
        self._trade.setContentsMargins(0, px(12), 0, 0)
        self._fit()
        if self._outcome is not None:
            self._fit_table()

    def _fit(self) -> None:
        px = self._theme.px
        margin = px(24 if self.width() > px(560) else 12)
        self._middle.setContentsMargins(margin, px(16), margin, px(24))
        column = min(px(_COLUMN), max(1, self.viewport().width() - 2 * margin))
        self._column.setFixedWidth(column)
        down, beside = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._bar_row.setDirection(down if column < px(_NARROW) else beside)


def _lines(sentences: Iterable[str]) -> str:
    """Return sentences below each other; names of files are in them."""
    return "\n".join(isolated(shortened(sentence, _MAX_CHARS)) for sentence in sentences)
