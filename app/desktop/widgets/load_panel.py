"""LoadPanel: how a model is loaded. Nothing is loaded anew before its button is pressed."""

import functools
from collections.abc import Sequence
from typing import Any

import msgspec
from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened
from app.desktop.theme.theme import Theme
from app.desktop.widgets.choice_row import ChoiceRow
from app.desktop.widgets.figures import bytes_text, count_text, tokens_text
from app.desktop.widgets.kv_memory import kv_memory
from app.desktop.widgets.load_choices import choice_help, choice_title, options_of
from app.desktop.widgets.param_row import ParamRow, new_note, place_in_tab_order
from engine import Device, EngineError, MemoryKind, ModelDescription, ModelParams, param_infos

_FIRST = ("n_ctx", "type_k", "type_v", "flash_attn", "device", "n_gpu_layers", "n_threads")
# Where 0 leaves the choice to the engine or to the file.
_ZERO_IS_AUTO = ("n_ctx", "n_threads", "rope_freq_base", "rope_freq_scale", "yarn_orig_ctx")
_WITH_SLIDER = ("n_ctx", "n_gpu_layers")
_PROCESSOR = "CPU"
_MAX_NAME = 40

_DEFAULTS = msgspec.structs.asdict(ModelParams())

Row = ParamRow | ChoiceRow


