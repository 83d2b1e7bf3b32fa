"""Chats to disk: which of them are not there yet, and when there is time to write one."""

import time
from array import array
from collections.abc import Callable

from engine.backend import AdapterKey, StateKeys
from engine.kv_cache import KVCache
from engine.prompt_cache import PromptCache
from engine.prompt_store import PromptStore, StoredPrompt
from engine.reuse_cost import ReuseCost
from engine.slot import Slot
from engine.snapshot_file import SnapshotHeader, tokens_to_bytes

MIN_KEPT_TOKENS = 32  # fewer are read before a file is found
_IDLE_S = 2.0  # that the engine has nothing to do before a chat is written: it may go on at once
_WRITER_BUSY_S = 0.25
_LONG_COPY_S = 0.5  # not while a request may come
_SAVE_LIMIT_S = 0.5  # of copying, when the model goes


class ChatSaver:
    """Hands the chats of one model to the folder, one at a time: each is a copy in memory.

    Args:
        snapshot_of: makes a snapshot of a slot, None where there is no memory for it.
        can_cut: see PromptStore.
    """

    def __init__(
        self,
        cache: KVCache,
        store: PromptStore,
        prompt_cache: PromptCache,
        cost: ReuseCost,
        *,
        snapshot_of: Callable[[Slot], StoredPrompt | None],
        keys: StateKeys,
        model_name: str,
        bytes_per_token: int,
        can_cut: bool,
    ) -> None:
        self._cache = cache
        self._store = store
        self._prompt_cache = prompt_cache
        self._cost = cost
        self._snapshot_of = snapshot_of
        self._keys = keys
        self._model_name = model_name
        self._bytes_per_token = bytes_per_token
        self._can_cut = can_cut
        self._is_unsaved = False
        self._idle_since = 0.0

    def keep_named(self, slot: Slot, name: str) -> StoredPrompt | None:
        """Keep what a slot holds under a name, in memory and on disk as far as the limits allow; None where neither."""
        entry = self._snapshot_of(slot)
        if entry is None:
            return None
        entry.name = name
        is_in_ram, folder = self._store.put(entry), self._prompt_cache.folder
        if folder is not None:
            folder.offer_again(self._keys, entry.adapters, entry.tokens)
        if self._is_entry_due(entry):
            self._write(entry, entry.chat_id)
        if folder is not None:
            folder.set_calm(True)
        return entry if is_in_ram or self.is_for_disk(entry) else None

    def is_in_ram(self, entry: StoredPrompt) -> bool:
        """Whether memory keeps a snapshot."""
        return entry in self._store.entries

    def is_for_disk(self, entry: StoredPrompt) -> bool:
        """Whether there is a file of a snapshot, or will be."""
        folder = self._prompt_cache.folder
        if folder is None or entry.is_private:
            return False
        is_shared = bool(entry.name) and entry.chat_id is None
        return folder.has(self._keys, entry.adapters, entry.tokens, can_cut=False, is_shared=is_shared)

    def note_end(self) -> None:
        """Note that a reply has ended."""
        self._is_unsaved = True
        self._idle_since = time.monotonic()

    @property
    def rest_s(self) -> float | None:
        """Seconds of rest after which there is something to write, None where there is not."""
        if self._prompt_cache.folder is None or not self._is_unsaved:
            return None
        return max(self._idle_since + _IDLE_S - time.monotonic(), 0.0)

    def rest(self) -> None:
        """Hand one chat over, if there has been rest for long enough."""
        folder = self._prompt_cache.folder
        if folder is None:
            return
        folder.set_calm(True)
        if self.rest_s != 0.0:
            return
        if folder.is_writing:
            self._idle_since = time.monotonic() - _IDLE_S + _WRITER_BUSY_S
        else:
            self._is_unsaved = self._save_next(longest_copy_s=_LONG_COPY_S)

    def save_all(self) -> None:
        """Hand all chats over, the one used last first, before the model goes."""
        ends_at = time.monotonic() + _SAVE_LIMIT_S
        while time.monotonic() < ends_at and self._save_next():
            pass

    def _save_next(self, *, longest_copy_s: float | None = None) -> bool:
        """Hand over one chat that is not on disk yet; False when there is none left."""
        for slot in reversed(self._cache.idle_slots()):
            if not self._is_due(slot.chat_id, slot.tokens, slot.adapters, is_private=slot.is_private):
                continue
            holder = self._store.holder_of(slot.tokens, slot.adapters)
            if holder is None or len(holder.tokens) != len(slot.tokens):
                num_bytes = len(slot.tokens) * self._bytes_per_token
                if longest_copy_s is not None and self._cost.restore_s(num_bytes) > longest_copy_s:
                    continue
                holder = self._snapshot_of(slot)
            if holder is not None:
                self._store.put(holder)
                self._write(holder, slot.chat_id)
                return True
        for entry in reversed(self._store.entries):
            if self._is_entry_due(entry):
                self._write(entry, entry.chat_id)
                return True
        return False

    def _is_entry_due(self, entry: StoredPrompt) -> bool:
        is_named = bool(entry.name)
        return self._is_due(entry.chat_id, entry.tokens, entry.adapters, is_private=entry.is_private, is_named=is_named)

    def _is_due(
        self,
        chat_id: str | None,
        tokens: "list[int] | array[int]",
        adapters: AdapterKey,
        *,
        is_private: bool,
        is_named: bool = False,
    ) -> bool:
        folder, is_kept = self._prompt_cache.folder, chat_id is not None or is_named
        if folder is None or not is_kept or is_private or len(tokens) < MIN_KEPT_TOKENS:
            return False
        can_cut, is_shared = self._can_cut and not is_named, is_named and chat_id is None
        return not folder.has(self._keys, adapters, tokens, can_cut=can_cut, is_shared=is_shared)

    def _write(self, entry: StoredPrompt, chat_id: str | None) -> None:
        folder, snapshot = self._prompt_cache.folder, entry.snapshot
        assert folder is not None, "only where there is a folder"
        checkpoints = [item for item in snapshot.checkpoints if not item.is_rolling]
        header = SnapshotHeader(
            model=self._keys.model,
            settings=self._keys.settings,
            model_name=self._model_name,
            adapters=entry.adapters,
            chat_id=chat_id or "",
            tokens=tokens_to_bytes(entry.tokens),
            num_state_bytes=len(snapshot.state),
            checkpoints=tuple((item.num_tokens, len(item.state)) for item in checkpoints),
            prefill_s_per_token=self._cost.prefill_s_per_token,
            written_at=time.time(),
            name=entry.name,
            rewritten=entry.rewritten,
        )
        body = [snapshot.state, *(item.state for item in checkpoints)]
        used_at = entry.made_at if chat_id is None else self._prompt_cache.used_at(chat_id)
        folder.write(header, body, can_cut=self._can_cut, used_at=used_at)
