"""What drafts for a model, as the user has chosen it: kept by model, with defaults for all; Qt-free."""

import dataclasses
import logging
from collections.abc import Mapping

from app.settings import Settings
from engine import DraftMode, ModelParams, SamplingParams, SpeculativeParams

_LOG = logging.getLogger(__name__)
_MODE, _PATH, _GPU_LAYERS = "mode", "path", "gpu_layers"
MAX_GPU_LAYERS = 10_000
_WITH_MODEL = (DraftMode.AUTO, DraftMode.MODEL, DraftMode.BOTH)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DraftChoice:
    """What drafts for one model.

    Attributes:
        path: of the draft model's file; empty for none.
        draft_max: most tokens of a draft; None leaves it to the engine.
        n_gpu_layers: of the draft model; None places it as its target: on the processor alone, or where it fits.
    """

    mode: DraftMode = DraftMode.AUTO
    path: str = ""
    draft_max: int | None = None
    strict: bool = False
    n_gpu_layers: int | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything may draft."""
        return self.mode is not DraftMode.OFF

    @property
    def wants_no_model(self) -> bool:
        """Whether no draft model may draft, whichever there is."""
        return self.mode not in _WITH_MODEL

    @property
    def wanted_path(self) -> str | None:
        """The draft model that is to be loaded; None where the mode needs none, or there is none."""
        return self.path or None if self.mode in _WITH_MODEL else None

    def params(self, sampling: SamplingParams) -> SpeculativeParams:
        """Return how a request drafts; a reproducible one does not: how much is drafted depends on the time."""
        if sampling.reproducible:
            return SpeculativeParams()
        return SpeculativeParams(mode=self.mode, draft_max=self.draft_max, strict=self.strict)


def draft_choice(settings: Settings, model: str) -> DraftChoice:
    """Return what drafts for a model, by the name the settings know it by."""
    kept = settings.drafting.get(model)
    mode, path, layers = settings.draft_mode, "", None
    if isinstance(kept, Mapping):
        mode, path, layers = _mode_of(kept.get(_MODE), mode), kept.get(_PATH, ""), kept.get(_GPU_LAYERS)
    return DraftChoice(
        mode=mode,
        path=path if isinstance(path, str) else "",
        draft_max=settings.draft_max or None,
        strict=settings.draft_strict,
        n_gpu_layers=layers if type(layers) is int and 0 <= layers <= MAX_GPU_LAYERS else None,
    )


def kept_choice(settings: Settings, choice: DraftChoice) -> dict[str, str | int]:
    """Return how the settings keep a model's choice; empty where it is as by default."""
    kept: dict[str, str | int] = {} if choice.mode is settings.draft_mode else {_MODE: choice.mode.value}
    kept |= {_PATH: choice.path} if choice.path else {}
    return kept | ({} if choice.n_gpu_layers is None else {_GPU_LAYERS: choice.n_gpu_layers})


def draft_params(params: ModelParams, n_gpu_layers: int | None = None) -> ModelParams:
    """Return how a draft model is loaded: on the device and with the threads that the user gave its target.

    Args:
        params: of the target.
        n_gpu_layers: of the draft model, where it has a place of its own.
    """
    device = params.device
    if n_gpu_layers is None:
        n_gpu_layers = 0 if params.n_gpu_layers == 0 else None  # any other number is of the target's layers
    elif n_gpu_layers and device.upper() == "CPU":  # that is where the target is
        device = ModelParams().device
    return ModelParams(device=device, n_threads=params.n_threads, n_gpu_layers=n_gpu_layers)


def _mode_of(value: object, usual: DraftMode) -> DraftMode:
    try:
        return DraftMode(value)
    except ValueError:
        if value is not None:
            _LOG.warning("a kept way of drafting is not known: %r", value)
        return usual
