"""What keys are called on this platform, and as the settings and the documents call them."""

import sys

from PySide6.QtGui import QKeySequence

_IS_MAC = sys.platform == "darwin"


def key_name(key: str) -> str:
    """Return how a key, as Qt writes it, is shown: "Return" is Enter, but for a Mac, which has a sign of its own."""
    written = key if _IS_MAC else key.replace("Return", "Enter")
    return QKeySequence(written).toString(QKeySequence.SequenceFormat.NativeText)
