"""HitList: what a search over all chats found, by chat, with the places marked."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QTextCharFormat, QTextLayout, QTextOption
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.desktop.itemmodels.chat_list import shown_title
from app.desktop.rendering.plain import has_visible_text, shortened
from app.desktop.theme.theme import Theme
from app.desktop.widgets.sidebar_rows import Index, RowList, mirrored, paint_row, side_of_window
from app.store import Hit

Spans = Sequence[tuple[int, int]]

_PADDING = 10
_INDENT = 18
_TITLE_HEIGHT = 30
_LINE_HEIGHT = 18
_NUM_LINES = 2
_MAX_TITLE = 300
_KEPT_BEFORE = 20  # characters before the first place, which has to be in view
_MANY_CHARS = 60  # are more than one line in any font

# What turns text round must not turn what stands beside it, and each character keeps its place.
_NEUTRAL = dict.fromkeys(map(ord, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\n\r\u2028\u2029"), "\u200b")


class HitLine(NamedTuple):
    """One line of the answer.

    Attributes:
        node_id: None for the title of a chat.
        spans: start and length in `text` of each place, in characters.
        is_thinking: found in the thinking of a reply.
    """

    chat_id: str
    node_id: str | None
    text: str
    spans: Spans = ()
    is_thinking: bool = False


def hit_lines(hits: Sequence[Hit]) -> list[HitLine]:
    """Return the lines for some hits: under the title of each chat what was found in it."""
    titles: dict[str, HitLine] = {}
    found: dict[str, list[HitLine]] = {}
    for hit in hits:
        if hit.chat_id not in titles:
            titles[hit.chat_id] = HitLine(hit.chat_id, None, _title(hit.title))
            found[hit.chat_id] = []
        if hit.node_id is None:
            titles[hit.chat_id] = HitLine(hit.chat_id, None, hit.excerpt.translate(_NEUTRAL), hit.spans)
        else:
            text, spans = _from_first_place(hit.excerpt.translate(_NEUTRAL), hit.spans)
            found[hit.chat_id].append(HitLine(hit.chat_id, hit.node_id, text, spans, hit.field == "thinking"))
    return [line for chat_id, title in titles.items() for line in (title, *found[chat_id])]


def utf16_spans(text: str, spans: Spans) -> list[tuple[int, int]]:
    """Return spans of characters as spans of the units in which Qt counts: two for a character beyond U+FFFF."""
    if text.isascii():
        return list(spans)
    return [(_num_units(text[:start]), _num_units(text[start : start + length])) for start, length in spans]


def _num_units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def _title(title: str) -> str:
    return shortened(title, _MAX_TITLE).translate(_NEUTRAL) if has_visible_text(title) else shown_title("")


def _from_first_place(text: str, spans: Spans) -> tuple[str, Spans]:
    first = spans[0][0] if spans else 0
    if first <= _KEPT_BEFORE:
        return text, spans
    begin = first - _KEPT_BEFORE
    space = text.find(" ", begin, first)
    begin = space + 1 if space >= 0 else begin
    return "…" + text[begin:], [(start - begin + 1, length) for start, length in spans]


class _HitModel(QAbstractListModel):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._lines: Sequence[HitLine] = ()

    def line(self, row: int) -> HitLine:
        return self._lines[row]

    def set_lines(self, lines: Sequence[HitLine]) -> None:
        self.beginResetModel()
        self._lines = lines
        self.endResetModel()

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex | None = None) -> int:
        return len(self._lines) if parent is None or not parent.isValid() else 0

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        line = self._lines[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return line.text
        if role == Qt.ItemDataRole.AccessibleTextRole:
            if line.node_id is None:
                return self.tr("Chat: {title}").format(title=line.text)
            return self.tr("In the thinking: {text}").format(text=line.text) if line.is_thinking else line.text
        return None


class _HitDelegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, hits: _HitModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._hits = hits
        # Of what was painted, by row and width: laying out anew costs more than painting.
        self._layouts: dict[tuple[int, int], QTextLayout] = {}
        self._metrics = QFontMetrics(theme.font(12))
        theme.changed.connect(self.forget)

    def forget(self) -> None:
        """Lay everything out anew."""
        self._layouts.clear()
        self._metrics = QFontMetrics(self._theme.font(12))

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        px = self._theme.px
        line = self._hits.line(index.row())
        if line.node_id is None:
            return QSize(px(60), px(_TITLE_HEIGHT))
        view = self.parent()
        room = (view.viewport().width() if isinstance(view, RowList) else 0) - px(_INDENT + _PADDING)
        is_long = len(line.text) > _MANY_CHARS
        if not is_long:
            is_long = self._metrics.horizontalAdvance(line.text) > room
        return QSize(px(60), px(_LINE_HEIGHT) * (_NUM_LINES if is_long else 1) + px(8))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        px = self._theme.px
        line = self._hits.line(index.row())
        is_title = line.node_id is None
        painter.save()
        paint_row(painter, self._theme, option)
        box = option.rect.adjusted(px(_PADDING if is_title else _INDENT), 0, -px(_PADDING), 0)
        box = mirrored(option, box)
        painter.setPen(self._theme.colour("text" if is_title else "muted"))
        key = index.row(), box.width()
        if key not in self._layouts:
            self._layouts[key] = self._laid_out(line, box.width())
        layout = self._layouts[key]
        height = px(_LINE_HEIGHT)
        top = box.top() + (box.height() - layout.lineCount() * height) / 2
        layout.draw(painter, QPointF(box.left(), top))
        painter.restore()

    def _laid_out(self, line: HitLine, width: int) -> QTextLayout:
        """Lay the text out in as many lines as it may have, the last one cut."""
        is_title = line.node_id is None
        num_lines = 1 if is_title else _NUM_LINES
        font = self._theme.font(13 if is_title else 12)
        font.setWeight(QFont.Weight.DemiBold if is_title else QFont.Weight.Normal)
        font.setItalic(line.is_thinking)
        metrics = QFontMetrics(font)
        text = line.text
        if num_lines == 1:
            text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
        elif metrics.horizontalAdvance(text) > width:
            num_units = _num_units_in_first_line(text, font, width)
            # In units, as Qt counts, not in characters.
            units = text.encode("utf-16-le", "surrogatepass")
            first = units[: 2 * num_units].decode("utf-16-le", "replace")
            rest = units[2 * num_units :].decode("utf-16-le", "replace")
            text = first + metrics.elidedText(rest, Qt.TextElideMode.ElideRight, width - 2)
        layout = QTextLayout(text, font)
        layout.setTextOption(_text_option())
        layout.setFormats(self._formats(line, text))
        layout.beginLayout()
        height = self._theme.px(_LINE_HEIGHT)
        for number in range(num_lines):
            at = layout.createLine()
            if not at.isValid():
                break
            at.setLineWidth(width)
            at.setPosition(QPointF(0, number * height + (height - at.height()) / 2))
        layout.endLayout()
        return layout

    def _formats(self, line: HitLine, text: str) -> list[QTextLayout.FormatRange]:
        marked = QTextCharFormat()
        marked.setBackground(self._theme.colour("selection"))
        marked.setForeground(self._theme.colour("text"))
        num_kept = _num_units(text) - text.endswith("…")
        formats = []
        for start, length in utf16_spans(line.text, line.spans):
            if start < num_kept:
                place = QTextLayout.FormatRange()
                place.start, place.length, place.format = start, min(length, num_kept - start), marked
                formats.append(place)
        return formats


def _text_option() -> QTextOption:
    option = QTextOption(side_of_window())
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
    return option


def _num_units_in_first_line(text: str, font: QFont, width: int) -> int:
    layout = QTextLayout(text, font)
    layout.setTextOption(_text_option())
    layout.beginLayout()
    line = layout.createLine()
    line.setLineWidth(width)
    layout.endLayout()
    return line.textLength()


class HitList(RowList):
    """The list of hits.

    Signals:
        hit_chosen: chat, and the message or None for the chat itself.
    """

    hit_chosen = Signal(str, object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "", parent)
        self.setAccessibleName(self.tr("Search results"))
        self._hits = _HitModel(self)
        self.setModel(self._hits)
        self._delegate = _HitDelegate(theme, self._hits, self)
        self.setItemDelegate(self._delegate)
        self.row_chosen.connect(self._on_row_chosen)

    def show_hits(self, hits: Sequence[Hit]) -> None:
        """Show what was found."""
        self._delegate.forget()
        self._hits.set_lines(hit_lines(hits))
        self.scrollToTop()

    def _on_row_chosen(self, row: int) -> None:
        line = self._hits.line(row)
        self.hit_chosen.emit(line.chat_id, line.node_id)
