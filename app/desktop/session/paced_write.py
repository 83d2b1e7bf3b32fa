"""PacedWrite: of writes that follow one another soon, makes the first at once and the others as one."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

PAUSE_MS = 500


class PacedWrite(QObject):
    """Paces one write, which takes whatever holds when it is made.

    Args:
        write: makes it.
    """

    def __init__(self, write: Callable[[], None], parent: QObject) -> None:
        super().__init__(parent)
        self._write = write
        self._is_due = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(PAUSE_MS)
        self._timer.timeout.connect(self._on_timeout)

    def ask(self) -> None:
        """Have it made, now or within the pause."""
        if self._timer.isActive():
            self._is_due = True
        else:
            self._write()
            self._timer.start()

    def flush(self) -> None:
        """Make it now, if it is still to be made."""
        if self._is_due:
            self._is_due = False
            self._write()

    def _on_timeout(self) -> None:
        if self._is_due:
            self.flush()
            self._timer.start()
