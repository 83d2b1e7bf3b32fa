"""Which files of the prompt cache are read, for which request, and how long a request waits for the disk."""

import concurrent.futures
import logging
import time
from array import array
from typing import NamedTuple

from engine.chat_saver import MIN_KEPT_TOKENS
from engine.coming_back import Reading
from engine.folder_entry import FileRead, FolderEntry
from engine.free_memory import has_memory
from engine.kv_cache import KVCache
from engine.opened_chat import OpenedChat
from engine.prompt_cache import PromptCache
from engine.prompt_store import PromptStore, reusable
from engine.reuse_cost import ReuseCost
from engine.sequence import Sequence
from engine.snapshot_folder import SnapshotFolder
from engine.usable_files import UsableFiles

_LOG = logging.getLogger(__name__)
_LEAST_DISK_WAIT_S = 2.0  # a disk that sleeps takes longer than one that does not
_LOOK_WAIT_S = 0.2  # for what other processes may have written: one time of change, as a rule


class _Awaited(NamedTuple):
    """A file that a request goes on from, by its name; `ends_at` of the monotonic clock, it is late."""

    name: str
    reading: Reading
    ends_at: float


class _Looking(NamedTuple):
    """A look for files that other processes have written, before a request reads what nobody here knows."""

    look: "concurrent.futures.Future[bool]"
    ends_at: float


class FileReads:
    """The reads of one context.

    Args:
        files: which of the folder's files the context can take.
        opened: whose file may be read already.
        can_cut: see PromptStore.
    """

    def __init__(
        self,
        cache: KVCache,
        store: PromptStore,
        prompt_cache: PromptCache,
        cost: ReuseCost,
        *,
        files: UsableFiles,
        opened: OpenedChat,
        can_cut: bool,
    ) -> None:
        self._cache = cache
        self._store = store
        self._prompt_cache = prompt_cache
        self._cost = cost
        self._files = files
        self._can_cut = can_cut
        self._looks: dict[str, _Looking] = {}  # by request
        self._reads: dict[str, _Awaited] = {}  # by request
        self._opened = opened

    def num_kept(self, sequence: Sequence) -> int:
        """Return how many tokens of a prompt slots or memory can give."""
        in_slots = self._cache.longest_prefix(sequence.prompt_tokens, sequence.adapters).num_covered
        match = self._store.find(array("i", sequence.prompt_tokens), sequence.adapters)
        return max(in_slots, match.num_covered if match else 0)

    def expect(self, sequence: Sequence) -> None:
        """Begin to read a file that a request can go on from, if that is the best there is.

        Where much of it is nowhere, other processes may have written it meanwhile: the folder is looked at.
        """
        folder = self._prompt_cache.folder
        if folder is None or sequence.is_reproducible or not self._prompt_cache.params.reuse:
            return
        num_unread = self._begin(sequence, folder)
        if num_unread >= MIN_KEPT_TOKENS and (look := folder.look()) is not None:
            self._looks[sequence.request_id] = _Looking(look, time.monotonic() + _LOOK_WAIT_S)

    def is_ready(self, sequence: Sequence) -> bool:
        """Whether a request needs not wait for the disk, or not any longer: it may never answer."""
        request_id = sequence.request_id
        if (looking := self._looks.get(request_id)) is not None:
            if not looking.look.done() and time.monotonic() < looking.ends_at:
                return False
            del self._looks[request_id]
            folder = self._prompt_cache.folder
            if folder is not None and looking.look.done() and looking.look.result():
                self._begin(sequence, folder)
        read = self._reads.get(request_id)
        if read is None or read.reading.done():
            return True
        if time.monotonic() < read.ends_at:
            return False
        _LOG.info("a file of the prompt cache was not read in time")
        self.drop(request_id)
        return True

    def wait(self, sequence: Sequence, limit_s: float) -> None:
        """Wait for the disk, where a request does."""
        if (looking := self._looks.get(sequence.request_id)) is not None:
            concurrent.futures.wait([looking.look], limit_s)
        elif (read := self._reads.get(sequence.request_id)) is not None:
            concurrent.futures.wait([read.reading], limit_s)

    def take(self, request_id: str) -> FileRead | None:
        """Return what came of the file that a request waited for; None where it waits for none."""
        self._looks.pop(request_id, None)
        read = self._reads.pop(request_id, None)
        return read.reading.result() if read is not None and not read.reading.cancelled() else None

    def drop(self, request_id: str) -> None:
        """Forget a request that has ended."""
        self._looks.pop(request_id, None)
        if (read := self._reads.pop(request_id, None)) is not None:
            read.reading.cancel()

    def drop_all(self) -> None:
        """Forget all that is being read: whoever waits reads its prompt."""
        self._looks.clear()
        self._reads.clear()

    def _begin(self, sequence: Sequence, folder: SnapshotFolder) -> int:
        """Begin to read the best file for a request, if there is one; return how many tokens are found nowhere."""
        prompt, adapters = array("i", sequence.prompt_tokens), sequence.adapters
        had = self.num_kept(sequence)
        best: tuple[int, FolderEntry] | None = None
        for entry in self._files.of(folder):
            if entry.adapters == adapters:
                _, num_covered = reusable(
                    entry.tokens, entry.checkpoint_tokens, prompt, self._cache.common, can_cut=self._can_cut
                )
                if best is None or (num_covered, -entry.num_bytes) > (best[0], -best[1].num_bytes):
                    best = (num_covered, entry)
        num_unread = len(prompt) - max(had, best[0] if best is not None else 0)
        if best is None or not has_memory(best[1].num_bytes):
            return num_unread
        if self._cost.prefill_s_per_token is None:
            self._cost.prefill_s_per_token = best[1].prefill_s_per_token
        if self._cost.pays(best[1].num_bytes, best[0] - had, is_in_file=True):
            reading_s = (best[0] - had) * (self._cost.prefill_s_per_token or 0.0)  # what waiting is to save
            self._await(sequence.request_id, best[1], folder, max(reading_s, _LEAST_DISK_WAIT_S))
        return num_unread

    def _await(self, request_id: str, entry: FolderEntry, folder: SnapshotFolder, wait_s: float) -> None:
        """Have a request wait for a file, and no longer for another one."""
        before = self._reads.get(request_id)
        if before is not None and before.name == entry.name:
            return
        if before is not None:
            before.reading.cancel()  # else this one would have to wait for it
        reading = self._opened.hand_over(entry) or folder.read(entry)
        self._reads[request_id] = _Awaited(entry.name, reading, time.monotonic() + wait_s)
