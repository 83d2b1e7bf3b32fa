"""One window for each folder of chats: a later start hands over what it was asked to open, and ends.

A lock file in the folder says whose the chats are; it must be taken before they are opened. Beside it lies a local
socket, through which a later start speaks to the window. What comes over it is untrusted.
"""

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import time
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QDeadlineTimer, QLockFile, QObject, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app.errors import WindowNotAnswering

MAX_MESSAGE_BYTES = 64 * 1024
LOCK_NAME = "window.lock"

_LOG = logging.getLogger(__name__)
_ANSWER = b"ok\n"
_ANSWER_S = 2.0
# A window that is on its way reads its first message late; it is no sign that it hangs.
_START_S = 15.0
_RETRY_S = 0.02
# Between taking the lock and listening there are microseconds; a lock without a listener for this long is left over.
_SILENT_S = 0.5
_READ_MS = 2000
_MAX_SOCKET_PATH = 100  # of 104 to 108 bytes that systems allow


class Claim(QObject):
    """The chats of a folder are this window's, until `close`; later starts wait until `answer` is called.

    Args:
        lock: held; None where the folder cannot hold one.
        server: listening; None where nobody can speak to this window.

    Signals:
        raised: a later start wants this window in front, and the model it was given, which may be empty.
    """

    raised = Signal(str)

    def __init__(self, lock: QLockFile | None, server: QLocalServer | None) -> None:
        super().__init__()
        self._lock = lock
        self._server = server
        if server is not None:
            server.setParent(self)

    def answer(self) -> None:
        """Answer later starts from now on, and those that wait already."""
        if self._server is not None:
            self._server.newConnection.connect(self._on_connection)
            self._on_connection()

    def stop_listening(self) -> None:
        """Let later starts wait until the chats are free, which should be soon."""
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Give the chats free."""
        self.stop_listening()
        if self._lock is not None:
            self._lock.unlock()

    def _on_connection(self) -> None:
        while self._server is not None and (socket := self._server.nextPendingConnection()) is not None:
            visit = _Visit(socket, self)
            visit.asked.connect(self.raised)
            visit.begin()


class _Visit(QObject):
    """One later start that speaks to this window.

    Signals:
        asked: it wants this model, which may be empty.
    """

    asked = Signal(str)

    def __init__(self, socket: QLocalSocket, parent: QObject) -> None:
        super().__init__(parent)
        self._socket = socket
        self._data = b""
        socket.setParent(self)
        socket.setReadBufferSize(MAX_MESSAGE_BYTES + 1)
        socket.readyRead.connect(self._on_readable)
        socket.disconnected.connect(self.deleteLater)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._end)

    def begin(self) -> None:
        """Read what it says."""
        self._timer.start(_READ_MS)
        self._on_readable()

    def _on_readable(self) -> None:
        self._data += self._socket.readAll().data()
        if len(self._data) > MAX_MESSAGE_BYTES:
            _LOG.info("a message to the window was too long")
            self._end()
        elif self._data.endswith(b"\n"):
            model = read_message(self._data)
            self._data = b""
            if model is not None:
                self._socket.write(_ANSWER)
                self._socket.flush()
                self.asked.emit(model)
            self._end()

    def _end(self) -> None:
        self._timer.stop()
        self._socket.disconnectFromServer()
        self.deleteLater()


def claim(data_dir: Path, *, model: str | None, starting_s: float = _START_S) -> Claim | None:
    """Take the chats in a folder for this window, or let the window that has them show itself and return None.

    Args:
        model: what the user asked to load; handed over as an absolute path.
        starting_s: how long after it took the chats a window may be deaf because it only begins.

    Raises:
        WindowNotAnswering: another process has the chats and says nothing.
    """
    with contextlib.suppress(OSError):
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = QLockFile(str(data_dir / LOCK_NAME))
    lock.setStaleLockTime(0)  # however long a window is open; one whose process is gone is told by that
    began = time.monotonic()
    silent_since: float | None = None
    while True:
        if lock.tryLock(0):
            return Claim(lock, _listen(data_dir))
        if lock.error() is not QLockFile.LockError.LockFailedError:
            _LOG.warning("%s cannot be locked: %s", data_dir, lock.error())
            return Claim(None, None)
        patience = max(_ANSWER_S - (time.monotonic() - began), starting_s - _age_s(data_dir / LOCK_NAME))
        if patience <= 0:
            break
        was_heard = _hand_over(data_dir, model, patience)
        if was_heard:
            return None
        if was_heard is None:  # nobody listens: that window ends, begins, or is gone and its number taken by another
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > _SILENT_S:
                lock.removeStaleLockFile()  # refuses while the process that holds it lives
            time.sleep(_RETRY_S)
    say = QCoreApplication.translate
    raise WindowNotAnswering(
        say("SingleInstance", "Fireside is open already, and its window does not answer."),
        say("SingleInstance", "Wait until it does, or end it and start again."),
    )


def read_message(data: bytes) -> str | None:
    """Return the model that a message names, empty where it names none; None if it is no message."""
    try:
        message = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    model = message.get("model", "") if isinstance(message, dict) else None
    if not isinstance(model, str):
        return None
    # Halves of surrogates would be dropped on the way through a signal, and the rest would name another file.
    return model.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def message_for(model: str | None) -> bytes:
    """Return the message that asks a window to come to the front, and to load a model."""
    if not model:
        wanted = ""
    else:
        path = Path(model).expanduser()
        # A name that is no file here means something to the program, such as `starter`.
        wanted = str(path.absolute()) if path.exists() or len(path.parts) > 1 or path.suffix else model
    return json.dumps({"model": wanted}).encode() + b"\n"


def _hand_over(data_dir: Path, model: str | None, patience_s: float) -> bool | None:
    """Speak to the window; tell whether it was heard, None where nobody listens."""
    deadline = QDeadlineTimer(round(patience_s * 1000))
    for name in _socket_names(data_dir):
        socket = QLocalSocket()
        if not _is_own(name):
            continue
        socket.connectToServer(name)
        if not socket.waitForConnected(max(1, deadline.remainingTime())):
            continue
        socket.write(message_for(model))
        answer = b""
        while not answer.endswith(b"\n") and not deadline.hasExpired():
            if not socket.waitForReadyRead(max(1, deadline.remainingTime())):
                break
            answer += socket.readAll().data()
        is_connected = socket.state() is QLocalSocket.LocalSocketState.ConnectedState
        socket.abort()
        if answer == _ANSWER:
            return True
        return False if is_connected else None
    return None


def _listen(data_dir: Path) -> QLocalServer | None:
    for name in _socket_names(data_dir):
        QLocalServer.removeServer(name)  # of a process that was killed; the lock says that none lives
        server = QLocalServer()
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        if server.listen(name):
            return server
        _LOG.info("cannot listen at %s: %s", name, server.errorString())
    _LOG.warning("a second start will not be able to show this window")
    return None


def _socket_names(data_dir: Path) -> list[str]:
    """Return where the window may listen, best first: in its own folder, which is closed to other users."""
    real = os.path.realpath(data_dir)
    user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    digest = hashlib.sha256(f"{user}\0{real}".encode(errors="surrogateescape")).hexdigest()[:24]
    name = f"fireside-{digest}"
    if os.name == "nt":
        return [name]
    inside = f"{real}/window.socket"
    names = [inside] if len(os.fsencode(inside)) < _MAX_SOCKET_PATH else []
    return [*names, f"{tempfile.gettempdir()}/{name}"]


def _is_own(name: str) -> bool:
    """Tell whether a socket is there and this user's: in a shared folder another one may have put it."""
    if os.name == "nt":
        return True
    with contextlib.suppress(OSError):
        return Path(name).lstat().st_uid == os.getuid()
    return False


def _age_s(file: Path) -> float:
    """Return how long ago a file was written; for ever where it is gone or of the future."""
    with contextlib.suppress(OSError):
        age = time.time() - file.stat().st_mtime
        return age if age >= 0 else float("inf")
    return float("inf")
