"""DraftPanel: what drafts for the model: nothing, the chat's own words, a smaller model; and which files could."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import BREAK, breakable, isolated
from app.desktop.theme.theme import Theme
from app.desktop.widgets.check_box import CheckBox
from app.desktop.widgets.choice_row import ChoiceRow
from app.desktop.widgets.draft_row import DraftRow
from app.desktop.widgets.draft_words import mode_options, place_options
from app.desktop.widgets.limited_rows import LimitedRows
from app.desktop.widgets.param_row import new_note, place_in_tab_order
from engine import Device, DraftMode

if TYPE_CHECKING:
    from app.draft_models import DraftCandidate

_FIRST_USABLE, _FIRST_OTHERS = 8, 4
_ROWS_AT_ONCE = 2  # so that the window is never held up


class DraftPanel(QWidget):
    """The choice of what drafts, and the files there are.

    Signals:
        mode_chosen: DraftMode.
        draft_chosen: path of the draft model; empty for none.
        place_chosen: layers of the draft model on the graphics processor; None places it as its model.
        add_requested: a file is to be looked for.
        tint_chosen: whether accepted drafts are to be tinted.
        summary_changed: `summary` is another one.
        seen: it came into view.
    """

    mode_chosen = Signal(object)
    draft_chosen = Signal(str)
    place_chosen = Signal(object)
    add_requested = Signal()
    tint_chosen = Signal(bool)
    summary_changed = Signal(str)
    seen = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._candidates: dict[str, DraftCandidate] = {}
        self._rows: dict[str, DraftRow] = {}
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
        self._usable, self._others = LimitedRows(theme, _FIRST_USABLE), LimitedRows(theme, _FIRST_OTHERS)
        self._others_title = new_note("meta")
        self._others_title.setText(self.tr("These cannot draft for the model:"))
        self.add_button = QPushButton(self.tr("Add file …"))
        self.add_button.setProperty("kind", "outline")
        self.add_button.setToolTip(self.tr("Let a model draft whose file lies elsewhere"))
        self.add_button.clicked.connect(self.add_requested)
        self._box = box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        for widget in (
            *(
                self.mode,
                self.place,
                self._status,
                self._problem,
                self.tint,
                self._title,
                self._found_note,
                self._suggestion,
            ),
            *(self._usable, self.add_button, self._others_title, self._others),
        ):
            box.addWidget(widget)
        for group in (self._usable, self._others):
            group.limit_changed.connect(self._refresh)
        self._timer = QTimer(self)  # rows are built when they are first seen, a few at a time
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._fill)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def rows(self) -> list[DraftRow]:
        """The rows that are there, from the top."""
        wanted = (*self._usable.wanted, *self._others.wanted)
        return [self._rows[path] for path in wanted if path in self._rows]

    @property
    def is_filled(self) -> bool:
        """Whether all rows that are to be seen are there."""
        return not self._timer.isActive()

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
    def found_note(self) -> str:
        """What is said above the files."""
        return self._found_note.text().replace(BREAK, "")

    @property
    def suggestion(self) -> str:
        """What is said of the file that may pay."""
        return self._suggestion.text().replace(BREAK, "")

    def set_choice(self, mode: DraftMode, path: str, n_gpu_layers: int | None = None) -> None:
        """Show what is chosen."""
        self.mode.set_value(mode)
        self.place.set_value(n_gpu_layers)
        self._path = path
        for row in self._rows.values():
            row.set_chosen(row.path == path)
        self.summary_changed.emit(self.summary)

    def set_devices(self, devices: Sequence[Device]) -> None:
        """Offer a place for the draft model where there is more than the processor."""
        self.place.setVisible(any(device.kind.endswith("gpu") for device in devices))

    def set_tinted(self, is_on: bool) -> None:
        """Show whether accepted drafts are tinted."""
        self.tint.setChecked(is_on)

    def set_status(self, text: str, *, problem: str = "") -> None:
        """Say what became of the choice, and what hinders it."""
        _say(self._status, text)
        _say(self._problem, problem)

    def set_found(self, candidates: Sequence["DraftCandidate"], *, note: str = "", suggestion: str = "") -> None:
        """Offer these files.

        Args:
            note: what is to be known before any of them.
            suggestion: what is said of the one that may pay.
        """
        self._candidates = {str(candidate.path): candidate for candidate in candidates}
        _say(self._found_note, note)
        _say(self._suggestion, suggestion)
        self._refresh()

    def add(self, candidate: "DraftCandidate") -> None:
        """Offer one more file."""
        self._candidates = {str(candidate.path): candidate} | self._candidates
        self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        """See QWidget; builds what was not seen before."""
        super().showEvent(event)
        self._timer.start()
        self.seen.emit()

    def _refresh(self) -> None:
        usable = [path for path, found in self._candidates.items() if path == self._path or not found.check.reason]
        self._usable.set_paths(usable, always={self._path})
        self._others.set_paths([path for path in self._candidates if path not in set(usable)], always=set())
        self._title.setVisible(bool(self._candidates))
        self._others_title.setVisible(bool(self._others.wanted))
        wanted = {*self._usable.wanted, *self._others.wanted}
        for path in [path for path in self._rows if path not in wanted]:
            row = self._rows.pop(path)
            row.hide()
            row.deleteLater()
        for path, row in self._rows.items():
            row.show_candidate(self._candidates[path])
            row.set_chosen(path == self._path)
        self._timer.start()

    def _fill(self) -> None:
        """Build some of the rows that are to be seen, and go on a moment later."""
        if not self.isVisible():
            return
        missing = [path for path in (*self._usable.wanted, *self._others.wanted) if path not in self._rows]
        for path in missing[:_ROWS_AT_ONCE]:
            self._rows[path] = self._new_row(self._candidates[path])
        for group in (self._usable, self._others):
            group.place([self._rows[path] for path in group.wanted if path in self._rows])
        if len(missing) > _ROWS_AT_ONCE:
            self._timer.start()
            return
        usable = [self._rows[path].box for path in self._usable.wanted]
        others = [self._rows[path].box for path in self._others.wanted]
        chain = [
            self.place.box,
            self.tint,
            *usable,
            self._usable.more_button,
            self.add_button,
            *others,
            self._others.more_button,
        ]
        place_in_tab_order(self.mode.box, chain)

    def _new_row(self, candidate: "DraftCandidate") -> DraftRow:
        row = DraftRow(self._theme, candidate)
        row.set_chosen(row.path == self._path)
        row.chosen.connect(lambda: self._on_row_chosen(row))
        return row

    def _on_row_chosen(self, row: DraftRow) -> None:
        self._path = row.path if row.box.isChecked() else ""
        for other in self._rows.values():
            other.set_chosen(other.path == self._path)
        self.draft_chosen.emit(self._path)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setSpacing(px(6))
        for title in (self._title, self._others_title):
            title.setContentsMargins(0, px(8), 0, 0)


def _say(label: QLabel, text: str) -> None:
    label.setText(breakable(isolated(text)))
    label.setVisible(bool(text))
