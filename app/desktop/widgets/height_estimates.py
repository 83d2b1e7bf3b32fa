"""How high text will be before it is laid out: from its lines and the characters that fit into one."""

import math

from PySide6.QtGui import QFontMetricsF

from app.desktop.rendering.blocks import Block, BlockKind
from app.desktop.rendering.code_display import FOLDED_LINES
from app.desktop.theme.theme import Theme

_SAMPLE = "The quick brown fox jumps over the lazy dog, as it always did before. "
_FENCES = ("```", "~~~")
_MAX_READ_CHARS = 50_000  # of one text; the rest will be like it


class TextMeasures:
    """Estimates heights for one width; shared by all that stands in one column."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._width = 700
        self.update(self._width)

    def update(self, width: int) -> None:
        """Estimate for another width, or another look, from now on."""
        px = self._theme.px
        self._width = width
        advance = QFontMetricsF(self._theme.font(15)).horizontalAdvance(_SAMPLE) / len(_SAMPLE)
        self._line_chars = max(8, int(width / max(advance, 1.0) * 0.96))
        self._line = px(23)
        self._code_line = max(1, math.ceil(QFontMetricsF(self._theme.code_font()).height()))
        self._blank = px(9)
        self._code_frame = px(54)

    def of_length(self, num_chars: int) -> int:
        """Return how high so many characters of running text are."""
        return round(num_chars / self._line_chars * self._line)

    def of_plain(self, text: str) -> int:
        """Return the height of text shown as it is."""
        return self._line * sum(-(-len(line) // self._line_chars) or 1 for line in text.split("\n"))

    def of_source(self, source: str) -> int:
        """Return the height of Markdown."""
        if len(source) > _MAX_READ_CHARS:
            return round(self.of_source(source[:_MAX_READ_CHARS]) * len(source) / _MAX_READ_CHARS)
        height, is_code = 0, False
        per_line, line_height = self._line_chars, self._line
        for line in source.split("\n"):
            if line.lstrip()[:3] in _FENCES:
                is_code = not is_code
                height += self._code_frame // 2
            elif is_code:
                height += self._code_line
            elif line:
                height += line_height * -(-len(line) // per_line)
            else:
                height += self._blank
        return max(height, 1)

    def of_block(self, block: Block, source: str) -> int:
        """Return the height of a block."""
        match block.kind:
            case BlockKind.CODE:
                lines = block.code.count("\n") + 1
                return self._code_line * min(lines, FOLDED_LINES) + self._code_frame
            case BlockKind.TABLE:
                return (self._line + self._theme.px(16)) * max(1, source.count("\n"))
            case _:
                return self.of_source(source.strip("\n"))
