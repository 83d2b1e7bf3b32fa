"""ModelsDelegate: paints the lines of the Models page, in columns where there is room for them."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRect, QSize, Qt
from PySide6.QtGui import QFont, QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from app.desktop.itemmodels.model_list import ModelListModel, shown_name
from app.desktop.itemmodels.model_rows import FileRow, Fit, Line, ModelRow
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import bytes_text, count_text, parameters_text, rate_text
from app.desktop.widgets.sidebar_rows import Index, RowList, mirrored, paint_line, paint_row

ROW_HEIGHT = 48
_PADDING = 12
_INDENT = 14
# Below this width the columns become one line of text.
_WIDE = 600
_COLUMN = 86
_FIT_WIDTH = 150
_DOT = 3.5

FIT_COLOURS = {Fit.FITS: "ok", Fit.TIGHT: "warn", Fit.TOO_LARGE: "error", Fit.UNKNOWN: "muted"}


class ModelsDelegate(QStyledItemDelegate):
    """Paints heads and files."""

    def __init__(self, theme: Theme, model: ModelListModel, parent: RowList) -> None:
        super().__init__(parent)
        self._theme = theme
        self._model = model
        self._list = parent

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """See QStyledItemDelegate."""
        return QSize(self._theme.px(120), self._theme.px(ROW_HEIGHT))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """See QStyledItemDelegate."""
        line = self._model.line(index.row())
        px = self._theme.px
        painter.save()
        inner = option.rect.adjusted(px(_PADDING), 0, -px(_PADDING), 0)
        if line.file is not None:
            paint_row(painter, self._theme, option, is_marked=index.row() == self._list.currentIndex().row())
            self._paint_file(painter, option, inner.adjusted(px(_INDENT), px(5), 0, -px(5)), line.file)
        elif line.model is not None:
            self._paint_model(painter, option, inner, line.model)
        else:
            self._paint_section(painter, option, inner, line)
        painter.restore()

    def _paint_section(self, painter: QPainter, option: QStyleOptionViewItem, box: QRect, line: Line) -> None:
        font = self._theme.font(11, weight=QFont.Weight.DemiBold)
        font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 1)
        painter.setFont(font)
        painter.setPen(self._theme.colour("muted"))
        paint_line(painter, mirrored(option, box.adjusted(0, box.height() // 3, 0, 0)), line.text.upper())

    def _paint_model(self, painter: QPainter, option: QStyleOptionViewItem, box: QRect, model: ModelRow) -> None:
        px = self._theme.px
        box = box.adjusted(0, box.height() // 3, 0, 0)
        painter.setFont(self._theme.font(14, weight=QFont.Weight.DemiBold))
        painter.setPen(self._theme.colour("text"))
        name = shown_name(model.name)
        metrics = painter.fontMetrics()
        width = min(metrics.horizontalAdvance(name) + px(2), box.width())
        paint_line(painter, mirrored(option, QRect(box.left(), box.top(), width, box.height())), name)
        rest = box.adjusted(width + px(10), px(1), 0, 0)
        if rest.width() > px(40):
            painter.setFont(self._theme.font(12))
            painter.setPen(self._theme.colour("muted"))
            paint_line(painter, mirrored(option, rest), self.model_text(model))

    def _paint_file(self, painter: QPainter, option: QStyleOptionViewItem, box: QRect, file: FileRow) -> None:
        px = self._theme.px
        upper = QRect(box.left(), box.top(), box.width(), box.height() // 2)
        lower = QRect(box.left(), upper.bottom() + 1, box.width(), box.height() - upper.height())
        is_wide = box.width() >= px(_WIDE)
        right = self._paint_fit(painter, option, upper, lower, file, is_wide=is_wide)
        upper, lower = upper.adjusted(0, 0, -right, 0), lower.adjusted(0, 0, -(right if is_wide else 0), 0)
        figures = self._figures(file)
        if is_wide and not file.problem:
            painter.setFont(self._theme.font(13))
            painter.setPen(self._theme.colour("text"))
            for number, figure in enumerate(reversed(figures)):
                end = upper.right() - number * px(_COLUMN)
                cell = QRect(end - px(_COLUMN), upper.top(), px(_COLUMN) - px(8), upper.height())
                paint_line(painter, mirrored(option, cell), figure, is_at_end=True)
            upper = upper.adjusted(0, 0, -len(figures) * px(_COLUMN), 0)
            figures = []
        painter.setFont(self._theme.font(13, weight=QFont.Weight.DemiBold))
        painter.setPen(self._theme.colour("text"))
        paint_line(painter, mirrored(option, upper), shown_name(file.label))
        painter.setFont(self._theme.font(12))
        if file.problem:
            painter.setPen(self._theme.colour("warn"))
            paint_line(painter, mirrored(option, lower), isolated(shortened(file.problem, 400)))
            return
        painter.setPen(self._theme.colour("muted"))
        texts = [figure for figure in figures if figure] + self._where(file)
        paint_line(painter, mirrored(option, lower), _joined(texts))

    def _paint_fit(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        upper: QRect,
        lower: QRect,
        file: FileRow,
        *,
        is_wide: bool,
    ) -> int:
        """Paint whether a file fits at the end of its row, and return the width that it takes."""
        px = self._theme.px
        if file.problem:
            return 0
        painter.setFont(self._theme.font(12))
        text = self._model.fit_text(file.fit) if file.can_chat else ""
        width = px(_FIT_WIDTH) if is_wide else painter.fontMetrics().horizontalAdvance(text) + px(18)
        if not text:
            return width if is_wide else 0
        painter.setPen(self._theme.colour(FIT_COLOURS[file.fit]))
        side = QRect(upper.right() - width + 1, upper.top(), width, upper.height())
        start = side if not is_wide else side.adjusted(px(12), 0, 0, 0)
        dot = mirrored(option, QRect(start.left(), start.top(), px(8), start.height())).center()
        paint_line(painter, mirrored(option, start.adjusted(px(14), 0, 0, 0)), text)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(painter.pen().color())
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawEllipse(QPointF(dot) + QPointF(0, 1), px(_DOT), px(_DOT))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if is_wide and file.needed_bytes:
            painter.setPen(self._theme.colour("muted"))
            below = QRect(side.left() + px(26), lower.top(), width - px(26), lower.height())
            needed = self.tr("needs {size}").format(size=bytes_text(file.needed_bytes))
            paint_line(painter, mirrored(option, below), needed)
        return width

    def model_text(self, model: ModelRow) -> str:
        """Return what is said of a model beside its name."""
        parts = [isolated(shortened(model.architecture, 40))] if model.architecture else []
        if model.num_parameters:
            text = self.tr("{count} parameters").format(count=parameters_text(model.num_parameters))
            if model.num_active:
                text = self.tr("{count} parameters, {active} active").format(
                    count=parameters_text(model.num_parameters), active=parameters_text(model.num_active)
                )
            parts.append(text)
        if model.licence:
            parts.append(isolated(shortened(model.licence, 40)))
        return _joined(parts)

    def _figures(self, file: FileRow) -> list[str]:
        """Return size, bits, context and speed; empty where one is not known."""
        bits = self.tr("{bits} bits").format(bits=f"{file.bits_per_weight:.1f}") if file.bits_per_weight else ""
        context = self.tr("{count} ctx").format(count=count_text(file.n_ctx_train)) if file.n_ctx_train else ""
        rate = file.tokens_per_s
        speed = self.tr("~{rate} tok/s").format(rate=rate_text(rate)) if rate is not None and file.can_chat else ""
        return [bytes_text(file.num_bytes), bits, context, speed]

    def _where(self, file: FileRow) -> list[str]:
        texts = [file.kind] if file.kind else []
        if file.num_parts > 1:
            texts.append(self.tr("{count} parts").format(count=file.num_parts))
        if file.place:
            texts.append(isolated(shortened(file.place, 80)))
        if file.also_in:
            places = ", ".join(isolated(shortened(place, 80)) for place in file.also_in)
            texts.append(self.tr("also in {places}").format(places=places))
        return texts


def _joined(parts: Sequence[str]) -> str:
    """Return parts in a row; each reads in its own direction, whatever that of the window."""
    return " · ".join(f"\u2068{part}\u2069" for part in parts)
