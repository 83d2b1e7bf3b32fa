"""Translations of the window: installs the one of the system's language where there is a file for it."""

import logging
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QLocale, QTranslator

_FOLDER = Path(__file__).resolve().parent / "translations"
_LOG = logging.getLogger(__name__)


def install_translation(
    application: QCoreApplication, locale: QLocale | None = None, folder: Path = _FOLDER
) -> QTranslator | None:
    """Translate what is shown from now on, and return what translates; None where everything stays English.

    Args:
        locale: whose language is wanted; None takes the system's.
        folder: holds files named `fireside_de.qm`, `fireside_pt_BR.qm` and so on; it need not exist.
    """
    if not folder.is_dir():
        return None
    translator = QTranslator(application)
    if not translator.load(locale or QLocale.system(), "fireside", "_", str(folder)):
        translator.deleteLater()
        return None
    application.installTranslator(translator)
    _LOG.info("the window is translated to %s", translator.language())
    return translator
