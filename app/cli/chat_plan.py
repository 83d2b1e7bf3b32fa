"""What a chat in the terminal runs with, and how its model is remembered."""

import argparse
import dataclasses
import re
import sys

import msgspec

from app.cli.draft_commands import chosen_drafting
from app.cli.session import USUAL_OPTIONS
from app.errors import SettingsError
from app.model_choice import choose_model
from app.paths import Paths
from app.settings import Settings, SettingsStore
from app.speculation import DraftChoice
from engine import Adapter, ModelDescription, ModelParams, PromptOptions, SamplingParams

_FAKE_MODEL = "fake:"


@dataclasses.dataclass(frozen=True)
class ChatPlan:
    """What a chat runs with.

    Attributes:
        path: of the model file, as the engine takes it.
        label: what a person calls the model.
        last_model: how the settings remember it, None where they do not.
        fingerprint, template_hash: of the file and of its chat template; empty where there is none.
        chat_format: what makes the chat into a prompt; None takes the model's own.
        drafting: what guesses tokens ahead.
        is_drafting_asked: whether that was said on the command line.
    """

    path: str
    label: str
    last_model: str | None
    params: ModelParams
    sampling: SamplingParams
    system: str | None
    adapters: tuple[Adapter, ...] = ()
    chat_format: str | None = None
    drafting: DraftChoice = dataclasses.field(default_factory=DraftChoice)
    is_drafting_asked: bool = False
    fingerprint: str = ""
    template_hash: str = ""

    @property
    def prompt_options(self) -> PromptOptions:
        """How its chats are made into prompts."""
        return msgspec.structs.replace(USUAL_OPTIONS, chat_format=self.chat_format)


def make_plan(
    options: argparse.Namespace,
    settings: Settings,
    params: ModelParams,
    sampling: SamplingParams,
    paths: Paths | None = None,
) -> ChatPlan:
    """Return what the flags of a chat ask for.

    Raises:
        AppError, ModelsError: there is no such model, or it cannot chat.
    """
    if options.fake_engine:
        path = options.model or _FAKE_MODEL
        label, last_model, fingerprint, template_hash = "fake engine", None, "", ""
    else:
        choice = choose_model(options.model, settings, paths)
        path, label, last_model = str(choice.path), choice.label, choice.last_model
        fingerprint, template_hash = choice.fingerprint, choice.template_hash
    return ChatPlan(
        path=path,
        label=label,
        last_model=last_model,
        params=params,
        sampling=sampling,
        system=options.system,
        adapters=tuple(options.lora),
        chat_format=options.chat_format or settings.chat_formats.get(last_model or ""),
        drafting=chosen_drafting(options, settings, last_model or "", paths),
        is_drafting_asked=bool(options.draft),
        fingerprint=fingerprint,
        template_hash=template_hash,
    )


def note_chat_format(store: SettingsStore, plan: ChatPlan, model: ModelDescription) -> tuple[ChatPlan, str | None]:
    """Settle the chat format once the model is known, and remember it; return a sentence about it too, if it needs one.

    A format that the model cannot use any more is left out; one that was never usable is the engine's to refuse.
    """
    others = f"--chat-format chooses one of {', '.join(model.chat_formats)}." if model.chat_formats else ""
    if plan.chat_format is None:
        if model.chat_format == "file" or not others:
            return plan, None
        uses = f"The chat format is {model.chat_format}" if model.chat_format else "There is no chat format"
        return plan, f"{uses}; {others}"
    names = {_plain(name): name for name in model.chat_formats}
    name = names.get(_plain(plan.chat_format))
    kept = store.load()[0].chat_formats
    key = plan.last_model or ""
    if name is None:
        if kept.get(key) != plan.chat_format or not names:
            return plan, None
        lost = f"This model cannot use the chat format {plan.chat_format} any more, so its own is used; {others}"
        return dataclasses.replace(plan, chat_format=None), lost
    if key and kept.get(key) != name:
        _update(store, chat_formats={**kept, key: name})
    is_usual = name == model.chat_format == "file"
    return dataclasses.replace(plan, chat_format=name), None if is_usual else f"The chat format is {name}; {others}"


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def remember_model(store: SettingsStore, last_model: str | None) -> None:
    """Make a model the one used last; a disk that cannot be written is no reason to stop a chat."""
    if last_model is None:
        return
    if store.load()[0].last_model != last_model:
        _update(store, last_model=last_model)


def _update(store: SettingsStore, **changes: object) -> None:
    try:
        store.update(**changes)
    except SettingsError as error:
        print(f"fireside: {error.message} {error.hint}", file=sys.stderr)
