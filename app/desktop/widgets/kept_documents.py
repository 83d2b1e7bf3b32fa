"""KeptDocuments: what was read ahead and is kept under a name, with the button that forgets it."""

from collections.abc import Sequence

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.figures import bytes_text, tokens_text
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.scrolled_rows import ScrolledRows
from engine import CacheDescribed, CacheSource, KeptPrompt

_MAX_ROWS, _MAX_NAME = 5, 120
_ROWS_AT_ONCE = 4  # a row takes most of a millisecond to make


class KeptDocuments(QWidget):
    """One line a name; takes no place where there are none.

    Signals:
        forget_requested: the name that is not to be kept any more.
    """

    forget_requested = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._lines: dict[str, str] = {}  # by name
        self._rest: list[str] = []  # names that have no row yet
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._add_rows)
        self.rows = ScrolledRows(theme)
        self.rows.set_max_rows(_MAX_ROWS)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.addWidget(plain_label(self.tr("Read ahead and kept"), role="muted"))
        self._box.addWidget(self.rows)
        self.hide()

    def show_kept(self, described: CacheDescribed | None) -> None:
        """Show what is kept; None while no engine tells."""
        kept: dict[str, list[KeptPrompt]] = {}
        for item in described.kept if described is not None else ():
            if item.name:
                kept.setdefault(item.name, []).append(item)
        lines = {name: self._line(name, items) for name, items in kept.items()}
        if lines != self._lines:
            self._lines = lines
            self.restyle()
        self.setVisible(bool(kept))

    def set_inset(self, width: int) -> None:
        """End this much before the right end of the page, where its controls end."""
        self._box.setContentsMargins(0, 0, width, 0)

    def restyle(self) -> None:
        """Take the sizes of the theme."""
        self._box.setSpacing(self._theme.px(4))
        self._rest = list(self._lines)
        self.rows.set_rows(self._next_rows())

    def _add_rows(self) -> None:
        self.rows.add_rows(self._next_rows())

    def _next_rows(self) -> list[QWidget]:
        names, self._rest = self._rest[:_ROWS_AT_ONCE], self._rest[_ROWS_AT_ONCE:]
        if self._rest:
            self._timer.start(0)
        else:
            self._timer.stop()
        return [self._row(name, self._lines[name]) for name in names]

    def _line(self, name: str, kept: Sequence[KeptPrompt]) -> str:
        """Return what is said of all that is kept under a name: several documents may be called the same."""
        where = {CacheSource.RAM: self.tr("in memory"), CacheSource.DISK: self.tr("on disk")}
        sums = {source: sum(item.num_bytes for item in kept if item.source is source) for source in where}
        sizes = [f"{bytes_text(sums[source])} {words}" for source, words in where.items() if sums[source]]
        count = max(item.num_tokens for item in kept)
        return " · ".join((isolated(shortened(name, _MAX_NAME)), tokens_text(count), *sizes))

    def _row(self, name: str, words: str) -> QWidget:
        px = self._theme.px
        row = QFrame()
        row.setObjectName("pasteChip")
        line = ElidedLabel()
        line.set_whole(words)
        line.setProperty("role", "meta")
        forget = QPushButton(self.tr("Forget"))
        forget.setProperty("kind", "small")
        forget.setToolTip(self.tr("Delete what was read. The documents and the chats stay."))
        forget.setAccessibleName(self.tr("Forget: {what}").format(what=isolated(shortened(name, _MAX_NAME))))
        forget.clicked.connect(lambda: self.forget_requested.emit(name))
        box = QHBoxLayout(row)
        box.setContentsMargins(px(10), px(2), px(4), px(2))
        box.setSpacing(px(2))
        box.addWidget(line, 1)
        box.addWidget(forget)
        return row
