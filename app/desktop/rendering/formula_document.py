"""Formulas inside a text document: their size and base line, their source when copied or read aloud."""

import dataclasses
import math
from collections.abc import Iterator

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QPainter,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextImageFormat,
)

from app.desktop.rendering.code_anchors import code_of
from app.desktop.rendering.formula_images import FormulaImages, Look
from app.desktop.rendering.formula_names import Formula, formula_of
from app.desktop.theme.theme import Theme

OBJECT = "\ufffc"  # what a document holds in the place of a picture

_X_HEIGHT = 0.475  # of the formula font, in ems
_MIN_SHRINK = 0.6  # a formula that would be smaller than this in its line is shown as source


@dataclasses.dataclass(frozen=True)
class Placement:
    """What a document shows.

    Attributes:
        is_pending: drawings are still to come.
        width: of the widest formula with its indent, had it all the place.
    """

    is_pending: bool = False
    width: float = 0.0


def formula_positions(document: QTextDocument, start: int, end: int) -> Iterator[tuple[int, Formula]]:
    """Yield the position of each formula between two positions, and the formula."""
    block = document.findBlock(start)
    while block.isValid() and block.position() < end:
        pieces = block.begin() if OBJECT in block.text() else block.end()
        while not pieces.atEnd():
            piece = pieces.fragment()
            image = piece.charFormat().toImageFormat() if piece.charFormat().isImageFormat() else None
            formula = formula_of(image.name()) if image is not None else None
            if formula is not None:
                # Neighbours that are equal are one piece.
                for position in range(piece.position(), piece.position() + piece.length()):
                    if start <= position < end:
                        yield position, formula
            pieces += 1
        block = block.next()


def place_formulas(document: QTextDocument, theme: Theme, images: FormulaImages | None, width: int) -> Placement:
    """Give each formula of a document its size and base line; what cannot be drawn becomes its source."""
    is_pending = False
    widest = 0.0
    for position, formula in reversed(list(formula_positions(document, 0, document.characterCount()))):
        cursor = QTextCursor(document)
        cursor.setPosition(position)
        cursor.setPosition(position + 1, QTextCursor.MoveMode.KeepAnchor)
        widest = max(widest, _natural_width(cursor, formula, images))
        if images is None:
            _show_source(cursor, formula, theme)
        elif images.is_pending(formula):
            is_pending = True
            cursor.setCharFormat(_placeholder(cursor.charFormat().toImageFormat(), formula))
        elif not _show_drawing(cursor, formula, theme, images, width):
            _show_source(cursor, formula, theme)
    return Placement(is_pending, widest)


def _em(char_format: QTextCharFormat) -> float:
    return QFontMetricsF(char_format.font()).xHeight() / _X_HEIGHT


def _natural_width(cursor: QTextCursor, formula: Formula, images: FormulaImages | None) -> float:
    outline = images.outline(formula) if images is not None else None
    return _indent(cursor) + outline.width * _em(cursor.charFormat()) if outline is not None else 0.0


def _indent(cursor: QTextCursor) -> float:
    block_format = cursor.blockFormat()
    lists = cursor.currentList()
    num_indents = block_format.indent() + (lists.format().indent() if lists is not None else 0)
    return float(block_format.leftMargin() + num_indents * cursor.document().indentWidth())


