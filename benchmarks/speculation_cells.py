"""What is drafted and what comes of it: fixed prompts, pairs of replies with drafting and without, and their figures.

A cell is one prompt at one temperature on one target with one mode. Replies of a pair may differ in length, since they
are drawn apart: the plain one is taken for as many tokens as the other one has.
"""

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

Chat = tuple[tuple[str, str], ...]
"""(role, text) of each message."""

PROMPTS = Path(__file__).with_name("speculation_prompts.toml")
KINDS = ("copy", "rewrite", "code", "prose", "question", "script", "short")
"""What a reply is: a text of the prompt with a change, one told in other words, code, a longer text, facts, a text in
another script, a few words."""
OFF, NGRAM, BOTH, CONTROL = "off", "ngram", "both", "control"
_LOOP_WINDOW = 8
_LOOP_SHARE = 0.25


class Prompt(NamedTuple):
    """One fixed prompt.

    Attributes:
        kind: one of KINDS.
        tokens: the most of its reply.
    """

    name: str
    kind: str
    tokens: int
    messages: Chat


class Drafted(NamedTuple):
    """What one drafter did in a reply; see DrafterStats of the engine."""

    drafter: str
    num_drafts: int
    num_drafted: int
    num_accepted: int


class Whole(NamedTuple):
    """One whole reply on the caller's clock.

    Attributes:
        wall_s: from the call to its end.
        net_speedup: as the engine itself reports it.
        state: of drafting; empty where it was off.
    """

    ttft_s: float
    wall_s: float
    num_tokens: int
    token_ids: tuple[int, ...] = ()
    drafted: tuple[Drafted, ...] = ()
    net_speedup: float | None = None
    state: str = ""

    @property
    def step_s(self) -> float | None:
        """Mean seconds between tokens."""
        return (self.wall_s - self.ttft_s) / (self.num_tokens - 1) if self.num_tokens > 1 else None


class Key(NamedTuple):
    """Which cell it is."""

    prompt: str
    kind: str
    temperature: float
    target: str
    mode: str


class Pair(NamedTuple):
    """Two replies one after the other, the first of them plain."""

    plain: Whole
    other: Whole


Pairs = dict[Key, list[Pair]]
"""All cells of a run."""


def load_prompts(path: Path = PROMPTS) -> list[Prompt]:
    """Return the fixed prompts."""
    entries = tomllib.loads(path.read_text("utf-8"))["prompt"]
    return [
        Prompt(
            entry["name"],
            entry["kind"],
            entry["tokens"],
            tuple((role, text.strip()) for role, text in entry["messages"]),
        )
        for entry in entries
    ]


def is_loop(token_ids: Sequence[int]) -> bool:
    """Whether more than a quarter of a reply repeats what the reply itself said before: windows of eight tokens."""
    seen: set[tuple[int, ...]] = set()
    repeated: set[int] = set()
    for start in range(len(token_ids) - _LOOP_WINDOW + 1):
        window = tuple(token_ids[start : start + _LOOP_WINDOW])
        if window in seen:
            repeated.update(range(start, start + _LOOP_WINDOW))
        seen.add(window)
    return len(repeated) > _LOOP_SHARE * len(token_ids)


def plain_s(plain: Whole, num_tokens: int) -> float | None:
    """Return the seconds that a plain reply takes for so many tokens, None where it is too short to tell."""
    return None if plain.step_s is None else plain.ttft_s + (num_tokens - 1) * plain.step_s


def speedup(pair: Pair) -> float | None:
    """Return how many times faster the other reply was than a plain one of its length."""
    expected = plain_s(pair.plain, pair.other.num_tokens)
    return None if expected is None or pair.other.num_tokens < 2 else expected / pair.other.wall_s


def median_speedup(pairs: Sequence[Pair]) -> float | None:
    """Return the median over the pairs, None where none tells."""
    found = [value for pair in pairs if (value := speedup(pair)) is not None]
    return statistics.median(found) if found else None


class StepCosts(NamedTuple):
    """What steps take, as measured by the bare loop.

    Attributes:
        target_s: seconds of a step of so many tokens of one sequence, logits of each of them computed.
        draft_s: seconds of a step of one token of the draft model; None without one.
    """

    target_s: Mapping[int, float]
    draft_s: float | None = None

    def relative(self, num_tokens: float) -> float:
        """Return what a step of so many tokens takes in steps of one, between measured ones by a straight line."""
        known = sorted(self.target_s)
        low = max((count for count in known if count <= num_tokens), default=known[0])
        high = min((count for count in known if count >= num_tokens), default=known[-1])
        share = (num_tokens - low) / (high - low) if high > low else 0.0
        seconds = self.target_s[low] + share * (self.target_s[high] - self.target_s[low])
        return seconds / self.target_s[1]


