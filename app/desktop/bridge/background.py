"""Calls that must not run on the window's thread: files, long lexing."""

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, Signal, Slot

_T = TypeVar("_T")


class Background(QObject):
    """Runs calls on threads of their own and hands the outcome back on the window's thread.

    The threads are daemons: a call that hangs on a dead network drive must not keep the program from ending.
    """

    _done = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._is_closed = False
        self._done.connect(self._on_done, Qt.ConnectionType.QueuedConnection)

    def run(
        self, call: Callable[[], _T], on_result: Callable[[_T], None], on_error: Callable[[Exception], None]
    ) -> None:
        """Run `call`; exactly one of the callbacks follows, unless the window closes before."""

        def work() -> None:
            try:
                result = call()
            except Exception as error:
                self._hand_over(functools.partial(on_error, error))
            else:
                self._hand_over(functools.partial(on_result, result))

        threading.Thread(target=work, name="window-background", daemon=True).start()

    def close(self) -> None:
        """Drop the outcomes of calls that still run."""
        self._is_closed = True

    def _hand_over(self, outcome: Callable[[], None]) -> None:
        if not self._is_closed:
            self._done.emit(outcome)

    @Slot(object)
    def _on_done(self, outcome: Any) -> None:
        if not self._is_closed:
            outcome()
