"""TopBar: title of the chat, and the buttons of the window."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel

_EMPTY_TITLE = "New chat"


class TopBar(QFrame):
    """A line above the conversation.

    Signals:
        new_chat_requested, menu_requested: the buttons.
        inspector_toggled: whether it should be seen.
    """

    new_chat_requested = Signal()
    menu_requested = Signal()
    inspector_toggled = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("topBar")
        self._title = ElidedLabel()
        self._title.setProperty("role", "title")
        self.new_chat = GlyphButton(theme, "plus", "New chat (Ctrl+N)", size=32)
        self.inspector = GlyphButton(theme, "panel", "Inspector (Ctrl+I)", size=32)
        self.inspector.setCheckable(True)
        self.menu_button = GlyphButton(theme, "dots", "Menu", size=32)
        self._row = QHBoxLayout(self)
        self._row.addWidget(self._title, 1)
        for button in (self.new_chat, self.inspector, self.menu_button):
            self._row.addWidget(button)
        self.new_chat.clicked.connect(self.new_chat_requested)
        self.inspector.clicked.connect(self.inspector_toggled)
        self.menu_button.clicked.connect(self.menu_requested)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self.set_title("")

    @property
    def title(self) -> str:
        """The title as it is shown where there is room."""
        return self._title._whole

    def set_title(self, text: str) -> None:
        """Show a title; empty for a chat without messages."""
        title = isolated(shortened(text, 200)) or _EMPTY_TITLE
        self._title.set_whole(title)
        self._title.setToolTip(tool_tip_text(title))

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self.setFixedHeight(px(44))
        self._row.setContentsMargins(px(20), 0, px(8), 1)
        self._row.setSpacing(px(4))
