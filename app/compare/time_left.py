"""How long a comparison will still take, from what it took so far."""

from collections.abc import Mapping
from statistics import fmean

from app.compare.results import Comparison, Mode

_LATEST = 20  # replies of a column that count: a machine that has become slower is slower


class TimeLeft:
    """Learns from each reply and load."""

    def __init__(self) -> None:
        self._replies: dict[str, list[float]] = {}
        self._loads: list[float] = []

    def note_reply(self, column: str, seconds: float) -> None:
        """Take note of how long a reply took."""
        self._replies.setdefault(column, []).append(seconds)
        del self._replies[column][:-_LATEST]

    def note_load(self, seconds: float) -> None:
        """Take note of how long it took until a model could be asked."""
        self._loads.append(seconds)

    def seconds(self, num_left: Mapping[str, int], plan: Comparison) -> float | None:
        """Return how long what is left will take; None before anything is known.

        A column of which nothing is known yet counts as the others do.

        Args:
            num_left: replies by column.
        """
        if not any(num_left.values()):
            return 0.0
        if not self._replies:
            return None
        means = {column: fmean(values) for column, values in self._replies.items()}
        usual = fmean(means.values())
        each = {column: count * means.get(column, usual) for column, count in num_left.items()}
        match plan.mode:
            case Mode.RACE:  # replies of one round end with the slowest
                return max(each.values())
            case Mode.SAMPLES:
                return sum(each.values()) / plan.repeats
        num_loads = sum(-(-count // len(plan.prompts)) for count in num_left.values()) - 1
        load = fmean(self._loads) if self._loads else 0.0
        return sum(each.values()) + load * max(0, num_loads)
