"""How many threads compute, and why fewer than could, in words."""

from PySide6.QtCore import QCoreApplication

from engine import ThreadsChanged, ThreadsReason


def threads_text(event: ThreadsChanged | None) -> str:
    """Return how many threads compute, short enough for a line; nothing where nothing is known."""
    if event is None:
        return ""
    if event.reason is ThreadsReason.ALL:
        return str(event.num_threads)
    reason = {
        ThreadsReason.NEIGHBOUR: _tr("busy computer"),
        ThreadsReason.QUOTA: _tr("system limit"),
        ThreadsReason.SHARED: _tr("another model"),
        ThreadsReason.MEASURED: _tr("fastest"),
    }[event.reason]
    return _tr("{count} of {most} · {reason}").format(count=event.num_threads, most=event.num_available, reason=reason)


def threads_reason(event: ThreadsChanged | None) -> str:
    """Return in full why fewer threads compute than could; nothing where all do, or nothing is known."""
    if event is None or event.reason is ThreadsReason.ALL:
        return ""
    reason = {
        ThreadsReason.NEIGHBOUR: _tr("another program is using the processor"),
        ThreadsReason.QUOTA: _tr("the system allows no more"),
        ThreadsReason.SHARED: _tr("another model computes too"),
        ThreadsReason.MEASURED: _tr("more are no faster"),
    }[event.reason]
    counts = _tr("{count} of {most} threads").format(count=event.num_threads, most=event.num_available)
    return f"{counts}: {reason}"


def _tr(text: str) -> str:
    return QCoreApplication.translate("Threads", text)
