"""Draws one formula as an SVG; runs beside the window's thread, one call at a time.

The library that draws is imported by the first call, never at start-up.
"""

import dataclasses
import sys
import time
from types import FrameType

EM = 32.0  # pixels of an em in the drawing
COLOUR = "#010203"  # stands for the colour of the text

_MARGIN = 1.0  # letters lean out of their boxes
_MAX_SVG_CHARS = 100_000  # more would take long to paint
_MAX_S = 2.0
_LIBRARIES = ("ziamath", "ziafont", "latex2mathml")
_QUICK_CHARS = 120
_QUICK_GROUPS = 4


@dataclasses.dataclass(frozen=True)
class Outline:
    """A drawn formula.

    Attributes:
        svg: with COLOUR as its colour.
        width, ascent, depth: in ems, the last two from the base line.
    """

    svg: str
    width: float
    ascent: float
    depth: float


class FormulaTooSlow(Exception):
    """Drawing took longer than a reader would wait."""


def draw_outline(tex: str, *, is_display: bool) -> Outline | None:
    """Return the drawing of `tex`, None where it cannot be drawn; `tex` has to be of the supported subset."""
    import ziamath

    ziamath.config.svg2 = False  # QtSvg does not place the shared letters of the newer form
    is_quick = len(tex) <= _QUICK_CHARS and tex.count("{") <= _QUICK_GROUPS
    if not is_quick:
        sys.settrace(_stop_after(time.monotonic() + _MAX_S))
    try:
        formula = ziamath.Latex(tex, size=EM, inline=not is_display, margin=_MARGIN, color=COLOUR)
        svg = formula.svg()
    except Exception:  # the library raises whatever its parser stumbles over; the source is shown then
        return None
    finally:
        if not is_quick:
            sys.settrace(None)
    if len(svg) > _MAX_SVG_CHARS:
        return None
    box = formula.node.bbox
    return Outline(
        svg=svg,
        width=(box.xmax - box.xmin + 2 * _MARGIN) / EM,
        ascent=(box.ymax + _MARGIN) / EM,
        depth=(-box.ymin + _MARGIN) / EM,
    )


def _stop_after(end: float):  # type: ignore[no-untyped-def]
    """Return a trace function that ends this thread's work at `end`: nesting can make the work explode."""

    def watch(frame: FrameType, event: str, argument: object) -> None:
        # Only in the libraries' own calls: in one that the interpreter makes meanwhile it would be swallowed.
        is_drawing = str(frame.f_globals.get("__name__", "")).partition(".")[0] in _LIBRARIES
        if is_drawing and time.monotonic() > end:
            raise FormulaTooSlow

    return watch
