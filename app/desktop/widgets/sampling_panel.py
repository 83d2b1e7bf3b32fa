"""SamplingPanel: drawn from the declarations of SamplingParams alone; a new sampler needs no line here."""

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.param_row import OriginTag, ParamRow, new_note, place_in_tab_order
from app.desktop.widgets.sampler_order import SamplerOrder, sampler_title
from app.desktop.widgets.stop_strings import stop_lines, stop_strings
from app.sampling_layers import Origin, Resolved, encoded, keep_for_app, keep_for_model, resolve
from engine import EngineError, ParamInfo, SamplingParams, param_infos


class SamplingPanel(QWidget):
    """All settings of a reply, each with the layer it comes from; what the user changes is of this chat alone.

    Signals:
        changed: the chat has other values of its own, see `chat_values`.
        let_go: a slider is no longer dragged.
        keep_requested: "model" or "app", and all that this layer is to hold from now on.
    """

    changed = Signal()
    let_go = Signal()
    keep_requested = Signal(str, object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._app: dict[str, Any] = {}
        self._model: dict[str, Any] = {}
        self._chat: dict[str, Any] = {}
        self._used_seed: int | None = None
        self._rows: dict[str, ParamRow] = {}
        self._order: SamplerOrder | None = None
        self._stop = QPlainTextEdit()
        self._stop.setObjectName("stopStrings")
        self._stop.setPlaceholderText(self.tr("One on each line; \\n is a line break"))
        self._stop.setTabChangesFocus(True)
        self._stop.setAccessibleName(self.tr("Stop strings"))
        self._fault = new_note("error")
        self._passed_over = new_note("meta")
        self.more_button = QPushButton(self.tr("More settings"))
        self.more_button.setProperty("kind", "outline")
        self.more_button.setCheckable(True)
        self.reset_button = QPushButton(self.tr("Reset this chat"))
        self.reset_button.setToolTip(self.tr("Take away what is set in this chat alone"))
        self.keep_button = QPushButton(self.tr("Keep for …"))
        self.keep_button.setToolTip(self.tr("Use what is set in this chat elsewhere too"))
        self._build()
        self._stop.textChanged.connect(self._on_stop_changed)
        self._stop_tag.clicked.connect(lambda: self._forget("stop"))
        self.more_button.toggled.connect(self._on_more_toggled)
        self.reset_button.clicked.connect(self.reset)
        self._more.hide()
        self._resolved = self._below = resolve({}, {}, {})
        self._show()
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def params(self) -> SamplingParams:
        """The settings in force; always legal."""
        return self._resolved.params

    @property
    def origins(self) -> Mapping[str, Origin]:
        """Where each setting comes from."""
        return self._resolved.origins

    @property
    def chat_values(self) -> dict[str, Any]:
        """What is set in this chat alone."""
        return dict(self._chat)

    @property
    def rows(self) -> list[ParamRow]:
        """One for each declared number, in the order of declaration."""
        self._build_more()
        return [self._rows[name] for name in param_infos(SamplingParams)]

    @property
    def stop_edit(self) -> QPlainTextEdit:
        """Where stop strings are written, one on each line."""
        return self._stop

    @property
    def order(self) -> SamplerOrder:
        """The steps and their order."""
        return self._build_more()

    def set_layers(self, app: Mapping[str, Any], model: Mapping[str, Any], chat: Mapping[str, Any]) -> None:
        """Show the settings of another chat, of another model, or as they were changed elsewhere."""
        self._app, self._model, self._chat = _copied(app), _copied(model), _copied(chat)
        self._fault.hide()
        self._resolve()

    def show_used_seed(self, seed: int | None) -> None:
        """Offer the seed of the last reply; None where there is no reply."""
        self._used_seed = seed
        self._seed_label.set_whole(self.tr("Last reply: {seed}").format(seed="–" if seed is None else seed))
        self._seed_label.setToolTip(self.tr("The seed that the last reply was made with"))
        self._show_pin()

    def pin_seed(self, seed: int) -> None:
        """Use a seed for every reply of this chat."""
        self._set("seed", seed)

    def reset(self) -> None:
        """Take away all that is set in this chat alone."""
        self._fault.hide()
        self._change({})

    def keep_menu(self) -> QMenu:
        """Return the places that the settings of this chat can be kept for."""
        menu = QMenu(self)
        menu.addAction(self.tr("This model"), lambda: self._keep("model"))
        menu.addAction(self.tr("All chats"), lambda: self._keep("app"))
        return menu

    def _build(self) -> None:
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(self._theme.px(6))
        self._more = QWidget()
        for name, info in param_infos(SamplingParams).items():
            if not info.is_advanced:
                box.addWidget(self._new_row(info))
            if name == "seed":
                box.addWidget(self._new_seed_line())
        stop_head, self._stop_tag = self._new_head(
            self.tr("Stop strings"), self.tr("The reply ends before any of these.")
        )
        box.addWidget(self.more_button)
        box.addWidget(self._more)
        box.addLayout(stop_head)
        for widget in (self._stop, self._fault, self._passed_over):
            box.addWidget(widget)
        self.keep_button.setMenu(self.keep_menu())
        for button in (self.reset_button, self.keep_button):
            button.setProperty("kind", "outline")
            box.addWidget(button)

    def _build_more(self) -> SamplerOrder:
        """Build what is folded away when it is first asked for, and return the last part of it."""
        if self._order is not None:
            return self._order
        more = QVBoxLayout(self._more)
        more.setContentsMargins(0, 0, 0, 0)
        more.setSpacing(self._theme.px(6))
        for info in param_infos(SamplingParams).values():
            if info.is_advanced:
                more.addWidget(self._new_row(info))
        head, self._order_tag = self._new_head(
            self.tr("Order of the samplers"), self.tr("The steps that are taken, first to last.")
        )
        order = self._order = SamplerOrder(self._theme)
        order.changed.connect(lambda: self._set("samplers", order.value))
        self._order_tag.clicked.connect(lambda: self._forget("samplers"))
        more.addLayout(head)
        more.addWidget(order)
        inputs = [widget for row in self._rows.values() if row.is_advanced for widget in row.inputs]
        place_in_tab_order(self.more_button, [*inputs, self._order_tag, order.list])
        self._show()
        return order

    def _new_row(self, info: ParamInfo) -> ParamRow:
        row = ParamRow(self._theme, info)
        row.changed.connect(lambda: self._set(row.name, row.value))
        row.let_go.connect(self.let_go)
        row.reset_requested.connect(lambda: self._forget(row.name))
        self._rows[info.name] = row
        return row

    def _new_head(self, title: str, help_text: str) -> tuple[QHBoxLayout, OriginTag]:
        label = ElidedLabel()
        label.set_whole(title)
        label.setToolTip(help_text)
        tag = OriginTag(self._theme, title)
        head = QHBoxLayout()
        head.addWidget(label, 1)
        head.addWidget(tag)
        return head, tag

    def _new_seed_line(self) -> QWidget:
        self._seed_line = QWidget()
        self._seed_label = ElidedLabel()
        self._seed_label.setProperty("role", "meta")
        self.pin_button = QPushButton(self.tr("Pin"))
        self.pin_button.setProperty("kind", "action")
        self.pin_button.setAccessibleName(self.tr("Pin the seed of the last reply"))
        self.pin_button.setToolTip(self.tr("Use this seed for every reply of this chat"))
        self.pin_button.clicked.connect(self._on_pinned)
        line = QHBoxLayout(self._seed_line)
        line.setContentsMargins(0, 0, 0, 0)
        line.addWidget(self._seed_label, 1)
        line.addWidget(self.pin_button)
        return self._seed_line

    def _set(self, name: str, value: Any) -> None:
        """Give the chat a value of its own; the one that holds without it needs not be held."""
        chat = {key: kept for key, kept in self._chat.items() if key != name}
        if value != getattr(self._below.params, name):
            chat[name] = encoded(name, value)
        self._change(chat)

    def _forget(self, name: str) -> None:
        if name == "stop":
            self._fault.hide()
        self._change({key: kept for key, kept in self._chat.items() if key != name})

    def _change(self, chat: dict[str, Any]) -> None:
        is_other = chat != self._chat
        self._chat = chat
        self._resolve()
        if is_other:
            self.changed.emit()

    def _keep(self, layer: str) -> None:
        keep = keep_for_model if layer == "model" else keep_for_app
        kept = keep(self._app, self._model, self._chat)
        if layer == "model":
            self._model = kept.layer
        else:
            self._app = kept.layer
        is_other = kept.chat != self._chat
        self._chat = kept.chat
        self._resolve()
        self.keep_requested.emit(layer, dict(kept.layer))
        if is_other:
            self.changed.emit()

    def _resolve(self) -> None:
        self._resolved = resolve(self._app, self._model, self._chat)
        self._below = resolve(self._app, self._model, {})
        self._show()

    def _show(self) -> None:
        now, below = self._resolved, self._below
        for name, row in self._rows.items():
            value = getattr(now.params, name)
            if value != row.value:
                row.set_value(value)
            row.show_origin(now.origins[name], below.origins[name], row.value_text(getattr(below.params, name)))
        if self._order is not None:
            if self._order.value != now.params.samplers:
                self._order.set_value(now.params.samplers)
            self._show_origin(self._order_tag, "samplers", self._order_text(below))
        if self._fault.isHidden() and _legal_stop(self._stop.toPlainText()) != now.params.stop:
            self._stop.blockSignals(True)
            self._stop.setPlainText(stop_lines(now.params.stop))
            self._stop.blockSignals(False)
        self._show_origin(self._stop_tag, "stop", ", ".join(below.params.stop) or self.tr("none"))
        self.reset_button.setEnabled(bool(self._chat))
        self.keep_button.setEnabled(bool(self._chat))
        self._passed_over.setText(self.tr("Some kept settings cannot be used and are left out."))
        self._passed_over.setToolTip("\n".join(now.faults[:10]))
        self._passed_over.setVisible(bool(now.faults))
        self._show_pin()

    def _show_origin(self, tag: OriginTag, name: str, below_text: str) -> None:
        tag.show_origin(self._resolved.origins[name], self._below.origins[name], below_text)

    def _order_text(self, resolved: Resolved) -> str:
        names = [sampler_title(name) for name in resolved.params.samplers]
        return ", ".join(names) or self.tr("the usual order")

    def _show_pin(self) -> None:
        self.pin_button.setEnabled(self._used_seed is not None and self.params.seed != self._used_seed)

    def _on_pinned(self) -> None:
        if self._used_seed is not None:
            self.pin_seed(self._used_seed)

    def _on_stop_changed(self) -> None:
        try:
            stop = SamplingParams(stop=stop_strings(self._stop.toPlainText())).stop
        except EngineError as error:
            self._fault.setText(error.message)
            self._fault.show()
            return
        self._fault.hide()
        self._set("stop", stop)

    def _on_more_toggled(self, is_open: bool) -> None:
        self.more_button.setText(self.tr("Fewer settings") if is_open else self.tr("More settings"))
        if is_open:
            self._build_more()
        self._more.setVisible(is_open)

    def _on_theme_changed(self) -> None:
        self._stop.setFixedHeight(self._theme.px(58))


def _copied(layer: Mapping[str, Any]) -> dict[str, Any]:
    return dict(layer) if isinstance(layer, Mapping) else {}


def _legal_stop(lines: str) -> tuple[str, ...]:
    return SamplingParams(stop=stop_strings(lines)).stop
