"""What a run of drafting says in a few lines: what was lost at worst, and what was won by kind of prompt."""

import statistics
from collections.abc import Sequence

from benchmarks.speculation_cells import BOTH, CONTROL, KINDS, NGRAM, OFF, CellFigures, Pairs

Q4_1, F16, DEEP = "Q4_1", "F16", "deep F16 (synthetic)"
OF_SERVER = ", llama.cpp server"  # behind the name of a target
_TOLERANCE = 0.02  # that the worst cell may lie behind the worst of the control


def worst(cells: Sequence[CellFigures]) -> CellFigures | None:
    """Return the cell with the lowest speed-up."""
    return min((cell for cell in cells if cell.speedup is not None), key=lambda cell: cell.speedup or 0, default=None)


def never_loses(cells: Sequence[CellFigures], controls: Sequence[CellFigures]) -> bool | None:
    """Whether the worst cell lies within 0.02 of the worst of the control; None where there are none."""
    low, control = worst(cells), worst(controls)
    if low is None or control is None or low.speedup is None or control.speedup is None:
        return None
    return low.speedup >= control.speedup - _TOLERANCE


def summary(cells: Sequence[CellFigures]) -> list[str]:
    """Return the lines below the table: the worst cells beside the control's, what is won, and the kinds of prompts."""
    drafted = [cell for cell in cells if cell.key.mode != CONTROL]
    control = [cell for cell in cells if cell.key.mode == CONTROL]
    modes = tuple(dict.fromkeys(cell.key.mode for cell in drafted))
    lines = [_lowest(mode, [cell for cell in drafted if cell.key.mode == mode]) for mode in modes]
    lines.append(_lowest("control, plain beside plain", control))
    outcome = never_loses(drafted, control)
    if outcome is not None:
        lines.append(f"Never loses, within 0.02 of the control: {'yes' if outcome else 'no'}.")
    wins = {
        f"n-gram, texts told again with a change, {F16}": (F16, NGRAM, ("copy",)),
        f"draft model or n-gram, code and such texts, {DEEP}": (DEEP, BOTH, ("copy", "code")),
    }
    for label, (target, mode, kinds) in wins.items():
        found = [
            cell
            for cell in drafted
            if (cell.key.target, cell.key.mode) == (target, mode) and cell.key.kind in kinds and not cell.is_loop
        ]
        if found:
            lines.append(f"{label}, loops left out: {_range(found)}.")
    return [*filter(None, lines), *kind_rows(cells)]


def kind_rows(cells: Sequence[CellFigures]) -> list[str]:
    """Return a table of medians over the cells of each kind of prompt, loops left out; nothing without cells."""
    heads = (
        *("target", "mode", "kind", "temperature", "cells", "loops left out", "speed-up", "ideal", "of the ideal"),
        *("after first text", "ideal there", "lowest"),
    )
    groups: dict[tuple[str, str, str, float], list[CellFigures]] = {}
    for cell in cells:
        groups.setdefault((cell.key.target, cell.key.mode, cell.key.kind, cell.key.temperature), []).append(cell)
    lines = []
    for place in sorted(groups, key=lambda each: (each[0], each[1], KINDS.index(each[2]), each[3])):
        counted = [cell for cell in groups[place] if not cell.is_loop]
        values = [
            # A cell in which nothing was drafted is worth what plain steps are.
            _median([cell.speedup for cell in counted]),
            _median([cell.ideal or 1.0 for cell in counted]),
            _median([cell.share for cell in counted]),
            _median([cell.decode for cell in counted]),
            _median([cell.ideal_decode or 1.0 for cell in counted]),
            min((cell.speedup for cell in counted if cell.speedup is not None), default=None),
        ]
        counts = (str(len(groups[place])), str(len(groups[place]) - len(counted)))
        shown = ("" if value is None else f"{value:.2f}" for value in values)
        lines.append("| " + " | ".join((*place[:3], f"{place[3]:g}", *counts, *shown)) + " |")
    return ["", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *lines] if lines else []


def server_rows(pairs: Pairs) -> list[str]:
    """Return a table of milliseconds a token of whole replies, ours beside llama.cpp's server; nothing without both."""
    seconds: dict[tuple[str, str, float], dict[str, list[float]]] = {}
    for key, each in pairs.items():
        if key.mode == CONTROL:
            continue
        target, is_server = key.target.removesuffix(OF_SERVER), key.target.endswith(OF_SERVER)
        modes = seconds.setdefault((target, key.prompt, key.temperature), {})
        for pair in each:
            for mode, reply in ((f"server {OFF}" if is_server else OFF, pair.plain), (key.mode, pair.other)):
                modes.setdefault(mode, []).append(1000 * reply.wall_s / max(reply.num_tokens, 1))
    lines = []
    for (target, prompt, temperature), modes in seconds.items():
        middle = {mode: statistics.median(values) for mode, values in modes.items()}
        ours = {mode: value for mode, value in middle.items() if not mode.startswith("server")}
        theirs = {mode: value for mode, value in middle.items() if mode.startswith("server")}
        if ours and theirs:
            told = [", ".join(f"{mode} {value:.1f}" for mode, value in each.items()) for each in (ours, theirs)]
            ratio = min(ours.values()) / min(theirs.values())
            lines.append(f"| {target} | {prompt} | {temperature:g} | {told[0]} | {told[1]} | {ratio:.2f} |")
    heads = ("target", "prompt", "temperature", "ours, ms/token", "llama.cpp server", "best of ours by best of it")
    return ["", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *lines] if lines else []


def _lowest(label: str, cells: Sequence[CellFigures]) -> str:
    """Return the worst cell in words, with how many there are: the lowest of many lies lower than that of few."""
    low = worst(cells)
    if low is None:
        return ""
    values = sorted(cell.speedup for cell in cells if cell.speedup is not None)
    place = f"{low.key.prompt}, temperature {low.key.temperature:g}, {low.key.target}"
    twentieth = values[len(values) // 20]
    return f"Worst of {len(values)} cells, {label}: {values[0]:.2f} ({place}); one in 20 is below {twentieth:.2f}."


def _range(cells: Sequence[CellFigures]) -> str:
    parts = []
    for label, values in (
        ("speed-up", sorted(cell.speedup for cell in cells if cell.speedup is not None)),
        ("of the ideal", sorted(cell.share for cell in cells if cell.share is not None)),
        ("after the first text", sorted(cell.decode for cell in cells if cell.decode is not None)),
    ):
        if values:
            parts.append(f"{label} {statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})")
    return ", ".join(parts) or "nothing was measured"


def _median(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None
