"""What else may decide how fast a machine is: load, power, frequency, throttling; each None where it does not tell."""

import os
from pathlib import Path

import msgspec

_PROCESSORS = Path("/sys/devices/system/cpu")


class MachineState(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of the machine.

    Attributes:
        load_average: of the last minute.
        power_source: "mains" or "battery".
        frequency_mhz, max_frequency_mhz: of the first processor, or the mean of all.
        governor: how the system chooses the frequency.
        num_throttled: how often processors were slowed down by heat since the system started.
    """

    load_average: float | None = None
    num_processors: int = 1
    power_source: str | None = None
    battery_percent: float | None = None
    frequency_mhz: float | None = None
    max_frequency_mhz: float | None = None
    governor: str | None = None
    num_throttled: int | None = None
    available_bytes: int = 0


def machine_state() -> MachineState:
    """Return how the machine is now."""
    import psutil

    try:
        battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
        frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    except (OSError, RuntimeError, ValueError, NotImplementedError):  # odd contents of the kernel's files
        battery = frequency = None
    return MachineState(
        load_average=_load_average(),
        num_processors=os.cpu_count() or 1,
        power_source=None if battery is None else ("battery" if battery.power_plugged is False else "mains"),
        battery_percent=None if battery is None else float(battery.percent),
        frequency_mhz=float(frequency.current) or None if frequency else None,
        max_frequency_mhz=float(frequency.max) or None if frequency else None,
        governor=_governor(),
        num_throttled=num_throttled(),
        available_bytes=psutil.virtual_memory().available,
    )


def num_throttled(processors: Path = _PROCESSORS) -> int | None:
    """Return how often cores were slowed down by heat, None where the system does not count it."""
    counts = []
    for path in processors.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"):
        try:
            counts.append(int(path.read_text("ascii")))
        except (OSError, ValueError):
            continue
    return sum(counts) if counts else None


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


def _governor() -> str | None:
    try:
        return (_PROCESSORS / "cpu0/cpufreq/scaling_governor").read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None
