"""What one worker keeps of prompts, whichever model is loaded: limits, the folder of snapshots, the chats it knew."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.backend import StateKeys
from engine.errors import CacheNotWritten
from engine.free_memory import free_memory
from engine.messages import KeptPrompt
from engine.metrics import CacheMissCause, CacheSource
from engine.params import CacheParams
from engine.response_cache import MAX_BYTES, ResponseCache
from engine.snapshot_folder import SnapshotFolder

_LOG = logging.getLogger(__name__)
_MIB = 1 << 20
_FREE_SHARE = 4  # of the free memory: one in so many parts
_MAX_CHATS = 1024
_CLOSE_S = 1.0  # that writing may take when the worker ends: the window waits for one and a half seconds

NOTHING_KEPT = CacheParams(ram_mib=0)


class PromptCache:
    """Limits and folder of one worker.

    Args:
        on_refused: told once, on another thread, that nothing can be kept on disk.

    Attributes:
        folder: None where nothing is written.
        responses: whole replies.
    """

    def __init__(
        self,
        params: CacheParams = NOTHING_KEPT,
        *,
        on_refused: Callable[[CacheNotWritten], object] = lambda error: None,
    ) -> None:
        self._on_refused = on_refused
        self._is_refusal_told = False
        self.params = NOTHING_KEPT
        self.folder: SnapshotFolder | None = None
        self.responses = ResponseCache()
        self._known: OrderedDict[str, StateKeys] = OrderedDict()
        self._used_at: OrderedDict[str, float] = OrderedDict()
        self.set_params(params)

    def set_params(self, params: CacheParams) -> None:
        """Keep to other limits from now on; a limit of no bytes on disk deletes what is there."""
        before, self.params = self.params, params
        max_bytes = None if params.disk_mib is None else params.disk_mib * _MIB
        self.responses.set_on(
            params.responses,
            Path(params.folder) if params.folder else None,
            max_disk_bytes=MAX_BYTES if max_bytes is None else max_bytes,
            close_s=_CLOSE_S,
        )
        if (params.folder, params.disk_mib) == (before.folder, before.disk_mib):
            return
        if self.folder is not None and params.folder == before.folder and params.disk_mib != 0:
            self.folder.set_max_bytes(max_bytes)  # replies go on meanwhile: closing would wait for the disk
            return
        self._close_folder()
        if params.folder:
            self.folder = SnapshotFolder(Path(params.folder), max_bytes=max_bytes, on_refused=self._tell_refused)
        if params.disk_mib == 0:
            self._close_folder()

    def ram_bytes(self) -> int:
        """Return the bytes that snapshots in memory may take."""
        ram_mib = self.params.ram_mib
        return free_memory().resident_bytes // _FREE_SHARE if ram_mib is None else ram_mib * _MIB

    def note_chat(self, chat_id: str | None, keys: StateKeys) -> None:
        """Note with what a chat was computed last."""
        if chat_id is not None:
            self._known.pop(chat_id, None)
            self._known[chat_id] = keys
            if len(self._known) > _MAX_CHATS:
                self._known.popitem(last=False)

    def note_use(self, chat_id: str | None, at: float) -> None:
        """Note when the newest request of a chat came, in seconds since 1970."""
        if chat_id is not None:
            self._used_at.pop(chat_id, None)
            self._used_at[chat_id] = at
            if len(self._used_at) > _MAX_CHATS:
                self._used_at.popitem(last=False)

    def used_at(self, chat_id: str) -> float:
        """Return when the newest request of a chat came, in seconds since 1970; 0 where that is not known."""
        return self._used_at.get(chat_id, 0.0)

    def first_cause(self, chat_id: str | None, keys: StateKeys) -> CacheMissCause:
        """Return why nothing is known of a chat since the model was loaded."""
        if chat_id is None:
            return CacheMissCause.FIRST_USE
        if self.folder is not None and self.folder.has_lost(chat_id):
            return CacheMissCause.DAMAGED
        before = self._known.get(chat_id)
        if before is None:
            return CacheMissCause.FIRST_USE
        if before.model == keys.model and before.settings != keys.settings:
            return CacheMissCause.SETTINGS_CHANGED
        return CacheMissCause.MODEL_RELOADED

    def describe(self) -> list[KeptPrompt]:
        """Return what the folder holds."""
        if self.folder is None:
            return []
        return [
            KeptPrompt(
                source=CacheSource.DISK,
                model_name=entry.model_name,
                num_tokens=len(entry.tokens),
                num_bytes=entry.num_bytes,
                chat_id=entry.chat_id or None,
                last_used=entry.last_used,
                name=entry.label,
            )
            for entry in self.folder.entries
        ]

    def forget(self, chat_ids: Iterable[str]) -> None:
        """Delete the files of chats, and drop their replies."""
        gone = list(chat_ids)
        for chat_id in gone:
            self._known.pop(chat_id, None)
        if self.folder is not None:
            self.folder.forget(gone)
        self.responses.forget(gone)

    def forget_named(self, names: Iterable[str]) -> None:
        """Delete the files that are kept under names."""
        if self.folder is not None:
            self.folder.forget_named(names)

    def clear(self) -> None:
        """Delete all files, and drop all replies."""
        if self.folder is not None:
            self.folder.clear()
        self.responses.clear()

    def when_forgotten(self, call: Callable[[], object]) -> None:
        """Call something once all is deleted that was to be; at once where it is, else on another thread."""
        if self.folder is None:
            self.responses.when_forgotten(call)
        else:
            self.folder.when_forgotten(lambda: self.responses.when_forgotten(call))

    def close(self) -> None:
        """Write what was handed over, as far as the time allows."""
        self._close_folder()
        self.responses.close(_CLOSE_S)

    def _tell_refused(self, refusal: CacheNotWritten) -> None:
        if not self._is_refusal_told:
            self._is_refusal_told = True
            self._on_refused(refusal)

    def _close_folder(self) -> None:
        folder, self.folder = self.folder, None
        if folder is not None:
            began = time.monotonic()
            folder.close(_CLOSE_S)
            _LOG.info("the folder of snapshots was closed after %.2f s", time.monotonic() - began)
