"""DraftRow: one file that might draft for the model, with its box, what it takes, or why it cannot."""

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.desktop.rendering.plain import BREAK, breakable, isolated, shortened, tool_tip_text
from app.desktop.theme.theme import Theme
from app.desktop.widgets.check_box import CheckBox
from app.desktop.widgets.figures import bytes_text
from app.desktop.widgets.param_row import new_note

if TYPE_CHECKING:
    from app.draft_models import DraftCandidate

_MAX_NAME, _MAX_TEXT = 60, 300


class DraftRow(QWidget):
    """One candidate.

    Signals:
        chosen: the user chose it, or let go of it.
    """

    chosen = Signal()

    def __init__(self, theme: Theme, candidate: "DraftCandidate", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.box = CheckBox(theme, isolated(shortened(candidate.title, _MAX_NAME)))
        self.box.clicked.connect(self.chosen)
        self._note = new_note("meta")
        self._note.setMinimumWidth(1)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addWidget(self.box)
        self._layout.addWidget(self._note)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self.show_candidate(candidate)

    @property
    def path(self) -> str:
        """Of its file."""
        return str(self._candidate.path)

    @property
    def title(self) -> str:
        """What a person calls it."""
        return self.box.line

    @property
    def note(self) -> str:
        """What is said of it: why it cannot draft, or what it takes."""
        return self._note.text().replace(BREAK, "")

    def show_candidate(self, candidate: "DraftCandidate") -> None:
        """Show what became of the same file."""
        self._candidate = candidate
        check = candidate.check
        if check.reason:
            note = isolated(shortened(check.reason, _MAX_TEXT))
        else:
            takes = self.tr("Takes {size} of memory.").format(size=bytes_text(check.memory_bytes))
            note = isolated(shortened(" ".join((takes, *check.notes)), _MAX_TEXT))
        self._note.setText(breakable(note))
        self._note.show()
        self.box.setToolTip(tool_tip_text("\n".join(filter(None, (str(candidate.path), check.hint)))))
        self.box.setAccessibleDescription(note)
        self.set_chosen(self.box.isChecked())

    def set_chosen(self, is_chosen: bool) -> None:
        """Show whether it is the one."""
        self.box.setChecked(is_chosen)
        self.box.setEnabled(is_chosen or not self._candidate.check.reason)  # what is in use can be let go of

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._layout.setSpacing(px(2))
        self._note.setContentsMargins(px(30), 0, 0, px(4))
