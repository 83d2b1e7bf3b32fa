"""The measuring run behind `fireside bench`: scenarios, statistics, the record, and the lines that show them. No Qt."""

from app.bench.driver import BenchDriver
from app.bench.machine_state import MachineState, machine_state
from app.bench.plan import BenchPlan
from app.bench.record import Measure, RunRecord, read_record
from app.bench.report import compared_rows, measure_rows, noise_warning
from app.bench.scenarios import run_scenarios
from app.bench.statistics import Summary, is_within_noise, summarise

__all__ = [
    "BenchDriver",
    "BenchPlan",
    "MachineState",
    "Measure",
    "RunRecord",
    "Summary",
    "compared_rows",
    "is_within_noise",
    "machine_state",
    "measure_rows",
    "noise_warning",
    "read_record",
    "run_scenarios",
    "summarise",
]
