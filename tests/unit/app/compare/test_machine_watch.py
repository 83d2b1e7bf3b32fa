"""What the machine did beside a reply."""

import pytest

from app.bench.machine_state import MachineState
from app.compare import machine_watch
from app.compare.machine_watch import MachineWatch


@pytest.mark.parametrize(
    ("busy", "own", "seconds", "load"),
    [
        ([100.0, 104.0], [50.0, 52.0], 2.0, 1.0),
        ([100.0, 102.0], [50.0, 52.5], 2.0, 0.0),
        ([None, None], [50.0, 51.0], 2.0, None),
        ([100.0, 104.0], [50.0, 50.0], 0.01, None),
    ],
    ids=["another program", "ours alone", "not told", "too short to say"],
)
def test_load_is_what_others_kept_busy(
    monkeypatch: pytest.MonkeyPatch, busy: list[float | None], own: list[float], seconds: float, load: float | None
) -> None:
    busy_told, own_told, times = iter(busy), iter(own), iter((10.0, 10.0 + seconds))
    monkeypatch.setattr(machine_watch, "_busy_s", lambda: next(busy_told))
    monkeypatch.setattr(MachineWatch, "_own_s", lambda self: next(own_told))
    assert MachineWatch([None], clock=lambda: next(times)).look().load == load


@pytest.mark.parametrize(
    ("before", "after", "source"),
    [("mains", "mains", "mains"), ("battery", "mains", "battery"), ("mains", "battery", "battery"), (None, None, None)],
)
def test_reply_that_was_on_battery_for_a_part_counts_as_on_battery(
    monkeypatch: pytest.MonkeyPatch, before: str | None, after: str | None, source: str | None
) -> None:
    told = iter((MachineState(power_source=before), MachineState(power_source=after)))
    monkeypatch.setattr(machine_watch, "machine_state", lambda: next(told))
    assert MachineWatch([]).look().power_source == source


@pytest.mark.parametrize(("before", "after", "was_throttled"), [(3, 3, False), (3, 4, True), (None, None, None)])
def test_heat_is_told_where_it_is_counted(
    monkeypatch: pytest.MonkeyPatch, before: int | None, after: int | None, was_throttled: bool | None
) -> None:
    told = iter((MachineState(num_throttled=before), MachineState(num_throttled=after)))
    monkeypatch.setattr(machine_watch, "machine_state", lambda: next(told))
    assert MachineWatch([]).look().was_throttled is was_throttled


def test_process_that_has_ended_is_passed_over() -> None:
    look = MachineWatch([2**22 + 1]).look()
    assert look.load is None or look.load >= 0
