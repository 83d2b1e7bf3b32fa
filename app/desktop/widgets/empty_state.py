"""EmptyState: what a person sees before the first message: where things stand, and the one next step."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeySequence, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.model_session import ModelSession, ModelState
from app.desktop.theme.theme import Theme
from app.desktop.widgets.plain_label import plain_label

_MAX_LINE = 600


class EmptyState(QWidget):
    """A headline, one line on the model, and buttons only where a model is missing.

    Signals:
        open_requested: choose a model file.
        starter_requested: take the starter model.
    """

    open_requested = Signal()
    starter_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._headline = _centred("headline")
        self._lead = _centred("lead")
        self._hint = _centred("muted")
        self._welcome = _centred("muted")
        self._welcome.hide()
        self._is_first_run: bool | None = None
        self._is_private = self._is_inviting = False
        self._starter = QPushButton(self.tr("Use the starter model"))
        self._starter.setProperty("kind", "primary")
        self._open = QPushButton(self.tr("Open a model file …"))
        self._open.setProperty("kind", "outline")
        self._starter.clicked.connect(self.starter_requested)
        self._open.clicked.connect(self.open_requested)
        self._buttons = QWidget()
        row = QHBoxLayout(self._buttons)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch()
        row.addWidget(self._starter)
        row.addWidget(self._open)
        row.addStretch()
        self._box = box = QVBoxLayout(self)
        box.addStretch(2)
        for widget in (self._headline, self._lead, self._hint, self._welcome, self._buttons):
            box.addWidget(widget)
        box.addStretch(3)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self._buttons.hide()
        self._invite("")

    @property
    def text(self) -> str:
        """All that is said."""
        return "\n".join(label.text() for label in self._labels() if label.text().strip())

    def set_first_run(self, is_first: bool) -> None:
        """Explain the starter model to somebody who has not used it; once over, the first run does not come back."""
        if self._is_first_run is None or not is_first:
            self._is_first_run = is_first
        self._welcome.setText(self._welcome_text() if self._is_first_run else "")
        self._fit()

    def event(self, event: QEvent) -> bool:
        """See QWidget; the first message hides it, which ends the first run."""
        if event.type() == QEvent.Type.HideToParent and self._is_first_run:
            self.set_first_run(False)
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._fit()

    def show_model(self, model: ModelSession) -> None:
        """Say where the model is."""
        name = isolated(shortened(model.label, 60))
        error = model.error
        needs_model = model.state in (ModelState.FAILED, ModelState.NONE)
        self._buttons.setVisible(needs_model)
        if needs_model:
            self._is_inviting = False
            message = self.tr("Choose one to begin.") if error is None else shortened(error.message, 300)
            self._set(self.tr("No model is loaded"), message, "" if error is None else shortened(error.hint, 300))
        elif model.state is ModelState.LOADING:
            self._invite(self.tr("{name} is loading. You can write already.").format(name=name))
        else:
            self._invite("")

    def set_private(self, is_private: bool) -> None:
        """Say what a private chat is, where this is one."""
        if is_private != self._is_private:
            self._is_private = is_private
            if self._is_inviting:
                self._invite(self._hint.text().strip())

    def _invite(self, hint: str) -> None:
        self._is_inviting = True
        if self._is_private:
            lead = self.tr(
                "Nothing of it is written to disk. It is kept in memory only, and gone when you close it, or Fireside."
            )
            self._set(self.tr("A private chat"), lead, hint)
            return
        promise = self.tr("The model runs on this computer. What you write stays here.")
        self._set(self.tr("What can I help with?"), promise, hint)

    def _welcome_text(self) -> str:
        key = QKeySequence("Ctrl+L").toString(QKeySequence.SequenceFormat.NativeText)
        return self.tr(
            "Fireside begins with a very small model: it answers at once, and knows little. For better answers, "
            "choose a larger model, a .gguf file, with the button below the message or {key}."
        ).format(key=key)

    def _labels(self) -> tuple[QLabel, ...]:
        return (self._headline, self._lead, self._hint, self._welcome)

    def _set(self, headline: str, lead: str, hint: str) -> None:
        for label, text in ((self._headline, headline), (self._lead, lead), (self._hint, hint)):
            label.setText(text)
        # Keeps its line, so that the headline does not move when the model is loaded.
        self._hint.setText(hint or " ")
        self._fit()

    def _fit(self) -> None:
        """Keep lines short, and leave out what there is no room for, the least important first."""
        px = self._theme.px
        side = max(px(24), (self.width() - px(_MAX_LINE)) // 2)
        self._box.setContentsMargins(side, px(10), side, px(10))
        margins = self._box.contentsMargins()
        width = self.width() - margins.left() - margins.right()
        room = self.height() - margins.top() - margins.bottom()
        if not self._buttons.isHidden():
            room -= self._buttons.sizeHint().height() + self._box.spacing()
        for label in (self._headline, self._lead, self._hint, self._welcome):
            room -= label.heightForWidth(width) + self._box.spacing() if label.text() else 0
            label.setVisible(room >= 0 and (label is not self._welcome or bool(self._is_first_run)))

    def _on_theme_changed(self) -> None:
        self._box.setSpacing(self._theme.px(10))
        self._fit()


def _centred(role: str) -> QLabel:
    label = plain_label(role=role)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    return label