def ideal_steps(reply: Whole, costs: StepCosts) -> float:
    """Return what the steps of a reply after its first text cost, in plain steps of one token.

    Every check of a draft costs what the bare loop takes for as many tokens as were drafted on average; each token of
    the draft model costs a step of its own; the rest are plain steps.
    """
    num_left, num_steps = float(max(reply.num_tokens - 1, 0)), 0.0
    for item in reply.drafted:
        if item.num_drafts:
            num_left -= item.num_drafts + item.num_accepted
            num_steps += item.num_drafts * costs.relative(1 + item.num_drafted / item.num_drafts)
            if item.drafter == "model" and costs.draft_s is not None:
                num_steps += item.num_drafted * costs.draft_s / costs.target_s[1]
    return num_steps + max(num_left, 0.0)


def ideal_s(pair: Pair, costs: StepCosts) -> float | None:
    """Return the seconds of the other reply if nothing but its steps took time.

    The first text comes as soon as it does without drafting, and a plain step takes what it took in the plain reply.
    """
    if pair.plain.step_s is None:
        return None
    return pair.plain.ttft_s + ideal_steps(pair.other, costs) * pair.plain.step_s


class CellFigures(NamedTuple):
    """What a cell says.

    Attributes:
        speedup: of whole replies, the median over the pairs.
        ideal: the same if nothing but steps took time; None where nothing was drafted or costs are not known.
        share: how much of that speed was reached.
        decode, ideal_decode: the same two of the tokens after the first text, in which alone drafts are checked.
        acceptance, length: accepted share of the drafted tokens; tokens of a step that checked a draft.
        net_speedup: the median of what the engine reports.
        is_loop: whether most replies repeat themselves.
    """

    key: Key
    speedup: float | None
    ideal: float | None
    share: float | None
    decode: float | None
    ideal_decode: float | None
    acceptance: float | None
    length: float | None
    net_speedup: float | None
    is_loop: bool
    states: tuple[str, ...]


def cell_figures(key: Key, pairs: Sequence[Pair], costs: StepCosts | None) -> CellFigures:
    """Return the figures of one cell."""
    drafts = [item for pair in pairs for item in pair.other.drafted]
    num_drafts, num_drafted = sum(item.num_drafts for item in drafts), sum(item.num_drafted for item in drafts)
    num_accepted = sum(item.num_accepted for item in drafts)
    ideals, shares, decodes, ideal_decodes = [], [], [], []
    for pair in pairs:
        step_s, num_tokens = pair.plain.step_s, pair.other.num_tokens
        if not step_s or num_tokens < 2:
            continue
        if pair.other.step_s:  # a short reply may come in one piece
            decodes.append(step_s / pair.other.step_s)
        if costs is not None and (seconds := ideal_s(pair, costs)) is not None:
            ideals.append((pair.plain.ttft_s + (num_tokens - 1) * step_s) / seconds)
            shares.append(seconds / pair.other.wall_s)
            ideal_decodes.append((num_tokens - 1) / ideal_steps(pair.other, costs))
    told = [pair.other.net_speedup for pair in pairs if pair.other.net_speedup is not None]
    return CellFigures(
        key=key,
        speedup=median_speedup(pairs),
        ideal=statistics.median(ideals) if ideals and num_drafts else None,
        share=statistics.median(shares) if shares and num_drafts else None,
        decode=statistics.median(decodes) if decodes else None,
        ideal_decode=statistics.median(ideal_decodes) if ideal_decodes and num_drafts else None,
        acceptance=num_accepted / num_drafted if num_drafted else None,
        length=1 + num_accepted / num_drafts if num_drafts else None,
        net_speedup=statistics.median(told) if told else None,
        is_loop=2 * sum(is_loop(pair.other.token_ids) for pair in pairs) > len(pairs),
        states=tuple(dict.fromkeys(pair.other.state for pair in pairs if pair.other.state)),
    )


def cell_rows(cells: Sequence[CellFigures]) -> list[str]:
    """Return the lines of a table."""
    heads = (
        *("target", "mode", "kind", "prompt", "temperature", "speed-up", "ideal", "of the ideal"),
        *("after first text", "ideal there", "accepted", "length", "reported", "drafting"),
    )
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for cell in cells:
        key = cell.key
        speeds = (cell.speedup, cell.ideal, cell.share, cell.decode, cell.ideal_decode)
        numbers = (*speeds, cell.acceptance, cell.length, cell.net_speedup)
        shown = ["" if value is None else f"{value:.2f}" for value in numbers]
        name = f"{key.prompt} (loop)" if cell.is_loop else key.prompt
        fields = (key.target, key.mode, key.kind, name, f"{key.temperature:g}", *shown, ", ".join(cell.states))
        lines.append("| " + " | ".join(fields) + " |")
    return lines
