"""Readouts: what the engine does now and did last, in numbers."""

import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QProgressBar, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import bytes_text, count_text, rate_text, seconds_text, tokens_text
from app.desktop.widgets.strip_chart import StripChart
from engine import CacheMissCause, Delta, Finished, ModelDescription, PrefillProgress, RequestMetrics

_CHART_INTERVAL_S = 0.2
_RATE_WINDOW_S = 1.5
_NONE = "–"

_CAUSES = {
    CacheMissCause.FIRST_USE: "this text is new",
    CacheMissCause.EDITED: "an earlier message changed",
    CacheMissCause.SYSTEM_PROMPT_CHANGED: "the system prompt changed",
    CacheMissCause.TEMPLATE_CHANGED: "the chat template changed",
    CacheMissCause.ADAPTER_CHANGED: "the adapters changed",
    CacheMissCause.SETTINGS_CHANGED: "the settings changed",
    CacheMissCause.TRIMMED: "the context was trimmed",
    CacheMissCause.EVICTED: "other chats needed the room",
    CacheMissCause.MODEL_RELOADED: "the model was loaded anew",
    CacheMissCause.UNSUPPORTED_BY_MODEL: "this model cannot reuse it",
    CacheMissCause.DAMAGED: "the stored copy was damaged",
}

_ROWS = (
    ("ttft", "First token", "From sending to the first token: on the engine's clock once the reply has ended."),
    ("prompt", "Prompt read", "Prompt tokens that were computed, and how fast."),
    ("reused", "Reused", "Prompt tokens that were in the cache already and cost nothing."),
    ("generated", "Written", "Tokens of the reply and the time since its first token."),
    ("memory", "KV cache", "Memory of the context, and the part that is in use."),
)


