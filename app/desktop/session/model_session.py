"""ModelSession: which model is wanted, how far it is loaded, and what went wrong."""

import dataclasses
import enum
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from app.desktop.bridge.background import Background
from app.desktop.bridge.engine_bridge import EngineBridge
from app.known_models import KnownModels
from engine import CacheParams, EngineDied, ErrorInfo, ModelDescription, ModelParams

_LOG = logging.getLogger(__name__)


class ModelState(enum.Enum):
    """Where the model is; NONE is the user's own choice, NOT_ASKED the moment before the first."""

    NOT_ASKED = "not_asked"
    NONE = "none"
    CHOOSING = "choosing"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    DEAD = "dead"


class ChosenModel(Protocol):
    """A file that passed the checks, with the name a person knows it by."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def label(self) -> str:
        """The name."""

    @property
    def last_model(self) -> str:
        """How the settings remember it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Starter:
    """The model that comes with the program.

    Attributes:
        name: what the choice of models knows it by.
        label: what a person knows it by.
    """

    name: str
    label: str


ChooseModel = Callable[[str | None], ChosenModel]
ParamsOfModel = Callable[[str], ModelParams]


def _default_params(name: str) -> ModelParams:
    return ModelParams()


class ModelSession(QObject):
    """Finds, checks and loads one model at a time.

    Args:
        choose: finds the file for what the user named, None for the default; runs beside the window's thread.
        known: which files were loaded before; asked and told beside the window's thread.
        params: how to load a model, by the name the settings know it by; asked beside the window's thread.
        cache: gives the limits of the prompt cache.
        drafts: tells whether tokens are drafted for a model.

    Signals:
        changed: state, label, progress or error changed.
        loaded: ModelDescription.
        refused: ErrorInfo; the file cannot be used and the loaded model stays.
        died: EngineDied; the engine is gone and the same model can be loaded again.
    """

    changed = Signal()
    loaded = Signal(object)
    died = Signal(object)
    refused = Signal(object)

    def __init__(
        self,
        bridge: EngineBridge,
        background: Background,
        choose: ChooseModel,
        parent: QObject | None = None,
        *,
        known: KnownModels,
        params: ParamsOfModel = _default_params,
        cache: Callable[[], CacheParams | None] = lambda: None,
        drafts: Callable[[str], bool] = lambda model: False,
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._background = background
        self._choose = choose
        self._known = known
        self._params_of_model = params
        self._cache = cache
        self._drafts = drafts
        self._params = ModelParams()
        self._state = ModelState.NOT_ASKED
        self._wanted: str | None = None
        self._chosen: ChosenModel | None = None
        self._request_id: str | None = None
        # What is loaded while another file is looked at: (chosen, wanted, description).
        self._loaded: tuple[ChosenModel | None, str | None, ModelDescription] | None = None
        self._choice_number = 0
        self._progress = 0.0
        self._error: ErrorInfo | None = None
        self._description: ModelDescription | None = None
        bridge.load_progressed.connect(self._on_progressed)
        bridge.model_loaded.connect(self._on_loaded)
        bridge.load_cancelled.connect(self._on_cancelled)
        bridge.load_failed.connect(self._on_load_failed)
        bridge.engine_died.connect(self._on_died)

    @property
    def state(self) -> ModelState:
        """Where the model is."""
        return self._state

    @property
    def label(self) -> str:
        """Name of the wanted model, empty before it is known."""
        return self._chosen.label if self._chosen else ""

    @property
    def progress(self) -> float:
        """Share of the load that is done."""
        return self._progress

    @property
    def error(self) -> ErrorInfo | None:
        """What went wrong, in the states FAILED and DEAD."""
        return self._error

    @property
    def description(self) -> ModelDescription | None:
        """The loaded model, in the state READY."""
        return self._description

    @property
    def wanted(self) -> str | None:
        """What was asked for, as it was named; None for the default."""
        return self._wanted

    @property
    def chosen(self) -> ChosenModel | None:
        """The wanted model, once it is known."""
        return self._chosen

    @property
    def params(self) -> ModelParams:
        """How the model is loaded, or was asked to be loaded last."""
        return self._params

    def is_wanted(self, name: str) -> bool:
        """Tell whether this is the model, by the name the settings know it by or by the one it was asked for with."""
        return name == self._wanted or (self._chosen is not None and self._chosen.last_model == name)

    def is_loaded(self, name: str) -> bool:
        """Tell whether this model can be asked now; see `is_wanted`."""
        return self._state is ModelState.READY and self.is_wanted(name)

    @property
    def is_busy(self) -> bool:
        """Whether a model is on its way."""
        return self._state in (ModelState.CHOOSING, ModelState.LOADING)

    def choose(self, wanted: str | None) -> None:
        """Find, check and load a model; a load in progress is given up."""
        self._give_up()
        if self._description is not None:
            self._loaded = (self._chosen, self._wanted, self._description)
        self._wanted = wanted
        number = self._choice_number
        self._enter(ModelState.CHOOSING)
        self._background.run(
            lambda: self._look_up(wanted),
            lambda found: self._on_chosen(number, *found),
            lambda error: self._on_not_chosen(number, error),
        )

    def load_again(self) -> None:
        """Load the wanted model once more, after a failure or the engine's death."""
        self.choose(self._chosen.last_model if self._chosen else self._wanted)

    def unload(self) -> None:
        """Give the memory of the loaded model back; it is loaded again when a message needs it."""
        if self._state is ModelState.READY:
            self._bridge.unload_model()
            self._enter(ModelState.NONE)

    def cancel(self) -> None:
        """Give up what is in progress."""
        if self.is_busy:
            self._give_up()
            if not self._keep_loaded():
                self._enter(ModelState.NONE)

    def _keep_loaded(self) -> bool:
        """Go back to the model that is still loaded; False when there is none."""
        if self._loaded is None:
            return False
        (self._chosen, self._wanted, self._description), self._loaded = self._loaded, None
        self._enter(ModelState.READY)
        return True

    def _give_up(self) -> None:
        self._choice_number += 1
        if self._request_id is not None:
            self._bridge.cancel_load(self._request_id)
            self._request_id = None

    def _enter(self, state: ModelState, *, error: ErrorInfo | None = None) -> None:
        self._state = state
        self._error = error
        if state is not ModelState.READY:
            self._description = None
        self.changed.emit()

    def _look_up(self, wanted: str | None) -> tuple[ChosenModel, ModelParams, bool]:
        chosen = self._choose(wanted)
        params = self._params_of_model(chosen.last_model)
        return chosen, params, self._known.has(str(chosen.path), params)

    def _on_chosen(self, number: int, chosen: ChosenModel, params: ModelParams, is_known: bool) -> None:
        if number != self._choice_number:
            return
        self._chosen = chosen
        self._params = params
        self._loaded = None
        self._progress = 0.0
        self._request_id = self._bridge.load_model(
            str(chosen.path), params, is_known=is_known, cache=self._cache(), drafts=self._drafts(chosen.last_model)
        )
        self._enter(ModelState.LOADING)

    def _on_not_chosen(self, number: int, error: Exception) -> None:
        if number != self._choice_number:
            return
        message, hint = getattr(error, "message", None), getattr(error, "hint", None)
        if not isinstance(message, str):
            _LOG.error("choosing a model failed", exc_info=error)
            message = self.tr("The model could not be looked up because of a fault in Fireside.")
            hint = self.tr("The log has details.")
        info = ErrorInfo(type(error).__name__, message, str(hint or ""))
        if self._keep_loaded():
            self.refused.emit(info)
            return
        self._chosen = None
        self._enter(ModelState.FAILED, error=info)

    def _on_progressed(self, request_id: str, progress: float) -> None:
        if request_id == self._request_id:
            self._progress = progress
            self.changed.emit()

    def _on_loaded(self, request_id: str, description: ModelDescription) -> None:
        if request_id == self._request_id:
            self._request_id = None
            self._description = description
            if self._chosen is not None:
                path, params = str(self._chosen.path), self._params
                self._update_known(lambda: self._known.add(path, params))
            self._enter(ModelState.READY)
            self.loaded.emit(description)

    def _update_known(self, update: Callable[[], None]) -> None:
        self._background.run(
            update,
            lambda _: None,
            lambda error: _LOG.warning("the record of loaded models is not updated", exc_info=error),
        )

    def _on_cancelled(self, request_id: str) -> None:
        if request_id == self._request_id:
            self._request_id = None
            self._enter(ModelState.NONE)

    def _on_load_failed(self, request_id: str, error: ErrorInfo) -> None:
        if request_id == self._request_id:
            self._request_id = None
            if self._chosen is not None:  # the engine may have died of a file that it took before
                path, params = str(self._chosen.path), self._params
                self._update_known(lambda: self._known.forget(path, params))
            self._enter(ModelState.FAILED, error=error)

    def _on_died(self, event: EngineDied) -> None:
        self._loaded = None
        if self._state is ModelState.CHOOSING:
            return  # the load that follows starts a new engine
        self._request_id = None
        self._enter(ModelState.DEAD, error=event.error)
        self.died.emit(event)
