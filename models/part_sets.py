"""Puts the files of split models together, and finds which sets hold the same bytes; told from metadata.

Names only settle which of several split models in one folder a part belongs to, and whether llama.cpp will find it: it
looks for the parts of `prefix-00001-of-00003.gguf` by that name.
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from models.library_index import FileRecord

_PART_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL | re.IGNORECASE)
_MAX_LISTED = 8


@dataclasses.dataclass(frozen=True)
class PartSet:
    """The files of one model in one folder.

    Attributes:
        parts: those that are there, in their order; one for a model in one file.
        missing: file names of those that are not.
        problem, hint: why it cannot be loaded as it lies there; empty where it can.
        copies: the other sets that hold the same bytes.
    """

    parts: tuple[FileRecord, ...]
    missing: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""
    copies: tuple["PartSet", ...] = ()

    @property
    def first(self) -> FileRecord:
        """The part that says what the model is, or the first there is."""
        return self.parts[0]

    @property
    def stem(self) -> str:
        """The name without the number of the part."""
        return _prefix(self.first) or Path(self.first.path).stem


def put_together(records: Iterable[FileRecord]) -> list[PartSet]:
    """Return the sets that files make, in the order in which their first files came."""
    records = list(records)
    whole: dict[str, PartSet] = {}
    splits: dict[tuple[str, int, int], list[FileRecord]] = defaultdict(list)
    damaged = {record.path: record for record in records if record.problem}
    for record in records:
        if record.split_count > 1 and not record.problem:
            key = (str(Path(record.path).parent), record.split_count, record.num_split_tensors)
            splits[key].append(record)
        else:
            whole[record.path] = PartSet((record,), problem=record.problem, hint=record.hint)
    for parts in splits.values():
        for members in _divide(parts):
            found = _as_set(members, damaged)
            whole[members[0].path] = found
    used = {record.path for found in whole.values() for record in found.parts if len(found.parts) > 1}
    order = {record.path: number for number, record in enumerate(records)}
    kept = [found for path, found in whole.items() if path not in used or len(found.parts) > 1]
    return sorted(kept, key=lambda found: min(order[part.path] for part in found.parts))


def _divide(parts: list[FileRecord]) -> list[list[FileRecord]]:
    """Divide the parts in one folder, of equal counts, into models: by number, by name where that is not enough."""
    prefixes = {prefix for part in parts if (prefix := _prefix(part))}
    if len({part.split_no for part in parts}) == len(parts) and len(prefixes) <= 1:
        return [sorted(parts, key=lambda part: part.split_no)]
    by_prefix: dict[str, dict[int, FileRecord]] = defaultdict(dict)
    strays = []
    for part in parts:
        prefix = _prefix(part)
        if prefix and part.split_no not in by_prefix[prefix]:
            by_prefix[prefix][part.split_no] = part
        else:
            strays.append(part)
    for stray in strays:  # a renamed part belongs to the one set that lacks it
        lacking = [members for members in by_prefix.values() if stray.split_no not in members]
        target = lacking[0] if len(lacking) == 1 else by_prefix[stray.path]
        target[stray.split_no] = stray
    return [[members[number] for number in sorted(members)] for members in by_prefix.values() if members]


def _prefix(part: FileRecord) -> str:
    """Return what stands before the number in a part's name, "" where the name is not that of this part."""
    match = _PART_NAME.fullmatch(Path(part.path).name)
    if match is None or int(match[2]) != part.split_no + 1 or int(match[3]) != part.split_count:
        return ""
    return match[1]


def _as_set(members: Sequence[FileRecord], damaged: dict[str, FileRecord]) -> PartSet:
    count = members[0].split_count
    folder = Path(members[0].path).parent
    prefixes = [_prefix(part) for part in members]
    prefix = next((name for name in prefixes if name), Path(members[0].path).stem)
    numbers = {part.split_no for part in members}
    names = [f"{prefix}-{number + 1:05d}-of-{count:05d}.gguf" for number in range(count)]
    missing = tuple(names[number] for number in range(count) if number not in numbers)
    parts = tuple(members)
    for name in missing:
        broken = damaged.get(str(folder / name))
        if broken is not None:
            return PartSet((*parts, broken), missing, f"A part cannot be used: {broken.problem}", broken.hint)
    if missing:
        return PartSet(parts, missing, _missing_sentence(prefix, count, missing), "Put all parts into one folder.")
    for part, expected in zip(members, names, strict=True):
        if Path(part.path).name != expected:
            return PartSet(
                parts,
                problem=f"Part {part.split_no + 1} of {count} has another name than the engine looks for: {expected}.",
                hint="Rename it.",
            )
    promised, found = members[0].num_split_tensors, sum(part.num_tensors for part in members)
    if promised and found != promised:
        return PartSet(
            parts,
            problem=f"The parts of {prefix} do not belong together: they hold {found} tensors instead of {promised}.",
            hint="Download all parts again, into a folder of their own.",
        )
    return PartSet(parts)


def _missing_sentence(prefix: str, count: int, missing: tuple[str, ...]) -> str:
    names = ", ".join(missing[:_MAX_LISTED])
    more = f" and {len(missing) - _MAX_LISTED} more" if len(missing) > _MAX_LISTED else ""
    return f"{prefix} is split into {count} files and these are missing: {names}{more}."


def shown_once(sets: Iterable[PartSet], content_of: Callable[[FileRecord], str]) -> list[PartSet]:
    """Return each set of bytes once, with its copies: the first without a problem, else the first.

    Args:
        content_of: tells the content of a file from that of others; asked only where all that is known cheaply is
            the same, and once for each file by whatever names. Returns "" for a file that cannot be read.
    """
    contents: dict[tuple[int, int], str] = {}

    def content(record: FileRecord) -> str:
        if record.file_key not in contents:
            contents[record.file_key] = content_of(record) or f"{record.device}:{record.inode}"
        return contents[record.file_key]

    alike: dict[object, list[PartSet]] = defaultdict(list)
    for found in sets:
        alike[_coarse_key(found)].append(found)
    result = []
    for group in alike.values():
        same: dict[object, list[PartSet]] = defaultdict(list)
        is_one_file = len({tuple(part.file_key for part in found.parts) for found in group}) == 1
        for found in group:
            same[None if is_one_file else tuple(content(part) for part in found.parts)].append(found)
        result += [_with_copies(copies) for copies in same.values()]
    return result


def _with_copies(sets: list[PartSet]) -> PartSet:
    chosen = next((found for found in sets if not found.problem), sets[0])
    return dataclasses.replace(chosen, copies=tuple(found for found in sets if found is not chosen))


def _coarse_key(found: PartSet) -> object:
    # What is damaged is the same only if it is the same file.
    return tuple(
        part.file_key
        if part.problem
        else (part.file_bytes, part.header_bytes, part.num_tensors, part.num_parameters, part.name, part.type_name)
        for part in found.parts
    )
