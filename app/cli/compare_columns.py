"""The columns of `fireside compare`: models as they are named, and those that have settings of their own."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from app.adapter_files import open_adapter_files
from app.cli.arguments import number, whole_number
from app.cli.chat_options import adapter_of, parse_setting
from app.compare.column_words import told_settings
from app.compare.plan import column_of, failed_column
from app.compare.results import Column
from app.errors import AppError, UsageError
from app.model_choice import choose_model
from app.paths import Paths
from app.settings import Settings
from engine import Adapter, ModelParams, SamplingParams, param_infos
from models import ModelsError

ADAPTER = "adapter"
# All columns have these in common, or what they cost could not be compared.
_SHARED = {"n_ctx": "--ctx", "max_tokens": "--max-tokens", "n_seq_max": "--samples"}
_WORDS = ("type_k", "type_v", "device", "flash_attn", "split_mode", "load_mode", "rope_scaling")


class ColumnPlan(NamedTuple):
    """A column as it was asked for.

    Attributes:
        name: of the model, as it was written.
        params, sampling: settings that it has of its own, by name.
    """

    name: str
    params: dict[str, Any]
    sampling: dict[str, Any]
    adapters: tuple[Adapter, ...] = ()


def add_column_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name columns with settings."""
    parser.add_argument(
        "--column",
        nargs="+",
        action="append",
        default=[],
        metavar=("MODEL", "NAME=VALUE"),
        help="a further model with settings of its own: type_k=q8_0, n_threads=2, temperature=0.7, adapter=PATH:SCALE, "
        "and all others of models and sampling; repeatable, also with the same model",
    )
    parser.add_argument(
        "--reference",
        metavar="MODEL",
        help="whose replies the others are held against, as it is named above, or the number of its column; default: "
        "the largest file",
    )


def column_plan(words: list[str]) -> ColumnPlan:
    """Return the column that a --column asks for.

    Raises:
        UsageError: a setting is none, has a wrong value, or is one that all columns share.
    """
    plan = ColumnPlan(words[0], {}, {})
    for text in words[1:]:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise UsageError(
                f"{text!r} is no setting of {plan.name}.",
                "Write NAME=VALUE behind the model, and other models in front of --column.",
            )
        if name in _SHARED:
            raise UsageError(f"{name} is the same for all columns.", f"Give it with {_SHARED[name]}.")
        if name in (ADAPTER, "lora"):
            plan = plan._replace(adapters=(*plan.adapters, _adapter(value)))
        elif name in param_infos(ModelParams) or name in _WORDS:
            plan.params[name] = _param(name, value.strip())
        else:
            key, parsed = _sampling(text)
            plan.sampling[key] = parsed
    return plan


def reference_of(wanted: str | None, plans: list[ColumnPlan]) -> int | None:
    """Return the place of the column that is the reference; None where none is named.

    Raises:
        UsageError: it is none of the columns.
    """
    if wanted is None:
        return None
    names = [plan.name for plan in plans]
    if wanted in names:
        return names.index(wanted)
    stems = [Path(name).stem for name in names]
    if Path(wanted).stem in stems:
        return stems.index(Path(wanted).stem)
    if wanted.isdecimal() and wanted.isascii() and 1 <= int(wanted[:4]) <= len(plans):
        return int(wanted) - 1
    raise UsageError(
        f"--reference is {wanted!r}, which is none of the models.", "Name one of them, or the number of its column."
    )


def column_from(
    plan: ColumnPlan, params: ModelParams, sampling: SamplingParams, settings: Settings, paths: Paths, *, is_fake: bool
) -> Column:
    """Return the column that is asked for, one that says why where it cannot be used.

    Args:
        params, sampling: what columns have that ask for nothing else.
        is_fake: whether the engine needs no file.

    Raises:
        InvalidParams: a setting is not legal.
    """
    own_params = msgspec.structs.replace(params, **plan.params)
    own_sampling = msgspec.structs.replace(sampling, **plan.sampling)
    told = told_settings(own_params, own_sampling, plan.adapters, usual=(params, sampling))
    if is_fake:
        return Column(
            id="",
            label=f"{plan.name}{told}",
            path=plan.name,
            params=own_params,
            sampling=own_sampling,
            adapters=plan.adapters,
        )
    adapters = plan.adapters
    try:
        choice = choose_model(plan.name, settings, paths)
        adapters = _found_adapters(plan.adapters, str(choice.path), paths)
        made = column_of(choice, params=own_params, sampling=own_sampling, adapters=adapters)
    except (AppError, ModelsError) as error:
        made = failed_column(plan.name, error, params=own_params, sampling=own_sampling, adapters=adapters)
    return msgspec.structs.replace(made, label=f"{made.label}{told}")


def _param(name: str, value: str) -> Any:
    """Return the value of a setting of models; whether it is legal is told when it is used."""
    info = param_infos(ModelParams).get(name)
    if info is None:
        try:
            return getattr(msgspec.convert({name: value}, ModelParams), name)
        except msgspec.ValidationError as error:
            raise UsageError(f"{value!r} is no value of {name}.", "`fireside chat --help` lists them.") from error
    if info.none_label is not None and value.lower() in (info.none_label, "none"):
        return None
    try:
        return whole_number(value) if info.is_integer else number(value)
    except argparse.ArgumentTypeError as error:
        raise UsageError(
            f"The value of {name} is wrong: {error}.", f"Write it as {name}={info.default or 1}."
        ) from error


def _sampling(text: str) -> tuple[str, Any]:
    try:
        return parse_setting(text)
    except UsageError as error:
        if not error.message.endswith("names no setting."):
            raise
        names = ", ".join(name for name in (*_WORDS[:3], *param_infos(ModelParams)) if name not in _SHARED)
        raise UsageError(error.message, f"Those of a model are {names}, {ADAPTER}. {error.hint}") from error


def _adapter(text: str) -> Adapter:
    """Return the adapter in `text`, written PATH, PATH:SCALE or PATH=SCALE; a `:` may be part of the path."""
    before, colon, after = text.rpartition(":")
    try:
        if colon and before and not Path(text).exists():
            try:
                return Adapter(path=adapter_of(before).path, scale=number(after))
            except argparse.ArgumentTypeError:
                pass  # the `:` is one of the path
        return adapter_of(text)
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise UsageError(f"The adapter is wrong: {error}.", f"Write it as {ADAPTER}=PATH:0.5.") from error


def _found_adapters(adapters: tuple[Adapter, ...], model: str, paths: Paths) -> tuple[Adapter, ...]:
    """Return the adapters with their paths where they are known by a name, and absolute."""
    files = open_adapter_files(paths)
    found = []
    for adapter in adapters:
        path = Path(adapter.path)
        named = files.named(adapter.path, model) if path.name == adapter.path and not path.is_file() else None
        found.append(Adapter(path=named.path if named is not None else str(path.absolute()), scale=adapter.scale))
    return tuple(found)
