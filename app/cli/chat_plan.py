"""What a chat in the terminal runs with, and how its model is remembered."""

import argparse
import dataclasses
import sys

from app.errors import SettingsError
from app.model_choice import choose_model
from app.settings import Settings, SettingsStore
from engine import ModelParams, SamplingParams

_FAKE_MODEL = "fake:"


@dataclasses.dataclass(frozen=True)
class ChatPlan:
    """What a chat runs with.

    Attributes:
        path: of the model file, as the engine takes it.
        label: what a person calls the model.
        last_model: how the settings remember it, None where they do not.
    """

    path: str
    label: str
    last_model: str | None
    params: ModelParams
    sampling: SamplingParams
    system: str | None


def make_plan(
    options: argparse.Namespace, settings: Settings, params: ModelParams, sampling: SamplingParams
) -> ChatPlan:
    """Return what the flags of a chat ask for.

    Raises:
        AppError, ModelsError: there is no such model, or it cannot chat.
    """
    if options.fake_engine:
        path = options.model or _FAKE_MODEL
        return ChatPlan(path, "fake engine", None, params, sampling, options.system)
    choice = choose_model(options.model, settings)
    return ChatPlan(str(choice.path), choice.label, choice.last_model, params, sampling, options.system)


def remember_model(store: SettingsStore, last_model: str | None) -> None:
    """Make a model the one used last; a disk that cannot be written is no reason to stop a chat."""
    if last_model is None:
        return
    try:
        if store.load()[0].last_model != last_model:
            store.update(last_model=last_model)
    except SettingsError as error:
        print(f"fireside: {error.message} {error.hint}", file=sys.stderr)
