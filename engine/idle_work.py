"""What the engine does while nothing is computed: what replies have left, the chat that was opened,
beginnings it was told to read, measuring."""

from engine.backend import Backend
from engine.kv_cache import KVCache
from engine.messages import Event
from engine.preparing import Preparations
from engine.read_ahead import ReadAhead
from engine.slot import Slot
from engine.slot_room import SlotRoom
from engine.speculative.calibration import Calibration
from engine.threads import StepThreads


class IdleWork:
    """Work of low priority; whatever arrives breaks its step off.

    Attributes:
        preparations: what was asked for.
    """

    def __init__(
        self, backend: Backend, cache: KVCache, room: SlotRoom, threads: StepThreads, calibration: Calibration
    ) -> None:
        self._calibration = calibration
        self._opened = room.opened
        self.preparations = Preparations(backend, cache, room, threads)
        self._read_ahead = ReadAhead(backend, cache)

    @property
    def is_due(self) -> bool:
        """Whether `step()` has something to do."""
        is_due = self._read_ahead.is_due or self._opened.is_due or self.preparations.is_due
        return is_due or self._calibration.is_due

    def note_reply(self, slot: Slot, tokens: list[int]) -> None:
        """See ReadAhead.note."""
        self._read_ahead.note(slot, tokens)

    def make_way(self) -> None:
        """Let what has come begin at once; safe from any thread."""
        self._read_ahead.drop()
        self._opened.put_off()
        self.preparations.break_off()
        self._calibration.break_off()

    def step(self) -> list[Event]:
        """Do some of it."""
        if self._read_ahead.is_due:  # first, and short: another chat's beginning may come to its slot
            self._read_ahead.step()
        elif self._opened.is_due:
            self._opened.step()
        elif self.preparations.is_due:
            return self.preparations.step()
        else:
            self._calibration.step()
        return []
