"""Readouts: what the engine does now and did last, in numbers."""

import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.desktop.session.turns import ReplyTurn
from app.desktop.theme.look import set_look
from app.desktop.theme.theme import Theme
from app.desktop.widgets.cache_causes import cause_text
from app.desktop.widgets.context_bar import ContextBar
from app.desktop.widgets.draft_words import acceptance_text, slower_text, speed_text
from app.desktop.widgets.figures import (
    NOTHING,
    bytes_text,
    count_text,
    rate_text,
    rate_with_unit,
    seconds_text,
    share_text,
    tokens_text,
)
from app.desktop.widgets.readout_rows import ONLY_WHERE_KNOWN, ROWS
from app.desktop.widgets.strip_chart import StripChart
from app.desktop.widgets.thread_reasons import threads_reason, threads_text
from engine import (
    CacheMissCause,
    Delta,
    Finished,
    ModelDescription,
    PrefillProgress,
    RequestMetrics,
    SpeculativeStats,
    ThreadsChanged,
)

_CHART_INTERVAL_S = 0.2
_RATE_WINDOW_S = 1.5


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
        self._num_system_tokens: int | None = None
        self._memory_bytes: int | None = None
        self._peak_bytes: int | None = None
        self._threads: ThreadsChanged | None = None
        self._metrics: RequestMetrics | None = None  # of the reply whose numbers are shown
        self._is_live = False  # between the begin of a request and its end lines may come, and none goes
        self._points: deque[tuple[float, int]] = deque()
        self._charted_at = 0.0
        self._rate = QLabel()
        self._rate.setAccessibleName(self.tr("Tokens a second"))
        unit = QLabel(self.tr("tok/s"))
        unit.setProperty("role", "muted")
        self._phase = QLabel("")
        self._phase.setProperty("role", "meta")
        self.chart = StripChart(theme)
        self._values: dict[str, QLabel] = {}
        self._labels: dict[str, QLabel] = {}
        self._total, self._cause, self._drafting = _remark(), _remark(), _remark()
        self._context = _value_label(self.tr("Context"))
        self._context_bar = ContextBar(theme)
        number = QHBoxLayout()
        number.addWidget(self._rate, 0, Qt.AlignmentFlag.AlignBaseline)
        number.addWidget(unit, 0, Qt.AlignmentFlag.AlignBaseline)
        number.addStretch()
        number.addWidget(self._phase, 0, Qt.AlignmentFlag.AlignBaseline)
        self._number = number
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.addLayout(number)
        self._box.addWidget(self.chart)
        self._grid = self._new_table()
        self._box.addLayout(self._grid)
        for remark in (self._total, self._cause, self._drafting):
            self._box.addWidget(remark)
        context = QHBoxLayout()
        label = QLabel(self.tr("Context"))
        label.setProperty("role", "muted")
        context.addWidget(label)
        context.addWidget(self._context, 1)
        self._box.addLayout(context)
        self._box.addWidget(self._context_bar)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self._clear()

    def value(self, name: str) -> str:
        """Return what a line shows."""
        return self._values[name].text()

    def tip(self, name: str) -> str:
        """Return the tool tip of what a line shows."""
        return self._values[name].toolTip()

    def has_row(self, name: str) -> bool:
        """Tell whether a line is shown."""
        return not self._values[name].isHidden()

    @property
    def rate(self) -> str:
        """The big number."""
        return self._rate.text()

    @property
    def cause(self) -> str:
        """Why tokens had to be read again."""
        return self._cause.text()

    @property
    def drafting(self) -> str:
        """Why drafting was given up; empty where it was not."""
        return self._drafting.text()

    @property
    def context(self) -> str:
        """How much of the context is used."""
        return self._context.text()

    @property
    def context_bar(self) -> ContextBar:
        """What the context is filled with."""
        return self._context_bar

    def show_model(self, description: ModelDescription | None) -> None:
        """Take the sizes of a model; None while there is none."""
        self._model = description
        self._num_context_tokens = 0
        self._num_system_tokens = None
        if description is None:
            self._memory_bytes = self._peak_bytes = None
            self._show_memory()
        self._show_threads()
        self._show_context()

    def show_context_parts(self, system: int | None, used: int | None) -> None:
        """Show how much of the context the system prompt has and what is used in all; None where that is not known."""
        self._num_system_tokens = system
        if used is not None:
            self._num_context_tokens = used
        self._show_context()

    def show_threads(self, event: ThreadsChanged | None) -> None:
        """Show how many threads compute, and why not all; None while no other number than at first is known."""
        self._threads = event
        self._show_threads()

    def show_total(self, rate: float | None) -> None:
        """Show what all replies that run make together; None unless there are several."""
        text = self.tr("All replies together: {rate} tok/s")
        self._total.setText("" if rate is None else text.format(rate=rate_text(rate)))
        self._total.setVisible(rate is not None)

    def show_worker_memory(self, num_bytes: int | None) -> None:
        """Show the resident memory of the model's process; None where there is none."""
        self._memory_bytes = num_bytes
        self._show_memory()

    def begin(self) -> None:
        """Clear the numbers for a new request; the lines of the last reply stay, to be filled again."""
        self._is_live = True
        self._clear()
        self._show_context()

    def show_reply(self, turn: ReplyTurn | None) -> None:
        """Show the stored measures of the last reply of a chat; None for a chat without one."""
        self._is_live = False
        self._clear()
        self._num_context_tokens = 0
        self._num_system_tokens = None
        if turn is not None and turn.metrics is not None:
            self._show_metrics(turn.metrics)
            self._show_drafting(turn.speculative)
        self._show_context()

    def show_path(self, turn: ReplyTurn | None) -> None:
        """Show the measures of the reply that the shown messages end with now, unless they are shown already."""
        if turn is None or turn.metrics is not self._metrics:
            self.show_reply(turn)

    def show_prefill(self, progress: PrefillProgress) -> None:
        """Show how far the prompt is read."""
        self._phase.setText(self.tr("reading"))
        computed = max(0, progress.num_done_tokens - progress.num_cached_tokens)
        total = tokens_text(progress.num_total_tokens - progress.num_cached_tokens)
        self._set("prompt", self.tr("{done} of {total}").format(done=count_text(computed), total=total))
        self._set("reused", self._reused(progress.num_cached_tokens, progress.num_total_tokens))
        self._num_context_tokens = progress.num_done_tokens
        self._show_context()

    def show_first_token(self, seconds: float) -> None:
        """Show how long the first token took, measured in the window."""
        self._set("ttft", seconds_text(seconds))

    def show_delta(self, delta: Delta) -> None:
        """Show the numbers of a reply in progress."""
        is_thinking = bool(delta.thinking) and not delta.text
        self._phase.setText(self.tr("thinking") if is_thinking else self.tr("writing"))
        self._points.append((delta.decode_s, delta.num_generated_tokens))
        while len(self._points) > 2 and delta.decode_s - self._points[1][0] > _RATE_WINDOW_S:
            self._points.popleft()
        self._num_context_tokens = delta.num_context_tokens
        now = self._clock()
        if now - self._charted_at >= _CHART_INTERVAL_S:
            self._charted_at = now
            self._set("generated", _tokens_and_time(delta.num_generated_tokens, delta.decode_s))
            if is_thinking:
                self._set("thinking", _tokens_and_time(delta.num_generated_tokens, delta.decode_s))
            self._show_running_rate()
            self._show_drafting(delta.speculative)
            self._show_context()

    def show_finished(self, event: Finished) -> None:
        """Show the measures of a whole reply in place of the running ones."""
        self._is_live = False
        self._phase.setText("")
        self._show_metrics(event.metrics)
        self._show_drafting(event.speculative)
        self._show_context()

    def end(self) -> None:
        """Take away the phase: nothing is in progress."""
        self._is_live = False
        self._phase.setText("")
        for name in ONLY_WHERE_KNOWN:
            self._show_row(name)

    def _clear(self) -> None:
        self._metrics = None
        self._points.clear()
        self.chart.clear()
        self._show_rate(None)
        self._phase.setText("")
        for name in self._values:
            if name not in ("worker", "threads"):
                self._set(name, NOTHING)
        self._show_memory()
        self._show_threads()
        self._show_drafting(None)
        self._cause.hide()
        self._cause.setText("")

    def _show_metrics(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics
        self._show_rate(metrics.decode_rate)
        self._set("ttft", seconds_text(metrics.ttft_s))
        self._set("prompt", _prompt(metrics))
        self._set("reused", self._reused(metrics.num_cached_tokens, metrics.num_prompt_tokens))
        has_thought = metrics.thinking_s is not None
        self._set("thinking", _tokens_and_time(metrics.num_thinking_tokens, metrics.thinking_s) if has_thought else "")
        self._set("generated", _tokens_and_time(metrics.num_generated_tokens, metrics.decode_s))
        self._num_context_tokens = metrics.num_prompt_tokens + metrics.num_generated_tokens
        if metrics.peak_memory_bytes is not None:
            self._peak_bytes = metrics.peak_memory_bytes
            self._show_memory()
        cause = metrics.cache_miss_cause
        if cause is not None and cause is not CacheMissCause.FIRST_USE:
            self._cause.setText(self.tr("Read again because {cause}.").format(cause=cause_text(cause)))
            self._cause.show()

    def _show_drafting(self, stats: SpeculativeStats | None) -> None:
        self._set("drafts", acceptance_text(stats))
        self._set("speedup", speed_text(stats))
        self._drafting.setText(slower_text(stats))
        self._drafting.setVisible(bool(self._drafting.text()))

    def _new_table(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setColumnStretch(1, 1)
        for row, (name, text, tip) in enumerate(ROWS):
            label = QLabel(self.tr(str(text)))
            label.setProperty("role", "muted")
            value = _value_label(self.tr(str(text)))
            for widget in (label, value):
                widget.setToolTip(self.tr(str(tip)))
            grid.addWidget(label, row, 0)
            grid.addWidget(value, row, 1)
            self._labels[name], self._values[name] = label, value
            for widget in (label, value):
                widget.setVisible(name not in ONLY_WHERE_KNOWN)
        return grid

    def _set(self, name: str, text: str) -> None:
        value = self._values[name]
        text = text or NOTHING
        if text != value.text():
            value.setText(text)
            value.setAccessibleName(f"{self._labels[name].text()}: {text}")
        if name in ONLY_WHERE_KNOWN:
            self._show_row(name)

    def _show_row(self, name: str) -> None:
        """Show a line whose value is known; one that is not goes once nothing is in progress."""
        is_known = self._values[name].text() != NOTHING
        if is_known or not self._is_live:
            for part in (self._values[name], self._labels[name]):
                part.setVisible(is_known)

    def _show_rate(self, rate: float | None) -> None:
        role = "idle" if rate is None else "number"
        self._rate.setText(rate_text(rate))
        set_look(self._rate, "role", role)

    def _show_running_rate(self) -> None:
        (begin_s, begin), (end_s, end) = self._points[0], self._points[-1]
        if end_s > begin_s and end > begin:
            rate = (end - begin) / (end_s - begin_s)
            self._show_rate(rate)
            self.chart.add(rate)

    def _show_threads(self) -> None:
        # A line that is always there: a remark that comes and goes would move all below it while a reply is written.
        at_first = str(self._model.n_threads) if self._model is not None and self._model.n_threads > 0 else NOTHING
        self._set("threads", threads_text(self._threads) or at_first)
        self._values["threads"].setToolTip(threads_reason(self._threads) or self._labels["threads"].toolTip())

    def _show_memory(self) -> None:
        now, peak = self._memory_bytes, self._peak_bytes
        known = now if now is not None else peak
        self._set("worker", NOTHING if known is None else bytes_text(known))
        # In the tool tip: two numbers would not fit the line, and a line that breaks moves all below it.
        most = self.tr("At most {size} since the model was loaded.")
        self._values["worker"].setToolTip("" if peak is None else most.format(size=bytes_text(peak)))

    def _show_context(self) -> None:
        model = self._model
        if model is None:
            self._context.setText(NOTHING)
            self._context_bar.show_parts(None, 0, 0)
            self._set("memory", NOTHING)
            return
        used = self._num_context_tokens
        share = used / model.n_ctx if model.n_ctx else 0.0
        self._context.setText(
            self.tr("{used} / {total} ({share} %)").format(
                used=count_text(used), total=count_text(model.n_ctx), share=f"{share * 100:.0f}"
            )
        )
        self._context_bar.show_parts(self._num_system_tokens, used, model.n_ctx)
        kinds = model.type_k if model.type_k == model.type_v else f"{model.type_k}/{model.type_v}"
        memory = share_text(used * model.kv_bytes_per_token, model.n_ctx * model.kv_bytes_per_token)
        self._set("memory", f"{memory} · {kinds}")

    def _reused(self, cached: int, total: int) -> str:
        return self.tr("{done} of {total}").format(done=count_text(cached), total=count_text(total))

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._number.setSpacing(px(6))
        self._box.setSpacing(px(7))
        self._grid.setVerticalSpacing(px(5))
        self._grid.setHorizontalSpacing(px(8))


def _value_label(name: str) -> QLabel:
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)  # rather two lines than a number that is cut
    label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    label.setAccessibleName(name)
    return label


def _prompt(metrics: RequestMetrics) -> str:
    tokens = tokens_text(metrics.num_prompt_tokens - metrics.num_cached_tokens)
    return tokens if metrics.prefill_rate is None else f"{tokens} · {rate_with_unit(metrics.prefill_rate)}"


def _tokens_and_time(count: int, seconds: float | None) -> str:
    return tokens_text(count) if seconds is None else f"{tokens_text(count)} · {seconds_text(seconds)}"


def _remark() -> QLabel:
    label = QLabel("")
    label.setProperty("role", "meta")
    label.setWordWrap(True)
    label.hide()
    return label
