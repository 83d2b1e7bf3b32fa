"""DocumentChips: the names of the documents that a sent message has before its words."""

from collections.abc import Sequence

from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.figures import bytes_text
from app.document_text import Document

CHIP_HEIGHT = 30  # about, with the space below
_NUM_TIP_LINES, _MAX_TIP_LINE = 8, 100
NUM_TIP_CHARS = _NUM_TIP_LINES * _MAX_TIP_LINE
_PIECE_CHARS = 1 << 16


class DocumentChips(QWidget):
    """One line a document; takes no place where there are none."""

    def __init__(self, theme: Theme, documents: Sequence[Document], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._rows: list[QHBoxLayout] = []
        for item in documents:
            self._box.addWidget(self._chip(item))
        self.setVisible(bool(documents))
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def _chip(self, item: Document) -> QWidget:
        chip = QFrame()
        chip.setObjectName("pasteChip")
        label = ElidedLabel()
        label.setProperty("role", "meta")
        line = document_line(item.name, num_utf8_bytes(item.text))
        label.set_whole(line)
        label.setAccessibleName(self.tr("Document: {what}").format(what=line))
        label.setToolTip(document_tip(item))
        row = QHBoxLayout(chip)
        row.addWidget(label, 1)
        self._rows.append(row)
        return chip

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setSpacing(px(4))
        for row in self._rows:
            row.setContentsMargins(px(10), px(3), px(10), px(3))


def document_line(name: str, num_bytes: int) -> str:
    """Return name and size of a document."""
    return f"{isolated(name)} · {bytes_text(num_bytes)}"


def document_tip(item: Document) -> str:
    """Return how a document begins, as a tool tip."""
    head = item.text[:NUM_TIP_CHARS]
    lines = [shortened(line, _MAX_TIP_LINE) for line in head.split("\n")[:_NUM_TIP_LINES]]
    return tool_tip_text("\n".join([*lines, "…"] if len(item.text) > len(head) else lines))


def num_utf8_bytes(text: str) -> int:
    """Return the bytes of a text; a copy of one that is megabytes takes longer than a frame."""
    if text.isascii():
        return len(text)
    starts = range(0, len(text), _PIECE_CHARS)
    return sum(len(text[start : start + _PIECE_CHARS].encode("utf-8", "surrogatepass")) for start in starts)
