"""Asking for a file, while the window can be used."""

from collections.abc import Callable

from PySide6.QtWidgets import QFileDialog, QWidget


def ask_for_file(parent: QWidget, title: str, then: Callable[[str], None], *, kinds: str, folder: str = "") -> None:
    """Let a person choose a file that exists, and hand its path on.

    Args:
        kinds: what is offered, in the form of QFileDialog.
        folder: where to begin.
    """
    dialog = QFileDialog(parent, title, folder, kinds)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.fileSelected.connect(then)
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
