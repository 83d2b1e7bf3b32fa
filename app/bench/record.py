"""The record of a measuring run: all that is needed to repeat it, and all that was measured, as one JSON object."""

import json
import platform
import sys
from pathlib import Path
from typing import Any

import msgspec

from app.bench.machine_state import MachineState
from app.bench.plan import BenchPlan
from app.energy import EnergyMeter
from app.errors import UsageError
from engine import EngineDescription, ModelDescription, ModelParams, SamplingParams

RECORD_VERSION = 1
COLD = "empty: the model is loaded again before each repeat"
_MAX_FILE_BYTES = 64 << 20


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """Every value of one measure.

    Attributes:
        values: one a repeat, in their order; seconds, or as `unit` says. Empty where it cannot be measured here.
        bare: of the bare loop, one beside each value; empty where none stands beside it.
    """

    name: str
    unit: str
    values: tuple[float, ...] = ()
    bare: tuple[float, ...] = ()


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which model was measured.

    Attributes:
        label: what a person calls it.
        fingerprint: tells it from all others, wherever its file lies; empty for the engine without a model.
    """

    label: str
    path: str
    fingerprint: str
    description: ModelDescription


class MachineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured.

    Attributes:
        power: what the energy of a reply is read from; None where it is not known.
    """

    system: str
    processor: str
    python: str
    before: MachineState
    after: MachineState
    power: str | None = None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        created_at: in ISO 8601, with the zone.
        program: version of Fireside.
        params: as they were asked for; `model.description` says what became of them.
        sampling: of every reply, the seed included; each has a limit on its length beside.
        cache_state: what the prefix cache held at the beginning.
    """

    id: str
    created_at: str
    program: str
    engine: EngineDescription
    machine: MachineRecord
    model: ModelRecord
    params: ModelParams
    plan: BenchPlan
    sampling: SamplingParams
    measures: tuple[Measure, ...]
    cache_state: str = COLD
    record_version: int = RECORD_VERSION

    def measure(self, name: str) -> Measure | None:
        """Return a measure by its name."""
        return next((measure for measure in self.measures if measure.name == name), None)

    def to_plain(self) -> dict[str, Any]:
        """Return it in plain JSON types."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def machine_record(before: MachineState, after: MachineState, *, watts: float) -> MachineRecord:
    """Return where something was measured.

    Args:
        watts: what the user says this computer draws; 0 is unknown.
    """
    return MachineRecord(
        system=platform.platform(),
        processor=processor_name(),
        python=platform.python_version(),
        before=before,
        after=after,
        power=EnergyMeter(watts).source,
    )


def read_record(path: Path) -> RunRecord:
    """Return the record in a file: what `--json` printed, or the record alone.

    Raises:
        UsageError: there is none in it.
    """
    hint = "Give a file with the output of `fireside bench --json`."
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)  # a device has no end
        if len(data) > _MAX_FILE_BYTES:
            raise UsageError(f"{path} is too large to be a run record.", hint)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"{path} cannot be read: {reason}.", hint) from error
    found = _find(text)
    if found is None:
        raise UsageError(f"{path} holds no run record.", hint)
    if found.get("record_version") != RECORD_VERSION:
        raise UsageError(f"The run record in {path} is of another version of Fireside.", "Measure again with this one.")
    try:
        return msgspec.convert(found, RunRecord, strict=False)
    except Exception as error:  # whatever a changed file provokes, a settings check included, is one kind of refusal
        raise UsageError(f"The run record in {path} is damaged.", hint, str(error)) from error


def processor_name() -> str:
    """Return what the processor calls itself."""
    if sys.platform == "linux":
        try:
            for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
                if line.startswith(("model name", "Model", "Hardware")):
                    return line.partition(":")[2].strip()
        except OSError:
            pass
    return platform.processor() or platform.machine()


def _find(text: str) -> dict[str, Any] | None:
    for piece in (text, *reversed(text.splitlines())):
        try:
            value = json.loads(piece)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and value.get("event") == "run":
            value = value.get("record")
        if isinstance(value, dict) and "record_version" in value:
            return value
    return None
