"""FormulaImages: the drawings of formulas, made one after the other beside the window's thread and kept."""

import collections
import dataclasses
import functools
from collections.abc import Callable

from PySide6.QtCore import QByteArray, QObject, QRectF, QTimer, Signal
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from app.desktop.bridge.background import Background
from app.desktop.rendering.formula_names import Formula, formula_of
from app.desktop.rendering.formula_outline import COLOUR, Outline, draw_outline

_MAX_OUTLINES = 2_000
_MAX_IMAGES = 400
_MAX_SIDE = 8_000
_BATCH_MS = 30  # a document takes in the drawings of this time together


@dataclasses.dataclass(frozen=True)
class Look:
    """How a formula is painted.

    Attributes:
        em: size in device-independent pixels.
        colour: six hexadecimal digits; the name is read as an address, in which some signs have a meaning.
        width, height: of the picture, in device-independent pixels.
        pad_top: empty pixels that bring the base line to that of the text.
    """

    em: float
    colour: str
    width: int
    height: int
    pad_top: float

    def name(self, formula: str) -> str:
        """Return the resource name of a formula in this look."""
        return f"{formula},{self.em:.3f},{self.colour},{self.width},{self.height},{self.pad_top:.3f}"

    @classmethod
    def of_name(cls, name: str) -> "Look | None":
        """Return the look of a resource name, None where it has none."""
        parts = name.split(",")
        if len(parts) != 6:
            return None
        try:
            return cls(float(parts[1]), parts[2], int(parts[3]), int(parts[4]), float(parts[5]))
        except ValueError:
            return None


class FormulaImages(QObject):
    """Keeps what was drawn; one instance serves all documents.

    Signals:
        drawn: formulas that were asked for before can be shown now, or are known to be undrawable.
    """

    drawn = Signal()

    def __init__(
        self, background: Background, draw: Callable[..., Outline | None] = draw_outline, parent: QObject | None = None
    ) -> None:
        super().__init__(parent or background)
        self._background = background
        self._draw = draw
        self._outlines: collections.OrderedDict[Formula, Outline | None] = collections.OrderedDict()
        self._images: collections.OrderedDict[tuple[str, float], QImage] = collections.OrderedDict()
        self._waiting: dict[Formula, None] = {}
        self._drawing: Formula | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_BATCH_MS)
        self._timer.timeout.connect(self.drawn)

    def is_pending(self, formula: Formula) -> bool:
        """Tell whether the drawing is still to come; the first question begins it."""
        if formula in self._outlines:
            return False
        if formula is not self._drawing and formula != self._drawing:
            self._waiting[formula] = None
            self._draw_next()
        return True

    def outline(self, formula: Formula) -> Outline | None:
        """Return the drawing, None while it is pending or where it cannot be drawn."""
        found = self._outlines.get(formula)
        if found is not None:
            self._outlines.move_to_end(formula)
        return found

    def image(self, name: str, ratio: float) -> QImage | None:
        """Return what a document shows for a resource name with a look."""
        key = (name, ratio)
        image = self._images.get(key)
        if image is not None:
            self._images.move_to_end(key)
            return image
        look, formula = Look.of_name(name), formula_of(name)
        outline = self.outline(formula) if formula is not None else None
        if look is None or outline is None:
            return None
        image = _paint(outline, look, ratio)
        self._images[key] = image
        if len(self._images) > _MAX_IMAGES:
            self._images.popitem(last=False)
        return image

    def _draw_next(self) -> None:
        if self._drawing is not None or not self._waiting:
            return
        self._drawing = formula = next(iter(self._waiting))
        del self._waiting[formula]
        self._background.run(
            functools.partial(self._draw, formula.tex, is_display=formula.is_display),
            functools.partial(self._keep, formula),
            lambda error: self._keep(formula, None),
        )

    def _keep(self, formula: Formula, outline: Outline | None) -> None:
        self._drawing = None
        self._outlines[formula] = outline
        if len(self._outlines) > _MAX_OUTLINES:
            self._outlines.popitem(last=False)
        if not self._waiting:
            self._timer.stop()
            self.drawn.emit()
        elif not self._timer.isActive():
            self._timer.start()
        self._draw_next()


def _paint(outline: Outline, look: Look, ratio: float) -> QImage:
    width = min(_MAX_SIDE, max(1, round(look.width * ratio)))
    height = min(_MAX_SIDE, max(1, round(look.height * ratio)))
    image = QImage(width, height, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(ratio)
    image.fill(QColor(0, 0, 0, 0))
    svg = outline.svg.replace(COLOUR, f"#{look.colour}")
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    size = QRectF(0, look.pad_top, outline.width * look.em, (outline.ascent + outline.depth) * look.em)
    QSvgRenderer(QByteArray(svg.encode())).render(painter, size)
    painter.end()
    return image
