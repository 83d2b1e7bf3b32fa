"""Run records for tests."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.bench import BenchPlan, MachineState, Measure, RunRecord
from app.bench.record import MachineRecord, ModelRecord
from engine import EngineDescription, ModelParams
from tests.unit.app.cli.scripted_client import description

QUIET = MachineState(load_average=0.2, num_processors=4, power_source="mains", num_throttled=3)
ENGINE = EngineDescription(binding="0.3", library="0.5", features="", devices=(), default_threads=2)


def record(values: Mapping[str, Sequence[float]], *, unit: str = "tokens/s", **changes: Any) -> RunRecord:
    """Return a record with values of some measures; `before` and `after` are states of the machine."""
    before, after = changes.pop("before", QUIET), changes.pop("after", QUIET)
    made = RunRecord(
        id="r1",
        created_at="2026-01-02T03:04:05+00:00",
        program="0.1",
        engine=ENGINE,
        machine=MachineRecord(system="Linux", processor="a processor", python="3.11", before=before, after=after),
        model=ModelRecord(label="tiny", path="/x.gguf", fingerprint="f1", description=description()),
        params=ModelParams(n_ctx=512),
        plan=BenchPlan(repeats=3, prompt_tokens=64),
        sampling=BenchPlan().sampling,
        measures=tuple(Measure(name=name, unit=unit, values=tuple(each)) for name, each in values.items()),
    )
    return msgspec.structs.replace(made, **changes)