def _placeholder(image: QTextImageFormat, formula: Formula) -> QTextImageFormat:
    em = _em(image)
    # A command is about one sign; a line of its own is about two lines high.
    num_signs = min(60, max(1, sum(1 for c in formula.tex if c.isalnum()) // 2))
    image.setWidth(max(1, round(num_signs * em * 0.6)))
    image.setHeight(max(1, round(em * (2.2 if formula.is_display else 1.0))))
    return image


def _show_drawing(cursor: QTextCursor, formula: Formula, theme: Theme, images: FormulaImages, width: int) -> bool:
    outline = images.outline(formula)
    if outline is None:
        return False
    image = cursor.charFormat().toImageFormat()
    metrics = QFontMetricsF(image.font())
    em = metrics.xHeight() / _X_HEIGHT
    free = width - _indent(cursor)
    if width > 0 and outline.width * em > free:
        shrink = free / (outline.width * em)
        if shrink < _MIN_SHRINK:
            return False
        em *= shrink
    ascent, depth = outline.ascent * em, outline.depth * em
    if depth <= metrics.descent():
        image.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
        pad_top, height = 0.0, ascent + metrics.descent()
    else:
        image.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
        difference = depth - ascent + metrics.xHeight() / 2
        pad_top, pad_bottom = max(0.0, difference), max(0.0, -difference)
        height = pad_top + ascent + depth + pad_bottom
    whole = math.ceil(height)
    # What rounding adds goes above the base line, so that it stays where it is.
    pad_top += (whole - height) if depth <= metrics.descent() else (whole - height) / 2
    foreground = image.foreground()
    colour = foreground.color() if foreground.style().value else theme.colour("text")
    look = Look(em, QColor(colour).name()[1:], math.ceil(outline.width * em), whole, pad_top)
    image.setName(look.name(image.name().partition(",")[0]))
    image.setWidth(look.width)
    image.setHeight(look.height)
    cursor.setCharFormat(image)
    return True


def _show_source(cursor: QTextCursor, formula: Formula, theme: Theme) -> None:
    code = QTextCharFormat()
    font = theme.code_font()
    code.setFontFamilies(font.families())
    code.setProperty(QTextCharFormat.Property.FontPixelSize.value, font.pixelSize())
    code.setBackground(theme.colour("code_head"))
    cursor.insertText(formula.source.replace("\n", "\u2028"), code)


def source_text(cursor: QTextCursor) -> str:
    """Return the selection with the source of each formula in its place, and without the links that copy code."""
    text = cursor.selectedText()
    start, end = cursor.selectionStart(), cursor.selectionEnd()
    left_out = [
        range(max(span.start, start), min(span.stop, end)) for span in _copy_links(cursor.document(), start, end)
    ]
    if OBJECT not in text and not left_out:
        return text
    cuts = [(span.start, span.stop, "") for span in left_out if span]
    for position, formula in formula_positions(cursor.document(), start, end):
        if not any(position in span for span in left_out):
            cuts.append((position, position + 1, formula.source))
    units = text.encode("utf-16-le", "surrogatepass")  # Qt counts in them
    pieces = []
    done = start
    for first, last, source in sorted(cuts):
        pieces += [_decoded(units, done - start, first - start), source]
        done = last
    pieces.append(_decoded(units, done - start, end - start))
    return "".join(pieces)


def _decoded(units: bytes, first: int, last: int) -> str:
    return units[2 * first : 2 * last].decode("utf-16-le", "surrogatepass")


def _copy_links(document: QTextDocument, start: int, end: int) -> Iterator[range]:
    """Yield where the lines are that only copy code, each with the line break before it."""
    block = document.findBlock(start)
    while block.isValid() and block.position() < end:
        pieces = block.begin()
        if not pieces.atEnd() and code_of(pieces.fragment().charFormat().anchorHref()) is not None:
            yield range(block.position() - 1, block.position() + block.length() - 1)
        block = block.next()


def paint_selected(painter: QPainter, cursor: QTextCursor, images: FormulaImages, ratio: float, shift: QPointF) -> None:
    """Paint the formulas of a selection once more: Qt veils pictures that are selected."""
    document = cursor.document()
    layout = document.documentLayout()
    for position, _ in formula_positions(document, cursor.selectionStart(), cursor.selectionEnd()):
        block: QTextBlock = document.findBlock(position)
        at = QTextCursor(document)
        at.setPosition(position + 1)
        image_format = at.charFormat().toImageFormat()
        image = images.image(image_format.name(), ratio)
        line = block.layout().lineForTextPosition(position - block.position())
        if image is None or not line.isValid():
            continue
        origin = layout.blockBoundingRect(block).topLeft() + shift
        left = min(float(line.cursorToX(position - block.position() + n)[0]) for n in (0, 1))  # type: ignore[index]
        height = image_format.height()
        if image_format.verticalAlignment() == QTextCharFormat.VerticalAlignment.AlignMiddle:
            ascent = (height + QFontMetricsF(image_format.font()).xHeight() / 2) / 2
        else:
            ascent = height - QFontMetricsF(image_format.font()).descent()
        top = line.y() + line.ascent() - ascent
        painter.drawImage(QRectF(origin.x() + left, origin.y() + top, image_format.width(), height), image)
