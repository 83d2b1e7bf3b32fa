"""The replies in the report: each prompt with what every column said, and where it first differs from the reference."""

from app.compare.agreement import why_not_comparable
from app.compare.analysis import Analysis
from app.compare.report_text import escaped, name, short_labels
from app.compare.results import MEASURES, Cell, PromptItem
from app.compare.word_diff import Change, word_diff
from engine import Role

MAX_PROMPTS_SHOWN = 200
_MAX_PROMPT, _MAX_REPLY = 20_000, 20_000  # characters that are shown; the record has all
_REASONS = {"stop": "ended by itself", "length": "cut at the limit", "context_full": "context full", "abort": "stopped"}


def replies_section(analysis: Analysis) -> str:
    """Return all replies, folded by prompt; empty where there are none."""
    comparison = analysis.comparison
    if not comparison.cells:
        return ""
    cells: dict[str, dict[str, list[Cell]]] = {}
    for cell in comparison.cells:
        cells.setdefault(cell.prompt, {}).setdefault(cell.column, []).append(cell)
    asked = [prompt for prompt in comparison.prompts if prompt.id in cells]
    shown = "".join(
        _prompt(analysis, prompt, cells[prompt.id], is_open=number == 0)
        for number, prompt in enumerate(asked[:MAX_PROMPTS_SHOWN])
    )
    rest = len(asked) - MAX_PROMPTS_SHOWN
    more = f'<p class="lead">{rest:,} more prompts are in the record.</p>' if rest > 0 else ""
    reference = comparison.column(comparison.reference)
    switches, lead = "", "What each model said, the first time it was asked."
    if reference is not None:
        lead += f" Words that {name(reference.label)} did not say are tinted; the first of them is marked."
        switches = (
            '<input type="checkbox" id="show-diffs" checked><label class="switch" for="show-diffs">Differences</label>'
            '<input type="checkbox" id="show-removed"><label class="switch" for="show-removed">Words left out</label>'
        )
    return (
        f'<section aria-label="Replies"><h2>Replies</h2><p class="lead">{lead}</p>{switches}'
        f'<div class="prompts">{shown}{more}</div></section>'
    )


def _prompt(analysis: Analysis, prompt: PromptItem, cells: dict[str, list[Cell]], *, is_open: bool) -> str:
    comparison = analysis.comparison
    reference = comparison.column(comparison.reference)
    labels = short_labels(comparison.columns)
    of_reference = cells.get(comparison.reference, [])
    theirs = {column.id: of_reference if column.id != comparison.reference else [] for column in comparison.columns}
    replies = "".join(
        _reply(
            labels[column.id],
            cells.get(column.id, []),
            [] if why_not_comparable(reference, column) else theirs[column.id],
        )
        for column in comparison.columns
        if not column.error or column.id in cells
    )
    start = " ".join(prompt.text.split())[:160]
    return (
        f'<details{" open" if is_open else ""}><summary><span class="name">{name(prompt.id)}</span>'
        f'<span class="start">{name(start)}</span></summary><div class="inside">'
        f'<div class="prompt" dir="auto" tabindex="0">{_messages(prompt)}</div>'
        f'<div class="replies" tabindex="0">{replies}</div></div></details>'
    )


def _messages(prompt: PromptItem) -> str:
    if len(prompt.messages) == 1:
        return escaped(_cut(prompt.text, _MAX_PROMPT))
    names = {Role.SYSTEM: "System", Role.USER: "You", Role.ASSISTANT: "Answer", Role.TOOL: "Tool"}
    return "\n\n".join(
        f'<span class="label">{names[message.role]}</span>\n{escaped(_cut(message.content, _MAX_PROMPT))}'
        for message in prompt.messages
    )


def _reply(label: str, cells: list[Cell], theirs: list[Cell]) -> str:
    """Return what a column said; beside what the reference said, unless `theirs` is empty."""
    if not cells:
        return _framed(
            label, "no reply", '<div class="said empty">It was not asked, or the comparison was stopped.</div>'
        )
    cell = min(cells, key=lambda each: each.repeat)
    if cell.error:
        return _framed(label, "failed", f'<div class="said failed">{escaped(cell.error)}</div>')
    other = next((each for each in theirs if each.repeat == cell.repeat and not each.error), None)
    facts = _facts(cell, cells)
    if other is None:
        body = escaped(_cut(cell.text, _MAX_REPLY))
    else:
        diff = word_diff(_cut(other.text, _MAX_REPLY), _cut(cell.text, _MAX_REPLY))
        facts.insert(0, f"{MEASURES['agreement'].shown(diff.similarity)} the same")
        body = "".join(_piece(piece.change, piece.text, is_first=piece.is_first) for piece in diff.pieces)
    if not cell.text.strip():
        return _framed(label, " · ".join(facts), '<div class="said empty">(empty)</div>')
    return _framed(label, " · ".join(facts), f'<div class="said" dir="auto">{body}</div>')


def _framed(label: str, facts: str, body: str) -> str:
    return f'<article class="reply"><h3>{name(label)}<span>{escaped(facts)}</span></h3>{body}</article>'


def _piece(change: Change, text: str, *, is_first: bool) -> str:
    mark = '<span class="first" title="first difference">≠</span>' if is_first else ""
    if change is Change.SAME:
        return escaped(text)
    return f"{mark}<{_TAGS[change]}>{escaped(text)}</{_TAGS[change]}>"


_TAGS = {Change.ADDED: "ins", Change.REMOVED: "del"}


def _facts(cell: Cell, cells: list[Cell]) -> list[str]:
    facts = []
    count = cell.values.get("num_generated_tokens")
    if count is not None:
        facts.append(f"{count:,.0f} tokens")
    if cell.finish_reason is not None:
        facts.append(_REASONS.get(cell.finish_reason.value, cell.finish_reason.value))
    good = [each for each in cells if not each.error]
    if len(good) > 1:
        num_texts = len({each.text for each in good})
        facts.append(f"{len(good)} times the same" if num_texts == 1 else f"{num_texts} different texts in {len(good)}")
    return facts


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}\n… ({len(text) - length:,} more characters)"
