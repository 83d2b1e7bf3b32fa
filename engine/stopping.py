"""When a reply ends: stop strings found in generated text, with the part held back that might become one."""

from collections.abc import Sequence


class StopMatcher:
    """Finds the first stop string in a stream of text and never lets any part of one out.

    Args:
        stop: non-empty strings.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Take new text and return what can be shown; sets `matched` when a stop string is complete."""
        if not self._stop:
            return text
        self._held += text
        places = ((self._held.find(stop), stop) for stop in self._stop)
        found = [(position + len(stop), position, stop) for position, stop in places if position >= 0]
        if found:
            # The one that is complete first wins, so that it does not matter how the text was cut; of several that
            # end at one place the longest.
            _, position, self.matched = min(found)
            shown, self._held = self._held[:position], ""
            return shown
        keep = max(self._partial(stop) for stop in self._stop)
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return shown

    def flush(self) -> str:
        """Return what was held back, at the end of a reply that met no stop string."""
        held, self._held = self._held, ""
        return held

    def _partial(self, stop: str) -> int:
        """Return the length of the longest end of the held text that begins `stop`."""
        for length in range(min(len(stop) - 1, len(self._held)), 0, -1):
            if self._held.endswith(stop[:length]):
                return length
        return 0
