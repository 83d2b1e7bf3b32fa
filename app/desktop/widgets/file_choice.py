"""FileChoice: one file that can be taken in use, with its box and a note below it."""

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.desktop.rendering.plain import BREAK, breakable
from app.desktop.theme.theme import Theme
from app.desktop.widgets.check_box import CheckBox
from app.desktop.widgets.param_row import new_note


class FileChoice(QWidget):
    """See above.

    Args:
        title: what a person calls the file, fit to be shown.
    """

    def __init__(self, theme: Theme, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.box = CheckBox(theme, title)
        self._note: QLabel | None = None
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addWidget(self.box)
        theme.changed.connect(self._on_theme_changed)

    @property
    def note(self) -> str:
        """What is said of it."""
        return self._note.text().replace(BREAK, "") if self._note is not None else ""

    @property
    def inputs(self) -> list[QWidget]:
        """What the Tab key reaches, in order."""
        return [self.box]

    def _say(self, text: str) -> None:
        self.box.setAccessibleDescription(text)
        if self._note is None:
            if not text:
                return
            self._note = new_note("meta")
            self._note.setMinimumWidth(1)
            self._layout.insertWidget(1, self._note)
            self._on_theme_changed()
        self._note.setText(breakable(text))
        self._note.setVisible(bool(text))

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._layout.setSpacing(px(2))
        if self._note is not None:
            self._note.setContentsMargins(px(30), 0, 0, px(4))
