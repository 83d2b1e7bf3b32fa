"""The report of a comparison: one HTML file that fetches nothing, with its record inside; and the other forms."""

import base64
import hashlib
import importlib.resources
import os
from collections.abc import Callable
from pathlib import Path

from app.atomic_file import write_atomically
from app.compare.advice import Advice, Bar, advise
from app.compare.analysis import Analysis
from app.compare.exports import to_csv, to_json, to_markdown
from app.compare.pareto import Standing, standings
from app.compare.report_charts import bar_charts, pareto_charts
from app.compare.report_replies import replies_section
from app.compare.report_tables import figures_table, machine_list, settings_table
from app.compare.report_text import common_start, escaped, in_script, name
from app.compare.results import MEASURES, RECORD_ELEMENT, Comparison, Mode, comparison_to_json
from app.errors import ReportNotSaved, UsageError
from engine import clean_text

SUFFIXES = (".html", ".json", ".csv", ".md")
_MODES = {
    Mode.FAIR: "one after the other, each alone",
    Mode.RACE: "all at once",
    Mode.SAMPLES: "samples of one prompt in one batch",
}


def check_report_path(path: Path) -> None:
    """See to it that a report can be written there, before hours are spent on what is to be in it.

    Raises:
        UsageError: it is of no kind that can be written, or its folder cannot be used.
    """
    shown = clean_text(str(path))
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"{shown} names no kind of report.", f"End it with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
        )
    try:
        if "\0" in shown:
            raise UsageError(f"{escaped(shown)} is no name for a file.", "Choose another one.")
        if path.is_dir():
            raise UsageError(f"{shown} is a folder.", "Name a file in it.")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"The folder of {shown} is not there.", "Make it, or choose another one.")
        if not os.access(path.absolute().parent, os.W_OK):
            raise UsageError(f"Nothing can be written into the folder of {shown}.", "Choose another one.")
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"{shown} is no name for a file.", "Choose another one.") from error


def write_report(comparison: Comparison, path: Path, *, bar: Bar | None = None) -> None:
    """Write a report in the form that the name's ending says; a file that was there is replaced as a whole or not.

    Args:
        bar: what a file has to reach to be good enough.

    Raises:
        UsageError: the ending names no kind of report.
        ReportNotSaved: it could not be written.
    """
    shown = clean_text(str(path))
    make = _MAKERS.get(path.suffix.lower())
    if make is None:
        raise UsageError(
            f"{shown} names no kind of report.", f"End it with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
        )
    data = make(comparison, bar).encode("utf-8", "replace")
    try:
        write_atomically(path, data, mode=0o666)  # to be handed on
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not valid"
        hint = "Make room on the disk, or choose another folder; the comparison itself is kept."
        raise ReportNotSaved(f"The report could not be written to {shown}: {reason}.", hint, str(error)) from error


