"""PrivateRecorder: what a private chat is written with, which writes nothing."""

from PySide6.QtCore import QObject

from app.desktop.session.chat_recorder import ChatRecorder, Write


class PrivateRecorder(ChatRecorder):
    """Takes writes and drops them; its store is never there, so the engine is told to write nothing either."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.close()

    def write(self, write: Write, *, is_listed: bool = True, key: str = "") -> None:
        """Let the list of chats be told, and nothing else."""
        if is_listed:
            self.recorded.emit()
