"""The energy meter on system folders made for it, and what it adds to the measures of a reply."""

import math
from pathlib import Path

import msgspec
import pytest

from app.energy import EnergyMeter, ReplyEnergy
from app.reply_measures import completed
from app.settings import Settings
from engine import RequestMetrics
from tests.unit.app.cli.scripted_client import description


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def write(folder: Path, **values: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n", "ascii")
    return folder


def write_battery(system: Path, **values: object) -> Path:
    return write(system / "power_supply" / "BAT0", **{"type": "Battery", "status": "Discharging", **values})


def write_package(system: Path, number: int, joules: float, name: str = "package-0") -> Path:
    folder = system / "powercap" / f"intel-rapl:{number}"
    return write(folder, name=name, energy_uj=int(joules * 1e6), max_energy_range_uj=int(1000e6))


def joules_of(meter: EnergyMeter, clock: Clock, seconds: float = 10.0) -> float | None:
    before = meter.read()
    clock.now += seconds
    return meter.joules_since(before)


def test_nothing_is_known_where_nothing_can_be_read(tmp_path: Path) -> None:
    clock = Clock()
    meter = EnergyMeter(system=tmp_path, clock=clock)
    assert meter.source is None
    assert joules_of(meter, clock) is None


def test_watts_of_the_user_count_where_nothing_can_be_read(tmp_path: Path) -> None:
    clock = Clock()
    meter = EnergyMeter(25.0, system=tmp_path, clock=clock)
    assert meter.source == "setting"
    assert joules_of(meter, clock) == 250.0


@pytest.mark.parametrize(
    "values",
    [{"power_now": 12_000_000}, {"power_now": -12_000_000}, {"current_now": 1_000_000, "voltage_now": 12_000_000}],
    ids=["power", "signed power", "current and voltage"],
)
def test_battery_counts_while_it_is_emptied(tmp_path: Path, values: dict[str, int]) -> None:
    clock = Clock()
    write_battery(tmp_path, **values)
    meter = EnergyMeter(25.0, system=tmp_path, clock=clock)
    assert meter.source == "battery"
    assert joules_of(meter, clock) == pytest.approx(120.0)


def test_battery_does_not_count_when_it_is_charged(tmp_path: Path) -> None:
    write_battery(tmp_path, status="Charging", power_now=12_000_000)
    assert EnergyMeter(system=tmp_path).source is None


def test_counters_of_all_packages_are_added(tmp_path: Path) -> None:
    clock = Clock()
    write_package(tmp_path, 0, 100.0)
    write_package(tmp_path, 1, 500.0, "package-1")
    write_package(tmp_path, 2, 7.0, "psys")
    write(tmp_path / "powercap" / "intel-rapl:0:0", name="core", energy_uj=1)
    meter = EnergyMeter(25.0, system=tmp_path, clock=clock)
    before = meter.read()
    write_package(tmp_path, 0, 130.0)
    write_package(tmp_path, 1, 512.0, "package-1")
    assert meter.source == "processor"
    assert meter.joules_since(before) == pytest.approx(42.0)


def test_counter_that_began_anew_goes_on(tmp_path: Path) -> None:
    write_package(tmp_path, 0, 990.0)
    meter = EnergyMeter(system=tmp_path)
    before = meter.read()
    write_package(tmp_path, 0, 15.0)
    assert meter.joules_since(before) == pytest.approx(25.0)


def test_odd_contents_are_passed_over(tmp_path: Path) -> None:
    write_battery(tmp_path, power_now="none")
    (write_package(tmp_path, 0, 1.0) / "energy_uj").write_bytes(b"\xff")
    assert EnergyMeter(system=tmp_path).source is None


def test_replies_that_run_at_once_share_what_is_drawn(tmp_path: Path) -> None:
    clock = Clock()
    energy = ReplyEnergy(EnergyMeter(10.0, system=tmp_path, clock=clock))
    clock.now = 100.0  # nothing runs: nobody's energy
    energy.begin("a")
    clock.now = 102.0
    energy.begin("b")
    clock.now = 104.0
    assert energy.end("a") == pytest.approx(20.0 + 10.0)
    clock.now = 105.0
    assert energy.end("b") == pytest.approx(10.0 + 10.0)
    assert energy.end("b") is None


def test_part_of_a_reply_is_not_known_when_a_moment_of_it_is_not(tmp_path: Path) -> None:
    clock = Clock()
    battery = write_battery(tmp_path, power_now=10_000_000)
    energy = ReplyEnergy(EnergyMeter(system=tmp_path, clock=clock))
    energy.begin("a")
    (battery / "status").write_text("Charging", "ascii")
    clock.now = 1.0
    assert energy.end("a") is None


MODEL = msgspec.structs.replace(description(), active_weight_bytes=99_000_000, kv_bytes_per_token=10_000, n_threads=2)
METRICS = RequestMetrics(num_prompt_tokens=50, num_cached_tokens=0, num_generated_tokens=101, decode_s=1.0)


def test_reply_gets_energy_cost_and_share_when_all_is_known() -> None:
    settings = Settings(electricity_price=0.36, read_bandwidth={"2": 2e10})
    done = completed(METRICS, MODEL, settings, joules=202.0)
    assert done.joules_per_token == 2.0
    assert done.cost_per_million_tokens == pytest.approx(0.2)
    assert done.bandwidth_share == pytest.approx(100 * (99_000_000 + 10_000 * 100.5) / 2e10)


def test_reply_has_no_cost_when_there_is_no_price() -> None:
    done = completed(METRICS, MODEL, Settings(), joules=202.0)
    assert done.joules_per_token == 2.0
    assert done.cost_per_million_tokens is None


@pytest.mark.parametrize(
    ("measured", "changes"),
    [
        ({}, {}),
        ({"4": 2e10}, {}),
        ({"2": "fast"}, {}),
        ({"2": math.inf}, {}),
        ({"2": 2e10}, {"active_weight_bytes": 0}),
        ({"2": 2e10}, {"n_gpu_layers": 3}),
    ],
    ids=["not measured", "other threads", "no number", "infinite", "bytes unknown", "graphics processor"],
)
def test_share_is_not_known(measured: dict[str, object], changes: dict[str, int]) -> None:
    model = msgspec.structs.replace(MODEL, **changes)
    done = completed(METRICS, model, Settings(read_bandwidth=measured), joules=None)
    assert done.bandwidth_share is None
    assert done.joules_per_token is None
