"""The one log file of this program: rotating, UTF-8, and silent about its own troubles."""

import contextlib
import faulthandler
import logging
import logging.handlers
from typing import TextIO

from app.paths import Paths

_MAX_BYTES = 2 << 20
_NUM_OLD_FILES = 3
_FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"


class _QuietHandler(logging.handlers.RotatingFileHandler):
    """A full disk must not print into the user's terminal, nor end the program."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Drop the record."""


def start_log(paths: Paths, *, debug: bool = False) -> logging.Handler | None:
    """Send all logging into the log file; return its handler, or None where it cannot be written."""
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    try:
        paths.logs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        handler = _QuietHandler(
            paths.log_file, maxBytes=_MAX_BYTES, backupCount=_NUM_OLD_FILES, encoding="utf-8", errors="backslashreplace"
        )
    except (OSError, ValueError):
        # Without a handler, logging would print warnings to standard error.
        root.addHandler(logging.NullHandler())
        return None
    handler.setFormatter(logging.Formatter(_FORMAT))
    root.addHandler(handler)
    return handler


def start_fault_log(paths: Paths) -> TextIO | None:
    """Write the stacks of a native crash into a file that stays open; return it, or None where it cannot be written.

    It is not the log file: rotation would close the descriptor, and a crash write into whatever came to hold it.
    """
    try:
        file = (paths.logs_dir / "faults.log").open("a", encoding="utf-8")
    except (OSError, ValueError):
        return None
    faulthandler.enable(file)
    return file


def stop_log(handler: logging.Handler | None) -> None:
    """Close the log file."""
    if handler is not None:
        logging.getLogger().removeHandler(handler)
        with contextlib.suppress(OSError):  # a full disk says so again when the file is closed
            handler.close()
