"""Why fewer threads compute than could, in words."""

from PySide6.QtCore import QCoreApplication

from engine import ThreadsChanged, ThreadsReason


def threads_text(event: ThreadsChanged | None) -> str:
    """Return how many threads compute and why not more; nothing where all do, or nothing is known."""
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
