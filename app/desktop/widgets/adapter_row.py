"""AdapterRow: one LoRA adapter with its box and, once it is in use, its strength; says why it cannot be used."""

from PySide6.QtCore import QT_TRANSLATE_NOOP, Signal
from PySide6.QtWidgets import QWidget

from app.adapter_files import FoundAdapter
from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.session.chat_adapters import MAX_SCALE
from app.desktop.theme.look import set_look
from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import bytes_text, count_text
from app.desktop.widgets.file_choice import FileChoice
from app.desktop.widgets.param_row import ParamRow
from engine import ParamInfo

_MAX_NAME, _MAX_TEXT = 60, 300

_STRENGTH = ParamInfo(
    label=str(QT_TRANSLATE_NOOP("Params", "Strength")),
    help=str(QT_TRANSLATE_NOOP("Params", "1 is as it was trained, 0 is without it; more than 1 overdoes it.")),
    minimum=0.0,
    maximum=MAX_SCALE,
    soft_maximum=2.0,
    step=0.05,
    name="scale",
    default=1.0,
)


class AdapterRow(FileChoice):
    """One adapter.

    Signals:
        changed: the user gave it another strength, took it in use or out of it.
        let_go: its slider is no longer dragged.
    """

    changed = Signal()
    let_go = Signal()

    def __init__(self, theme: Theme, adapter: FoundAdapter, parent: QWidget | None = None) -> None:
        self._name = isolated(shortened(adapter.label, _MAX_NAME))
        super().__init__(theme, self._name, parent)
        self._scale = 1.0
        self._strength: ParamRow | None = None
        self.box.clicked.connect(self._on_clicked)
        self.show_adapter(adapter)

    @property
    def adapter(self) -> FoundAdapter:
        """What it shows."""
        return self._adapter

    @property
    def is_on(self) -> bool:
        """Whether the adapter is in use."""
        return self.box.isChecked()

    @property
    def scale(self) -> float:
        """Its strength, also while it is not in use."""
        return self._scale

    @property
    def strength(self) -> ParamRow:
        """Where its strength is set."""
        if self._strength is None:
            self._strength = row = ParamRow(self._theme, _STRENGTH)
            title = self.tr("Strength of {name}").format(name=self._name)
            for control in row.inputs:
                control.setAccessibleName(title)
            row.set_value(self._scale)
            row.changed.connect(self._on_strength_changed)
            row.let_go.connect(self.let_go)
            self._layout.addWidget(row)
            self._on_theme_changed()
        return self._strength

    @property
    def inputs(self) -> list[QWidget]:
        """What the Tab key reaches, in order."""
        return [*super().inputs, *(self._strength.inputs if self._strength is not None else [])]

    def show_adapter(self, adapter: FoundAdapter) -> None:
        """Show what became of the same file."""
        self._adapter = adapter
        if adapter.misfit:
            note = isolated(shortened(adapter.misfit, _MAX_TEXT))
        elif adapter.is_of_other_base:
            base = isolated(shortened(adapter.base, _MAX_NAME))
            note = self.tr("It names another base model: {base}").format(base=base)
        else:
            note = ""
        self._say(note)
        facts = [adapter.path]
        if adapter.rank:
            facts.append(
                self.tr("rank {rank} · {size}").format(
                    rank=count_text(adapter.rank), size=bytes_text(adapter.file_bytes)
                )
            )
        if adapter.base:
            facts.append(self.tr("Trained on {base}").format(base=shortened(adapter.base, _MAX_NAME)))
        self.box.setToolTip(tool_tip_text("\n".join(facts)))
        self._show()

    def set_choice(self, *, is_on: bool, scale: float) -> None:
        """Show a choice that the user did not make here."""
        self._scale = scale
        self.box.setChecked(is_on)
        if self._strength is not None and self._strength.value != scale:
            self._strength.set_value(scale)
        self._show()

    def _show(self) -> None:
        # One that is in use can be taken out of it, whatever has become of its file.
        self.box.setEnabled(self.is_on or not self._adapter.misfit)
        if self.is_on or self._strength is not None:
            self.strength.setVisible(self.is_on)
        if self._note is not None:
            role = "problem" if self.is_on and self._adapter.misfit else "meta"
            set_look(self._note, "role", role)

    def _on_clicked(self) -> None:
        self._show()
        self.changed.emit()

    def _on_strength_changed(self) -> None:
        value = self.strength.value
        if value is not None:
            self._scale = float(value)
            self.changed.emit()

    def _on_theme_changed(self) -> None:
        super()._on_theme_changed()
        if self._strength is not None:
            self._strength.setContentsMargins(self._theme.px(30), 0, 0, self._theme.px(6))
