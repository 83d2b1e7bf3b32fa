"""The panel is drawn from the declarations, and never yields settings that are not legal."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.sampling_panel import ParamRow, SamplingPanel
from engine import ParamInfo, SamplingParams, param_infos


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
