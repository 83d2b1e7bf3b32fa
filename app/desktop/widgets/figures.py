"""How numbers are written for people: rates, times, sizes, counts."""


def count_text(count: int) -> str:
    """Return 1228 as "1,228"."""
    return f"{count:,}"


def rate_text(rate: float | None) -> str:
    """Return tokens a second with three figures."""
    if rate is None:
        return "–"
    return f"{rate:,.0f}" if rate >= 99.95 else f"{rate:.1f}"


def seconds_text(seconds: float | None) -> str:
    """Return a time with its unit."""
    if seconds is None:
        return "–"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def duration_text(seconds: float) -> str:
    """Return how long something took for a person: tenths of a second, or minutes."""
    return f"{seconds:.1f} s" if seconds < 59.95 else seconds_text(max(seconds, 60.0))


def elapsed_text(seconds: float) -> str:
    """Return how long something has taken so far: whole seconds, calm while they run."""
    return f"{int(seconds)} s" if seconds < 60 else seconds_text(int(seconds))


def bytes_text(num_bytes: float) -> str:
    """Return a size with a binary unit."""
    size = float(num_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def tokens_text(count: int) -> str:
    """Return "1 token", "612 tokens"."""
    return f"{count:,} token{'' if count == 1 else 's'}"
