"""The inspector folds, never scrolls sideways, and shows stored numbers as it shows live ones."""

import itertools

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.desktop.session.turns import ReplyTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.adapter_panel import AdapterPanel
from app.desktop.widgets.draft_panel import DraftPanel
from app.desktop.widgets.inspector import WIDTH, Inspector
from app.desktop.widgets.load_panel import LoadPanel
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.sampling_panel import SamplingPanel
from app.desktop.widgets.strip_chart import NUM_POINTS
from app.desktop.widgets.system_prompt import SystemPromptEdit
from engine import CacheMissCause, Delta, Finished, FinishReason, ModelParams
from tests.gui.scripted_engine import describe, metrics

# Of the platform without a screen, about any window of its own.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


class Clock:
    """Time that the test lets pass."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """An inspector and its parts."""

    def __init__(self, theme: Theme) -> None:
        self.clock = Clock()
        self.readouts = Readouts(theme, clock=self.clock)
        self.sampling = SamplingPanel(theme)
        self.load_panel = LoadPanel(theme)
        self.system_prompt = SystemPromptEdit(theme)
        self.adapters = AdapterPanel(theme)
        self.inspector = Inspector(
            theme,
            self.readouts,
            self.sampling,
            self.load_panel,
            self.system_prompt,
            adapters=self.adapters,
            drafting=DraftPanel(theme),
        )

    def delta(self, count: int, *, thinking: str = "") -> None:
        self.clock.now = count * 0.05
        self.readouts.show_delta(
            Delta(
                request_id="a",
                text="" if thinking else "x",
                thinking=thinking,
                num_generated_tokens=count,
                num_context_tokens=100 + count,
                decode_s=count * 0.05,
            )
        )

    def finish(self, **changes: object) -> None:
        event = Finished(
            request_id="a", text="x", token_ids=(), finish_reason=FinishReason.STOP, metrics=metrics(**changes)
        )
        self.readouts.show_finished(event)


@pytest.fixture
def bench(theme: Theme, qtbot: QtBot) -> Bench:
    bench = Bench(theme)
    qtbot.addWidget(bench.inspector)
    bench.inspector.resize(theme.px(WIDTH), 800)
    bench.inspector.show()
    return bench


def test_sections_fold_by_key_and_tell_of_it(bench: Bench, qtbot: QtBot) -> None:
    assert bench.inspector.collapsed == {"system_prompt", "adapters", "drafting", "model"}
    head = bench.inspector.section("live").head
    head.setFocus()
    with qtbot.waitSignal(bench.inspector.collapsed_changed):
        QTest.keyClick(head, Qt.Key.Key_Space)
    assert bench.inspector.collapsed == {"live", "system_prompt", "adapters", "drafting", "model"}
    assert not bench.readouts.isVisible()
    with qtbot.assertNotEmitted(bench.inspector.collapsed_changed):
        bench.inspector.set_collapsed(["sampling", "no such section"])
    assert bench.inspector.collapsed == {"sampling"}
    assert bench.readouts.isVisible()


@pytest.mark.parametrize("zoom", [0.8, 1.0, 1.25, 1.5, 1.75, 2.0])
@pytest.mark.parametrize("width", [WIDTH, 400], ids=["designed", "narrow-window"])
def test_nothing_is_wider_than_the_inspector(bench: Bench, theme: Theme, zoom: float, width: int) -> None:
    theme.set_zoom(zoom)
    bench.inspector.set_collapsed([])
    bench.sampling.more_button.setChecked(True)
    bench.load_panel.more_button.setChecked(True)
    bench.readouts.show_model(describe(n_ctx=131072, type_v="q8_0"))
    bench.load_panel.set_params(ModelParams(), describe(n_ctx=131072))
    bench.sampling.set_layers({"temperature": 1}, {}, {name: 0.5 for name in ("typical_p", "frequency_penalty")})
    bench.sampling.show_used_seed(4294967294)
    bench.finish(num_prompt_tokens=123456, num_cached_tokens=23456, thinking_s=75.0, num_thinking_tokens=12345)
    bench.inspector.resize(theme.px(WIDTH) if width == WIDTH else min(theme.px(WIDTH), width), 900)
    QTest.qWait(1)
    assert bench.inspector.area.horizontalScrollBar().maximum() == 0
    body = bench.inspector.area.widget()
    assert body is not None
    assert body.width() == bench.inspector.area.viewport().width()
    assert body.minimumSizeHint().width() <= body.width()


def tab_stops(body: QWidget, first: QWidget) -> list[QWidget]:
    """Return what the Tab key reaches inside `body`, in order."""
    chain, widget = [first], first.nextInFocusChain()
    while widget is not None and widget is not first:
        chain.append(widget)
        widget = widget.nextInFocusChain()
    return [
        widget
        for widget in chain
        if body.isAncestorOf(widget)
        and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and widget.isVisible()
        and widget.isEnabled()
    ]


def test_tab_goes_from_top_to_bottom_whatever_was_built_when(bench: Bench, qtbot: QtBot) -> None:
    bench.sampling.more_button.setChecked(True)
    bench.inspector.set_collapsed([])
    bench.load_panel.more_button.setChecked(True)
    bench.sampling.set_layers({}, {}, {"top_k": 1, "seed": 5, "typical_p": 0.5, "stop": ["a"], "samplers": ["top_k"]})
    bench.sampling.show_used_seed(7)
    bench.load_panel.set_params(ModelParams(n_ctx=512), describe())
    body = bench.inspector.area.widget()
    assert body is not None
    stops = tab_stops(body, bench.inspector.section("live").head)
    assert len(stops) > 70

    def is_in_order() -> bool:
        centres = [widget.mapTo(body, widget.rect().center()).y() for widget in stops]
        return all(below > above - 4 for above, below in itertools.pairwise(centres))

    qtbot.waitUntil(is_in_order, timeout=2000)


def test_system_prompt_is_told_when_the_keys_rest(bench: Bench, qtbot: QtBot) -> None:
    bench.inspector.set_collapsed([])
    told: list[str] = []
    bench.system_prompt.changed.connect(told.append)
    bench.system_prompt.set_text("Be kind.")
    QTest.keyClicks(bench.system_prompt.edit, "Now: ")
    assert told == []
    qtbot.waitUntil(lambda: told == ["Now: Be kind."])


def test_system_prompt_is_told_when_the_focus_leaves(bench: Bench, qtbot: QtBot) -> None:
    bench.inspector.set_collapsed([])
    edit = bench.system_prompt.edit
    bench.inspector.activateWindow()
    edit.setFocus()
    QTest.keyClicks(edit, "a")
    with qtbot.waitSignal(bench.system_prompt.changed, timeout=200) as signal:
        bench.inspector.section("live").head.setFocus()
    assert signal.args == ["a"]


def test_system_prompt_of_another_chat_is_no_change(bench: Bench, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(bench.system_prompt.changed):
        bench.system_prompt.set_text("one")
        QTest.keyClicks(bench.system_prompt.edit, "x")
        bench.system_prompt.set_text("two")
        bench.system_prompt.flush()
    assert bench.system_prompt.text == "two"


def test_system_prompt_grows_with_its_lines_up_to_a_limit(bench: Bench) -> None:
    bench.inspector.set_collapsed([])
    heights = []
    for count in (1, 6, 10, 40):
        bench.system_prompt.set_text("\n".join("line" for _ in range(count)))
        QTest.qWait(1)
        heights.append(bench.system_prompt.edit.height())
    assert heights[0] < heights[1] < heights[2] == heights[3]


def test_thinking_has_a_line_only_where_the_model_thought(bench: Bench) -> None:
    bench.readouts.begin()
    assert not bench.readouts.has_row("thinking")
    bench.delta(20, thinking="hm")
    assert bench.readouts.value("thinking") == "20 tokens · 1.00 s"
    bench.finish(thinking_s=3.25, num_thinking_tokens=140)
    assert bench.readouts.value("thinking") == "140 tokens · 3.25 s"
    assert bench.readouts.has_row("thinking")
    bench.readouts.begin()
    bench.finish()
    assert not bench.readouts.has_row("thinking")


def test_memory_of_the_engine_is_shown_with_its_peak(bench: Bench) -> None:
    readouts = bench.readouts
    readouts.show_model(describe())
    assert not readouts.has_row("worker")
    readouts.show_worker_memory(3 << 29)
    assert readouts.value("worker") == "1.5 GiB"
    bench.finish(peak_memory_bytes=2 << 30)
    assert readouts.value("worker") == "1.5 GiB"
    assert "2.0 GiB" in readouts.tip("worker")
    readouts.show_model(None)
    assert not readouts.has_row("worker")


def test_context_is_shown_in_its_parts(bench: Bench) -> None:
    readouts = bench.readouts
    readouts.show_model(describe(n_ctx=4096))
    readouts.show_context_parts(96, 1096)
    parts = [(name, count) for name, _, count in readouts.context_bar.parts]
    assert parts == [("System", 96), ("History", 1000), ("Free", 3000)]
    assert readouts.context_bar.toolTip() == "System: 96 tokens\nHistory: 1,000 tokens\nFree: 3,000 tokens"
    assert readouts.context == "1,096 / 4,096 (27 %)"
    readouts.show_context_parts(None, 5000)
    parts = [(name, count) for name, _, count in readouts.context_bar.parts]
    assert parts == [("History", 5000), ("Free", 0)]


def test_stored_numbers_of_a_reply_are_shown_as_live_ones(bench: Bench) -> None:
    readouts = bench.readouts
    readouts.show_model(describe())
    bench.finish(cache_miss_cause=CacheMissCause.EDITED)
    names = ("ttft", "prompt", "reused", "generated", "thinking")
    live = [readouts.value(name) for name in names]
    readouts.show_reply(None)
    assert readouts.rate == "–"
    assert readouts.context == "0 / 4,096 (0 %)"
    turn = ReplyTurn(model_name="Small", metrics=metrics(cache_miss_cause=CacheMissCause.EDITED))
    readouts.show_reply(turn)
    assert [readouts.value(name) for name in names] == live
    assert readouts.cause == "Read again because an earlier message changed."
    assert readouts.context == "41 / 4,096 (1 %)"


def test_chart_has_at_most_five_points_a_second_and_a_fixed_length(bench: Bench) -> None:
    for count in range(1, 41):  # two seconds
        bench.delta(count)
    assert 5 <= len(bench.readouts.chart.values) <= 10
    for count in range(41, 2000):
        bench.delta(count)
    assert len(bench.readouts.chart.values) == NUM_POINTS


def test_head_of_the_model_tells_device_and_context_while_it_is_closed(bench: Bench) -> None:
    bench.load_panel.set_params(ModelParams(), describe(n_ctx=8192, device="CUDA0", n_gpu_layers=2))
    assert bench.inspector.section("model").head.summary == "CUDA0 · 8,192 tokens"
    bench.load_panel.set_params(ModelParams(), None)
    assert bench.inspector.section("model").head.summary == ""
