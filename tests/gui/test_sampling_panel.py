"""The panel is drawn from the declarations, yields only settings that are legal, and says where each comes from."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QModelIndex, QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.param_row import ParamRow
from app.desktop.widgets.sampling_panel import SamplingPanel
from app.desktop.widgets.stop_strings import stop_lines, stop_strings
from app.sampling_layers import Origin
from engine import SAMPLER_NAMES, ParamInfo, SamplingParams, param_infos

# Of the platform without a screen, about any window of its own.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def panel(theme: Theme, qtbot: QtBot) -> SamplingPanel:
    panel = SamplingPanel(theme)
    qtbot.addWidget(panel)
    return panel


def row(panel: SamplingPanel, name: str) -> ParamRow:
    return next(row for row in panel.rows if row.name == name)


def enter(row: ParamRow, text: str) -> None:
    row.field.clear()
    QTest.keyClicks(row.field, text)
    QTest.keyClick(row.field, Qt.Key.Key_Return)


def test_there_is_a_row_for_each_declaration_in_order(panel: SamplingPanel) -> None:
    assert [row.name for row in panel.rows] == list(param_infos(SamplingParams))
    assert panel.params == SamplingParams()


def test_labels_and_help_come_from_the_declarations(panel: SamplingPanel) -> None:
    for name, info in param_infos(SamplingParams).items():
        field = row(panel, name).field
        assert field.accessibleName() == info.label
        assert field.toolTip() == info.help


def test_an_unknown_setting_draws_itself(theme: Theme, qtbot: QtBot) -> None:
    info = ParamInfo(label="Dry base", help="New.", minimum=0, maximum=4, step=0.25, name="dry", default=1.75)
    made = ParamRow(theme, info)
    qtbot.addWidget(made)
    assert made.slider is not None
    assert made.slider.maximum() == 16
    made.slider.setValue(2)
    assert made.value == 0.5
    assert made.field.text() == "0.5"


def test_typed_numbers_and_sliders_agree(panel: SamplingPanel) -> None:
    temperature = row(panel, "temperature")
    enter(temperature, "0.35")
    assert panel.params.temperature == 0.35
    assert temperature.slider is not None
    assert temperature.slider.value() == 7
    temperature.slider.setValue(20)
    assert panel.params.temperature == 1.0
    assert temperature.field.text() == "1"


def test_values_beyond_the_slider_can_be_typed(panel: SamplingPanel) -> None:
    enter(row(panel, "temperature"), "5")
    assert panel.params.temperature == 5.0


@pytest.mark.parametrize("text", ["-1", "abc", "1e999", "nan", "101", "--"])
def test_illegal_numbers_are_marked_and_not_used(panel: SamplingPanel, text: str) -> None:
    temperature = row(panel, "temperature")
    temperature.field.clear()
    QTest.keyClicks(temperature.field, text)
    assert temperature.field.property("invalid") is True
    assert temperature.field.toolTip() != param_infos(SamplingParams)["temperature"].help
    QTest.keyClick(temperature.field, Qt.Key.Key_Return)
    assert temperature.field.property("invalid") is False
    assert panel.params == SamplingParams(temperature=float(temperature.field.text()))


def test_empty_seed_is_random_and_has_no_slider(panel: SamplingPanel) -> None:
    seed = row(panel, "seed")
    assert seed.slider is None
    assert seed.field.placeholderText() == "random"
    enter(seed, "0")
    assert panel.params.seed == 0
    seed.field.clear()
    QTest.keyClick(seed.field, Qt.Key.Key_Backspace)
    enter(seed, "42")
    for _ in range(2):
        QTest.keyClick(seed.field, Qt.Key.Key_Backspace)
    assert panel.params.seed is None


def test_right_end_of_the_slider_is_no_limit(panel: SamplingPanel) -> None:
    limit = row(panel, "max_tokens")
    assert limit.slider is not None
    assert limit.value is None
    limit.slider.setValue(2)
    assert panel.params.max_tokens == 128
    limit.slider.setValue(0)
    assert panel.params.max_tokens == 1
    limit.slider.setValue(limit.slider.maximum())
    assert panel.params.max_tokens is None


def test_stop_strings_are_lines_with_escapes(panel: SamplingPanel) -> None:
    panel.stop_edit.setPlainText("User:\n\\n\n\\\\n\n\nUser:")
    assert panel.params.stop == ("User:", "\n", "\\n")


def test_too_many_stop_strings_are_refused_in_place(panel: SamplingPanel) -> None:
    panel.stop_edit.setPlainText("\n".join(f"s{n}" for n in range(100)))
    assert panel.params.stop == ()
    panel.stop_edit.setPlainText("s")
    assert panel.params.stop == ("s",)


def test_reset_restores_every_default(panel: SamplingPanel) -> None:
    enter(row(panel, "top_k"), "7")
    enter(row(panel, "seed"), "7")
    panel.stop_edit.setPlainText("x")
    assert panel.reset_button.isEnabled()
    panel.reset_button.click()
    assert panel.params == SamplingParams()
    assert not panel.reset_button.isEnabled()


def test_rare_settings_are_folded_away_until_they_are_asked_for(panel: SamplingPanel) -> None:
    assert row(panel, "temperature").isVisibleTo(panel)
    assert not row(panel, "mirostat").isVisibleTo(panel)
    panel.more_button.click()
    assert row(panel, "mirostat").isVisibleTo(panel)
    enter(row(panel, "mirostat"), "2")
    panel.more_button.click()
    assert not row(panel, "mirostat").isVisibleTo(panel)
    assert panel.params.mirostat == 2


def test_each_value_says_where_it_comes_from(panel: SamplingPanel) -> None:
    panel.set_layers({"temperature": 0.1, "top_k": 1}, {"top_k": 2, "min_p": 0.2}, {"min_p": 0.3})
    found = {name: (row(panel, name).tag.text(), row(panel, name).value) for name in ("temperature", "top_k", "min_p")}
    assert found == {"temperature": ("app", 0.1), "top_k": ("model", 2), "min_p": ("chat", 0.3)}
    assert row(panel, "top_p").tag.isHidden()
    assert row(panel, "min_p").tag.toolTip() == (
        "Min-p: set in this chat. Press to go back to 0.2, kept for this model."
    )
    assert not row(panel, "top_k").tag.isEnabled()
    assert panel.params == SamplingParams(temperature=0.1, top_k=2, min_p=0.3)


def test_what_is_changed_belongs_to_the_chat(panel: SamplingPanel, qtbot: QtBot) -> None:
    panel.set_layers({"temperature": 0.1}, {}, {})
    with qtbot.waitSignal(panel.changed):
        enter(row(panel, "temperature"), "0.5")
    assert panel.chat_values == {"temperature": 0.5}
    assert row(panel, "temperature").tag.text() == "chat"
    with qtbot.waitSignal(panel.changed):
        QTest.mouseClick(row(panel, "temperature").tag, Qt.MouseButton.LeftButton)
    assert panel.chat_values == {}
    assert panel.params.temperature == 0.1
    assert row(panel, "temperature").field.text() == "0.1"


def test_a_value_back_at_the_one_below_is_no_longer_of_the_chat(panel: SamplingPanel) -> None:
    panel.set_layers({}, {"top_k": 7}, {"top_k": 9})
    enter(row(panel, "top_k"), "7")
    assert panel.chat_values == {}
    assert row(panel, "top_k").tag.origin is Origin.MODEL


def test_showing_other_layers_is_no_change(panel: SamplingPanel, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(panel.changed):
        panel.set_layers({"top_k": 1}, {}, {"stop": ["a", ""], "samplers": ["temperature"], "seed": "none"})
    assert panel.stop_edit.toPlainText() == "a"
    assert panel.order.value == ("temperature",)
    panel.set_layers({}, {}, {})
    assert panel.params == SamplingParams()
    assert panel.stop_edit.toPlainText() == ""


def test_settings_of_the_chat_are_kept_for_the_model(panel: SamplingPanel, qtbot: QtBot) -> None:
    panel.set_layers({"min_p": 0.1}, {"top_k": 7}, {"temperature": 0.5})
    before = panel.params
    with qtbot.waitSignal(panel.changed), qtbot.waitSignal(panel.keep_requested) as kept:
        panel.keep_menu().actions()[0].trigger()
    assert kept.args == ["model", {"top_k": 7, "temperature": 0.5}]
    assert panel.chat_values == {}
    assert panel.params == before
    assert not panel.keep_button.isEnabled()


def test_settings_kept_for_all_chats_still_hold_where_the_model_has_others(panel: SamplingPanel, qtbot: QtBot) -> None:
    panel.set_layers({}, {"top_k": 7}, {"temperature": 0.5, "top_k": 3})
    with qtbot.waitSignal(panel.keep_requested) as signal:
        panel.keep_menu().actions()[1].trigger()
    assert signal.args == ["app", {"temperature": 0.5, "top_k": 3}]
    assert panel.chat_values == {"top_k": 3}
    assert (panel.params.temperature, panel.params.top_k) == (0.5, 3)


def test_what_cannot_be_used_of_a_file_is_said(panel: SamplingPanel) -> None:
    panel.set_layers({"temperature": "hot"}, {}, {"top_k": 5})
    assert panel.params == SamplingParams(top_k=5)
    notes = [label.text() for label in panel.findChildren(QLabel) if label.isVisibleTo(panel)]
    assert "Some kept settings cannot be used and are left out." in notes


@pytest.mark.parametrize("seed", [0, 4294967294])
def test_used_seed_is_shown_and_pinned(panel: SamplingPanel, qtbot: QtBot, seed: int) -> None:
    assert not panel.pin_button.isEnabled()
    panel.show_used_seed(seed)
    assert panel.pin_button.isEnabled()
    with qtbot.waitSignal(panel.changed):
        QTest.mouseClick(panel.pin_button, Qt.MouseButton.LeftButton)
    assert panel.chat_values == {"seed": seed}
    assert not panel.pin_button.isEnabled()
    panel.show_used_seed(None)
    assert not panel.pin_button.isEnabled()


@pytest.mark.usefixtures("qapp")
@given(st.lists(st.text(min_size=1, max_size=5), max_size=3))
@settings(max_examples=80)
def test_stop_strings_survive_being_written_as_lines(strings: list[str]) -> None:
    edit = QPlainTextEdit(stop_lines(tuple(strings)))
    assert stop_strings(edit.toPlainText()) == tuple(strings)
    edit.deleteLater()


def test_steps_are_left_out_and_moved_by_keys(panel: SamplingPanel, qtbot: QtBot) -> None:
    panel.more_button.click()
    panel.show()
    steps = panel.order.list
    steps.setFocus()
    steps.setCurrentRow(0)
    QTest.keyClick(steps, Qt.Key.Key_Space)
    assert panel.params.samplers == SAMPLER_NAMES[1:]
    QTest.keyClick(steps, Qt.Key.Key_Space)
    assert panel.chat_values == {}
    QTest.keyClick(steps, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert panel.params.samplers[:2] == (SAMPLER_NAMES[1], SAMPLER_NAMES[0])
    assert panel.origins["samplers"] is Origin.CHAT


def test_a_step_that_was_dragged_belongs_to_the_chat(panel: SamplingPanel) -> None:
    model = panel.order.list.model()
    assert model.moveRow(QModelIndex(), 0, QModelIndex(), 3)
    assert panel.chat_values["samplers"][:3] == [*SAMPLER_NAMES[1:3], SAMPLER_NAMES[0]]


def test_focus_stays_in_the_row_after_a_reset_by_key(panel: SamplingPanel, qtbot: QtBot) -> None:
    panel.set_layers({}, {}, {"top_k": 3})
    panel.show()
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow)
    top_k = row(panel, "top_k")
    top_k.tag.setFocus()
    QTest.keyClick(top_k.tag, Qt.Key.Key_Space)
    assert top_k.field.hasFocus()
    assert panel.chat_values == {}
    QApplication.processEvents()  # the panel is laid out without the tag


def test_the_last_step_cannot_be_left_out(panel: SamplingPanel) -> None:
    panel.set_layers({}, {}, {"samplers": ["top_k"]})
    panel.order.list.item(0).setCheckState(Qt.CheckState.Unchecked)
    assert panel.params.samplers == ("top_k",)


def test_the_wheel_scrolls_and_changes_nothing(panel: SamplingPanel, qtbot: QtBot) -> None:
    panel.show()
    slider = row(panel, "temperature").slider
    assert slider is not None
    centre = QPointF(slider.rect().center())
    event = QWheelEvent(
        centre,
        slider.mapToGlobal(centre),
        QPoint(),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(slider, event)
    assert panel.params == SamplingParams()
