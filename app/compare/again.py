"""A comparison that is run again: its record becomes a plan, with the files as they are now."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from app.compare.plan import column_of, new_comparison
from app.compare.results import MEASURES, Column, Comparison
from app.errors import AppError, ModelFileMissing
from app.model_choice import ModelChoice, choose_model
from app.model_library import open_library
from app.paths import Paths
from app.settings import Settings
from models import ModelsError, find_starter, fingerprint, read_gguf_info

_SIZE = MEASURES["file_bytes"]
_HINT = "Put that file back, or begin a new comparison with the one that is there."


def plan_again(record: Comparison, settings: Settings, paths: Paths, *, is_fake: bool = False) -> Comparison:
    """Return a comparison with the same models, settings, prompts and repeats, of which nothing is done yet.

    A model whose file is gone, or is another one now, is a column that says so; what failed then is tried again.

    Args:
        is_fake: whether the engines need no file.

    Raises:
        UsageError: the record holds nothing to compare.
    """
    columns: list[Column] = []
    notes = [f"The comparison of {record.created_at.replace('T', ' ')[:16]} was run again with the same plan."]
    for column in record.columns:
        made = _bare(column) if is_fake else _with_file(column, settings, paths)
        if made.path != column.path and not made.error:
            notes.append(f"The file of {column.label} lies in another folder now; it is the same.")
        columns.append(made)
    ids = [column.id for column in record.columns]
    plan = new_comparison(
        columns,
        record.prompts,
        mode=record.mode,
        repeats=record.repeats,
        prompts_name=record.prompts_name,
        watts=settings.power_watts,
        reference=ids.index(record.reference) if record.reference in ids else None,
    )
    return msgspec.structs.replace(plan, notes=(*notes, *plan.notes))


def _with_file(column: Column, settings: Settings, paths: Paths) -> Column:
    try:
        choice = _choice(column, settings, paths)
        made = column_of(choice, params=column.params, sampling=column.sampling, adapters=column.adapters)
    except ModelFileMissing:
        return _failed(column, f"The file of {column.label} is gone: there is no {column.path}.", "Put it back.")
    except (AppError, ModelsError) as error:
        return _failed(column, error.message, error.hint)
    if column.fingerprint and made.fingerprint != column.fingerprint:
        return _failed(column, f"The file of {column.label} is another one now: {_difference(column, made)}.", _HINT)
    if column.adapter_fingerprints and made.adapter_fingerprints != column.adapter_fingerprints:
        return _failed(column, f"The adapter of {column.label} is another one now.", _HINT)
    return msgspec.structs.replace(made, label=column.label)


def _choice(column: Column, settings: Settings, paths: Paths) -> ModelChoice:
    """Return the file of a column, also where it was moved to another place that is known."""
    try:
        return choose_model(column.path, settings, paths)
    except ModelFileMissing:
        for path in _places(column, paths):
            try:
                if fingerprint(read_gguf_info(path)) == column.fingerprint:
                    return choose_model(str(path), settings, paths)
            except (AppError, ModelsError, OSError):
                continue
        raise


def _places(column: Column, paths: Paths) -> Iterator[Path]:
    """Yield the files that may be the one of a column, by their size."""
    num_bytes = column.values.get("file_bytes")
    if not column.fingerprint or num_bytes is None:
        return
    starter = find_starter()
    if starter is not None and starter.stat().st_size == num_bytes:
        yield starter
    for entry in open_library(paths).entries():
        if entry.file_bytes == num_bytes and entry.paths and entry.problem is None:
            yield entry.path


def _difference(before: Column, now: Column) -> str:
    sizes = [_SIZE.shown(column.values.get("file_bytes", 0.0)) for column in (now, before)]
    if before.values.get("file_bytes") == now.values.get("file_bytes"):
        return f"it has the same size, {sizes[0]}, and holds something else"
    return f"it has {sizes[0]}, and had {sizes[1]}"


def _bare(column: Column) -> Column:
    """Return a column without what came of it."""
    return msgspec.structs.replace(column, notices=(), error="", hint="")


def _failed(column: Column, message: str, hint: str) -> Column:
    return msgspec.structs.replace(_bare(column), error=message, hint=hint)
