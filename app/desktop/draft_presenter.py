"""DraftPresenter: keeps what drafts for the model, loads the draft model with it, and says what became of it."""

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from PySide6.QtCore import QObject

from app.desktop.bridge.background import Background
from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.model_fits import room_beside
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.model_session import ModelSession, ModelState
from app.desktop.session.user_settings import UserSettings
from app.desktop.widgets.draft_panel import DraftPanel
from app.desktop.widgets.figures import bytes_text
from app.desktop.widgets.file_dialog import ask_for_file
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.notices import Notice
from app.speculation import DraftChoice, draft_choice, draft_params, kept_choice
from engine import DraftDescription, DraftMode, ErrorInfo, ModelDescription, ModelParams

if TYPE_CHECKING:
    from app.draft_models import DraftCandidate, DraftCheck, DraftFiles, FoundDrafts
    from models import Room

_LOG = logging.getLogger(__name__)
_MAX_NAME = 60
_NOTICE = "draft"
_WITH_DRAFT = {DraftMode.OFF: DraftMode.MODEL, DraftMode.NGRAM: DraftMode.BOTH}
_NEEDS_DRAFT = (DraftMode.MODEL, DraftMode.BOTH)


class Conditions(TypedDict):
    """How a pair of models is loaded; see DraftFiles."""

    params: ModelParams
    room: "Room"
    n_gpu_layers: int | None
    loaded: ModelDescription | None


