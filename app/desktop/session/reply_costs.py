"""ReplyCosts: what each reply draws and costs, and the share of the memory bandwidth it reached."""

from app.battery import may_read_ahead
from app.desktop.session.model_session import ModelSession
from app.desktop.session.user_settings import UserSettings
from app.energy import EnergyMeter, ReplyEnergy
from app.reply_measures import completed
from engine import RequestMetrics


class ReplyCosts:
    """Reads the meter when a reply begins and when it ends.

    Args:
        settings: the user's own figures, where the system tells none.
    """

    def __init__(self, settings: UserSettings, model: ModelSession) -> None:
        self._settings = settings
        self._model = model
        self._watts = settings.now.power_watts
        self._energy = ReplyEnergy(EnergyMeter(self._watts))
        self._num_open = 0

    def begin(self, reply_id: str) -> None:
        """Note that a reply begins."""
        watts = self._settings.now.power_watts
        if watts != self._watts and not self._num_open:
            self._watts, self._energy = watts, ReplyEnergy(EnergyMeter(watts))
        self._num_open += 1
        self._energy.begin(reply_id)

    def end(self, reply_id: str) -> float | None:
        """Note that a reply ended, and return the joules that were drawn for it."""
        self._num_open -= 1
        return self._energy.end(reply_id)

    def completed(self, metrics: RequestMetrics, joules: float | None) -> RequestMetrics:
        """Return the measures of a reply with what it cost."""
        model = self._model.description
        return metrics if model is None else completed(metrics, model, self._settings.now, joules=joules)

    def may_read_ahead(self) -> bool:
        """Tell whether the engine may read on when a reply has ended."""
        return may_read_ahead(self._settings.now.read_ahead_above)

    def may_read_opened(self) -> bool:
        """Tell whether the engine may read a chat that was opened, before anything is asked."""
        return self._settings.now.read_opened and self.may_read_ahead()
