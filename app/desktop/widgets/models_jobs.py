"""JobStrips: what the Models page is busy with, and how it ended: a calm line for each, with a way to stop it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.look import set_look
from app.desktop.theme.theme import Theme
from app.desktop.widgets.plain_label import plain_label

_MAX_CHARS = 500
_STEPS = 1000


class JobStrip(QFrame):
    """One job.

    Signals:
        cancel_requested: it is to be given up.
        dismissed: its outcome was read.
    """

    cancel_requested = Signal()
    dismissed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("jobStrip")
        self._text = plain_label()
        self._hint = plain_label(role="muted")
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, _STEPS)
        self.cancel_button = QPushButton(self.tr("Cancel"))
        self.cancel_button.setProperty("kind", "outline")
        self.close_button = GlyphButton(theme, "close", self.tr("Dismiss"), size=24)
        self._texts = QVBoxLayout()
        for part in (self._text, self.bar, self._hint):
            self._texts.addWidget(part)
        self._row = QHBoxLayout(self)
        self._row.addLayout(self._texts, 1)
        self._row.addWidget(self.cancel_button, 0, Qt.AlignmentFlag.AlignVCenter)
        self._row.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        self.cancel_button.clicked.connect(self.cancel_requested)
        self.close_button.clicked.connect(self.dismissed)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def text(self) -> str:
        """What it says, hint included."""
        return f"{self._text.text()} {self._hint.text()}".strip()

    @property
    def is_running(self) -> bool:
        """Whether it goes on."""
        return not self.cancel_button.isHidden()

    def show_running(self, text: str, share: float | None) -> None:
        """Show how far it is; None where that is not known."""
        self._say(text, "", role="")
        if share is not None:
            self.bar.setValue(round(min(max(share, 0.0), 1.0) * _STEPS))
        self.bar.setAccessibleName(text)
        self._set_running(is_running=True)
        self.bar.setVisible(share is not None)

    def show_outcome(self, text: str, hint: str, *, is_error: bool) -> None:
        """Show how it ended."""
        had_focus = self.cancel_button.hasFocus()
        self._say(text, hint, role="error" if is_error else "")
        self._set_running(is_running=False)
        if had_focus:
            self.close_button.setFocus()

    def _say(self, text: str, hint: str, *, role: str) -> None:
        self._text.setText(isolated(shortened(text, _MAX_CHARS)))
        self._hint.setText(isolated(shortened(hint, _MAX_CHARS)))
        self._hint.setVisible(bool(hint))
        set_look(self._text, "role", role)

    def _set_running(self, *, is_running: bool) -> None:
        self.bar.setVisible(is_running)
        self.cancel_button.setVisible(is_running)
        self.close_button.setVisible(not is_running)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._row.setContentsMargins(px(14), px(8), px(8), px(8))
        self._row.setSpacing(px(10))
        self._texts.setSpacing(px(4))


class JobStrips(QWidget):
    """A strip for each job; takes no place while there are none.

    Signals:
        cancel_requested: key of a job.
    """

    cancel_requested = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._strips: dict[str, JobStrip] = {}
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self.hide()
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def strip(self, key: str) -> JobStrip | None:
        """Return the strip of a job."""
        return self._strips.get(key)

    def show_running(self, key: str, text: str, share: float | None) -> None:
        """Show how far a job is."""
        self._of(key).show_running(text, share)

    def show_outcome(self, key: str, text: str, hint: str = "", *, is_error: bool = False) -> None:
        """Show how a job ended, until that is dismissed."""
        self._of(key).show_outcome(text, hint, is_error=is_error)

    def dismiss(self, key: str) -> None:
        """Take a strip away."""
        strip = self._strips.pop(key, None)
        if strip is not None:
            self._box.removeWidget(strip)
            strip.hide()
            strip.deleteLater()
        self.setVisible(bool(self._strips))

    def _of(self, key: str) -> JobStrip:
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = JobStrip(self._theme)
            strip.cancel_requested.connect(lambda: self.cancel_requested.emit(key))
            strip.dismissed.connect(lambda: self.dismiss(key))
            self._box.addWidget(strip)
            self.show()
        return strip

    def _on_theme_changed(self) -> None:
        self._box.setSpacing(self._theme.px(6))
