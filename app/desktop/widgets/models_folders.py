"""FolderPanel: where models are looked for; the user's own folders can be added and taken away."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.desktop.itemmodels.model_rows import FolderRow
from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.models_details import breakable
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.scroll_area import scroll_area

_MAX_PATH = 400


class _FolderEntry(QFrame):
    """One folder.

    Signals:
        remove_asked: it is not to be looked into any more.
    """

    remove_asked = Signal()

    def __init__(self, theme: Theme, row: FolderRow) -> None:
        super().__init__()
        self.setObjectName("folderEntry")
        px = theme.px
        name = isolated(shortened(row.name, 80))
        title = plain_label(name, role="title")
        path = plain_label(breakable(isolated(shortened(row.path, _MAX_PATH))), role="meta")
        path.setAccessibleName(row.path)
        path.setToolTip(tool_tip_text(row.path))
        texts = QVBoxLayout()
        texts.setSpacing(px(2))
        texts.addWidget(title)
        texts.addWidget(path)
        if row.problem:
            texts.addWidget(plain_label(isolated(shortened(row.problem, _MAX_PATH)), role="problem"))
        else:
            texts.addWidget(plain_label(self._count_text(row.num_files), role="meta"))
        box = QHBoxLayout(self)
        box.setContentsMargins(px(12), px(8), px(6), px(8))
        box.addLayout(texts, 1)
        self.remove_button: GlyphButton | None = None
        if row.is_added:
            label = self.tr("Do not look into {name} any more; nothing in it is touched").format(name=name)
            self.remove_button = GlyphButton(theme, "close", label, size=24)
            self.remove_button.clicked.connect(self.remove_asked)
            box.addWidget(self.remove_button, 0, Qt.AlignmentFlag.AlignTop)

    def _count_text(self, count: int) -> str:
        if count == 0:
            return self.tr("no model files")
        return self.tr("1 model file") if count == 1 else self.tr("{count} model files").format(count=f"{count:,}")


class FolderPanel(QWidget):
    """The folders.

    Signals:
        add_asked: another one is to be chosen.
        removed: path of one that is not to be looked into any more.
        back_asked: the user wants the list again.
    """

    add_asked = Signal()
    removed = Signal(str)
    back_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: tuple[FolderRow, ...] = ()
        self._entries: dict[str, _FolderEntry] = {}
        self.setObjectName("modelDetails")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(self.tr("Folders"))
        self.back_button = GlyphButton(theme, "back", self.tr("Back to the list (Esc)"), size=28)
        self.back_button.clicked.connect(self.back_asked)
        self.add_button = QPushButton(self.tr("Add a folder …"))
        self.add_button.setProperty("kind", "primary")
        self.add_button.clicked.connect(self.add_asked)
        self.setFocusProxy(self.add_button)
        self._note = plain_label(
            self.tr("Folders of other programs are read where they lie; nothing in them is copied, moved or changed."),
            role="meta",
        )
        self._head = QHBoxLayout()
        self._head.addWidget(self.back_button)
        self._head.addWidget(plain_label(self.tr("Folders"), role="title"), 1)
        self._body = QWidget()
        self._body.setObjectName("modelDetailsBody")
        self._box = QVBoxLayout(self._body)
        self._box.addLayout(self._head)
        self._box.addWidget(self.add_button)
        self._box.addWidget(self._note)
        self._list = QVBoxLayout()
        self._box.addLayout(self._list)
        self._box.addStretch(1)
        area = scroll_area(self._body)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def texts(self) -> list[str]:
        """What each folder says."""
        return ["\n".join(label.text() for label in entry.findChildren(QLabel)) for entry in self._entries.values()]

    def show_folders(self, rows: Sequence[FolderRow]) -> None:
        """Show the folders."""
        if tuple(rows) == self._rows:
            return
        self._rows = tuple(rows)
        self._fill()

    def remove_button(self, path: str) -> GlyphButton | None:
        """Return the button that takes a folder away; None for one that stays."""
        entry = self._entries.get(path)
        return entry.remove_button if entry is not None else None

    def set_alone(self, *, is_alone: bool) -> None:
        """Offer the way back."""
        self.back_button.setVisible(is_alone)

    def _fill(self) -> None:
        had_focus = any(entry.isAncestorOf(self.focusWidget() or self) for entry in self._entries.values())
        for entry in self._entries.values():
            self._list.removeWidget(entry)
            entry.hide()
            entry.deleteLater()
        self._entries = {}
        for row in self._rows:
            entry = self._entries[row.path] = _FolderEntry(self._theme, row)
            entry.remove_asked.connect(lambda path=row.path: self.removed.emit(path))
            self._list.addWidget(entry)
        if had_focus:
            self.add_button.setFocus()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(16), px(12), px(16), px(16))
        self._box.setSpacing(px(10))
        self._list.setSpacing(px(6))
        self._fill()
