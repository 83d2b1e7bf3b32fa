"""Power is spent ahead of time on the mains, and on a battery that is not low."""

from typing import NamedTuple

import psutil
import pytest

from app.battery import may_read_ahead


class _Battery(NamedTuple):
    percent: float
    power_plugged: bool | None


@pytest.mark.parametrize(
    ("battery", "may"),
    [
        (None, True),
        (_Battery(5, power_plugged=True), True),
        (_Battery(5, power_plugged=None), True),
        (_Battery(49, power_plugged=False), False),
        (_Battery(50, power_plugged=False), True),
    ],
    ids=["no battery", "mains", "unknown", "low", "charged"],
)
def test_power_is_spent_unless_the_battery_is_low(
    monkeypatch: pytest.MonkeyPatch, battery: _Battery | None, may: bool
) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    assert may_read_ahead(50) is may


def test_system_that_cannot_tell_is_taken_as_the_mains(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError

    monkeypatch.setattr(psutil, "sensors_battery", fail, raising=False)
    assert may_read_ahead(50)
    monkeypatch.delattr(psutil, "sensors_battery")
    assert may_read_ahead(50)
