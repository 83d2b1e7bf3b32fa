"""ParamRow: one declared number with its label, field and slider; OriginTag says where its value comes from."""

import math
from collections.abc import Iterable

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from app.desktop.theme.glyphs import paint_glyph
from app.desktop.theme.look import set_look
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.plain_label import plain_label
from app.sampling_layers import Origin
from engine import EngineError, ParamInfo

_MAX_SLIDER_STEPS = 2_000
_TAGS = {
    Origin.DEFAULT: "",
    Origin.APP: QT_TRANSLATE_NOOP("OriginTag", "app"),
    Origin.MODEL: QT_TRANSLATE_NOOP("OriginTag", "model"),
    Origin.CHAT: QT_TRANSLATE_NOOP("OriginTag", "chat"),
}
_PLACES = {
    Origin.DEFAULT: QT_TRANSLATE_NOOP("OriginTag", "the default"),
    Origin.APP: QT_TRANSLATE_NOOP("OriginTag", "kept for all chats"),
    Origin.MODEL: QT_TRANSLATE_NOOP("OriginTag", "kept for this model"),
    Origin.CHAT: QT_TRANSLATE_NOOP("OriginTag", "set in this chat"),
}


def declared_text(text: str) -> str:
    """Return a label or a help of a declared setting in the language of the window."""
    return QCoreApplication.translate("Params", text) if text else ""


def place_in_tab_order(before: QWidget, widgets: Iterable[QWidget]) -> None:
    """Let the Tab key reach widgets that were built later right after `before`, one after the other."""
    for widget in widgets:
        QWidget.setTabOrder(before, widget)
        before = widget


def new_note(role: str) -> QLabel:
    """Return a hidden label for words that are shown when there are some."""
    note = plain_label(role=role)
    note.hide()
    return note


