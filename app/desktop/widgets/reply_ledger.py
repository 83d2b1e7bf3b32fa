"""The line below a reply that says what of its prompt was not read again, and why the rest was."""

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QLabel, QWidget

from app.desktop.session.turns import ReplyTurn
from app.desktop.widgets.cache_causes import cause_text
from app.desktop.widgets.figures import count_text, duration_text
from engine import CacheMissCause, CacheReport, CacheSource

# Less is nobody's business: each prompt has the beginning of its format in common with every other.
_WORTH_TOKENS = 32
_WORTH_S = 0.05
_MOST_S = 1e7  # a stored account is believed up to here


class LedgerLabel(QLabel):
    """Shows that line; it wraps, for a cause that is cut is none.

    Signals:
        clicked: the details are wanted.
    """

    clicked = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setProperty("role", "meta")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip(_tr("Show the details of this reply"))

    def show_turn(self, turn: ReplyTurn) -> None:
        """Show what there is to be said of a reply."""
        text = ledger_text(turn)
        self.setText(text)
        self.setAccessibleName(text)
        self.setVisible(bool(text))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Tell of a click."""
        if event.button() is Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.clicked.emit()


def ledger_text(turn: ReplyTurn) -> str:
    """Return what was reused and saved, and the cause of what was not; empty where that says nothing."""
    metrics, report = turn.metrics, turn.cache
    if metrics is None:
        prefill = turn.prefill
        if not turn.is_open or prefill is None or prefill.num_cached_tokens < _WORTH_TOKENS:
            return ""
        return _reused(prefill.num_cached_tokens, prefill.num_total_tokens, CacheSource.NONE, "")
    if turn.is_stored:
        words, saved = _tr("From cache: the same was asked before"), saved_text(report)
        return _tr("{reused}, {time} saved").format(reused=words, time=saved) if saved else words
    parts = []
    if metrics.num_cached_tokens >= _WORTH_TOKENS:
        counts = metrics.num_cached_tokens, metrics.num_prompt_tokens
        parts.append(_reused(*counts, metrics.cache_source, saved_text(report)))
    cause = metrics.cache_miss_cause
    num_read = metrics.num_prompt_tokens - metrics.num_cached_tokens
    if cause is not None and cause is not CacheMissCause.FIRST_USE and num_read >= _WORTH_TOKENS:
        words = _tr("read again, because {cause}") if parts else _tr("Read again, because {cause}")
        start = start_text(report, turn.settings)
        if start:
            words = _tr("read again {start}, because {cause}") if parts else _tr("Read again {start}, because {cause}")
        parts.append(words.format(start=start, cause=cause_text(cause)))
    return " · ".join(parts)


def start_text(report: CacheReport | None, settings: Mapping[str, Any]) -> str:
    """Return where reading began, by the messages of the chat as they were sent; empty where that is not known."""
    if report is None or report.miss_message is None:
        return ""
    place = report.miss_message
    if str(settings.get("system_prompt") or "").strip():
        place -= 1  # the first message of the request
    if place < 0:
        return _tr("from the system prompt on")
    return _tr("from message {number} on").format(number=count_text(place + 1))


def saved_text(report: CacheReport | None) -> str:
    """Return the time that was saved; empty where that is nothing or not known."""
    saved_s = report.seconds_saved if report is not None else None
    return duration_text(saved_s) if saved_s is not None and _WORTH_S <= saved_s <= _MOST_S else ""


def _reused(some: int, total: int, source: CacheSource, saved: str) -> str:
    words = {
        CacheSource.RAM: _tr("{some} of {all} tokens reused from memory"),
        CacheSource.DISK: _tr("{some} of {all} tokens reused from disk"),
    }.get(source, _tr("{some} of {all} tokens reused"))
    text = words.format(some=count_text(some), all=count_text(total))
    return _tr("{reused}, {time} saved").format(reused=text, time=saved) if saved else text


def _tr(text: str) -> str:
    return QCoreApplication.translate("ReplyLedger", text)
