"""The panel offers what fits, greys what does not with its reason, and is built without holding the window up."""

import itertools
import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.adapter_files import FoundAdapter
from app.desktop.session.chat_adapters import ChatAdapter, read_adapters, stored_adapters
from app.desktop.theme.theme import Theme
from app.desktop.widgets.adapter_panel import AdapterPanel
from app.desktop.widgets.adapter_row import AdapterRow
from app.desktop.widgets.inspector import WIDTH
from tests.gui.translated import MarkingTranslator, untranslated

_MAX_PASS_S = 0.040  # five times what a pass may take

STYLE = FoundAdapter(path="/a/style.gguf", label="style", rank=16, file_bytes=12_000_000, stamp="1:2")
OTHER_BASE = FoundAdapter(path="/a/tone.gguf", label="tone", base="Grand 3B", is_of_other_base=True)
ALIEN = FoundAdapter(
    path="/a/alien.gguf", label="alien", misfit="It is for the architecture qwen2; this model is llama."
)


@pytest.fixture
def panel(theme: Theme, qtbot: QtBot) -> Iterator[AdapterPanel]:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(theme.px(WIDTH), 700)
    panel = AdapterPanel(theme, host)
    panel.resize(theme.px(WIDTH - 32), 600)
    with qtbot.waitExposed(host):
        host.show()
    host.activateWindow()
    yield panel  # the host lives as long


def offer(panel: AdapterPanel, qtbot: QtBot, *adapters: FoundAdapter) -> None:
    panel.set_found(adapters)
    qtbot.waitUntil(lambda: panel.is_filled)


def row(panel: AdapterPanel, label: str) -> AdapterRow:
    return next(row for row in panel.rows if row.adapter.label == label)


def press(row: AdapterRow) -> None:
    QTest.mouseClick(row.box, Qt.MouseButton.LeftButton)


def test_usable_ones_come_first_and_the_others_are_grey_with_their_reason(panel: AdapterPanel, qtbot: QtBot) -> None:
    offer(panel, qtbot, STYLE, OTHER_BASE, ALIEN)
    assert [row.adapter.label for row in panel.rows] == ["style", "tone", "alien"]
    assert [row.box.isEnabled() for row in panel.rows] == [True, True, False]
    assert [row.note for row in panel.rows] == ["", "It names another base model: Grand 3B", ALIEN.misfit]
    assert "rank 16 · 11 MiB" in row(panel, "style").box.toolTip()
    titles = [label for label in panel.findChildren(QLabel) if label.text() == "These do not fit the model:"]
    assert titles[0].isVisible()
    offer(panel, qtbot, STYLE)
    assert not titles[0].isVisible()
    assert len(panel.rows) == 1


def test_box_takes_an_adapter_in_use_at_full_strength(panel: AdapterPanel, qtbot: QtBot) -> None:
    offer(panel, qtbot, STYLE, ALIEN)
    with qtbot.waitSignal(panel.changed):
        press(row(panel, "style"))
    assert panel.chosen == (ChatAdapter(path=STYLE.path, scale=1.0, is_on=True, stamp="1:2"),)
    assert panel.summary == "1 in use"
    assert row(panel, "style").strength.isVisible()
    with qtbot.assertNotEmitted(panel.changed):
        press(row(panel, "alien"))
    with qtbot.waitSignal(panel.changed):
        press(row(panel, "style"))
    assert panel.chosen == ()
    assert panel.summary == ""
    assert not row(panel, "style").strength.isVisible()


def test_strength_is_set_by_keys_and_typed_and_kept_while_not_in_use(panel: AdapterPanel, qtbot: QtBot) -> None:
    offer(panel, qtbot, STYLE)
    style = row(panel, "style")
    style.box.setFocus()
    QTest.keyClick(style.box, Qt.Key.Key_Space)
    slider = style.strength.slider
    assert slider is not None
    assert (slider.minimum(), slider.maximum(), slider.value()) == (0, 40, 20)
    QTest.keyClick(style.box, Qt.Key.Key_Tab)
    assert style.strength.field.hasFocus()
    style.strength.field.selectAll()
    QTest.keyClicks(style.strength.field, "0.3")
    assert panel.chosen[0].scale == 0.3
    QTest.keyClick(style.strength.field, Qt.Key.Key_Tab)
    assert slider.hasFocus()
    QTest.keyClick(slider, Qt.Key.Key_Right)
    assert panel.chosen[0].scale == pytest.approx(0.35)
    QTest.keyClick(slider, Qt.Key.Key_Home)
    assert panel.chosen[0].scale == 0
    QTest.keyClick(slider, Qt.Key.Key_End)
    assert panel.chosen[0].scale == 2
    press(style)
    assert panel.chosen == (ChatAdapter(path=STYLE.path, scale=2.0, is_on=False, stamp="1:2"),)
    press(style)
    assert panel.chosen[0].is_on and panel.chosen[0].scale == 2


