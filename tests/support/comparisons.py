"""Made-up comparisons: samples of what a run could have measured, none of which any machine did."""

import hashlib
import random
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.bench.machine_state import MachineState
from app.bench.record import MachineRecord
from app.compare.results import Cell, CellMachine, Column, Comparison, Mode, PromptItem
from engine import ChatMessage, FinishReason, ModelParams, Role, SamplingParams

SAMPLE_NOTE = "This is a sample: every number and reply in it is made up."
MAINS = CellMachine(power_source="mains", load=0.1, was_throttled=False, frequency_mhz=2900.0)
_WORDS = (
    *("the", "a", "small", "boat", "leaves", "at", "seven", "and", "comes", "back", "before", "night", "because"),
    *("wind", "from", "west", "makes", "water", "rough", "near", "stones", "people", "wait", "with", "lamps"),
)


class Level(NamedTuple):
    """A made-up quantisation: what it would measure, and the share of words that it would change."""

    name: str
    file_bytes: float
    memory_bytes: float
    load_s: float
    prefill_rate: float
    decode_rate: float
    changed: float


LADDER = (
    Level("F16", 271e6, 402e6, 0.42, 310.0, 38.2, 0.0),
    Level("Q8_0", 145e6, 268e6, 0.27, 372.0, 63.5, 0.004),
    Level("Q6_K", 138e6, 261e6, 0.26, 246.0, 58.8, 0.01),
    Level("Q5_K_M", 112e6, 236e6, 0.22, 221.0, 62.4, 0.03),
    Level("Q4_K_M", 105e6, 226e6, 0.21, 262.0, 74.9, 0.05),
    Level("Q4_1", 110e6, 237e6, 0.23, 201.0, 66.0, 0.13),
    Level("Q2_K", 88e6, 205e6, 0.19, 190.0, 78.2, 0.42),
)


def sample_comparison(  # what a test changes of it, it names
    levels: Sequence[Level] = LADDER,
    *,
    num_prompts: int = 12,
    repeats: int = 3,
    noise: float = 0.02,
    seed: int = 1,
    mode: Mode = Mode.FAIR,
    num_words: int = 60,
) -> Comparison:
    """Return a made-up ladder; its first level is the reference."""
    source = random.Random(seed)
    columns = tuple(sample_column(level.name, file_bytes=level.file_bytes) for level in levels)
    prompts = tuple(sample_prompt(f"prompt-{number:02}") for number in range(num_prompts))
    said = {prompt.id: [source.choice(_WORDS) for _ in range(num_words)] for prompt in prompts}
    texts = {(level.name, prompt.id): _said(said[prompt.id], level, source) for level in levels for prompt in prompts}
    lengths = {prompt.id: source.randint(40, 700) for prompt in prompts}
    cells: list[Cell] = []
    for repeat in range(repeats):
        for level in levels:
            for number, prompt in enumerate(prompts):
                count = num_words + source.randint(0, 9) if number % 5 else num_words
                values = _values(level, lengths[prompt.id], count, source, noise)
                if number == 0:
                    values["load_s"] = level.load_s * source.lognormvariate(0, noise)
                words = texts[level.name, prompt.id]
                cells.append(
                    Cell(
                        column=level.name,
                        prompt=prompt.id,
                        repeat=repeat,
                        number=len(cells),
                        values=values,
                        text=" ".join(words),
                        token_ids=tuple(_WORDS.index(word) for word in words),
                        finish_reason=FinishReason.LENGTH,
                        machine=MAINS,
                    )
                )
    return Comparison(
        id="sample",
        created_at="2026-01-02T10:20:30+00:00",
        program="0.0",
        mode=mode,
        columns=columns,
        prompts=prompts,
        repeats=repeats,
        cells=tuple(cells),
        reference=levels[0].name if levels else "",
        prompts_name="sample",
        machine=sample_machine(),
        notes=(SAMPLE_NOTE,),
    )


def sample_column(name: str, *, file_bytes: float = 1e8, error: str = "", vocabulary: str = "v") -> Column:
    """Return a made-up column."""
    return Column(
        id=name,
        label=f"SmallBoat-135M {name}",
        path=f"models/SmallBoat-135M-{name}.gguf",
        fingerprint=hashlib.sha256(name.encode()).hexdigest(),
        type_name=name,
        params=ModelParams(n_ctx=2048),
        sampling=SamplingParams(temperature=0.0, seed=7, max_tokens=64),
        template_hash="t",
        vocabulary_hash=vocabulary,
        values={"file_bytes": file_bytes},
        error=error,
    )


def sample_prompt(name: str) -> PromptItem:
    """Return a made-up prompt."""
    text = f"Tell in some sentences what happens at the harbour on the day called {name}."
    return PromptItem(id=name, category="chat", messages=(ChatMessage(Role.USER, text),))


def sample_machine() -> MachineRecord:
    """Return a made-up machine."""
    state = MachineState(num_processors=8, power_source="mains", max_frequency_mhz=4200.0, available_bytes=9 << 30)
    return MachineRecord(
        system="Linux", processor="Sample processor", python="3.11", before=state, after=state, power="processor"
    )


def with_cells(comparison: Comparison, change: dict[str, CellMachine]) -> Comparison:
    """Return a comparison whose cells of some columns were made on other machines' states."""
    cells = tuple(
        msgspec.structs.replace(cell, machine=change[cell.column]) if cell.column in change else cell
        for cell in comparison.cells
    )
    return msgspec.structs.replace(comparison, cells=cells)


def _values(level: Level, num_prompt: int, count: int, source: random.Random, noise: float) -> dict[str, float]:
    prefill_rate = level.prefill_rate * source.lognormvariate(0, noise)
    decode_rate = level.decode_rate * source.lognormvariate(0, noise)
    return {
        "peak_memory_bytes": level.memory_bytes + source.randint(0, 200_000),
        "ttft_s": num_prompt / prefill_rate + 0.004,
        "prefill_rate": prefill_rate,
        "decode_rate": decode_rate,
        "tpot_s": 1 / decode_rate,
        "bandwidth_share": min(1.0, level.file_bytes * decode_rate / 16e9),
        "joules_per_token": 14.0 / decode_rate,
        "num_prompt_tokens": float(num_prompt),
        "num_generated_tokens": float(count),
    }


def _said(words: Sequence[str], level: Level, source: random.Random) -> list[str]:
    return [source.choice(_WORDS) if source.random() < level.changed else word for word in words]