class DraftPresenter(QObject):
    """Connects the panel with the model, the files and the user's settings.

    Args:
        files: makes what looks at files, when it is first needed; called in `background`.
        background: on which files are looked at, one call after the other; for this alone.
    """

    def __init__(
        self,
        window: MainWindow,
        panel: DraftPanel,
        *,
        model: ModelSession,
        bridge: EngineBridge,
        files: "Callable[[], DraftFiles]",
        settings: UserSettings,
        background: Background,
        show_notice: Callable[[Notice], None],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._panel = panel
        self._model = model
        self._bridge = bridge
        self._make_files = files
        self._files: DraftFiles | None = None
        self._settings = settings
        self._background = background
        self._show_notice = show_notice
        self._looked_for: Path | None = None  # the model that files were looked at for last
        self._look = self._check = 0  # numbers of the latest look and check
        self._request_id: str | None = None
        self._told: str | None = None  # the draft model that the engine was told of, with the model that is loaded
        self._draft: DraftDescription | None = None  # the same, once it is loaded
        self._was_choosing = False  # another model, while the one before is still loaded
        panel.mode_chosen.connect(self._on_mode_chosen)
        panel.draft_chosen.connect(self._on_draft_chosen)
        panel.place_chosen.connect(self._on_place_chosen)
        panel.add_requested.connect(self._ask)
        panel.tint_chosen.connect(lambda is_on: settings.set("draft_tint", is_on))
        panel.seen.connect(self.look_again)
        model.changed.connect(self._on_model_changed)
        model.loaded.connect(self._on_loaded)
        bridge.engine_described.connect(lambda description: panel.set_devices(description.devices))
        bridge.draft_set.connect(self._on_set)
        bridge.draft_refused.connect(self._on_refused)
        settings.changed.connect(self._on_settings_changed)
        self._show_tint()
        self._on_model_changed()

    @property
    def choice(self) -> DraftChoice:
        """What drafts for the model."""
        return draft_choice_of(self._settings, self._model)

    def look_again(self) -> None:
        """Find what could draft for the model, once it is to be seen."""
        chosen = self._model.chosen
        if not self._panel.isVisible():
            self._looked_for = None  # then it looks when it is seen
            return
        self._look += 1
        number = self._look
        if chosen is None:
            self._looked_for = None
            self._panel.set_found((), note=self.tr("Load a model to see which others can draft for it."))
            return
        target, path, conditions = chosen.path, self.choice.path, self._conditions()
        self._looked_for = target
        self._background.run(
            lambda: _found_with(self._opened(), target, path, conditions),
            lambda found: self._on_found(number, found),
            lambda error: self._on_not_found(number, error),
        )

    def add(self, path: str) -> None:
        """Let a file of the user's draft, if it can."""
        chosen = self._model.chosen
        if chosen is not None:
            target, conditions = chosen.path, self._conditions()
            self._background.run(
                lambda: _candidate(path, self._opened().check(target, Path(path), **conditions)),
                lambda candidate: self._on_added(target, candidate),
                self._on_fault,
            )

    def close(self) -> None:
        """Look at no more files."""
        self._background.close()

    @property
    def _model_key(self) -> str:
        return self._model.chosen.last_model if self._model.chosen is not None else ""

    def _conditions(self) -> Conditions:
        """Return how both are loaded, and the room there is for them at this moment."""
        room = room_beside(self._bridge, read_bandwidth=self._settings.now.read_bandwidth)
        is_loaded = self._model.state is ModelState.READY
        return {
            "params": self._model.params,
            "room": room,
            "n_gpu_layers": self.choice.n_gpu_layers,
            "loaded": self._model.description if is_loaded else None,
        }

    def _opened(self) -> "DraftFiles":
        """Return what looks at files; in the background."""
        if self._files is None:
            self._files = self._make_files()
        return self._files

    # What a person chooses

    def _on_mode_chosen(self, mode: DraftMode) -> None:
        self._keep(dataclasses.replace(self.choice, mode=mode))

    def _on_draft_chosen(self, path: str) -> None:
        choice = self.choice
        mode = _WITH_DRAFT.get(choice.mode, choice.mode) if path else choice.mode
        self._keep(dataclasses.replace(choice, path=path, mode=mode))

    def _on_place_chosen(self, n_gpu_layers: int | None) -> None:
        self._let_go()  # it is loaded again, in its new place
        self._keep(dataclasses.replace(self.choice, n_gpu_layers=n_gpu_layers))
        self.look_again()  # what fits where is another thing now

    def _keep(self, choice: DraftChoice) -> None:
        if self._model_key:
            self._settings.set_entry("drafting", self._model_key, kept_choice(self._settings.now, choice))
            self._show_choice()
            self._apply()
        else:
            self._show_choice()

    def _on_settings_changed(self, name: str) -> None:
        if name == "draft_mode":
            self._show_choice()
            self._apply()
        elif name == "draft_tint":
            self._show_tint()

    def _show_tint(self) -> None:
        self._panel.set_tinted(self._settings.now.draft_tint)
        self._window.chat_view.set_tinted(self._settings.now.draft_tint)

    def _show_choice(self) -> None:
        choice = self.choice
        self._panel.set_choice(choice.mode, choice.path, choice.n_gpu_layers)
        for widget in (self._panel.mode, self._panel.add_button):
            widget.setEnabled(bool(self._model_key))

    def _ask(self) -> None:
        ask_for_file(self._window, self.tr("Choose a draft model"), self.add, kinds=self.tr("Models (*.gguf)"))

    # What the engine makes of it

    def _on_model_changed(self) -> None:
        self._show_choice()
        chosen, state = self._model.chosen, self._model.state
        was_choosing, self._was_choosing = self._was_choosing, state is ModelState.CHOOSING
        if state is ModelState.READY and was_choosing:  # the model stays, and its draft model with it
            self._apply()
        elif state not in (ModelState.READY, ModelState.CHOOSING):
            self._check += 1
            self._told = self._draft = self._request_id = None
            self._panel.set_status("")
        if (chosen.path if chosen is not None else None) != self._looked_for or self._looked_for is None:
            self.look_again()

    def _on_loaded(self, _: ModelDescription) -> None:
        self._told = self._draft = None
        self._apply()

    def _apply(self) -> None:
        """Have the engine use the draft model that is wanted, or none."""
        choice, chosen = self.choice, self._model.chosen
        path = choice.wanted_path
        self._check += 1
        if self._model.state is not ModelState.READY or chosen is None:
            return
        self._window.notices.dismiss(_NOTICE)
        if path is None:
            self._let_go()
            needs = choice.mode in _NEEDS_DRAFT
            self._panel.set_status(
                self.tr("The draft model is not used with this choice.")
                if choice.path
                else self._status_without(choice),
                problem=self.tr("Choose a draft model below.") if needs else "",
            )
            return
        if path == self._told:
            self._show_told()
            return
        self._panel.set_status(self.tr("Loading the draft model …"))
        number, target, conditions = self._check, chosen.path, self._conditions()
        self._background.run(
            lambda: self._opened().check(target, Path(path), **conditions),
            lambda check: self._on_checked(number, path, check),
            self._on_fault,
        )

    def _on_checked(self, number: int, path: str, check: "DraftCheck") -> None:
        if number != self._check:
            return
        if check.reason:
            self._let_go()
            self._refuse(check.reason, check.hint)
        else:
            self._told, self._draft = path, None
            self._request_id = self._bridge.set_draft(path, draft_params(self._model.params, self.choice.n_gpu_layers))

    def _on_set(self, request_id: str, draft: DraftDescription | None) -> None:
        if request_id == self._request_id and draft is not None:
            self._draft = draft
            if self.choice.wanted_path == self._told:
                self._show_told()

    def _status_without(self, choice: DraftChoice) -> str:
        """Return what is said where there is no draft model: a line, too, so that nothing moves when there is one."""
        if choice.mode in _NEEDS_DRAFT:
            return ""
        return self.tr("The chat's own text drafts.") if choice.is_on else self.tr("Nothing is drafted.")

    def _let_go(self) -> None:
        """Have the engine free the draft model that it was told of."""
        if self._told is not None:
            self._told = self._draft = None
            self._request_id = self._bridge.set_draft(None, draft_params(self._model.params))

    def _show_told(self) -> None:
        """Say what has become of the draft model that the engine was told of."""
        draft = self._draft
        if draft is None:
            self._panel.set_status(self.tr("Loading the draft model …"))
            return
        name = self._panel.title_of(draft.path) or draft.name or Path(draft.path).stem
        name = isolated(shortened(name, _MAX_NAME))
        words = self.tr("{name} drafts: {size} of memory.")
        self._panel.set_status(words.format(name=name, size=bytes_text(draft.total_bytes)))

    def _on_refused(self, request_id: str, error: ErrorInfo) -> None:
        if request_id == self._request_id:
            self._told = self._draft = None
            self._refuse(error.message, error.hint)

    def _refuse(self, reason: str, hint: str) -> None:
        """Say why the draft model is not used; replies go on without it."""
        self._panel.set_status("", problem=f"{reason} {hint}".strip())
        goes_on = self.tr("Replies go on without it. {hint}").format(hint=isolated(hint)).rstrip()
        self._show_notice(Notice(key=_NOTICE, text=isolated(reason), hint=goes_on))

    # The files there are

    def _on_found(self, number: int, found: "FoundDrafts") -> None:
        from app.draft_models import suggestion_text

        if number != self._look:
            return
        note = " ".join(sentence for sentence in (found.reason, found.hint, *found.notes) if sentence)
        if not found.candidates and not note:
            note = self.tr("There is no other model on this computer that could draft.")
        is_chosen = bool(self.choice.path)
        suggestion = "" if found.suggestion is None or is_chosen else suggestion_text(found.suggestion)
        self._panel.set_found(found.candidates, note=note, suggestion=suggestion)
        if self._draft is not None and self.choice.wanted_path == self._told:  # which has its title now
            self._show_told()

    def _on_not_found(self, number: int, error: Exception) -> None:
        message = getattr(error, "message", None)
        if not isinstance(message, str):
            self._on_fault(error)
            message = self.tr("The files could not be looked at because of a fault in Fireside.")
        if number == self._look:
            self._panel.set_found((), note=message)

    def _on_added(self, target: Path, candidate: "DraftCandidate") -> None:
        if self._model.chosen is None or self._model.chosen.path != target:
            return  # it was looked at for another model
        self._panel.add(candidate)
        if not candidate.check.reason:
            self._on_draft_chosen(str(candidate.path))

    def _on_fault(self, error: Exception) -> None:
        _LOG.error("looking for draft models failed", exc_info=error)


def draft_choice_of(settings: UserSettings, model: ModelSession) -> DraftChoice:
    """Return what drafts for the model that is wanted."""
    return draft_choice(settings.now, model.chosen.last_model if model.chosen is not None else "")


def files_beside_model() -> "DraftFiles":
    """Return what looks at the files in the folder of the model alone."""
    from app.draft_models import DraftFiles

    return DraftFiles()


def _found_with(files: "DraftFiles", target: Path, path: str, conditions: Conditions) -> "FoundDrafts":
    """Return what could draft, and in any case what has become of the file that is chosen, wherever it lies."""
    found = files.find(target, **conditions)
    if not path or path in {str(candidate.path) for candidate in found.candidates}:
        return found
    chosen = _candidate(path, files.check(target, Path(path), **conditions))
    return dataclasses.replace(found, candidates=(chosen, *found.candidates))


def _candidate(path: str, check: "DraftCheck") -> "DraftCandidate":
    from app.draft_models import DraftCandidate

    return DraftCandidate(path=Path(path), name=path, title=Path(path).stem, file_bytes=0, check=check)