@pytest.mark.parametrize("text", ["-1", "abc", "11", "nan", ""])
def test_impossible_strength_is_marked_and_not_used(panel: AdapterPanel, qtbot: QtBot, text: str) -> None:
    offer(panel, qtbot, STYLE)
    press(row(panel, "style"))
    field = row(panel, "style").strength.field
    field.selectAll()
    QTest.keyClick(field, Qt.Key.Key_Delete)
    QTest.keyClicks(field, text)
    assert field.property("invalid") is True
    assert panel.chosen[0].scale in (1.0, 1.1)  # of "11", its first figure


def test_choice_of_another_chat_is_shown_and_is_no_change(panel: AdapterPanel, qtbot: QtBot) -> None:
    offer(panel, qtbot, STYLE, OTHER_BASE)
    with qtbot.assertNotEmitted(panel.changed):
        panel.set_chosen([ChatAdapter(path=STYLE.path, scale=0.5)])
        qtbot.waitUntil(lambda: panel.is_filled)
    assert row(panel, "style").is_on
    assert row(panel, "style").strength.field.text() == "0.5"
    panel.set_chosen([])
    assert not row(panel, "style").is_on
    press(row(panel, "style"))
    assert panel.chosen[0].scale == 1.0


def test_one_in_use_that_does_not_fit_says_why_and_can_be_left_out(panel: AdapterPanel, qtbot: QtBot) -> None:
    panel.set_chosen([ChatAdapter(path=ALIEN.path)])
    offer(panel, qtbot, STYLE, ALIEN)
    assert row(panel, "alien").box.isEnabled()
    assert row(panel, "alien").note == ALIEN.misfit
    press(row(panel, "alien"))
    qtbot.waitUntil(lambda: panel.is_filled)
    assert panel.chosen == ()
    assert not row(panel, "alien").box.isEnabled()


def test_one_in_use_that_was_not_found_yet_is_shown_by_its_file(panel: AdapterPanel, qtbot: QtBot) -> None:
    panel.set_chosen([ChatAdapter(path="/b/later.gguf", scale=0.7)])
    qtbot.waitUntil(lambda: panel.is_filled)
    assert row(panel, "later").is_on


def test_no_more_are_taken_in_use_than_the_engine_takes(panel: AdapterPanel, qtbot: QtBot) -> None:
    found = [FoundAdapter(path=f"/{n}.gguf", label=str(n)) for n in range(10)]
    offer(panel, qtbot, *found)
    for number in range(9):
        press(row(panel, str(number)))
    assert len(panel.chosen) == 8
    assert not row(panel, "8").is_on
    assert panel.fault == "More than 8 at once cannot be used."
    press(row(panel, "0"))
    assert panel.fault == ""


def test_hundreds_are_built_a_few_at_a_time(panel: AdapterPanel, qtbot: QtBot) -> None:
    found = [FoundAdapter(path=f"/{n}.gguf", label=f"{n:03}", misfit="" if n < 200 else "No.") for n in range(400)]
    before = time.thread_time()
    panel.set_chosen([ChatAdapter(path="/150.gguf")])
    panel.set_found(found)
    assert time.thread_time() - before < _MAX_PASS_S
    while not panel.is_filled:
        panel._timer.stop()
        before = time.thread_time()
        panel._fill()
        QApplication.sendPostedEvents()
        assert time.thread_time() - before < _MAX_PASS_S
    assert [row.adapter.label for row in panel.rows] == [
        *(f"{n:03}" for n in range(12)),
        "150",
        "200",
        "201",
        "202",
        "203",
    ]
    more = [button for button in (panel._usable.more_button, panel._others.more_button) if button.isVisible()]
    assert [button.text() for button in more] == ["Show more (187)", "Show more (196)"]
    more[0].click()
    qtbot.waitUntil(lambda: panel.is_filled)
    assert len(panel.rows) == 37 + 4


