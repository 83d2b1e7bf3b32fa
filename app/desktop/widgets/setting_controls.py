"""The controls of settings: one for each type of value, built from what the setting declares of itself."""

import enum
import math

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QLineEdit,
    QWidget,
)

from app.desktop.theme.theme import Theme
from app.desktop.widgets.check_box import CheckBox
from app.desktop.widgets.still_combo_box import StillComboBox
from app.desktop.widgets.still_spin_box import StillNumberBox, StillSpinBox
from app.setting_info import SettingInfo

_WIDTH = 210
_LARGEST = 2**31 - 1


def translated(text: str) -> str:
    """Return what a setting is called, or says of itself, in the user's language."""
    return QCoreApplication.translate("Settings", text) if text else ""


class ChoiceControl(StillComboBox):
    """One of the members of an enum.

    Signals:
        chosen: the member.
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme, info: SettingInfo) -> None:
        super().__init__(theme)
        kind: type[enum.Enum] = info.type
        self._members = list(kind)
        labels = info.choices or tuple(str(member.value) for member in self._members)
        self.addItems([translated(label) for label in labels])
        self.activated.connect(lambda index: self.chosen.emit(self._members[index]))

    def set_value(self, value: enum.Enum) -> None:
        """Show a member."""
        self.setCurrentIndex(self._members.index(value))

    def text_of(self, value: enum.Enum) -> str:
        """Return what a member is called."""
        return self.itemText(self._members.index(value))


class SwitchControl(CheckBox):
    """Yes or no.

    Signals:
        chosen: the value.
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme, info: SettingInfo) -> None:
        super().__init__(theme)
        self.clicked.connect(lambda is_on: self.chosen.emit(is_on))

    def set_value(self, value: bool) -> None:
        """Show a value."""
        self.setChecked(value)

    def text_of(self, value: bool) -> str:
        """Return what a value is called."""
        return self.tr("on") if value else self.tr("off")


class WholeControl(StillSpinBox):
    """A whole number.

    Signals:
        chosen: the value.
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme, info: SettingInfo) -> None:
        super().__init__()
        self._info = info
        self.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToNearestValue)
        low, high = _limits(info)
        self.setRange(math.ceil(low), math.floor(high))
        self.setSingleStep(max(1, round(info.step)))
        self.setSpecialValueText(translated(info.lowest))
        self.valueChanged.connect(self._on_changed)

    def set_value(self, value: int) -> None:
        """Show a value."""
        self.blockSignals(True)
        self.setValue(value)
        self.blockSignals(False)
        self.setSuffix(_unit(self._info, self.value()))

    def text_of(self, value: int) -> str:
        """Return a value with its unit."""
        if self._info.lowest and value == self.minimum():
            return translated(self._info.lowest)
        return f"{value}{_unit(self._info, value)}"

    def stepBy(self, steps: int) -> None:
        """Go up from what is no amount to the smallest one, and on from there."""
        if self._info.lowest and self.value() == self.minimum():
            self.setValue(self.value() + (steps > 0))
        else:
            super().stepBy(steps)

    def _on_changed(self, value: int) -> None:
        self.setSuffix(_unit(self._info, value))
        self.chosen.emit(value)


class NumberControl(StillNumberBox):
    """A number.

    Signals:
        chosen: the value.
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme, info: SettingInfo) -> None:
        super().__init__()
        self._info = info
        self.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToNearestValue)
        self.setDecimals(3)
        self.setRange(*_limits(info))
        self.setSingleStep(info.step)
        self.setSuffix(_unit(self._info, 0))
        self.valueChanged.connect(lambda value: self.chosen.emit(round(value, 3)))

    def set_value(self, value: float) -> None:
        """Show a value."""
        self.blockSignals(True)
        self.setValue(value)
        self.blockSignals(False)

    def text_of(self, value: float) -> str:
        """Return a value with its unit."""
        return f"{self.textFromValue(value)}{_unit(self._info, value)}"

    def textFromValue(self, value: float) -> str:
        """Write a number without the zeros that say nothing."""
        text, point = super().textFromValue(value), self.locale().decimalPoint()
        return text.rstrip("0").removesuffix(point) if point in text else text


class TextControl(QLineEdit):
    """One line of text; empty where the setting may be absent and is.

    Signals:
        chosen: the value, None for an absent one.
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme, info: SettingInfo) -> None:
        super().__init__()
        self._is_optional = info.default is None
        self._value = ""
        self.editingFinished.connect(self._on_finished)

    def set_value(self, value: str | None) -> None:
        """Show a value."""
        self._value = value or ""
        self.setText(self._value)

    def text_of(self, value: str | None) -> str:
        """Return a value."""
        return value or self.tr("nothing")

    def _on_finished(self) -> None:
        if self.text() != self._value:
            self._value = self.text()
            self.chosen.emit(self._value or (None if self._is_optional else ""))


SettingControl = ChoiceControl | SwitchControl | WholeControl | NumberControl | TextControl


def build_control(theme: Theme, info: SettingInfo) -> SettingControl | None:
    """Return a control for a setting; None for a type that no person sets by hand."""
    if issubclass(info.type, enum.Enum):
        return ChoiceControl(theme, info)
    kinds: dict[type, type[SettingControl]] = {
        bool: SwitchControl,
        int: WholeControl,
        float: NumberControl,
        str: TextControl,
    }
    kind = kinds.get(info.type)
    return kind(theme, info) if kind is not None else None


def fit_control(theme: Theme, control: QWidget, room: int) -> None:
    """Give a control the width that all have, or what room there is."""
    if not isinstance(control, SwitchControl):
        control.setFixedWidth(max(1, min(theme.px(_WIDTH), room)))
    if isinstance(control, QAbstractSpinBox):
        control.lineEdit().setTextMargins(theme.px(6), 0, theme.px(6), 0)  # the stylesheet has no say there


def _unit(info: SettingInfo, value: float) -> str:
    unit = info.unit_of_one if value == 1 and info.unit_of_one else info.unit
    return f" {translated(unit)}" if unit else ""


def _limits(info: SettingInfo) -> tuple[float, float]:
    low = -_LARGEST if info.minimum is None else info.minimum
    return low, _LARGEST if info.maximum is None else info.maximum