def to_html(comparison: Comparison, bar: Bar | None = None) -> str:
    """Return the report as one page."""
    analysis = Analysis(comparison)
    advice = advise(analysis, bar)
    standing = standings(analysis)
    style, script = _packaged("report.css"), _packaged("report.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    title = _title(comparison)
    sections = [
        _top(comparison, title),
        _answer(analysis, advice, standing),
        *_figures(analysis, standing),
        pareto_charts(analysis, standing),
        bar_charts(analysis),
        replies_section(analysis),
        *_settings(analysis),
        _record(comparison),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escaped(title)} – Fireside</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + f"\n</main>\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _title(comparison: Comparison) -> str:
    count = len(comparison.columns)
    family = common_start([column.label for column in comparison.columns]).rstrip(" -_/.:")
    if family:
        return f"{family}: {count} columns compared"
    return "One model measured" if count == 1 else f"{count} models compared"


def _top(comparison: Comparison, title: str) -> str:
    made = comparison.created_at.replace("T", " ").partition(".")[0][:16]
    prompts = "one prompt" if len(comparison.prompts) == 1 else f"{len(comparison.prompts)} prompts"
    repeats = "once" if comparison.repeats == 1 else f"{comparison.repeats} times"
    parts = [made, f"{prompts}{_of(comparison.prompts_name)}, {repeats} each", _MODES[comparison.mode]]
    if comparison.machine is not None:
        parts.append(comparison.machine.processor)
    meta = " · ".join(escaped(part) for part in parts if part)
    return f'<header><h1>{escaped(title)}</h1><p class="meta">{meta}</p></header>'


def _of(prompts_name: str) -> str:
    return f" of “{prompts_name}”" if prompts_name else ""


def _answer(analysis: Analysis, advice: Advice, standing: dict[str, Standing]) -> str:
    comparison = analysis.comparison
    lines = "".join(f"<li>{escaped(line)}</li>" for line in advice.evidence)
    listed = f"<ul>{lines}</ul>" if lines else ""
    gone = "".join(
        f"<li><strong>{name(column.label)}</strong>: {escaped(standing[column.id].reason)}</li>"
        for column in comparison.columns
        if standing[column.id].is_safe_to_delete
    )
    if gone:
        listed += f'<div class="label">Safe to delete</div><ul>{gone}</ul>'
    notes = [*comparison.notes, *analysis.notes]
    notes += [f"{column.label}: {notice}" for column in comparison.columns for notice in column.notices]
    warnings = ""
    if notes:
        warnings = f'<ul class="notes">{"".join(f"<li>{escaped(note)}</li>" for note in dict.fromkeys(notes))}</ul>'
    return (
        '<section class="answer" aria-label="Answer"><div class="label">Answer</div>'
        f'<p class="sentence">{escaped(advice.sentence)}</p>{listed}</section>{warnings}'
    )


def _figures(analysis: Analysis, standing: dict[str, Standing]) -> list[str]:
    reference = analysis.comparison.column(analysis.comparison.reference)
    if not analysis.comparison.columns:
        return ["<h2>Figures</h2><p>There are no models in this comparison.</p>"]
    beside = ""
    if reference is not None:
        beside = f" The change is against {name(reference.label)}, over pairs of the same prompt and repeat."
    lead = (
        "Each figure is the middle of all prompts; below it, between what it lies with 95 % confidence when the "
        "same prompts are repeated on this machine (agreement: when prompts like these are asked)."
        f"{beside} The best figure of a column is blue, and none is where two are equal."
    )
    return [
        f'<section aria-label="Figures"><h2>Figures</h2><p class="lead">{lead}</p>'
        '<input type="checkbox" id="show-intervals" checked>'
        '<label class="switch" for="show-intervals">Intervals</label>'
        '<input type="checkbox" id="show-changes" checked><label class="switch" for="show-changes">Changes</label>'
        '<details class="chooser" id="chooser" hidden><summary>Columns</summary>'
        '<div class="toggles" id="columns"></div>'
        "</details>"
        f'<div class="scroll" tabindex="0">{figures_table(analysis, standing)}</div>'
        "</section>"
    ]


def _settings(analysis: Analysis) -> list[str]:
    comparison = analysis.comparison
    sections = []
    if comparison.columns:
        table = settings_table(comparison.columns)
        sections.append(f'<section><h2>Settings</h2><div class="scroll" tabindex="0">{table}</div></section>')
    sections.append(f"<section><h2>Machine</h2>{machine_list(analysis)}</section>")
    measured = "".join(
        f"<dt>{escaped(MEASURES[each].label)}</dt><dd>{escaped(_MEANINGS[each])}</dd>" for each in analysis.measures
    )
    if measured:
        sections.append(f"<section><h2>What is measured</h2><dl>{measured}</dl></section>")
    return sections


def _record(comparison: Comparison) -> str:
    data = in_script(comparison_to_json(comparison))
    return (
        "<footer><p>This page holds the record of the comparison, with every reply and setting. Nothing in it is "
        "loaded from elsewhere.</p></footer>\n"
        f'<script type="application/json" id="{RECORD_ELEMENT}">{data}</script>'
    )


_MEANINGS = {
    "file_bytes": "Size of the model file.",
    "peak_memory_bytes": "Most memory that the model's process held since the model was loaded.",
    "load_s": "From the order to load until it could answer; the file was in the system's cache where memory allows.",
    "ttft_s": "From the question to the first token.",
    "prefill_rate": "Tokens of the prompt read in a second.",
    "decode_rate": "Tokens of the reply written in a second, after the first.",
    "tpot_s": "Mean time between two tokens.",
    "bandwidth_share": "Bytes read for a token times the decode rate, as a share of what the memory delivers.",
    "joules_per_token": "Energy drawn for a generated token, that of reading the prompt included.",
    "cost_per_million_tokens": "What the electricity of a million tokens costs, in the currency of its price.",
    "num_prompt_tokens": "Length of the prompt.",
    "num_generated_tokens": "Length of the reply.",
    "agreement": "Words that a reply and the reference's have in common, in the same order, as a share of both.",
    "prefix_agreement": "Tokens of the reference's reply before the first different one, as a share of them all.",
}


def _packaged(file_name: str) -> str:
    return importlib.resources.files("app.compare").joinpath(file_name).read_text("utf-8")


def _hash(text: str) -> str:
    """Return what names a piece of the page in its policy: nothing else may style it or run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_MAKERS: dict[str, Callable[[Comparison, Bar | None], str]] = {
    ".html": to_html,
    ".json": to_json,
    ".csv": lambda comparison, bar: to_csv(comparison),
    ".md": to_markdown,
}
