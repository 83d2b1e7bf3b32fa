"""What quantising a file would make, before anything is written: exact size, warnings, and every reason to refuse.

llama.cpp chooses the type of each tensor in a dry run, in a process that a malformed source may end.
"""

import dataclasses
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from models.errors import NotQuantizable, QuantizeError, QuantizeRefused
from models.gguf_info import GGUFInfo, check_parts, parts_of, printable, read_gguf_info
from models.model_kinds import RUNNABLE_KINDS, WHY_NO_CHAT
from models.quant_types import FILE_TYPE_NAMES
from models.quantize_child import DryRun, dry_run
from models.quantize_messages import Planned, PlannedTensor
from models.quantize_types import QUANTIZE_TYPES, QuantizeType, find_quantize_type

SPARE_BYTES = 64 * 2**20  # left on the disk for everybody else
PRECISE_TYPES = ("F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64")
_MAX_NAME_BYTES = 255

Stamp = tuple[tuple[int, int], ...]
"""Size and time of change, in nanoseconds, of each file of a model."""


@dataclasses.dataclass(frozen=True)
class QuantizePlan:
    """A file to be made.

    Attributes:
        source: the file to read, or the first of its parts.
        source_bytes: of all parts.
        source_stamp: sizes and times of the parts, which must be the same when the file is made.
        output_bytes: exact size of the file to be made.
        imatrix: file of an importance matrix; None where there is none, or it is still to be built.
        has_imatrix: whether there is one or will be: it decides some types.
        needs_imatrix: whether it can only be made with one.
        num_fallback: tensors whose rows the type does not divide, and that get another one.
        overwrites: whether there is a file at `output` that is to be replaced.
        free_bytes: on the disk of `output`, when this was planned.
        warnings: sentences to show before it is made.
    """

    source: Path
    source_parts: tuple[Path, ...]
    source_bytes: int
    source_stamp: Stamp
    type: QuantizeType
    output: Path
    output_bytes: int
    tensors: tuple[PlannedTensor, ...]
    imatrix: Path | None
    has_imatrix: bool
    needs_imatrix: bool
    num_fallback: int
    overwrites: bool
    free_bytes: int
    warnings: tuple[str, ...]

    @property
    def num_parameters(self) -> int:
        """Weights of the model."""
        return sum(tensor.num_elements for tensor in self.tensors)

    @property
    def bits_per_weight(self) -> float:
        """Of the file's tensors."""
        return 8 * sum(tensor.num_bytes for tensor in self.tensors) / max(1, self.num_parameters)

    @property
    def type_counts(self) -> dict[str, int]:
        """How many tensors get each type, most frequent first."""
        counts: dict[str, int] = {}
        for tensor in self.tensors:
            counts[tensor.type_name] = counts.get(tensor.type_name, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def check_room(self, reserved_bytes: int = 0) -> None:
        """Raise unless the file fits on its disk now.

        Args:
            reserved_bytes: for files that are made before this one.

        Raises:
            QuantizeError: it does not; both sizes are named.
        """
        free = shutil.disk_usage(self.output.parent).free - reserved_bytes
        if self.output_bytes + SPARE_BYTES > free:
            raise QuantizeError(
                f"There is no room for {printable(self.output.name)}: it takes {_size(self.output_bytes)} and "
                f"{_size(max(0, free))} are free.",
                "Free some space, or choose a folder on another disk.",
            )


def default_output(source: Path, type_name: str, folder: Path) -> Path:
    """Return how a quantised file would be called: the source's name, its own type taken off, with the new one."""
    stem = source.name.removesuffix(".gguf")
    number = stem.rpartition("-of-")[0].rpartition("-")
    if number[0] and number[2].isdigit():  # the number of a part
        stem = number[0]
    return folder / f"{_without_type(stem)}.{find_quantize_type(type_name).name}.gguf"


def plan_quantize(
    source: Path,
    type_name: str,
    output: Path,
    *,
    imatrix: Path | None = None,
    builds_imatrix: bool = False,
    overwrite: bool = False,
) -> QuantizePlan:
    """Return what would be made; takes about a second, most of it the start of a process.

    Args:
        source: a GGUF file; any part of a split model stands for all of it.
        imatrix: an importance matrix to use, checked against the source.
        builds_imatrix: whether one will be there when the file is made.

    Raises:
        QuantizeRefused: the type, the output or the importance matrix cannot be used.
        NotQuantizable: the source is of a kind that is not quantised.
        QuantizeError: llama.cpp cannot read the source.
        GGUFError: the source is no sound file.
        OSError: the source cannot be read.
    """
    plan = plan_ladder(
        source, {type_name: output}, imatrix=imatrix, builds_imatrix=builds_imatrix, overwrite=overwrite
    )[0]
    if isinstance(plan, QuantizeError):
        raise plan
    return plan


def plan_ladder(
    source: Path,
    outputs: dict[str, Path],
    *,
    imatrix: Path | None = None,
    builds_imatrix: bool = False,
    overwrite: bool = False,
) -> tuple[QuantizePlan | QuantizeError, ...]:
    """Return a plan for each type, in their order, or why there is none; see plan_quantize for the rest.

    Args:
        outputs: by name of the type.
    """
    info = _read_source(source)
    inputs = (*parts_of(info), *([imatrix] if imatrix else ()))
    found: dict[str, QuantizeType | QuantizeError] = {}
    taken: list[Path] = []
    for name, output in outputs.items():
        try:
            found[name] = find_quantize_type(name)
            _check_name(output.name)
            _check_output(output, inputs, taken, overwrite=overwrite)
            taken.append(output)
        except QuantizeError as error:
            found[name] = error
    types = [kind for kind in found.values() if isinstance(kind, QuantizeType)]
    run = dry_run(parts_of(info), types, imatrix=imatrix, builds_imatrix=builds_imatrix) if types else DryRun({}, None)
    plans: list[QuantizePlan | QuantizeError] = []
    has_imatrix = imatrix is not None or builds_imatrix
    for name, kind in found.items():
        if isinstance(kind, QuantizeError):
            plans.append(kind)
            continue
        planned = run.of(kind)
        if isinstance(planned, QuantizeError):
            plans.append(planned)
            continue
        if planned.needs_imatrix and not has_imatrix:
            plans.append(_needs_imatrix(info, kind))
            continue
        plans.append(_plan(info, kind, planned, outputs[name], imatrix=imatrix, has_imatrix=has_imatrix))
    return tuple(plans)


def stamp_of(paths: Sequence[Path]) -> Stamp:
    """Return sizes and times of files.

    Raises:
        OSError: one is not there.
    """
    states = [path.stat() for path in paths]
    return tuple((state.st_size, state.st_mtime_ns) for state in states)


def _plan(
    info: GGUFInfo,
    kind: QuantizeType,
    planned: Planned,
    output: Path,
    *,
    imatrix: Path | None,
    has_imatrix: bool,
) -> QuantizePlan:
    parts = parts_of(info)
    stamp = stamp_of(parts)
    return QuantizePlan(
        source=info.path,
        source_parts=parts,
        source_bytes=sum(size for size, _ in stamp),
        source_stamp=stamp,
        type=kind,
        output=output,
        output_bytes=planned.output_bytes,
        tensors=planned.tensors,
        imatrix=imatrix,
        has_imatrix=has_imatrix,
        needs_imatrix=planned.needs_imatrix,
        num_fallback=planned.num_fallback,
        overwrites=os.path.lexists(output),
        free_bytes=shutil.disk_usage(output.parent).free,
        warnings=tuple(_warnings(info, kind, planned, output, has_imatrix=has_imatrix)),
    )


def _warnings(
    info: GGUFInfo, kind: QuantizeType, planned: Planned, output: Path, *, has_imatrix: bool
) -> Iterator[str]:
    changed = [tensor for tensor in planned.tensors if tensor.type_name != tensor.source_type]
    again = [tensor for tensor in changed if tensor.source_type not in PRECISE_TYPES]
    if again:
        what = info.type_name or again[0].source_type
        yield f"{printable(info.path.name)} is already quantised ({what}): what was lost then stays lost, and more is."
    if not changed:
        yield f"All of it is stored as {kind.name} would store it, so the copy will be no smaller."
    if planned.num_fallback:
        share = f"{planned.num_fallback} of {len(planned.tensors)} tensors"
        yield f"{share} get a larger type, because their rows do not divide into the blocks of {kind.name}."
    if kind.needs_imatrix and not planned.needs_imatrix and not has_imatrix:
        yield f"{kind.name} is much better with an importance matrix."
    if output.suffix.lower() != ".gguf":
        yield f"{printable(output.name)} does not end in .gguf, so it will not be listed among the models."


def _needs_imatrix(info: GGUFInfo, kind: QuantizeType) -> QuantizeRefused:
    return QuantizeRefused(
        f"{kind.name} of {printable(info.path.name)} cannot be made without an importance matrix.",
        "Give one, or a text to build it from.",
    )


# --- what is refused ---


def _read_source(source: Path) -> GGUFInfo:
    info = read_gguf_info(source)
    if info.split_no > 0:
        info = read_gguf_info(parts_of(info)[0])
    name = printable(info.path.name)
    if info.kind not in RUNNABLE_KINDS:
        what, _ = WHY_NO_CHAT.get(info.kind, ("no model", ""))
        raise NotQuantizable(f"{name} is {what}, and cannot be quantised.", "Choose the file of a model.")
    check_parts(info)
    return info


def _check_name(name: str) -> None:
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        length = 0
    if not length or "\0" in name:
        raise QuantizeRefused("The name of the file holds characters that are no text.", "Choose another name.")
    if length > _MAX_NAME_BYTES:
        raise QuantizeRefused("The name of the file is too long.", "Choose a shorter one.")


def _check_output(output: Path, inputs: Sequence[Path], taken: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse an output before anything is written: files are told apart by what they are, never by their names."""
    name = printable(output.name)
    folder = output.parent
    if not folder.is_dir():
        raise QuantizeRefused(f"There is no folder {printable(str(folder))}.", "Make it, or choose another one.")
    if output.is_dir():
        raise QuantizeRefused(f"{name} is a folder.", "Give the name of a file.")
    for path in inputs:
        if _is_same(output, path):
            raise QuantizeRefused(
                f"{name} is the file that is to be read ({printable(path.name)}): it would be destroyed.",
                "Choose another name.",
            )
    if any(_is_same(output, path) or _is_same_place(output, path) for path in taken):
        raise QuantizeRefused(f"{name} is the name of two files that are to be made.", "Choose another name for one.")
    if os.path.lexists(output):
        if output.exists() and not output.is_file():
            raise QuantizeRefused(f"{name} is no regular file.", "Choose another name.")
        if not overwrite:
            raise QuantizeRefused(f"{name} is there already.", "Choose another name, or allow it to be replaced.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise QuantizeRefused(
            f"The folder {printable(str(folder))} cannot be written to.", "Choose another one, or change its rights."
        )


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one is not there
        return False


def _is_same_place(one: Path, other: Path) -> bool:
    return os.path.normcase(one.resolve()) == os.path.normcase(other.resolve())


def _without_type(stem: str) -> str:
    """Return a file's name without the type at its end, as in `Name.Q4_1` and `name-f16`."""
    head, mark, tail = max((stem.rpartition(mark) for mark in ".-"), key=lambda split: len(split[0]))
    is_type = tail.upper() in QUANTIZE_TYPES or tail.upper() in FILE_TYPE_NAMES.values()
    return head if mark and head and is_type else stem


def _size(num_bytes: int) -> str:
    mebibytes = num_bytes / 2**20
    return f"{mebibytes / 1024:,.1f} GiB" if mebibytes >= 1024 else f"{mebibytes:,.0f} MiB"
