"""What computing draws: a counter of the processor or the discharge of the battery where the system lets them be read,
else the watts the user gave."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_MICRO = 1e-6
_SYSTEM = Path("/sys/class")


class EnergyReading(NamedTuple):
    """Where the meter stood.

    Attributes:
        packages: (joules, joules at which it begins anew) of each counter of the processor.
        watts: of the battery that is being emptied, None where there is none.
    """

    at: float
    packages: tuple[tuple[float, float], ...]
    watts: float | None


class EnergyMeter:
    """Tells what was drawn between two moments.

    Args:
        watts: what the user says this computer draws; 0 is unknown.
        system: where the kernel shows its counters.
        clock: seconds.
    """

    def __init__(
        self, watts: float = 0.0, *, system: Path = _SYSTEM, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._watts = watts
        self._system = system
        self._clock = clock

    @property
    def source(self) -> str | None:
        """What is read: "battery", "processor", "setting", or None.

        The battery comes first: it feeds the whole computer, the counter is of the processor alone.
        """
        if self._battery_watts() is not None:
            return "battery"
        if self._packages():
            return "processor"
        return "setting" if self._watts > 0 else None

    def read(self) -> EnergyReading:
        """Return where the meter stands."""
        return EnergyReading(self._clock(), self._packages(), self._battery_watts())

    def joules_since(self, before: EnergyReading) -> float | None:
        """Return what was drawn since a reading; None where nothing can be known."""
        now = self.read()
        seconds = max(0.0, now.at - before.at)
        if before.watts is not None and now.watts is not None:
            return (before.watts + now.watts) / 2 * seconds
        if before.packages and len(before.packages) == len(now.packages):
            pairs = zip(before.packages, now.packages, strict=True)
            return sum(end - start if end >= start else end - start + span for (start, span), (end, _) in pairs)
        return self._watts * seconds if self._watts > 0 else None

    def _packages(self) -> tuple[tuple[float, float], ...]:
        found = []
        # A second colon stands in the names of parts of a package, which it counts already.
        for folder in sorted(self._system.glob("powercap/intel-rapl:*")):
            joules = _number(folder / "energy_uj") if folder.name.count(":") == 1 else None
            if joules is not None and _text(folder / "name").startswith("package"):
                found.append((joules * _MICRO, (_number(folder / "max_energy_range_uj") or 0.0) * _MICRO))
        return tuple(found)

    def _battery_watts(self) -> float | None:
        watts = []
        for folder in sorted(self._system.glob("power_supply/*")):
            if _text(folder / "type") != "Battery" or _text(folder / "status") != "Discharging":
                continue
            power = _number(folder / "power_now")
            if power is None:
                current, voltage = _number(folder / "current_now"), _number(folder / "voltage_now")
                power = current * voltage * _MICRO if current is not None and voltage is not None else None
            if power:
                watts.append(abs(power) * _MICRO)
        return sum(watts) if watts else None


class ReplyEnergy:
    """Shares what is drawn among the replies that run: each gets an equal part of every moment it was there.

    Reading a battery can take some milliseconds, so not for a thread that draws.
    """

    def __init__(self, meter: EnergyMeter) -> None:
        self._meter = meter
        self._joules: dict[str, float | None] = {}
        self._at = meter.read()

    def begin(self, reply_id: str) -> None:
        """Note that a reply begins to be computed."""
        self._share()
        self._joules[reply_id] = 0.0

    def end(self, reply_id: str) -> float | None:
        """Note that a reply ended, and return its part; None where it cannot be known."""
        self._share()
        return self._joules.pop(reply_id, None)

    def _share(self) -> None:
        drawn, self._at = self._meter.joules_since(self._at), self._meter.read()
        for reply_id, joules in self._joules.items():
            known = None if drawn is None or joules is None else joules + drawn / len(self._joules)
            self._joules[reply_id] = known


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):  # on most systems only an administrator may read the counter
        return ""


def _number(path: Path) -> float | None:
    try:
        return float(_text(path))
    except ValueError:
        return None
