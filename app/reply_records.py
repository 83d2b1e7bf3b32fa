"""What a stored reply holds beside its text: one form, whether a window or a terminal had it made."""

from collections.abc import Sequence
from typing import Any

import msgspec

from engine import CacheReport, RequestMetrics, SpeculativeStats, TextSpan, TurnsDropped

# Kept beside the measures of the last request.
DROPPED, THINKING_S, CACHE, DRAFTING = "dropped", "reply_thinking_s", "cache", "speculative"
DRAFTED = "drafted_spans"  # start, end, start, end, ...

_TITLE_CHARS = 60


def reply_measures(
    metrics: RequestMetrics | None,
    *,
    dropped: TurnsDropped | None = None,
    cache: CacheReport | None = None,
    speculative: SpeculativeStats | None = None,
    drafted_spans: Sequence[TextSpan] = (),
    thinking_s: float | None = None,
) -> dict[str, Any]:
    """Return what was measured of a reply, as the store keeps it; what is not known is left out."""
    found: dict[str, Any] = msgspec.to_builtins(metrics) if metrics is not None else {}
    for name, record in ((DROPPED, dropped), (CACHE, cache), (DRAFTING, speculative)):
        if record is not None:
            found[name] = msgspec.to_builtins(record)
    if drafted_spans:
        found[DRAFTED] = [place for span in drafted_spans for place in (span.start, span.end)]
    if thinking_s is not None:
        found[THINKING_S] = thinking_s
    return found


def title_of(text: str) -> str:
    """Return the first words of a message, for a chat that has no other name."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    words = " ".join(line[: 4 * _TITLE_CHARS].split())
    if len(words) <= _TITLE_CHARS:
        return words
    cut = words[:_TITLE_CHARS]
    whole = cut.rsplit(" ", 1)[0]
    return (whole if len(whole) > _TITLE_CHARS // 2 else cut).rstrip(" ,;:.-–—") + "…"
