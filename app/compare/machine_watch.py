"""What the machine did beside while a reply was made: other programs, power, heat, frequency."""

import contextlib
import time
from collections.abc import Callable, Iterable

from app.bench.machine_state import machine_state
from app.compare.results import CellMachine

_LEAST_S = 0.05  # the system counts in hundredths of a second: shorter says nothing


class MachineWatch:
    """Watches from the moment it is made.

    Args:
        pids: processes whose work is ours, beside this one; None among them is passed over.
        clock: seconds.
    """

    def __init__(self, pids: Iterable[int | None], *, clock: Callable[[], float] = time.perf_counter) -> None:
        import psutil

        self._processes = []
        for pid in (*{pid for pid in pids if pid is not None}, None):
            with contextlib.suppress(psutil.Error):
                self._processes.append(psutil.Process(pid))
        self._before = machine_state()
        self._busy = _busy_s()
        self._own = self._own_s()
        self._clock = clock
        self._at = clock()

    def look(self) -> CellMachine:
        """Return what it was like until now."""
        seconds = self._clock() - self._at
        busy, own = _busy_s(), self._own_s()
        now = machine_state()
        load = None
        if busy is not None and self._busy is not None and seconds >= _LEAST_S:
            load = round(max(0.0, (busy - self._busy) - (own - self._own)) / seconds, 2)
        throttled = None
        if now.num_throttled is not None and self._before.num_throttled is not None:
            throttled = now.num_throttled > self._before.num_throttled
        on_battery = "battery" in (now.power_source, self._before.power_source)  # also where it was only for a part
        return CellMachine(
            power_source="battery" if on_battery else now.power_source,
            load=load,
            was_throttled=throttled,
            frequency_mhz=now.frequency_mhz,
        )

    def _own_s(self) -> float:
        import psutil

        total = 0.0
        for process in self._processes:
            with contextlib.suppress(psutil.Error):  # it has ended
                times = process.cpu_times()
                total += times.user + times.system
        return total


def _busy_s() -> float | None:
    """Return the seconds for which processors were busy since the system started, whoever used them."""
    import psutil

    try:
        times = psutil.cpu_times()
    except (OSError, RuntimeError, ValueError):
        return None
    # Time of guests stands in that of the user as well.
    return float(times.user + times.system + getattr(times, "nice", 0.0) + getattr(times, "irq", 0.0))
