"""DraftRow: one file that might draft for the model, with its box, what it takes, or why it cannot."""

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import bytes_text
from app.desktop.widgets.file_choice import FileChoice

if TYPE_CHECKING:
    from app.draft_models import DraftCandidate

_MAX_NAME, _MAX_TEXT = 60, 300


class DraftRow(FileChoice):
    """One candidate.

    Signals:
        chosen: the user chose it, or let go of it.
    """

    chosen = Signal()

    def __init__(self, theme: Theme, candidate: "DraftCandidate", parent: QWidget | None = None) -> None:
        super().__init__(theme, isolated(shortened(candidate.title, _MAX_NAME)), parent)
        self.box.clicked.connect(self.chosen)
        self.show_candidate(candidate)

    @property
    def path(self) -> str:
        """Of its file."""
        return str(self._candidate.path)

    @property
    def title(self) -> str:
        """What a person calls it."""
        return self.box.line

    def show_candidate(self, candidate: "DraftCandidate") -> None:
        """Show what became of the same file."""
        self._candidate = candidate
        check = candidate.check
        if check.reason:
            note = isolated(shortened(check.reason, _MAX_TEXT))
        else:
            takes = self.tr("Takes {size} of memory.").format(size=bytes_text(check.memory_bytes))
            note = isolated(shortened(" ".join((takes, *check.notes)), _MAX_TEXT))
        self._say(note)
        self.box.setToolTip(tool_tip_text("\n".join(filter(None, (str(candidate.path), check.hint)))))
        self.set_chosen(self.box.isChecked())

    def set_chosen(self, is_chosen: bool) -> None:
        """Show whether it is the one."""
        self.box.setChecked(is_chosen)
        self.box.setEnabled(is_chosen or not self._candidate.check.reason)  # what is in use can be let go of
