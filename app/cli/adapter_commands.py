"""Adapters in the terminal: which there are for a model, and how strongly a chat uses them."""

import argparse
import dataclasses
from pathlib import Path

from app.adapter_files import AdapterFiles, FoundAdapter
from app.cli.chat_options import adapter_of
from app.cli.chat_plan import ChatPlan
from app.cli.terminal_text import safe_text, wrapped
from app.errors import UsageError
from engine import Adapter

_OFF = ("off", "none")


def with_named_adapters(plan: ChatPlan, files: AdapterFiles) -> ChatPlan:
    """Return a plan in which names of adapters are paths; what names none stays, for the engine to refuse.

    Raises:
        UsageError: several adapters have a name.
    """
    adapters = []
    for adapter in plan.adapters:
        found = files.named(adapter.path, plan.path) if _is_name(adapter.path) else None
        adapters.append(Adapter(path=found.path, scale=adapter.scale) if found is not None else adapter)
    return dataclasses.replace(plan, adapters=tuple(adapters))


def obey_lora(argument: str, plan: ChatPlan, files: AdapterFiles) -> ChatPlan:
    """List the adapters, or give one another strength; return the plan as it is from now on.

    Args:
        argument: empty to list; else NAME, NAME=STRENGTH or NAME=off, where NAME may be a path.

    Raises:
        AppError, ModelsError: there is no such adapter, or it does not fit the model.
    """
    if not argument:
        _print_list(plan, files.find(plan.path, [adapter.path for adapter in plan.adapters]))
        return plan
    name, scale = _named(argument)
    adapter = _find(name, plan, files)
    if adapter.misfit and scale:
        raise UsageError(f"{safe_text(adapter.label)} cannot be used. {adapter.misfit}", "/lora lists those that can.")
    others = tuple(other for other in plan.adapters if other.path != adapter.path)
    if scale:
        others = (*others, Adapter(path=adapter.path, scale=scale))
        print(f"  {safe_text(adapter.label)} = {scale:g}")
    else:
        print(f"  {safe_text(adapter.label)} is not in use.")
    return dataclasses.replace(plan, adapters=others)


def _named(argument: str) -> tuple[str, float]:
    name, equals, strength = argument.rpartition("=")
    if equals and strength.strip().lower() in _OFF:
        return name.strip(), 0.0
    try:
        adapter = adapter_of(argument.strip("'\""))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{error}.", "Write it as NAME=0.5.") from error
    return adapter.path, adapter.scale


def _find(name: str, plan: ChatPlan, files: AdapterFiles) -> FoundAdapter:
    if (found := _in_use(name, plan)) is not None:
        return files.check([found], plan.path)[0]
    if not _is_name(name):
        return files.look_at(str(Path(name).absolute()), plan.path)
    adapter = files.named(name, plan.path)
    if adapter is None:
        raise UsageError(f"There is no adapter {safe_text(name)}.", "/lora lists those that there are.")
    return adapter


def _in_use(name: str, plan: ChatPlan) -> str | None:
    """Return the path of the one adapter in use that goes by a name."""
    paths = [adapter.path for adapter in plan.adapters if name in (adapter.path, Path(adapter.path).stem)]
    return paths[0] if len(paths) == 1 else None


def _is_name(text: str) -> bool:
    try:
        return Path(text).name == text and not Path(text).is_file()
    except (OSError, ValueError):
        return False


def _print_list(plan: ChatPlan, adapters: list[FoundAdapter]) -> None:
    scales = {adapter.path: adapter.scale for adapter in plan.adapters}
    if not adapters:
        print("There are no adapters beside the model or in the folder of models; `/lora PATH` uses another one.")
    for adapter in adapters:
        scale = scales.get(adapter.path)
        strength = "–" if scale is None else f"{scale:g}"
        note = adapter.misfit or (f"It names another base model: {adapter.base}." if adapter.is_of_other_base else "")
        print(wrapped(safe_text(f"  {strength:>4}  {adapter.label}{'  ' + note if note else ''}"), indent=" " * 8))
