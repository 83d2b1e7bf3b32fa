"""DraftPanel: what drafts for the model: nothing, the chat's own words, a smaller model; and which files could."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.desktop.rendering.plain import BREAK, isolated
from app.desktop.theme.theme import Theme
from app.desktop.widgets.check_box import CheckBox
from app.desktop.widgets.choice_row import ChoiceRow
from app.desktop.widgets.draft_row import DraftRow
from app.desktop.widgets.draft_words import mode_options, place_options
from app.desktop.widgets.file_panel import FilePanel, say
from app.desktop.widgets.param_row import new_note
from engine import Device, DraftMode

if TYPE_CHECKING:
    from app.draft_models import DraftCandidate

_NUM_FIRST = 8


class DraftPanel(FilePanel[DraftRow]):
    """The choice of what drafts, and the files there are.

    Signals:
        mode_chosen: DraftMode.
        draft_chosen: path of the draft model; empty for none.
        place_chosen: layers of the draft model on the graphics processor; None places it as its model.
        tint_chosen: whether accepted drafts are to be tinted.
    """

    mode_chosen = Signal(object)
    draft_chosen = Signal(str)
    place_chosen = Signal(object)
    tint_chosen = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, num_first=_NUM_FIRST, parent=parent)
        self._candidates: dict[str, DraftCandidate] = {}
        self._path = ""
        self.mode = ChoiceRow(
            theme,
            "draft_mode",
            self.tr("Draft ahead"),
            help_text=self.tr("Guesses the next tokens and checks several at a time, while that is not slower."),
        )
        self.mode.set_options(mode_options())
        self.mode.changed.connect(lambda: self.mode_chosen.emit(self.mode.value))
        self.place = ChoiceRow(theme, "draft_place", self.tr("Compute drafts on"))
        self.place.set_options(place_options())
        self.place.changed.connect(lambda: self.place_chosen.emit(self.place.value))
        self.place.setVisible(False)  # until there is a choice
        self._status, self._problem = new_note("meta"), new_note("problem")
        self._found_note, self._suggestion = new_note("meta"), new_note("meta")
        for note in (self._status, self._problem, self._found_note, self._suggestion):
            note.setMinimumWidth(1)
        self.tint = CheckBox(theme, self.tr("Tint accepted drafts"))
        self.tint.setToolTip(self.tr("Shows in finished replies which text came from drafts"))
        self.tint.clicked.connect(self.tint_chosen)
        self._title = new_note("meta")
        self._title.setText(self.tr("Draft model:"))
        self._others_title.setText(self.tr("These cannot draft for the model:"))
        self.add_button.setToolTip(self.tr("Let a model draft whose file lies elsewhere"))
        for widget in (
            *(self.mode, self.place, self._status, self._problem, self.tint, self._title, self._found_note),
            *(self._suggestion, self._usable, self.add_button, self._others_title, self._others),
        ):
            self._box.addWidget(widget)
        self._on_theme_changed()

    @property
    def summary(self) -> str:
        """What is chosen, in a word or two."""
        return self.mode.box.currentText()

    @property
    def status(self) -> str:
        """What became of the choice."""
        return self._status.text().replace(BREAK, "")

    @property
    def problem(self) -> str:
        """Why the draft model is not used; empty where it is, or none is chosen."""
        return self._problem.text().replace(BREAK, "")

    @property
    def suggestion(self) -> str:
        """What is said of the file that may pay."""
        return self._suggestion.text().replace(BREAK, "")

    def title_of(self, path: str) -> str:
        """Return what a file is called here; empty where it is not offered."""
        return self._candidates[path].title if path in self._candidates else ""

    def set_choice(self, mode: DraftMode, path: str, n_gpu_layers: int | None = None) -> None:
        """Show what is chosen."""
        self.mode.set_value(mode)
        self.place.set_value(n_gpu_layers)
        self._choose(path)
        self.summary_changed.emit(self.summary)

    def set_devices(self, devices: Sequence[Device]) -> None:
        """Offer a place for the draft model where there is more than the processor."""
        self.place.setVisible(any(device.kind.endswith("gpu") for device in devices))

    def set_tinted(self, is_on: bool) -> None:
        """Show whether accepted drafts are tinted."""
        self.tint.setChecked(is_on)

    def set_status(self, text: str, *, problem: str = "") -> None:
        """Say what became of the choice, and what hinders it."""
        say(self._status, isolated(text))
        say(self._problem, isolated(problem))

    def set_found(self, candidates: Sequence["DraftCandidate"], *, note: str = "", suggestion: str = "") -> None:
        """Offer these files.

        Args:
            note: what is to be known before any of them.
            suggestion: what is said of the one that may pay.
        """
        self._candidates = {str(candidate.path): candidate for candidate in candidates}
        say(self._found_note, isolated(note))
        say(self._suggestion, isolated(suggestion))
        self._refresh()

    def add(self, candidate: "DraftCandidate") -> None:
        """Offer one more file."""
        self._candidates = {str(candidate.path): candidate} | self._candidates
        self._refresh()

    def _refresh(self) -> None:
        usable = {path: path == self._path or not found.check.reason for path, found in self._candidates.items()}
        self._title.setVisible(bool(usable))
        self._offer(usable, always={self._path})

    def _new_row(self, path: str) -> DraftRow:
        row = DraftRow(self._theme, self._candidates[path])
        row.chosen.connect(lambda: self._on_row_chosen(row))
        return row

    def _show_row(self, row: DraftRow) -> None:
        row.show_candidate(self._candidates[row.path])
        row.set_chosen(row.path == self._path)

    def _first_inputs(self) -> Sequence[QWidget]:
        return self.mode.box, self.place.box, self.tint

    def _on_row_chosen(self, row: DraftRow) -> None:
        self._choose(row.path if row.box.isChecked() else "")
        self.draft_chosen.emit(self._path)

    def _choose(self, path: str) -> None:
        self._path = path
        for row in self._rows.values():
            row.set_chosen(row.path == path)

    def _on_theme_changed(self) -> None:
        super()._on_theme_changed()
        self._title.setContentsMargins(0, self._theme.px(8), 0, 0)