class StillSlider(QSlider):
    """A slider that a wheel does not move: the wheel scrolls the panel around it."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        """See QWidget."""
        event.ignore()


class OriginTag(QPushButton):
    """Says which layer a value comes from; pressed, it takes the chat's own value away. Empty for defaults."""

    def __init__(self, theme: Theme, label: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._label = label
        self._origin = Origin.DEFAULT
        self.setProperty("kind", "tag")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self.show_origin(Origin.DEFAULT, Origin.DEFAULT, "")

    @property
    def origin(self) -> Origin:
        """The layer it names."""
        return self._origin

    def show_origin(self, origin: Origin, below: Origin, below_text: str) -> None:
        """Name the layer of a value, and what holds without the chat's own one."""
        self._origin = origin
        is_own = origin is Origin.CHAT
        self.setText(self.tr(str(_TAGS[origin])))
        self.setEnabled(is_own)
        place = self.tr("{label}: {place}").format(label=self._label, place=self.tr(str(_PLACES[origin])))
        if is_own:
            back = self.tr("Press to go back to {value}, {place}.").format(
                value=below_text, place=self.tr(str(_PLACES[below]))
            )
            self.setToolTip(f"{place}. {back}")
            self.setAccessibleName(self.tr("Reset {label} to {value}").format(label=self._label, value=below_text))
            self.setAccessibleDescription(place)
        else:
            self.setToolTip(place)
            self.setAccessibleName(place)
            self.setAccessibleDescription("")
        self.setFixedSize(self.sizeHint())
        self.setVisible(origin is not Origin.DEFAULT)
        self.update()

    def sizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(self._theme.px(54 if self._origin is Origin.CHAT else 44), self._theme.px(20))

    def paintEvent(self, event: QPaintEvent) -> None:
        """See QWidget; adds the glyph."""
        super().paintEvent(event)
        if self._origin is Origin.CHAT:
            side = self._theme.px(12)
            box = QRectF(self.width() - side - self._theme.px(4), (self.height() - side) / 2, side, side)
            painter = QPainter(self)
            paint_glyph(painter, "retry", box, self._theme.colour("accent"))
            painter.end()

    def _on_theme_changed(self) -> None:
        self.setFixedSize(self.sizeHint())


class ParamRow(QWidget):
    """One number: label, field, and a slider where the range allows one.

    Where the setting may be absent, an empty field and the right end of the slider mean that.

    Args:
        zero_label: how 0 is shown where it leaves the choice to the engine; the field is empty then.
        is_wide: whether the field has room for some words.

    Signals:
        changed: the user gave another legal value.
        let_go: the slider is no longer dragged.
        reset_requested: the chat's own value is to be taken away.
    """

    changed = Signal()
    let_go = Signal()
    reset_requested = Signal()

    def __init__(
        self,
        theme: Theme,
        info: ParamInfo,
        parent: QWidget | None = None,
        *,
        zero_label: str = "",
        has_slider: bool = True,
        is_wide: bool = False,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._info = info
        self._zero_label = zero_label
        self._is_wide = is_wide
        self._value: float | int | None = info.default
        self._title = declared_text(info.label)
        self._help = declared_text(info.help)
        self._label = label = ElidedLabel()
        label.set_whole(self._title)
        label.setToolTip(self._help)
        self.field = QLineEdit()
        self.field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.field.setAccessibleName(self._title)
        self.field.setAccessibleDescription(self._help)
        self.field.setPlaceholderText(zero_label or declared_text(info.none_label or ""))
        self.field.textEdited.connect(self._on_edited)
        self.field.editingFinished.connect(self._show)
        label.setBuddy(self.field)
        # Most rows need neither; each widget costs at the start and at a change of the theme.
        self._tag: OriginTag | None = None
        self._note: QLabel | None = None
        self._head = head = QHBoxLayout()
        head.setContentsMargins(0, 0, 0, 0)
        head.setSpacing(theme.px(4))
        head.addWidget(label, 1)
        head.addWidget(self.field)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(theme.px(2))
        self._box.addLayout(head)
        self.slider = self._new_slider() if has_slider else None
        if self.slider is not None:
            self.field.setProperty("quiet", True)
            self._box.addWidget(self.slider)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self._show()

    @property
    def name(self) -> str:
        """Name of the setting."""
        return self._info.name

    @property
    def title(self) -> str:
        """What a person calls the setting."""
        return self._title

    @property
    def is_advanced(self) -> bool:
        """Whether it is folded away at first."""
        return self._info.is_advanced

    @property
    def value(self) -> float | int | None:
        """The last legal value."""
        return self._value

    @property
    def note(self) -> str:
        """What is said below it."""
        return self._note.text() if self._note is not None else ""

    @property
    def inputs(self) -> list[QWidget]:
        """What the Tab key reaches, in order."""
        return [self.field] if self.slider is None else [self.field, self.slider]

    @property
    def tag(self) -> OriginTag:
        """Says which layer the value comes from."""
        if self._tag is None:
            self._tag = OriginTag(self._theme, self._title)
            self._tag.clicked.connect(self._on_reset)
            self._head.insertWidget(1, self._tag)
            place_in_tab_order(self.field, [self._tag])
        return self._tag

    def show_origin(self, origin: Origin, below: Origin, below_text: str) -> None:
        """Say which layer the value comes from, and what holds without the chat's own one."""
        if self._tag is not None or origin is not Origin.DEFAULT:
            self.tag.show_origin(origin, below, below_text)

    def set_value(self, value: float | int | None) -> None:
        """Show a legal value that the user did not give here."""
        self._value = value
        self._show()

    def set_placeholder(self, text: str) -> None:
        """Say what an empty field means."""
        self.field.setPlaceholderText(text)

    def set_note(self, text: str) -> None:
        """Say something below it; nothing for an empty text."""
        if self._note is None:
            if not text:
                return
            self._note = new_note("meta")
            self._box.addWidget(self._note)
        self._note.setText(text)
        self._note.setVisible(bool(text))

    def value_text(self, value: float | int | None) -> str:
        """Return how a value of this setting is written."""
        if value is None:
            return declared_text(self._info.none_label or "")
        if value == 0 and self._zero_label:
            return self._zero_label
        return str(value) if self._info.is_integer else f"{value:.6g}"

    def _on_reset(self) -> None:
        if self.tag.hasFocus():  # it is about to go away
            self.field.setFocus()
        self.reset_requested.emit()

    def _new_slider(self) -> QSlider | None:
        info = self._info
        end = info.soft_maximum if info.soft_maximum is not None else info.maximum
        num_steps = math.ceil((end - info.minimum) / info.step)
        if num_steps > _MAX_SLIDER_STEPS:
            return None
        slider = StillSlider(Qt.Orientation.Horizontal)
        slider.setRange(0, num_steps + (1 if info.none_label is not None else 0))
        slider.setPageStep(max(1, num_steps // 10))
        slider.setAccessibleName(self._title)
        slider.setToolTip(self._help)
        slider.valueChanged.connect(self._on_slid)
        slider.sliderReleased.connect(self.let_go)
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
        text = text.strip().replace(",", "" if self._info.is_integer else ".")
        try:
            value: float | int | None
            if not text and self._info.none_label is not None:
                value = None
            elif not text and self._zero_label:
                value = 0
            else:
                value = int(text) if self._info.is_integer else float(text)
            self._info.check(value)
        except (ValueError, EngineError) as error:
            self._mark(getattr(error, "message", self.tr("{label} is a number.").format(label=self._title)))
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
        is_empty = value is None or (value == 0 and self._zero_label)
        self.field.setText("" if is_empty else self.value_text(value))
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
        set_look(self.field, "invalid", bool(fault))
        self.field.setToolTip(fault or self._help)

    def _on_theme_changed(self) -> None:
        # A seed has ten figures; what has a slider has few, and its label needs the room.
        px, narrow = self._theme.px, 66
        is_narrow = self.slider is not None and not self._is_wide
        self._label.setMinimumWidth(px(28))
        self.field.setMinimumWidth(px(narrow))
        self.field.setMaximumWidth(px(narrow if is_narrow else 104))
