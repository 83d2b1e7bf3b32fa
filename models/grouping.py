"""Makes entries of what was found: levels of one model grouped by their metadata, every entry with a name of its own.

Levels belong together when architecture, the model's own name, number of parameters and vocabulary are the same. The
names of files say nothing about that: people rename them.
"""

import dataclasses
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from models.gguf_info import active_parameters, printable
from models.library_entry import LibraryEntry
from models.library_index import FileRecord
from models.model_kinds import ModelKind
from models.part_sets import PartSet, put_together, shown_once
from models.sources.starter import STARTER_LABEL, STARTER_NAME

_KEY_DIGITS = 16
_SUFFIX_OF_LEVEL = re.compile(r"[-_. ]*(?:I?Q\d\w*|[BF]F?16|F32|TQ\d\w*|MXFP4\w*|NVFP4)$", re.IGNORECASE)


def make_entries(records: Iterable[FileRecord], content_of: Callable[[FileRecord], str]) -> tuple[LibraryEntry, ...]:
    """Return the entries of a library that holds these files.

    Args:
        records: in the order of preference: of copies the first is shown.
        content_of: see `shown_once`.
    """
    sets = shown_once(put_together(records), content_of)
    keys = _group_keys(sets)
    titles = _group_titles(sets, keys)
    entries = [_entry(found, key, titles[key]) for found, key in zip(sets, keys, strict=True)]
    entries = _told_apart(entries)
    return tuple(sorted(entries, key=lambda entry: (entry.group_title.casefold(), -entry.file_bytes, entry.name)))


def plain(text: str) -> str:
    """Return letters and digits alone, as names are compared."""
    return "".join(c for c in text.casefold() if c.isalnum())


# --- groups ---


def _group_keys(sets: list[PartSet]) -> list[str]:
    parameters: dict[object, set[int]] = defaultdict(set)
    for found in sets:
        if not found.missing and not found.first.problem:
            parameters[_model_of(found)].add(_num_parameters(found))
    keys = []
    for found in sets:
        count = _num_parameters(found)
        known = parameters[_model_of(found)]
        if found.missing and len(known) == 1:  # its own count is not to be had
            (count,) = known
        keys.append(
            hashlib.sha256(repr((_model_of(found), count)).encode("utf-8", "replace")).hexdigest()[:_KEY_DIGITS]
        )
    return keys


def _model_of(found: PartSet) -> object:
    """Return what the levels of a model have in common, but for the number of parameters."""
    first = found.first
    if first.problem or first.kind in (None, ModelKind.SPLIT_PART):
        return ("file", first.id)
    name: object = plain(first.name) or ("nameless", first.has_chat_template)
    return (first.kind.name if first.kind else "", first.architecture, name, first.tokenizer)


def _num_parameters(found: PartSet) -> int:
    return sum(part.num_parameters for part in found.parts)


def _group_titles(sets: list[PartSet], keys: list[str]) -> dict[str, str]:
    names: dict[str, Counter[str]] = defaultdict(Counter)
    parameters: dict[str, int] = {}
    kinds: dict[str, ModelKind | None] = {}
    for found, key in zip(sets, keys, strict=True):
        names[key][_own_title(found)] += 1
        parameters[key] = max(parameters.get(key, 0), _num_parameters(found))
        kinds[key] = found.first.kind
    titles = {key: min(counts, key=lambda name: (-counts[name], name)) for key, counts in names.items()}
    # The name in its header is that of a training run.
    titles |= {key: STARTER_LABEL for found, key in zip(sets, keys, strict=True) if found.first.alias == STARTER_NAME}
    for key in _sharing(titles):  # a projector is often called like its model
        kind = kinds[key]
        if kind not in (ModelKind.TEXT, ModelKind.SPLIT_PART, None):
            titles[key] += f" {kind.value}"
    for key in _sharing(titles):
        if parameters[key]:
            titles[key] += f" {short_count(parameters[key])}"
    return titles


def _sharing(titles: dict[str, str]) -> list[str]:
    """Return the keys whose title another one has as well."""
    counts = Counter(plain(title) for title in titles.values())
    return [key for key, title in titles.items() if counts[plain(title)] > 1]


def _own_title(found: PartSet) -> str:
    first = found.first
    if first.name:
        return first.name
    if first.alias:
        return printable(first.alias)
    stem = printable(found.stem)
    return _SUFFIX_OF_LEVEL.sub("", stem) or stem


def short_count(count: int) -> str:
    """Return a number of parameters as models are called by it: "135M", "7.2B"."""
    for unit, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= unit:
            value = count / unit
            return f"{value:.0f}{letter}" if value >= 20 or value == int(value) else f"{value:.1f}{letter}"
    return str(count)


# --- entries ---


def _entry(found: PartSet, key: str, group_title: str) -> LibraryEntry:
    first, parts = found.first, found.parts
    num_parameters = _num_parameters(found)
    weight_bytes = sum(part.weight_bytes for part in parts)
    title = f"{group_title} {first.type_name}".strip()
    return LibraryEntry(
        id=first.id,
        title=title,
        name=_slug(group_title) + (f":{first.type_name.lower()}" if first.type_name else ""),
        group_key=key,
        group_title=group_title,
        paths=tuple(Path(part.path) for part in parts),
        missing_parts=found.missing,
        kind=first.kind,
        has_chat_template=first.has_chat_template,
        architecture=first.architecture,
        tokenizer=first.tokenizer,
        type_name=first.type_name,
        bits_per_weight=8 * weight_bytes / num_parameters if num_parameters else 0.0,
        num_parameters=num_parameters,
        num_active_parameters=active_parameters(
            num_parameters,
            sum(part.num_expert_parameters for part in parts),
            first.expert_used_count,
            first.expert_count,
        ),
        file_bytes=sum(part.file_bytes for part in parts),
        n_ctx_train=first.n_ctx_train,
        licence=first.licence,
        source=first.source,
        is_ours=all(part.is_ours for part in parts),
        alias=first.alias,
        other_places=tuple(Path(copy.first.path) for copy in found.copies),
        problem=found.problem or None,
        hint=found.hint,
    )


def _slug(text: str) -> str:
    words = "".join(c if c.isalnum() or c == "." else " " for c in text.casefold()).split()
    return "-".join(words) or "model"


def _told_apart(entries: list[LibraryEntry]) -> list[LibraryEntry]:
    """Return entries whose names differ: by the file's name where model and level are the same, then by the id."""
    tells: tuple[Callable[[LibraryEntry], str], ...] = (
        lambda entry: _slug(entry.path.stem),
        lambda entry: entry.id[:8],
    )
    for tell in tells:
        counts = Counter(entry.name for entry in entries)
        entries = [
            dataclasses.replace(entry, name=f"{entry.name}@{tell(entry)}", title=f"{entry.title} ({tell(entry)})")
            if counts[entry.name] > 1 and tell(entry) != entry.name
            else entry
            for entry in entries
        ]
    return entries
