"""How numbers are written for people: rates, times, sizes, counts."""

from PySide6.QtCore import QCoreApplication

LAST_SECOND = 253402300799.0  # of the year 9999; no clock is believed beyond
NOTHING = "–"


def count_text(count: int) -> str:
    """Return 1228 as "1,228"."""
    return f"{count:,}"


def rate_text(rate: float | None) -> str:
    """Return tokens a second with three figures."""
    if rate is None:
        return NOTHING
    return f"{rate:,.0f}" if rate >= 99.95 else f"{rate:.1f}"


def rate_with_unit(rate: float | None) -> str:
    """Return tokens a second with three figures and the unit."""
    return NOTHING if rate is None else _tr("{rate} tok/s").format(rate=rate_text(rate))


def seconds_text(seconds: float | None) -> str:
    """Return a time with its unit."""
    if seconds is None:
        return NOTHING
    if seconds < 0.9995:
        return _tr("{number} ms").format(number=f"{seconds * 1000:.0f}")
    if seconds < 60:
        return _tr("{number} s").format(number=f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}")
    minutes, rest = divmod(round(seconds), 60)
    return _tr("{minutes} min {seconds} s").format(minutes=minutes, seconds=rest)


def duration_text(seconds: float) -> str:
    """Return how long something took for a person: tenths of a second, or minutes."""
    if seconds < 59.95:
        return _tr("{number} s").format(number=f"{seconds:.1f}")
    return seconds_text(max(seconds, 60.0))


def elapsed_text(seconds: float) -> str:
    """Return how long something has taken so far: whole seconds, calm while they run."""
    return _tr("{number} s").format(number=int(seconds)) if seconds < 60 else seconds_text(int(seconds))


def bytes_text(num_bytes: float) -> str:
    """Return a size with a binary unit."""
    size = float(num_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def share_text(part: float, whole: float) -> str:
    """Return a size and what it is part of, with the unit once where both have the same: "118 of 180 MiB"."""
    shown, most = bytes_text(part), bytes_text(whole)
    number, unit = shown.split(" ")
    return _tr("{part} of {whole}").format(part=number if most.endswith(f" {unit}") else shown, whole=most)


def parameters_text(count: int) -> str:
    """Return a number of parameters as people say it: "135 M", "7.2 B"."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size * 0.9995:
            number = count / size
            return f"{number:.0f} {unit}" if number >= 99.95 else f"{number:.3g} {unit}"
    return count_text(count)


def tokens_text(count: int) -> str:
    """Return "1 token", "612 tokens"."""
    text = _tr("{count} token") if count == 1 else _tr("{count} tokens")
    return text.format(count=count_text(count))


def _tr(text: str) -> str:
    return QCoreApplication.translate("Figures", text)
