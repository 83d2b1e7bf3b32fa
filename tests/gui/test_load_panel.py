"""The load panel offers what can be loaded, says what it would take, and loads nothing before it is told to."""

import itertools

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.choice_row import ChoiceRow
from app.desktop.widgets.kv_memory import kv_memory, memory_share
from app.desktop.widgets.load_panel import LoadPanel
from app.desktop.widgets.param_row import ParamRow
from engine import CACHE_TYPES, Device, FlashAttention, MemoryKind, ModelParams
from tests.gui.scripted_engine import Desk, describe

# Of the platform without a screen, about any window of its own.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")

CPU = Device(name="CPU", description="A processor", kind="cpu", total_bytes=8 << 30, free_bytes=None)
GPU = Device(name="CUDA0", description="A <b>card</b>", kind="gpu", total_bytes=8 << 30, free_bytes=6 << 30)


@pytest.fixture
def panel(theme: Theme, qtbot: QtBot) -> LoadPanel:
    panel = LoadPanel(theme)
    qtbot.addWidget(panel)
    panel.set_devices((CPU, GPU))
    panel.set_params(ModelParams(), describe())
    return panel


def choose(panel: LoadPanel, name: str, label: str) -> None:
    """Choose from a list with the keys, as a person would."""
    row = panel.rows[name]
    assert isinstance(row, ChoiceRow)
    index = row.box.findText(label)
    assert index >= 0
    row.box.setCurrentIndex(index)
    row.box.activated.emit(index)


def enter(panel: LoadPanel, name: str, text: str) -> None:
    row = panel.rows[name]
    assert isinstance(row, ParamRow)
    row.field.selectAll()
    QTest.keyClick(row.field, Qt.Key.Key_Delete)
    QTest.keyClicks(row.field, text)
    QTest.keyClick(row.field, Qt.Key.Key_Return)


def test_there_is_a_row_for_every_setting(panel: LoadPanel) -> None:
    assert set(panel.rows) == set(ModelParams.__struct_fields__)
    assert panel.wanted == ModelParams()


def test_nothing_is_loaded_before_the_button_is_pressed(panel: LoadPanel, qtbot: QtBot) -> None:
    assert not panel.load_button.isEnabled()
    with qtbot.assertNotEmitted(panel.load_requested):
        enter(panel, "n_ctx", "8192")
        choose(panel, "type_k", "q8_0")
        choose(panel, "device", "CPU")
    assert panel.load_button.isEnabled()
    with qtbot.waitSignal(panel.load_requested) as signal:
        QTest.mouseClick(panel.load_button, Qt.MouseButton.LeftButton)
    assert signal.args == [ModelParams(n_ctx=8192, type_k="q8_0", device="CPU")]
    panel.set_params(signal.args[0], describe(n_ctx=8192, n_ctx_requested=8192, type_k="q8_0"))
    assert not panel.load_button.isEnabled()


@pytest.mark.parametrize("flash", FlashAttention)
def test_only_legal_cache_types_can_be_chosen(panel: LoadPanel, flash: FlashAttention) -> None:
    choose(panel, "flash_attn", flash.value)
    for name, value in itertools.product(("type_k", "type_v"), CACHE_TYPES):
        row = panel.rows[name]
        assert isinstance(row, ChoiceRow)
        is_legal = flash is not FlashAttention.OFF or name == "type_k" or value in ("f16", "f32", "bf16")
        assert bool(row.fault(value)) is not is_legal
    if flash is FlashAttention.OFF:
        assert "flash attention" in panel.rows["type_v"].fault("q4_0")  # type: ignore[union-attr]


def test_flash_attention_cannot_be_switched_off_under_a_quantised_cache(panel: LoadPanel) -> None:
    choose(panel, "type_v", "q8_0")
    flash = panel.rows["flash_attn"]
    assert isinstance(flash, ChoiceRow)
    assert "q8_0 value cache needs flash attention" in flash.fault(FlashAttention.OFF)
    assert flash.fault(FlashAttention.ON) == ""
    choose(panel, "type_v", "f16")
    assert flash.fault(FlashAttention.OFF) == ""


def test_settings_that_do_not_go_together_are_told_and_not_loaded(panel: LoadPanel) -> None:
    enter(panel, "n_gpu_layers", "5")
    device = panel.rows["device"]
    assert isinstance(device, ChoiceRow)
    assert "5 layers cannot go" in device.fault("CPU")
    enter(panel, "n_gpu_layers", "0")
    choose(panel, "device", "CPU")
    enter(panel, "n_gpu_layers", "5")
    assert panel.wanted is None
    assert panel.fault.startswith("5 layers cannot go")
    assert not panel.load_button.isEnabled()
    assert device.fault("CUDA0") == ""
    enter(panel, "n_gpu_layers", "0")
    assert panel.fault == ""


