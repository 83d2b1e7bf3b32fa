"""ModelPicker: the button that names the model, its menu, and the progress of a load."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QProgressBar, QPushButton, QWidget

from app.desktop.rendering.plain import action_text, isolated, shortened, tool_tip_text
from app.desktop.session.model_session import ModelSession, ModelState, Starter
from app.desktop.theme.glyphs import paint_glyph
from app.desktop.theme.theme import Theme
from app.desktop.widgets.file_dialog import ask_for_file

_MAX_RECENT = 5


class _PickerButton(QPushButton):
    """Its label is cut in the middle when there is little room; a chevron stands at the right."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._label = ""
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def set_label(self, label: str) -> None:
        self._label = label
        self.setAccessibleName(self.tr("Model: {name}").format(name=label))
        self.updateGeometry()
        self.update()

    @property
    def label(self) -> str:
        return self._label

    def sizeHint(self) -> QSize:
        px = self._theme.px
        return QSize(self.fontMetrics().horizontalAdvance(self._label) + px(42), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(60), super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        px = self._theme.px
        painter = QPainter(self)
        painter.setPen(self._theme.colour("text"))
        area = self.rect().adjusted(px(10), 0, -px(28), 0)
        text = self.fontMetrics().elidedText(self._label, Qt.TextElideMode.ElideMiddle, area.width())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        side = px(12)
        box = QRectF(min(self.width(), self.sizeHint().width()) - side - px(10), (self.height() - side) / 2, side, side)
        paint_glyph(painter, "chevron_down", box, self._theme.colour("muted"))
        painter.end()


class ModelPicker(QWidget):
    """Shows the model session and asks it for another model.

    Args:
        starter: tells of the starter model.
        last_model: what was used last, may be None.

    Signals:
        model_chosen: what to load.
        cancel_requested: give up the load.
        models_requested: show all models of this computer.
    """

    model_chosen = Signal(str)
    cancel_requested = Signal()
    models_requested = Signal()

    def __init__(
        self,
        theme: Theme,
        starter: Callable[[], Starter],
        last_model: str | None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._starter = starter
        self._recent: list[str] = [last_model] if last_model else []
        self._folder = ""
        self._button = _PickerButton(theme)
        self._button.clicked.connect(self.open_menu)
        self._bar = QProgressBar()
        self._bar.setRange(0, 100)
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(self.tr("Load progress"))
        self._cancel = QPushButton(self.tr("Cancel"))
        self._cancel.setProperty("kind", "small")
        self._cancel.setToolTip(self.tr("Stop loading the model"))
        self._cancel.clicked.connect(self.cancel_requested)
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._button)
        row.addWidget(self._bar)
        row.addWidget(self._cancel)
        row.addStretch(1)
        self._bar.hide()
        self._cancel.hide()
        self._button.set_label(self.tr("Choose a model"))
        self._button.setToolTip(self._usual_tool_tip())
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def label(self) -> str:
        """What the button says."""
        return self._button.label

    @property
    def cancel_button(self) -> QPushButton:
        """Gives up the load; visible while there is one."""
        return self._cancel

    def show_model(self, model: ModelSession) -> None:
        """Show where the model is."""
        name = isolated(shortened(model.label, 80))
        is_loading = model.state is ModelState.LOADING
        percent = round(model.progress * 100)
        labels = {
            ModelState.NOT_ASKED: self.tr("Choose a model"),
            ModelState.NONE: self.tr("Choose a model"),
            ModelState.CHOOSING: self.tr("Looking for the model …"),
            ModelState.LOADING: self.tr("Loading {name} · {percent} %").format(
                name=name,
                percent=f"{percent:\u2007>2}",  # as wide as a digit: what stands beside it stays in place
            ),
            ModelState.READY: name,
            ModelState.FAILED: self.tr("No model loaded"),
            ModelState.DEAD: self.tr("{name} · not loaded").format(name=name) if name else self.tr("No model loaded"),
        }
        self._button.set_label(labels[model.state])
        self._bar.setVisible(is_loading)
        self._bar.setValue(percent)
        self._cancel.setVisible(model.is_busy)
        path = str(model.chosen.path) if model.chosen else ""
        self._button.setToolTip(tool_tip_text(path) if path else self._usual_tool_tip())

    def remember(self, model: str) -> None:
        """Offer a model again from now on."""
        self._recent = [model, *(known for known in self._recent if known != model)][:_MAX_RECENT]

    def menu(self) -> QMenu:
        """Return the menu of models."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        starter = self._starter()
        label = self.tr("{name}  (starter)").format(name=action_text(starter.label))
        menu.addAction(label, lambda: self.model_chosen.emit(starter.name))
        recent = [model for model in self._recent if model != starter.name]
        if recent:
            menu.addSeparator()
        for path in recent:
            action = menu.addAction(action_text(shortened(Path(path).stem, 60)))
            action.setToolTip(tool_tip_text(path))
            action.triggered.connect(lambda _=False, path=path: self.model_chosen.emit(path))
        menu.addSeparator()
        menu.addAction(self.tr("All models …"), self.models_requested.emit)
        menu.addAction(self.tr("Open a file …"), self.open_file)
        return menu

    def open_menu(self) -> None:
        """Show the menu above the button."""
        menu = self.menu()
        top = self._button.mapToGlobal(self._button.rect().topLeft())
        top.setY(top.y() - menu.sizeHint().height())
        menu.popup(top)

    def open_file(self) -> None:
        """Ask for a model file."""
        kinds = f"{self.tr('GGUF models')} (*.gguf);;{self.tr('All files')} (*)"
        ask_for_file(self.window(), self.tr("Open a model"), self._on_file_chosen, kinds=kinds, folder=self._folder)

    def _on_theme_changed(self) -> None:
        self._bar.setFixedWidth(self._theme.px(90))
        self._row.setSpacing(self._theme.px(6))

    def _usual_tool_tip(self) -> str:
        key = QKeySequence("Ctrl+L").toString(QKeySequence.SequenceFormat.NativeText)
        return self.tr("Choose a model ({key})").format(key=key)

    def _on_file_chosen(self, path: str) -> None:
        self._folder = str(Path(path).parent)
        self.model_chosen.emit(path)
