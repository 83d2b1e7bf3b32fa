"""The record of a comparison: what was asked of which models, with which settings, and every value and reply.

All that is shown is computed from it, and it is enough to run the comparison again.
"""

import enum
import math
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from app.bench.record import MachineRecord
from app.errors import UsageError
from engine import Adapter, ChatMessage, EngineDescription, FinishReason, ModelParams, SamplingParams, clean_text

COMPARISON_VERSION = 1
MAX_COLUMNS, MAX_PROMPTS, MAX_REPEATS = 64, 10_000, 1000
RECORD_ELEMENT = "fireside-record"  # the id of the element of a report that holds the record
_MAX_FILE_BYTES = 512 << 20
_RECORD = re.compile(rb'<script type="application/json" id="fireside-record">(.*?)</script>', re.DOTALL)
_HINT = "Give a report or a JSON file that `fireside compare` wrote."

Count = Annotated[int, msgspec.Meta(ge=0)]


class Measure(msgspec.Struct, frozen=True):
    """What is measured of a reply or a file.

    Attributes:
        unit: in which it is shown; empty for a plain count.
        is_higher_better: None where neither is.
        decimals: with which it is shown.
        factor: by which a value is multiplied to be in that unit; values are kept in SI units, shares as 0 to 1.
    """

    name: str
    label: str
    unit: str
    is_higher_better: bool | None
    decimals: int
    factor: float = 1.0

    def shown(self, value: float) -> str:
        """Return a value with its unit."""
        return f"{self.number(value)} {self.unit}".rstrip()

    def number(self, value: float) -> str:
        """Return a value in its unit, without the name of it."""
        return f"{value * self.factor:,.{self.decimals}f}"


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("file_bytes", "File size", "MiB", False, 1, 2**-20),
        Measure("peak_memory_bytes", "Peak memory", "MiB", False, 0, 2**-20),
        Measure("agreement", "Same words", "%", True, 1, 100.0),
        Measure("decode_rate", "Decode", "tokens/s", True, 1),
        Measure("prefill_rate", "Prefill", "tokens/s", True, 1),
        Measure("ttft_s", "First token", "ms", False, 0, 1000.0),
        Measure("load_s", "Load", "s", False, 2),
        Measure("prefix_agreement", "Same beginning", "%", True, 1, 100.0),
        Measure("tpot_s", "Per token", "ms", False, 2, 1000.0),
        Measure("bandwidth_share", "Share of bandwidth", "%", True, 0, 100.0),
        Measure("joules_per_token", "Energy per token", "J", False, 2),
        Measure("cost_per_million_tokens", "Cost of a million tokens", "", False, 2),
        Measure("num_prompt_tokens", "Prompt", "tokens", None, 0),
        Measure("num_generated_tokens", "Reply", "tokens", None, 0),
    )
}
"""Every measure by name, in the order of the joint table. The agreements are computed from the replies, not stored."""


class Mode(enum.Enum):
    """How the replies were made."""

    FAIR = "fair"  # one after the other, each alone
    RACE = "race"  # all at once on shared cores: speeds cannot be compared
    SAMPLES = "samples"  # several of one prompt in one batch


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A model file with the settings it is asked with.

    Attributes:
        id: tells it from the other columns of the comparison.
        fingerprint: of the file, see `models.fingerprint`; empty where there is none.
        type_name: quantisation.
        template_hash: of the chat template; empty where the file has none.
        vocabulary_hash: token ids of two columns mean the same where these are equal; empty where it is not known.
        adapter_fingerprints: of the files of `adapters`, in their order; empty where they are not known.
        values: what is measured once for the file, by name: `file_bytes`.
        notices: what a person should know of it, a sentence each.
        error: why there is nothing of it, one sentence; empty where it ran.
    """

    id: str
    label: str
    path: str
    fingerprint: str = ""
    type_name: str = ""
    params: ModelParams = ModelParams()
    sampling: SamplingParams = SamplingParams()
    adapters: tuple[Adapter, ...] = ()
    adapter_fingerprints: tuple[str, ...] = ()
    template_hash: str = ""
    vocabulary_hash: str = ""
    values: dict[str, float] = {}
    notices: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""


class PromptItem(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of the set.

    Attributes:
        follows: the id of the prompt to whose replies this one is the next message, each column with its own; empty for
            one that begins a chat.
    """

    id: str
    messages: tuple[ChatMessage, ...]
    category: str = ""
    follows: str = ""

    @property
    def text(self) -> str:
        """What the last message asks."""
        return self.messages[-1].content if self.messages else ""


