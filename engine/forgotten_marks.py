"""What was forgotten, and when: empty files in a folder of the prompt cache, for all processes that share it.

A process that still holds what another one was told to forget would write it again when it ends. So what is forgotten
leaves a mark, and what was last in use before that is not written any more. A mark says of what it is only to those
who know both the folder's key and the name.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

_SUFFIX = ".gone"
_KEPT_S = 90 * 24 * 3600.0  # longer than a process runs that has not seen it
_ALL = "all"


def marks_of(chat_ids: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return what marks are called by that are of chats, and of names under which something is kept."""
    return [f"chat {chat_id}" for chat_id in chat_ids if chat_id] + [f"name {name}" for name in names if name]


class ForgottenMarks:
    """The marks in one folder.

    Args:
        path: of the folder.
        key: of the folder.
    """

    def __init__(self, path: Path, key: bytes) -> None:
        self._path = path
        self._key = key

    def set(self, whats: Iterable[str] | None, at: float) -> None:
        """Mark that something, or all, was forgotten; what cannot be marked is forgotten by this process alone.

        Args:
            at: seconds since 1970.
        """
        for what in [_ALL] if whats is None else whats:
            path = self._file(what)
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
                os.utime(path, (at, at))

    def is_forgotten(self, chat_id: str, name: str, used_at: float) -> bool:
        """Whether a chat, or what is kept under a name, was forgotten since it was last in use; both may be empty."""
        return any(self._is_after(what, used_at) for what in (_ALL, *marks_of([chat_id], [name])))

    def tidy(self) -> None:
        """Delete old marks; one by a clock that was ahead is of now."""
        now = time.time()
        for path in self._path.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                made_at = path.stat().st_mtime
                if made_at < now - _KEPT_S:
                    path.unlink(missing_ok=True)
                elif made_at > now:
                    os.utime(path, (now, now))

    def _is_after(self, what: str, used_at: float) -> bool:
        try:
            return self._file(what).stat().st_mtime >= used_at
        except OSError:
            return False

    def _file(self, what: str) -> Path:
        data = what.encode("utf-8", "surrogatepass")
        return self._path / f"{hashlib.blake2b(data, key=self._key, digest_size=16).hexdigest()}{_SUFFIX}"
