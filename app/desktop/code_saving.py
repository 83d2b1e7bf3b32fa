"""CodeSaving: code of a reply as a file of the user's choice."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QWidget

from app.desktop.bridge.background import Background
from app.desktop.widgets.notices import Notice

_KEY = "code-saved"


class CodeSaving(QObject):
    """Asks where, writes beside the window's thread, and says what became of it."""

    def __init__(self, window: QWidget, background: Background, show_notice: Callable[[Notice], None]) -> None:
        super().__init__(window)
        self._window = window
        self._background = background
        self._show_notice = show_notice

    def ask(self, code: str, suggested_name: str) -> None:
        """Let the user choose a file for `code`; the window can be used meanwhile."""
        dialog = QFileDialog(self._window, self.tr("Save code"), suggested_name)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setFileMode(QFileDialog.FileMode.AnyFile)
        dialog.fileSelected.connect(lambda path: self.save(code, Path(path)))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def save(self, code: str, path: Path) -> None:
        """Write `code` as UTF-8, its line breaks as they are."""
        self._background.run(
            lambda: path.write_bytes(code.encode("utf-8", "replace")),
            lambda _: self._show_notice(Notice(key=_KEY, text=self.tr("The code is saved."), hint=str(path))),
            lambda error: self._on_failed(path, error),
        )

    def _on_failed(self, path: Path, error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        text = self.tr("The code could not be saved as {}.").format(path)
        self._show_notice(Notice(key=_KEY, text=text, hint=error.strerror or str(error), is_error=True))