def test_wanted_stands_beside_what_is_in_use(panel: LoadPanel) -> None:
    panel.set_params(ModelParams(), describe(n_ctx=8192, n_threads=6))
    context, threads = panel.rows["n_ctx"], panel.rows["n_threads"]
    assert isinstance(context, ParamRow)
    assert isinstance(threads, ParamRow)
    assert context.field.text() == ""
    assert context.field.placeholderText() == "auto: 8,192"
    assert threads.field.placeholderText() == "auto: 6"
    assert context.note == ""
    enter(panel, "n_ctx", "16384")
    assert context.note == "In use: 8,192"
    choose(panel, "type_k", "q8_0")
    assert panel.rows["type_k"].note == "In use: f16"
    enter(panel, "n_ctx", "")
    assert panel.wanted == ModelParams(type_k="q8_0")


def test_memory_of_the_wanted_context_is_told(panel: LoadPanel) -> None:
    panel.set_params(ModelParams(), describe(kv_bytes_per_token=1 << 18, n_ctx_train=32768))
    assert panel.memory_text == "Trained for 32,768 tokens. KV cache: 1.0 GiB."
    enter(panel, "n_ctx", "8,192")
    assert panel.memory_text == "Trained for 32,768 tokens. KV cache: 2.0 GiB."
    choose(panel, "type_k", "q8_0")
    choose(panel, "type_v", "q8_0")
    assert panel.memory_text == "Trained for 32,768 tokens. KV cache: about 1.1 GiB."
    enter(panel, "n_ctx", "65536")
    assert "Beyond that it may write nonsense." in panel.memory_text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (4096 * 1024, True)),
        ({"memory": MemoryKind.WINDOW}, (4096 * 1024, False)),
        ({"kv_bytes_per_token": 0}, None),
    ],
    ids=["plain", "window", "recurrent"],
)
def test_size_is_called_exact_only_where_it_is(changes: dict, expected: object) -> None:
    assert kv_memory(describe(**changes), 4096, type_k="f16", type_v="f16") == expected


def test_the_size_of_every_cache_type_is_known() -> None:
    assert all(0 < memory_share(name) <= 2 for name in CACHE_TYPES)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"n_layer": 30, "device": "CPU"},
            "All 30 layers run on the processor. A graphics processor is there and is not used.",
        ),
        ({"n_layer": 30, "n_gpu_layers": 31, "device": "CUDA0"}, "All 30 layers run on CUDA0."),
        (
            {"n_layer": 30, "n_gpu_layers": 12, "device": "CUDA0"},
            "12 of 30 layers run on CUDA0, the others on the processor.",
        ),
    ],
    ids=["processor", "graphics", "both"],
)
def test_where_the_layers_run_is_told(panel: LoadPanel, changes: dict, text: str) -> None:
    panel.set_params(ModelParams(), describe(**changes))
    assert panel.place_text == text


def test_nothing_is_said_of_a_processor_that_the_user_chose(panel: LoadPanel) -> None:
    panel.set_params(ModelParams(device="CPU"), describe(n_layer=30))
    assert panel.place_text == "All 30 layers run on the processor."


def test_cache_types_say_what_they_save_and_cost(panel: LoadPanel) -> None:
    choose(panel, "type_k", "q8_0")
    row = panel.rows["type_k"]
    assert isinstance(row, ChoiceRow)
    assert row.box.toolTip() == "53 % of the memory of f16. Replies hardly change."


def test_names_of_devices_are_shown_literally(panel: LoadPanel) -> None:
    device = panel.rows["device"]
    assert isinstance(device, ChoiceRow)
    assert [device.box.itemText(row) for row in range(device.box.count())] == ["auto", "CPU", "CUDA0"]
    choose(panel, "device", "CUDA0")
    assert "A &lt;b&gt;card&lt;/b&gt;\n6.0 GiB of 8.0 GiB free" in device.box.toolTip()
    panel.set_params(ModelParams(device="Vulkan7"), describe())
    assert device.box.currentText() == "Vulkan7"


def test_what_the_user_has_set_stays_while_the_same_model_is_described(panel: LoadPanel) -> None:
    enter(panel, "n_ctx", "2048")
    panel.set_params(ModelParams(), describe())
    assert panel.wanted == ModelParams(n_ctx=2048)
    panel.set_params(ModelParams(), describe(path="/models/other.gguf"))
    assert panel.wanted == ModelParams()
    panel.set_params(ModelParams(n_ctx=512), None)
    assert panel.wanted == ModelParams(n_ctx=512)
    assert panel.summary == ""


def test_defaults_come_back_without_a_load(panel: LoadPanel, qtbot: QtBot) -> None:
    panel.set_params(ModelParams(n_ctx=2048, type_v="q8_0"), describe(n_ctx=2048))
    with qtbot.assertNotEmitted(panel.load_requested):
        QTest.mouseClick(panel.reset_button, Qt.MouseButton.LeftButton)
    assert panel.wanted == ModelParams()
    assert panel.load_button.isEnabled()
    assert not panel.reset_button.isEnabled()


def test_defaults_stop_no_reply_until_they_are_loaded(desk: Desk) -> None:
    request_id = desk.say("question")
    desk.delta(request_id, "beginning")
    panel = desk.parts.load_panel
    panel.set_params(ModelParams(n_ctx=2048), describe(n_ctx=2048))
    panel.reset_button.click()
    assert desk.parts.conversation.is_busy
    assert not desk.parts.model.is_busy
    panel.load_button.click()
    assert not desk.parts.conversation.is_busy
    assert desk.parts.model.is_busy
