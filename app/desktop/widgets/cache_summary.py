"""CacheSummary: what is kept of chats that were read and of replies, its room, and the ways to be rid of it."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import NOTHING, bytes_text, count_text
from app.desktop.widgets.plain_label import plain_label
from engine import CacheDescribed, CacheSource


class CacheSummary(QWidget):
    """Lines for the context, the memory and the disk, one for whole replies where there are some, and two buttons.

    Signals:
        clear_requested: all of it is to go.
        off_requested: nothing is to be written to disk, and what is there is to go.
    """

    clear_requested = Signal()
    off_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._names: dict[QLabel, str] = {}
        self._labels: dict[QLabel, QLabel] = {}
        self._grid = QGridLayout()
        self._grid.setColumnStretch(1, 1)
        self._context = self._add_line(0, self.tr("In the model's context"))
        self._memory = self._add_line(1, self.tr("In memory"))
        self._disk = self._add_line(2, self.tr("On disk"))
        self._replies = self._add_line(3, self.tr("Whole replies"))
        self.clear_button = QPushButton(self.tr("Clear"))
        self.clear_button.setToolTip(self.tr("Delete what is cached of all chats. The chats stay."))
        self.off_button = QPushButton(self.tr("Keep nothing on disk"))
        self.off_button.setToolTip(self.tr("Delete what is cached on disk, and write no more. The chats stay."))
        self._buttons = QHBoxLayout()
        for button in (self.clear_button, self.off_button):
            button.setProperty("kind", "outline")
            self._buttons.addWidget(button)
        self._buttons.addStretch()
        self._box = QVBoxLayout(self)  # the buttons below: beside them the lines would break
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.addLayout(self._grid)
        self._box.addLayout(self._buttons)
        self.clear_button.clicked.connect(self.clear_requested)
        self.off_button.clicked.connect(self._on_off)
        self.show_kept(None)
        self.restyle()

    @property
    def lines(self) -> tuple[str, str, str]:
        """What is said of the context, the memory and the disk."""
        return self._context.text(), self._memory.text(), self._disk.text()

    @property
    def replies_text(self) -> str:
        """What is said of whole replies; empty where there are none."""
        return "" if self._replies.isHidden() else self._replies.text()

    def show_kept(self, described: CacheDescribed | None) -> None:
        """Show what is kept; None while no engine tells."""
        self.clear_button.setEnabled(described is not None)
        self._show_replies(described)
        if described is None:
            for value in (self._context, self._memory, self._disk):
                self._set(value, NOTHING)
            return
        self._set(self._context, self._chats(described, CacheSource.SLOT))
        ram, disk = (described.ram_bytes, described.max_ram_bytes), (described.disk_bytes, described.max_disk_bytes)
        self._set(self._memory, self._with_size(self._chats(described, CacheSource.RAM), *ram))
        self._set(self._disk, self._with_size(self._chats(described, CacheSource.DISK), *disk))

    def set_disk_on(self, is_on: bool) -> None:
        """Offer to keep nothing on disk, where something may be."""
        if not is_on and self.off_button.hasFocus():
            self.clear_button.setFocus()  # the other one goes away
        self.off_button.setVisible(is_on)

    def restyle(self) -> None:
        """Take the sizes of the theme."""
        px = self._theme.px
        self._grid.setHorizontalSpacing(px(12))
        self._grid.setVerticalSpacing(px(4))
        self._buttons.setSpacing(px(8))
        self._box.setSpacing(px(12))

    def _add_line(self, row: int, name: str) -> QLabel:
        label, value = plain_label(name, role="muted"), plain_label(is_selectable=True)
        label.setWordWrap(False)
        self._names[value], self._labels[value] = name, label
        self._grid.addWidget(label, row, 0)
        self._grid.addWidget(value, row, 1)
        return value

    def _set(self, value: QLabel, text: str) -> None:
        value.setText(text)
        value.setAccessibleName(f"{self._names[value]}: {text}")

    def _show_replies(self, described: CacheDescribed | None) -> None:
        count = described.num_replies if described is not None else 0
        self._replies.setVisible(count > 0)
        self._labels[self._replies].setVisible(count > 0)
        if described is not None and count:
            words = self.tr("{count} reply · {size}") if count == 1 else self.tr("{count} replies · {size}")
            self._set(self._replies, words.format(count=count_text(count), size=bytes_text(described.reply_bytes)))

    def _chats(self, described: CacheDescribed, source: CacheSource) -> str:
        held = [kept for kept in described.kept if kept.source is source]
        count = len({kept.chat_id for kept in held if kept.chat_id is not None})
        num_shared = len({kept.name for kept in held if kept.chat_id is None and kept.name})
        words = []
        if count:
            chats = self.tr("{count} chat") if count == 1 else self.tr("{count} chats")
            words.append(chats.format(count=count_text(count)))
        if num_shared:
            words.append(self.tr("{count} read ahead").format(count=count_text(num_shared)))
        return ", ".join(words) or self.tr("nothing")

    def _with_size(self, chats: str, size: int, most: int) -> str:
        if not most and not size:
            return chats
        return self.tr("{chats} · {size} of {most}").format(chats=chats, size=bytes_text(size), most=bytes_text(most))

    def _on_off(self) -> None:
        self.set_disk_on(False)
        self.off_requested.emit()
