"""Where a report of a comparison is to be saved, and as what."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QFileDialog, QWidget


def ask_report(parent: QWidget, save: Callable[[Path], None]) -> None:
    """Ask for a file, and have the report saved there; its kind follows from the ending of the name."""
    kinds = ";;".join(
        (
            f"{_tr('Report')} (*.html)",
            f"{_tr('Record')} (*.json)",
            f"{_tr('Table')} (*.csv)",
            f"{_tr('Text')} (*.md)",
        )
    )
    dialog = QFileDialog(parent, _tr("Save report"), "comparison.html", kinds)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix("html")
    dialog.fileSelected.connect(lambda path: save(Path(path)))
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()


def _tr(text: str) -> str:
    return QCoreApplication.translate("CompareReport", text)
