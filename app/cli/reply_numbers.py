"""The numbers of a reply in the terminal: in one line below it, and one by one."""

from app.cli.terminal_text import wrapped
from app.reply_measures import measures_of
from engine import CacheSource, Finished, RequestMetrics


def summary_of(metrics: RequestMetrics) -> str:
    """Return the numbers of a reply in one line."""
    parts = [f"{metrics.num_generated_tokens:,} tokens"]
    if metrics.cache_source is CacheSource.RESPONSE:
        return "  ·  ".join((*parts, "from cache"))
    if metrics.decode_rate is not None:
        parts.append(f"{metrics.decode_rate:.1f} tok/s")
    if metrics.ttft_s is not None:
        parts.append(f"first token {metrics.ttft_s:.2f} s")
    parts.append(f"{metrics.num_cached_tokens:,} of {metrics.num_prompt_tokens:,} prompt tokens reused")
    return "  ·  ".join(parts)


def wrapped_numbers(summary: str) -> str:
    """Return a line of numbers, broken between them only."""
    return wrapped(summary.replace(" ", "\u00a0").replace("·\u00a0\u00a0", "·  ")).replace("\u00a0", " ")


def number_lines(finished: Finished) -> list[str]:
    """Return every number that is known of a reply, one in each line."""
    lines = []
    for name, value in measures_of(finished).items():
        if isinstance(value, list):
            for item in value:
                accepted = f"{item['num_accepted_tokens']} of {item['num_drafted_tokens']} accepted"
                lines.append(f"  {item['drafter']:<26} {accepted}, {item['draft_s']:.4g} s")
        elif value is not None:
            lines.append(f"  {name:<26} {value:.4g}" if isinstance(value, float) else f"  {name:<26} {value}")
    return lines
