"""TotalRate: how many tokens a second all replies make together, while several run."""

from collections import deque

_WINDOW_S = 1.5


class TotalRate:
    """Counts the tokens of each reply in the last moments."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[float, int]]] = {}

    def note(self, reply_id: str, num_tokens: int, now: float) -> None:
        """Note how many tokens a reply has at a moment, in seconds."""
        points = self._points.setdefault(reply_id, deque())
        points.append((now, num_tokens))
        while len(points) > 2 and now - points[1][0] > _WINDOW_S:
            points.popleft()

    def forget(self, reply_id: str) -> None:
        """Note that a reply has ended."""
        self._points.pop(reply_id, None)

    def rate(self) -> float | None:
        """Return tokens a second; None unless two replies or more have told enough."""
        rates = []
        for points in self._points.values():
            (begin, first), (end, last) = points[0], points[-1]
            if end > begin:
                rates.append((last - first) / (end - begin))
        return sum(rates) if len(rates) > 1 else None