def test_tab_goes_from_top_to_bottom_whatever_was_built_when(panel: AdapterPanel, qtbot: QtBot) -> None:
    offer(panel, qtbot, OTHER_BASE)
    press(row(panel, "tone"))
    offer(panel, qtbot, STYLE, OTHER_BASE, ALIEN)
    press(row(panel, "style"))
    qtbot.waitUntil(lambda: panel.is_filled)
    row(panel, "style").box.setFocus()
    seen = []
    for _ in range(7):
        widget = QApplication.focusWidget()
        assert widget is not None
        seen.append(widget)
        QTest.keyClick(widget, Qt.Key.Key_Tab)
    tops = [widget.mapTo(panel, widget.rect().center()).y() for widget in seen]
    assert all(below > above - 4 for above, below in itertools.pairwise(tops))
    assert seen[-1] is panel.add_button


@pytest.mark.parametrize("zoom", [0.8, 1.0, 2.0])
def test_nothing_is_wider_than_the_inspector(panel: AdapterPanel, theme: Theme, qtbot: QtBot, zoom: float) -> None:
    theme.set_zoom(zoom)
    long = "w" * 200
    panel.set_chosen([ChatAdapter(path="/long.gguf")])
    offer(panel, qtbot, FoundAdapter(path="/long.gguf", label=long, misfit=f"{long} does not fit."), STYLE, ALIEN)
    panel.set_state(
        "No adapters were found. Put LoRA files (GGUF) into /home/somebody/.local/share/models, or add one."
    )
    assert panel.minimumSizeHint().width() <= theme.px(WIDTH - 32)


def test_hostile_names_are_plain_text(panel: AdapterPanel, qtbot: QtBot) -> None:
    evil = "<b>x</b>\u202e&"
    panel.set_chosen([ChatAdapter(path="/evil.gguf")])
    offer(panel, qtbot, FoundAdapter(path="/evil.gguf", label=evil, base=evil, is_of_other_base=True, misfit=evil))
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in panel.findChildren(QLabel))
    assert "&lt;b&gt;" in panel.rows[0].box.toolTip() or "<b>" not in panel.rows[0].box.toolTip()
    assert panel.rows[0].box.line.startswith("\u2068")


def test_every_text_is_translated(theme: Theme, qapp: QApplication, qtbot: QtBot) -> None:
    translator = MarkingTranslator()
    qapp.installTranslator(translator)
    try:
        host = QWidget()
        qtbot.addWidget(host)
        panel = AdapterPanel(theme, host)
        panel.resize(theme.px(WIDTH - 32), 600)
        host.show()
        panel.set_chosen([ChatAdapter(path=STYLE.path)])
        offer(panel, qtbot, STYLE, OTHER_BASE, ALIEN)
        data = {"style", "tone", "alien", ALIEN.misfit, ALIEN.path}
        assert untranslated(panel, lambda text: text in data) == []
    finally:
        qapp.removeTranslator(translator)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        3,
        {"path": "/a"},
        [3, None, {}, {"path": 5, "scale": 1.0, "is_on": True}],
        [{"path": "/a", "scale": "1", "is_on": True}],
        [{"path": "/a", "scale": float("nan"), "is_on": True}, {"path": "/a", "scale": 1e9, "is_on": True}],
        [{"path": "", "scale": 1.0, "is_on": True}, {"path": "x\ud800", "scale": 1.0, "is_on": True}],
        [{"path": "/" + "a" * 5000, "scale": 1.0, "is_on": True}],
    ],
    ids=["none", "number", "table", "junk", "text", "numbers", "paths", "long"],
)
def test_what_is_not_understood_of_a_store_is_left_out(stored: object) -> None:
    assert read_adapters(stored) == ()


def test_adapters_come_out_of_the_store_as_they_went_in() -> None:
    adapters = (ChatAdapter(path="/ä #?.gguf", scale=0.35, stamp="1:2"), ChatAdapter(path="/b", scale=2.0, is_on=False))
    assert read_adapters(stored_adapters(adapters)) == adapters
