"""SamplingPanel: drawn from the declarations of SamplingParams alone; a new sampler needs no line here."""

import math

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from app.desktop.theme.theme import Theme
from engine import EngineError, ParamInfo, SamplingParams, param_infos

_MAX_SLIDER_STEPS = 2_000


class ParamRow(QWidget):
    """One number: label, field, and a slider where the range allows one.

    Where the setting may be absent, an empty field and the right end of the slider mean that.

    Signals:
        changed: another legal value.
    """

    changed = Signal()

    def __init__(self, theme: Theme, info: ParamInfo, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._info = info
        self._value: float | int | None = info.default
        label = QLabel(info.label)
        label.setToolTip(info.help)
        self.field = QLineEdit()
        self.field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.field.setFixedWidth(theme.px(92))
        self.field.setAccessibleName(info.label)
        self.field.setAccessibleDescription(info.help)
        self.field.setPlaceholderText(info.none_label or "")
        self.field.textEdited.connect(self._on_edited)
        self.field.editingFinished.connect(self._show)
        label.setBuddy(self.field)
        head = QHBoxLayout()
        head.setContentsMargins(0, 0, 0, 0)
        head.addWidget(label, 1)
        head.addWidget(self.field)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(theme.px(2))
        box.addLayout(head)
        self.slider = self._new_slider()
        if self.slider is not None:
            self.field.setProperty("quiet", True)
            box.addWidget(self.slider)
        self._show()

    @property
    def name(self) -> str:
        """Name of the setting."""
        return self._info.name

    @property
    def is_advanced(self) -> bool:
        """Whether it is folded away at first."""
        return self._info.is_advanced

    @property
    def value(self) -> float | int | None:
        """The last legal value."""
        return self._value

    def reset(self) -> None:
        """Go back to the default."""
        self._accept(self._info.default)
        self._show()

    def _new_slider(self) -> QSlider | None:
        info = self._info
        end = info.soft_maximum if info.soft_maximum is not None else info.maximum
        num_steps = math.ceil((end - info.minimum) / info.step)
        if num_steps > _MAX_SLIDER_STEPS:
            return None
        slider = QSlider(Qt.Orientation.Horizontal)
        slider.setRange(0, num_steps + (1 if info.none_label is not None else 0))
        slider.setPageStep(max(1, num_steps // 10))
        slider.setAccessibleName(info.label)
        slider.setToolTip(info.help)
        slider.valueChanged.connect(self._on_slid)
        return slider

    def _on_slid(self, position: int) -> None:
        info = self._info
        if self.slider is not None and info.none_label is not None and position == self.slider.maximum():
            self._accept(None)
        else:
            value = info.minimum + position * info.step
            # The first step of "1, 64, 128 …" starts at the minimum and then keeps to round numbers.
            if position and info.minimum < info.step and info.is_integer:
                value = position * info.step
            self._accept(self._rounded(min(value, info.maximum)))
        self._show()

    def _rounded(self, value: float) -> float | int:
        return round(value) if self._info.is_integer else round(value, 6)

    def _on_edited(self, text: str) -> None:
        text = text.strip().replace(",", ".")
        try:
            value: float | int | None
            if not text and self._info.none_label is not None:
                value = None
            else:
                value = int(text) if self._info.is_integer else float(text)
            self._info.check(value)
        except (ValueError, EngineError) as error:
            self._mark(getattr(error, "message", f"{self._info.label} is a number."))
            return
        self._mark("")
        self._accept(value)

    def _accept(self, value: float | int | None) -> None:
        if value != self._value:
            self._value = value
            self._place_slider()
            self.changed.emit()

    def _show(self) -> None:
        """Write the last legal value into the field."""
        self._mark("")
        value = self._value
        if value is None:
            self.field.clear()
        else:
            self.field.setText(str(value) if self._info.is_integer else f"{value:.6g}")
        self._place_slider()

    def _place_slider(self) -> None:
        if self.slider is None:
            return
        self.slider.blockSignals(True)
        if self._value is None:
            self.slider.setValue(self.slider.maximum())
        else:
            last = self.slider.maximum() - (1 if self._info.none_label is not None else 0)
            position = round((self._value - self._info.minimum) / self._info.step)
            self.slider.setValue(min(position, last))
        self.slider.blockSignals(False)

    def _mark(self, fault: str) -> None:
        if bool(self.field.property("invalid")) != bool(fault):
            self.field.setProperty("invalid", bool(fault))
            self.field.style().unpolish(self.field)
            self.field.style().polish(self.field)
        self.field.setToolTip(fault or self._info.help)


class SamplingPanel(QWidget):
    """All settings of a reply.

    Signals:
        changed: the settings are other ones.
    """

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows = [ParamRow(theme, info) for info in param_infos(SamplingParams).values()]
        self._stop = QPlainTextEdit()
        self._stop.setObjectName("stopStrings")
        self._stop.setPlaceholderText("One on each line; \\n is a line break")
        self._stop.setFixedHeight(theme.px(58))
        self._stop.setTabChangesFocus(True)
        self._stop.setAccessibleName("Stop strings")
        self._stop.textChanged.connect(self._on_changed)
        stop_label = QLabel("Stop strings")
        stop_label.setToolTip("The reply ends before any of these.")
        self._fault = QLabel("")
        self._fault.setTextFormat(Qt.TextFormat.PlainText)
        self._fault.setProperty("role", "error")
        self._fault.setWordWrap(True)
        self._fault.hide()
        self.reset_button = QPushButton("Reset to defaults")
        self.reset_button.setProperty("kind", "outline")
        self.reset_button.clicked.connect(self.reset)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(theme.px(6))
        self.more_button = QPushButton("More settings")
        self.more_button.setProperty("kind", "outline")
        self.more_button.setCheckable(True)
        self.more_button.toggled.connect(self._on_more_toggled)
        for row in self._rows:
            row.changed.connect(self._on_changed)
        for row in self._rows:
            if not row.is_advanced:
                box.addWidget(row)
        box.addWidget(self.more_button)
        for row in self._rows:
            if row.is_advanced:
                box.addWidget(row)
                row.hide()
        for widget in (stop_label, self._stop, self._fault, self.reset_button):
            box.addWidget(widget)
        self._params = SamplingParams()
        self.reset_button.setEnabled(False)

    @property
    def params(self) -> SamplingParams:
        """The settings; always legal."""
        return self._params

    @property
    def rows(self) -> list[ParamRow]:
        """One for each declared number, in the order of declaration."""
        return self._rows

    @property
    def stop_edit(self) -> QPlainTextEdit:
        """Where stop strings are written, one on each line."""
        return self._stop

    def _on_more_toggled(self, is_open: bool) -> None:
        self.more_button.setText("Fewer settings" if is_open else "More settings")
        for row in self._rows:
            if row.is_advanced:
                row.setVisible(is_open)

    def reset(self) -> None:
        """Go back to all defaults."""
        for row in self._rows:
            row.reset()
        self._stop.clear()

    def _on_changed(self) -> None:
        values = {row.name: row.value for row in self._rows}
        stop = tuple(_unescaped(line) for line in self._stop.toPlainText().split("\n") if line)
        try:
            params = SamplingParams(**values, stop=stop)  # type: ignore[arg-type]
        except EngineError as error:
            self._fault.setText(error.message)
            self._fault.show()
            return
        self._fault.hide()
        self.reset_button.setEnabled(params != SamplingParams())
        if params != self._params:
            self._params = params
            self.changed.emit()


def _unescaped(text: str) -> str:
    """Return `text` with backslash-n, backslash-t and double backslash resolved."""
    parts = text.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\t", "\t") for part in parts)
