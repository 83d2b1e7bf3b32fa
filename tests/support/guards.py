"""What every test is held to: it leaves no thread, process, timer or window behind and logs no warning unannounced.

Cheap enough for hundreds of tests, and imports no Qt: that half works only once a test has an application.
"""

import contextlib
import gc
import logging
import multiprocessing
import os
import re
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

GRACE_S = 2.0  # what ends is given this long to be gone
SESSION_VARIABLE = "FIRESIDE_TEST_SESSION"
_PROC = Path("/proc")
_IS_LINUX = sys.platform == "linux"


class LogGuard:
    """Collects what is logged at WARNING and above, from the place where records are made.

    A handler would not do: programs under test rearrange handlers, and a record can end before the root.
    """

    def __init__(self) -> None:
        self.records: list[logging.LogRecord] = []
        self._make: Callable[..., logging.LogRecord] = logging.getLogRecordFactory()

    def install(self) -> None:
        """Begin to listen."""
        self._make = logging.getLogRecordFactory()
        logging.setLogRecordFactory(self._record)

    def remove(self) -> None:
        """Stop listening."""
        logging.setLogRecordFactory(self._make)

    def _record(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._make(*args, **kwargs)
        # The level is None in a record that is about to be filled in from another one.
        if isinstance(record.levelno, int) and record.levelno >= logging.WARNING:
            self.records.append(record)
        return record

    def unexpected(self, allowed: list[str]) -> list[str]:
        """Return a line for each record since the last call that no pattern allows."""
        records, self.records = self.records, []
        lines = [f"{record.levelname} {record.name}: {record.getMessage()}" for record in records]
        return [f"logged {line}" for line in lines if not any(re.search(pattern, line) for pattern in allowed)]


class QtMessageGuard:
    """Collects Qt's own warnings where pytest-qt does not: it listens from set-up to call, and not while things end."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Listen inside this block, where a test has made an application."""
        qt = running_qt()
        if qt is None:
            yield
            return
        previous = qt[0].qInstallMessageHandler(self._handle)
        try:
            yield
        finally:
            qt[0].qInstallMessageHandler(previous)

    def _handle(self, kind: Any, _context: object, text: str) -> None:
        if kind.name not in ("QtDebugMsg", "QtInfoMsg"):
            self.messages.append(f"{kind.name}: {text}")

    def unexpected(self, allowed: list[str]) -> list[str]:
        """Return a line for each message since the last call that no pattern allows."""
        messages, self.messages = self.messages, []
        return [f"Qt said {text}" for text in messages if not any(re.search(pattern, text) for pattern in allowed)]


@dataclass
class Leftovers:
    """What was there before a test, and so is not the test's."""

    threads: set[threading.Thread] = field(default_factory=lambda: set(threading.enumerate()))
    processes: set[int] = field(default_factory=lambda: _process_ids())

    def find(self) -> list[str]:
        """Return a line for each thread and process that has come and does not go; processes are ended."""
        deadline = time.monotonic() + GRACE_S
        while True:
            threads = [thread for thread in threading.enumerate() if _is_left(thread) and thread not in self.threads]
            processes = self._new_processes()
            if not threads and not processes:
                return []
            if time.monotonic() >= deadline:
                break
            time.sleep(0.01)
        for pid in processes:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
        return [
            *(f"left thread {thread.name!r}" for thread in threads),
            *(f"left process {pid}: {command}" for pid, command in processes.items()),
        ]

    def _new_processes(self) -> dict[int, str]:
        new = _process_ids() - self.processes
        if not new:
            return {}
        multiprocessing.active_children()  # takes the exit codes of those that have ended
        tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
        new.discard(getattr(tracker, "_pid", None) or 0)  # the standard library's own, and it stays
        found = {pid: _command_if_ours(pid) for pid in new}
        return {pid: command for pid, command in found.items() if command}


def _is_left(thread: threading.Thread) -> bool:
    # A thread Python did not start (Qt's, libgomp's) gets a stand-in that is never taken off the list.
    return not isinstance(thread, threading._DummyThread)


def _process_ids() -> set[int]:
    if _IS_LINUX:
        return {int(name) for name in os.listdir(_PROC) if name.isdigit()}  # noqa: PTH208 - twice a test, so the fast way
    return {child.pid for child in psutil.Process().children(recursive=True)}


def _command_if_ours(pid: int) -> str:
    """Return the command line of a running process that a test started, however indirectly; nothing for any other."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""  # it has ended; that nobody asked for its exit code is for ResourceWarning to say
        command = " ".join(process.cmdline())[:200] or process.name()
        if not _IS_LINUX or process.ppid() == os.getpid():
            return command
        # Its parent may be gone: then the environment tells, or the process group where the environment was replaced.
        # Runs that share the tests share the group too, and what another one leaves for a moment is not ours.
        environment = (_PROC / f"{pid}/environ").read_bytes()
        if f"{SESSION_VARIABLE}=".encode() in environment:
            return command if f"{SESSION_VARIABLE}={os.environ.get(SESSION_VARIABLE)}".encode() in environment else ""
        return command if process.ppid() == 1 and os.getpgid(pid) == os.getpgrp() else ""
    except (psutil.Error, OSError):
        return ""  # gone meanwhile, or another user's


def mark_session() -> None:
    """Mark this process, so that what it starts can be told from all else on the machine."""
    os.environ[SESSION_VARIABLE] = secrets.token_hex(8)


def isolate_environment(home: Path) -> None:
    """Let no test, and no program a test starts, see the user's own files and settings."""
    runtime = home / "runtime"
    runtime.mkdir(parents=True)
    runtime.chmod(0o700)  # else Qt warns
    for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        if os.name == "nt" or name == "HOME":
            os.environ[name] = str(home)
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    for name in list(os.environ):
        is_place = name.startswith("XDG_") and name.endswith("_HOME")
        if is_place or name.startswith(
            ("HF_", "HUGGING", "OLLAMA_", "FIRESIDE_", "LLAMA_", "GGML_", "QT_STYLE", "QT_SCALE")
        ):
            del os.environ[name]
    # A program under test starts as an installed one: hundreds would compile the same files again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    if _IS_LINUX:
        os.environ["LC_ALL"] = "C.UTF-8"  # Qt warns in any locale that is not UTF-8


# --- Qt, once a test has an application ---


def running_qt() -> tuple[ModuleType, ModuleType, Any] | None:
    """Return QtCore, QtWidgets and the application, or None where no test has made one."""
    core, widgets = sys.modules.get("PySide6.QtCore"), sys.modules.get("PySide6.QtWidgets")
    if core is None or widgets is None:
        return None
    application = core.QCoreApplication.instance()
    return (core, widgets, application) if isinstance(application, widgets.QApplication) else None


@contextlib.contextmanager
def qt_leftovers(found: list[str]) -> Iterator[None]:
    """Note in `found` the windows and running timers that come inside this block and do not go."""
    before = {_address(widget) for widget in _top_level_widgets()}
    # What is frozen is left out when objects are listed: the list then holds what the test made, and is short.
    gc.freeze()
    try:
        yield
        found += _new_qt_objects(before)
    finally:
        gc.unfreeze()


def _new_qt_objects(before: set[int]) -> list[str]:
    qt = running_qt()
    if qt is None:
        return []
    core, _, application = qt
    lines: list[str] = []
    if not core.QThreadPool.globalInstance().waitForDone(int(GRACE_S * 1000)):
        lines.append("left work in Qt's thread pool")
    for attempt in range(3):
        core.QCoreApplication.sendPostedEvents(None, core.QEvent.Type.DeferredDelete.value)
        application.processEvents()
        widgets = [widget for widget in _top_level_widgets() if _address(widget) not in before and _is_own(widget)]
        timers = _active_timers(core)
        if not widgets and not timers:
            return lines
        if attempt == 0:
            gc.collect()  # a window in a reference cycle goes only now
    lines += [f"left window {type(widget).__name__} {widget.objectName()!r}" for widget in widgets]
    lines += [f"left timer of {timer.interval()} ms in {type(timer.parent()).__name__}" for timer in timers]
    for timer in timers:
        timer.stop()
    for widget in widgets:
        widget.hide()
        widget.deleteLater()
    application.processEvents()
    return lines


def _top_level_widgets() -> list[Any]:
    qt = running_qt()
    return list(qt[1].QApplication.topLevelWidgets()) if qt else []


def _is_own(widget: Any) -> bool:
    # Qt keeps one tool-tip window for a while, for whoever needs it next.
    return bool(widget.objectName() != "qtooltip_label" and widget.parent() is None)


def _active_timers(core: ModuleType) -> list[Any]:
    from shiboken6 import Shiboken

    # By the type and not by isinstance: that asks objects for their class, and some answer with an exception.
    timers = [thing for thing in gc.get_objects() if issubclass(type(thing), core.QTimer)]
    return [timer for timer in timers if Shiboken.isValid(timer) and timer.isActive()]


def _address(widget: Any) -> int:
    from shiboken6 import Shiboken

    return int(Shiboken.getCppPointer(widget)[0])