class Readouts(QWidget):
    """Numbers of the reply in progress, or of the last one.

    Args:
        clock: monotonic seconds.
    """

    def __init__(
        self, theme: Theme, parent: QWidget | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._clock = clock
        self._model: ModelDescription | None = None
        self._num_context_tokens = 0
        self._points: deque[tuple[float, int]] = deque()
        self._charted_at = 0.0
        self._rate = QLabel()
        self._rate.setAccessibleName("Tokens a second")
        unit = QLabel("tok/s")
        unit.setProperty("role", "muted")
        self._phase = QLabel("")
        self._phase.setProperty("role", "meta")
        self.chart = StripChart(theme)
        self._values: dict[str, QLabel] = {}
        self._cause = QLabel("")
        self._cause.setProperty("role", "meta")
        self._cause.setWordWrap(True)
        self._cause.hide()
        self._context = QLabel(_NONE)
        self._context_bar = QProgressBar()
        self._context_bar.setRange(0, 1000)
        self._context_bar.setTextVisible(False)
        self._context_bar.setAccessibleName("Context in use")
        number = QHBoxLayout()
        number.setSpacing(theme.px(6))
        number.addWidget(self._rate, 0, Qt.AlignmentFlag.AlignBaseline)
        number.addWidget(unit, 0, Qt.AlignmentFlag.AlignBaseline)
        number.addStretch()
        number.addWidget(self._phase, 0, Qt.AlignmentFlag.AlignBaseline)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(theme.px(6))
        box.addLayout(number)
        box.addWidget(self.chart)
        box.addLayout(self._table())
        box.addWidget(self._cause)
        box.addSpacing(theme.px(2))
        box.addLayout(_line("Context", self._context))
        box.addWidget(self._context_bar)
        self._show_rate(None)

    def value(self, name: str) -> str:
        """Return what a line shows."""
        return self._values[name].text()

    @property
    def rate(self) -> str:
        """The big number."""
        return self._rate.text()

    @property
    def cause(self) -> str:
        """Why tokens had to be read again."""
        return self._cause.text()

    @property
    def context(self) -> str:
        """How much of the context is used."""
        return self._context.text()

    def show_model(self, description: ModelDescription | None) -> None:
        """Take the sizes of a model; None while there is none."""
        self._model = description
        self._num_context_tokens = 0
        self._show_context()

    def begin(self) -> None:
        """Clear the numbers for a new request."""
        self._points.clear()
        self.chart.clear()
        self._show_rate(None)
        self._phase.setText("")
        for label in self._values.values():
            label.setText(_NONE)
        self._cause.hide()
        self._cause.setText("")
        self._show_context()

    def show_prefill(self, progress: PrefillProgress) -> None:
        """Show how far the prompt is read."""
        self._phase.setText("reading")
        computed = max(0, progress.num_done_tokens - progress.num_cached_tokens)
        self._set(
            "prompt", f"{count_text(computed)} of {tokens_text(progress.num_total_tokens - progress.num_cached_tokens)}"
        )
        self._set("reused", _reused(progress.num_cached_tokens, progress.num_total_tokens))
        self._num_context_tokens = progress.num_done_tokens
        self._show_context()

    def show_first_token(self, seconds: float) -> None:
        """Show how long the first token took, measured in the window."""
        self._set("ttft", seconds_text(seconds))

    def show_delta(self, delta: Delta) -> None:
        """Show the numbers of a reply in progress."""
        self._phase.setText("thinking" if delta.thinking and not delta.text else "writing")
        self._points.append((delta.decode_s, delta.num_generated_tokens))
        while len(self._points) > 2 and delta.decode_s - self._points[1][0] > _RATE_WINDOW_S:
            self._points.popleft()
        self._set("generated", f"{tokens_text(delta.num_generated_tokens)} · {seconds_text(delta.decode_s)}")
        self._num_context_tokens = delta.num_context_tokens
        now = self._clock()
        if now - self._charted_at >= _CHART_INTERVAL_S:
            self._charted_at = now
            self._show_running_rate()
            self._show_context()

    def show_finished(self, event: Finished) -> None:
        """Show the measures of a whole reply in place of the running ones."""
        metrics = event.metrics
        self._phase.setText("")
        self._show_rate(metrics.decode_rate)
        self._set("ttft", seconds_text(metrics.ttft_s))
        self._set("prompt", _prompt(metrics))
        self._set("reused", _reused(metrics.num_cached_tokens, metrics.num_prompt_tokens))
        self._set("generated", f"{tokens_text(metrics.num_generated_tokens)} · {seconds_text(metrics.decode_s)}")
        self._num_context_tokens = metrics.num_prompt_tokens + metrics.num_generated_tokens
        self._show_context()
        cause = metrics.cache_miss_cause
        if cause is not None and cause is not CacheMissCause.FIRST_USE:
            self._cause.setText(f"Read again because {_CAUSES[cause]}.")
            self._cause.show()

    def end(self) -> None:
        """Take away the phase: nothing is in progress."""
        self._phase.setText("")

    def _table(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setVerticalSpacing(self._theme.px(5))
        grid.setColumnStretch(1, 1)
        for row, (name, text, tip) in enumerate(_ROWS):
            label = QLabel(text)
            label.setProperty("role", "muted")
            value = QLabel(_NONE)
            value.setTextFormat(Qt.TextFormat.PlainText)
            value.setAlignment(Qt.AlignmentFlag.AlignRight)
            value.setAccessibleName(text)
            for widget in (label, value):
                widget.setToolTip(tip)
            grid.addWidget(label, row, 0)
            grid.addWidget(value, row, 1)
            self._values[name] = value
        return grid

    def _set(self, name: str, text: str) -> None:
        self._values[name].setText(text)

    def _show_rate(self, rate: float | None) -> None:
        role = "idle" if rate is None else "number"
        self._rate.setText(rate_text(rate))
        if self._rate.property("role") != role:
            self._rate.setProperty("role", role)
            self._rate.style().unpolish(self._rate)
            self._rate.style().polish(self._rate)

    def _show_running_rate(self) -> None:
        (begin_s, begin), (end_s, end) = self._points[0], self._points[-1]
        if end_s > begin_s and end > begin:
            rate = (end - begin) / (end_s - begin_s)
            self._show_rate(rate)
            self.chart.add(rate)

    def _show_context(self) -> None:
        model = self._model
        if model is None:
            self._context.setText(_NONE)
            self._context_bar.setValue(0)
            self._set("memory", _NONE)
            return
        share = self._num_context_tokens / model.n_ctx if model.n_ctx else 0.0
        self._context.setText(
            f"{count_text(self._num_context_tokens)} / {count_text(model.n_ctx)} ({share * 100:.0f} %)"
        )
        self._context_bar.setValue(round(min(share, 1.0) * 1000))
        used = bytes_text(self._num_context_tokens * model.kv_bytes_per_token)
        whole = bytes_text(model.n_ctx * model.kv_bytes_per_token)
        kinds = model.type_k if model.type_k == model.type_v else f"{model.type_k}/{model.type_v}"
        self._set("memory", f"{used} of {whole} · {kinds}")


def _line(name: str, value: QLabel) -> QHBoxLayout:
    label = QLabel(name)
    label.setProperty("role", "muted")
    value.setAccessibleName(name)
    row = QHBoxLayout()
    row.addWidget(label)
    row.addStretch()
    row.addWidget(value)
    return row


def _prompt(metrics: RequestMetrics) -> str:
    computed = metrics.num_prompt_tokens - metrics.num_cached_tokens
    if metrics.prefill_rate is None:
        return tokens_text(computed)
    return f"{tokens_text(computed)} · {rate_text(metrics.prefill_rate)} tok/s"


def _reused(cached: int, total: int) -> str:
    return f"{count_text(cached)} of {count_text(total)}"