class LoadButton(QPushButton):
    """Says in full what it does where there is room for it."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._whole = self.tr("Load with these settings")
        self.setProperty("kind", "primary")
        self.setAccessibleName(self._whole)
        self.setToolTip(self.tr("Loads the model anew; chats stay"))
        self.setText(self._whole)

    def minimumSizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(self._theme.px(90), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        needed = self.fontMetrics().horizontalAdvance(self._whole) + self._theme.px(36)
        self.setText(self._whole if self.width() >= needed else self.tr("Load"))


class LoadPanel(QWidget):
    """The settings of a load, wanted ones beside those in use.

    Signals:
        load_requested: ModelParams that the user wants the model to be loaded with, now.
        summary_changed: `summary` is another one.
    """

    load_requested = Signal(object)
    summary_changed = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._in_use = ModelParams()
        self._values: dict[str, Any] = msgspec.structs.asdict(self._in_use)
        self._wanted: ModelParams | None = self._in_use
        self._description: ModelDescription | None = None
        self._path = ""
        self._devices: Sequence[Device] = ()
        # Rows are built when they are first seen: most starts and changes of the theme need not pay for them.
        self._rows: dict[str, Row] = {}
        self._place = new_note("meta")
        self._memory = new_note("meta")
        self._fault = new_note("error")
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._more = QWidget()
        self._more.hide()
        self.more_button = QPushButton(self.tr("More settings"))
        self.more_button.setProperty("kind", "outline")
        self.more_button.setCheckable(True)
        self.more_button.toggled.connect(self._on_more_toggled)
        self.load_button = LoadButton(theme)
        self.load_button.clicked.connect(self._on_load_clicked)
        self.reset_button = QPushButton(self.tr("Reset to defaults"))
        self.reset_button.setProperty("kind", "outline")
        self.reset_button.clicked.connect(self._on_reset_clicked)
        buttons = (self.load_button, self.reset_button)
        for widget in (self._place, self._memory, self.more_button, self._more, self._fault, *buttons):
            self._box.addWidget(widget)
        self._show()

    @property
    def rows(self) -> dict[str, Row]:
        """One for each setting, by name."""
        self._build(_FIRST)
        self._build([name for name in self._values if name not in _FIRST])
        return self._rows

    @property
    def wanted(self) -> ModelParams | None:
        """What is set, None while it cannot be used together."""
        return self._wanted

    @property
    def fault(self) -> str:
        """Why what is set cannot be used."""
        return self._fault.text()

    @property
    def memory_text(self) -> str:
        """What the wanted context would take."""
        return self._memory.text()

    @property
    def place_text(self) -> str:
        """Which layers run where."""
        return self._place.text()

    @property
    def summary(self) -> str:
        """The device and the context in use, in a few words; empty while no model is loaded."""
        model = self._description
        if model is None:
            return ""
        device = self.tr("CPU") if not self._is_on_graphics(model) else self._device_name(model)
        return self.tr("{device} · {context}").format(device=device, context=tokens_text(model.n_ctx))

    def set_devices(self, devices: Sequence[Device]) -> None:
        """Offer the devices of the engine."""
        self._devices = devices
        device = self._rows.get("device")
        if isinstance(device, ChoiceRow):
            device.set_options(options_of("", devices))
        self._show()

    def set_params(self, params: ModelParams, description: ModelDescription | None) -> None:
        """Show how a model is loaded, or will be; what the user has set stays while it is of the same model.

        Args:
            params: what it was loaded with.
            description: what the load has made of them; None while no model is loaded.
        """
        is_other_model = description is not None and self._path not in ("", description.path)
        if is_other_model or params != self._in_use:
            self._fill(params)
        self._in_use = params
        if description is not None:
            self._path = description.path
        self._description = description
        self._show()
        self.summary_changed.emit(self.summary)

    def showEvent(self, event: QShowEvent) -> None:
        """See QWidget; builds what can be seen."""
        super().showEvent(event)
        self._build(_FIRST)

    def _build(self, names: Sequence[str]) -> None:
        if names[0] in self._rows:
            return
        if names is _FIRST:
            box, index = self._box, 1
        else:
            box, index = QVBoxLayout(self._more), 0
            box.setContentsMargins(0, 0, 0, 0)
        for name in names:
            self._rows[name] = row = self._new_row(name)
            box.insertWidget(index, row)
            index += 1
            if name == "n_ctx":
                box.insertWidget(index, self._memory)
                index += 1
        inputs = [widget for name in names for widget in self._rows[name].inputs]
        if names is _FIRST:
            place_in_tab_order(inputs[0], [*inputs[1:], self.more_button, self.load_button, self.reset_button])
        else:
            place_in_tab_order(self.more_button, inputs)
        self._show()

    def _new_row(self, name: str) -> Row:
        info = param_infos(ModelParams).get(name)
        row: Row
        if info is None:
            row = ChoiceRow(self._theme, name, choice_title(name), help_text=choice_help(name))
            row.set_options(options_of(_DEFAULTS[name], self._devices))
        else:
            zero_label = self.tr("auto") if name in _ZERO_IS_AUTO else ""
            has_slider = name in _WITH_SLIDER
            row = ParamRow(self._theme, info, zero_label=zero_label, has_slider=has_slider, is_wide=True)
        row.set_value(self._values[name])
        row.changed.connect(lambda: self._set(name, row.value))
        return row

    def _fill(self, params: ModelParams) -> None:
        self._values = msgspec.structs.asdict(params)
        for name, row in self._rows.items():
            row.set_value(self._values[name])

    def _set(self, name: str, value: Any) -> None:
        self._values[name] = value
        self._show()

    def _show(self) -> None:
        values = self._values
        fault = _fault_of(values)
        self._wanted = None if fault else ModelParams(**values)
        _say(self._fault, fault)
        for name, row in self._rows.items():
            if isinstance(row, ChoiceRow):
                row.show_faults(functools.partial(_new_fault, values, name))
        self.load_button.setEnabled(self._wanted is not None and self._wanted != self._in_use)
        self.reset_button.setEnabled(self._wanted != ModelParams())
        self._show_in_use()
        self._show_memory()
        self._show_place()

    def _show_in_use(self) -> None:
        """Say beside each setting what the engine made of it, where that is not plain to see."""
        model = self._description
        for name in ("n_ctx", "n_threads", "n_gpu_layers"):
            row = self._rows.get(name)
            if not isinstance(row, ParamRow):
                continue
            if model is None:
                row.set_placeholder(self.tr("auto"))
                row.set_note("")
                continue
            used = getattr(model, name)
            is_by_itself = (
                not getattr(self._in_use, name) if name in _ZERO_IS_AUTO else self._in_use.n_gpu_layers is None
            )
            row.set_placeholder(
                self.tr("auto: {used}").format(used=count_text(used)) if is_by_itself else self.tr("auto")
            )
            is_told = row.value == used or (is_by_itself and row.value == getattr(self._in_use, name))
            row.set_note("" if is_told else self.tr("In use: {used}").format(used=count_text(used)))
        for name in ("type_k", "type_v"):
            row = self._rows.get(name)
            if row is None:
                continue
            used = "" if model is None else getattr(model, name)
            row.set_note("" if used in ("", row.value) else self.tr("In use: {used}").format(used=used))

    def _show_memory(self) -> None:
        model = self._description
        if model is None:
            _say(self._memory, "")
            return
        lines = []
        if model.n_ctx_train:
            lines.append(self.tr("Trained for {count} tokens.").format(count=count_text(model.n_ctx_train)))
        values = self._values
        n_ctx: int = values["n_ctx"] or (0 if self._in_use.n_ctx else model.n_ctx)
        if model.n_ctx_train and n_ctx > model.n_ctx_train:
            lines.append(self.tr("Beyond that it may write nonsense."))
        memory = kv_memory(model, n_ctx, type_k=values["type_k"], type_v=values["type_v"])
        if memory is not None:
            text = self.tr("KV cache: {size}.") if memory.is_exact else self.tr("KV cache: about {size}.")
            lines.append(text.format(size=bytes_text(memory.num_bytes)))
        elif model.memory is MemoryKind.RECURRENT:
            lines.append(self.tr("Its memory does not grow with the context."))
        _say(self._memory, " ".join(lines))

    def _show_place(self) -> None:
        model = self._description
        if model is None:
            _say(self._place, "")
            return
        text = self._layers_text(model)
        has_graphics = any(device.kind != "cpu" and device.kind != "accelerator" for device in self._devices)
        is_chosen = bool(self._in_use.device) or self._in_use.n_gpu_layers is not None
        if has_graphics and not is_chosen and not self._is_on_graphics(model):
            text += " " + self.tr("A graphics processor is there and is not used.")
        _say(self._place, text)

    def _layers_text(self, model: ModelDescription) -> str:
        if not self._is_on_graphics(model):
            return self.tr("All {count} layers run on the processor.").format(count=count_text(model.n_layer))
        device = self._device_name(model)
        if model.n_gpu_layers >= model.n_layer:
            return self.tr("All {count} layers run on {device}.").format(count=count_text(model.n_layer), device=device)
        return self.tr("{some} of {count} layers run on {device}, the others on the processor.").format(
            some=count_text(model.n_gpu_layers), count=count_text(model.n_layer), device=device
        )

    def _is_on_graphics(self, model: ModelDescription) -> bool:
        return model.n_gpu_layers > 0 and model.device.upper() != _PROCESSOR

    def _device_name(self, model: ModelDescription) -> str:
        return isolated(shortened(model.device, _MAX_NAME))

    def _on_more_toggled(self, is_open: bool) -> None:
        self.more_button.setText(self.tr("Fewer settings") if is_open else self.tr("More settings"))
        if is_open:
            self._build([name for name in self._values if name not in _FIRST])
        self._more.setVisible(is_open)

    def _on_load_clicked(self) -> None:
        if self._wanted is not None:
            self.load_requested.emit(self._wanted)

    def _on_reset_clicked(self) -> None:
        self._fill(ModelParams())
        self._show()


def _fault_of(values: dict[str, Any]) -> str:
    """Return why settings cannot be used together; empty where they can."""
    try:
        ModelParams(**values)
    except EngineError as error:
        return f"{error.message} {error.hint}".strip()
    return ""


def _new_fault(values: dict[str, Any], name: str, option: object) -> str:
    """Return why an option cannot be chosen beside the others; empty where it can, or where it mends nothing."""
    fault = _fault_of({**values, name: option})
    return "" if fault == _fault_of(values) else fault


def _say(label: QLabel, text: str) -> None:
    label.setText(text)
    label.setVisible(bool(text))