class CellMachine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine while a reply was made; each None where it does not tell.

    Attributes:
        power_source: "mains" or "battery".
        load: processors that other programs kept busy.
        was_throttled: whether the processor was slowed down by heat meanwhile.
    """

    power_source: str | None = None
    load: float | None = None
    was_throttled: bool | None = None
    frequency_mhz: float | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One reply.

    Attributes:
        column, prompt: ids.
        repeat: from 0.
        number: in which place it was made, from 0.
        values: by the name of the measure; what could not be measured is not in it. `load_s` stands in the first reply
            after a load.
        token_ids: of the reply, as they were sampled; empty where they are not known.
        error: why there is no reply, one sentence; empty where there is one.
    """

    column: str
    prompt: str
    repeat: Count = 0
    number: Count = 0
    values: dict[str, float] = {}
    text: str = ""
    thinking: str = ""
    token_ids: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None
    machine: CellMachine = CellMachine()
    error: str = ""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison.

    Attributes:
        created_at: in ISO 8601, with the zone.
        program: version of Fireside.
        repeats: how many were asked for.
        cells: in the order they were made; fewer than columns x prompts x repeats where it was not finished.
        reference: the id of the column whose replies the others are held against; empty for none.
        prompts_name: what the set of prompts is called.
        notes: what a reader has to know, a sentence each.
    """

    id: str
    created_at: str
    program: str
    mode: Mode = Mode.FAIR
    columns: tuple[Column, ...] = ()
    prompts: tuple[PromptItem, ...] = ()
    repeats: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPEATS)] = 1
    cells: tuple[Cell, ...] = ()
    machine: MachineRecord | None = None
    engine: EngineDescription | None = None
    reference: str = ""
    prompts_name: str = ""
    notes: tuple[str, ...] = ()
    record_version: int = COMPARISON_VERSION

    def column(self, column_id: str) -> Column | None:
        """Return a column by its id."""
        return next((column for column in self.columns if column.id == column_id), None)

    def cells_of(self, column_id: str) -> tuple[Cell, ...]:
        """Return the replies of a column, in the order they were made."""
        return tuple(cell for cell in self.cells if cell.column == column_id)


class _Version(msgspec.Struct):
    record_version: int


def comparison_to_json(comparison: Comparison) -> bytes:
    """Return a record as JSON, in UTF-8."""
    return encoded(comparison)


def encoded(value: Any) -> bytes:
    """Return a value as JSON; what is no text in it, as names of files can be, is replaced."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(msgspec.to_builtins(value)))


def comparison_from_json(data: bytes, *, name: str = "the text") -> Comparison:
    """Return the record in some JSON, or in a report that embeds it.

    Args:
        name: what an error calls the source.

    Raises:
        UsageError: it holds none, one of another version, or a damaged one.
    """
    embedded = _RECORD.search(data)
    if embedded is not None:
        data = embedded[1]
    try:
        version = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=_Version).record_version
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} holds no comparison.", _HINT, str(error)) from error
    if version != COMPARISON_VERSION:
        raise UsageError(f"The comparison in {name} is of another version of Fireside.", "Compare again with this one.")
    try:
        comparison = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=Comparison)
        fault = _fault(comparison)
    except Exception as error:  # whatever a changed file provokes, a settings check included, is one kind of refusal
        raise UsageError(f"The comparison in {name} is damaged.", _HINT, str(error)) from error
    if fault:
        raise UsageError(f"The comparison in {name} is damaged: {fault}.", _HINT)
    return comparison


def read_comparison(path: Path) -> Comparison:
    """Return the comparison in a JSON file or a report.

    Raises:
        UsageError: it cannot be read, or holds none.
    """
    name = clean_text(str(path))
    try:
        if not path.is_file() and path.exists():  # reading a pipe would wait for ever
            raise UsageError(f"{name} is no file.", _HINT)
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise UsageError(f"{name} is too large to be a comparison.", _HINT)
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not valid"
        raise UsageError(f"{name} cannot be read: {reason}.", _HINT) from error
    return comparison_from_json(data, name=name)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(each) for key, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, list | tuple) else value


def _fault(comparison: Comparison) -> str:
    """Return what does not fit together in a record, empty where all does."""
    columns = {column.id for column in comparison.columns}
    prompts = {prompt.id for prompt in comparison.prompts}
    if len(columns) < len(comparison.columns) or len(prompts) < len(comparison.prompts):
        return "two columns or two prompts have one name"
    if len(columns) > MAX_COLUMNS or len(prompts) > MAX_PROMPTS:
        return "it has too many columns or prompts"
    if comparison.reference and comparison.reference not in columns:
        return "its reference is no column of it"
    if not _is_in_order(comparison.prompts):
        return "a prompt goes on from one that does not come before it"
    places = {(cell.column, cell.prompt, cell.repeat) for cell in comparison.cells}
    if len(places) < len(comparison.cells):
        return "a reply is in it twice"
    if any(cell.column not in columns or cell.prompt not in prompts for cell in comparison.cells):
        return "a reply is of no column or prompt of it"
    holders: tuple[Column | Cell, ...] = (*comparison.columns, *comparison.cells)
    if not all(math.isfinite(value) for holder in holders for value in holder.values.values()):
        return "a value is no number"
    return ""


def _is_in_order(prompts: tuple[PromptItem, ...]) -> bool:
    begun = {""}
    for prompt in prompts:
        if prompt.follows not in begun:
            return False
        begun.add(prompt.id)
    return True
