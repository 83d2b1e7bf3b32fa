"""TopBar: title of the chat, and the buttons of the window."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.plain_label import plain_label


class TopBar(QFrame):
    """A line above the conversation.

    Signals:
        new_chat_requested, compare_requested, menu_requested: the buttons.
        sidebar_toggled, inspector_toggled: show it, or hide it.
    """

    new_chat_requested = Signal()
    menu_requested = Signal()
    compare_requested = Signal()
    sidebar_toggled = Signal()
    inspector_toggled = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("topBar")
        self._title = ElidedLabel()
        self._title.setProperty("role", "title")
        self.sidebar = GlyphButton(theme, "sidebar", _with_key(self.tr("Chats"), "Ctrl+B"), size=32)
        self._private = plain_label(self.tr("Private"), role="badge")
        self._private.setWordWrap(False)
        self._private.setToolTip(
            self.tr("Nothing of this chat is written to disk. It is gone when you close it, or Fireside.")
        )
        self._private.setAccessibleDescription(self._private.toolTip())
        self._private.hide()
        self.new_chat = GlyphButton(theme, "plus", _with_key(self.tr("New chat"), "Ctrl+N"), size=32)
        self.compare = GlyphButton(theme, "columns", _with_key(self.tr("Compare models"), "Ctrl+Shift+M"), size=32)
        self.inspector = GlyphButton(theme, "panel", _with_key(self.tr("Inspector"), "Ctrl+I"), size=32)
        for button in (self.sidebar, self.compare, self.inspector):
            button.setCheckable(True)
        self.menu_button = GlyphButton(theme, "dots", self.tr("Menu"), size=32)
        self._row = QHBoxLayout(self)
        self._row.addWidget(self.sidebar)
        self._row.addWidget(self._private, 0, Qt.AlignmentFlag.AlignVCenter)
        self._row.addWidget(self._title, 1)
        for button in (self.new_chat, self.compare, self.inspector, self.menu_button):
            self._row.addWidget(button)
        self.compare.clicked.connect(self._on_compare)
        self.new_chat.clicked.connect(self.new_chat_requested)
        self.sidebar.clicked.connect(lambda: self.sidebar_toggled.emit())
        self.inspector.clicked.connect(lambda: self.inspector_toggled.emit())
        self.menu_button.clicked.connect(self.menu_requested)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self.set_title("")

    @property
    def title(self) -> str:
        """The title as it is shown where there is room."""
        return self._title.whole

    @property
    def is_private(self) -> bool:
        """Whether the chat is marked as private."""
        return not self._private.isHidden()

    def set_private(self, is_private: bool) -> None:
        """Mark the chat as private, or not."""
        self._private.setVisible(is_private)

    def set_title(self, text: str) -> None:
        """Show a title; empty for a chat without messages."""
        title = isolated(shortened(text, 200)) or self.tr("New chat")
        self._title.set_whole(title)
        self._title.setToolTip(tool_tip_text(title))

    def _on_compare(self) -> None:
        self.compare.toggle()  # checked while the page is shown, and that is not known yet
        self.compare_requested.emit()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self.setFixedHeight(px(44))
        self._row.setContentsMargins(px(8), 0, px(8), 1)
        self._row.setSpacing(px(4))


def _with_key(label: str, key: str) -> str:
    return f"{label} ({QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)})"
