"""Which files of the prompt cache a context can take: those made for it, that say nothing which cannot be."""

from engine.backend import StateKeys
from engine.folder_entry import FolderEntry
from engine.snapshot_folder import SnapshotFolder


class UsableFiles:
    """The files of one folder for one context.

    Checksums tell that a file is as it was written, not that it was written by this program: a token beyond the
    vocabulary has no text to be compared by.

    Args:
        n_ctx: most tokens of a snapshot.
        n_vocab: number of tokens in the vocabulary.
    """

    def __init__(self, keys: StateKeys, *, n_ctx: int, n_vocab: int) -> None:
        self._keys = keys
        self._n_ctx = n_ctx
        self._n_vocab = n_vocab
        self._sound: dict[str, FolderEntry] = {}  # of those that were looked at, by name

    def of(self, folder: SnapshotFolder) -> list[FolderEntry]:
        """Return the files that can be used; one that is made for this context and says what cannot be is deleted."""
        made_for_it = [entry for entry in folder.entries if entry.keys == self._keys]
        usable = []
        for entry in made_for_it:
            if self._sound.get(entry.name) is not entry and not self._is_sound(entry):
                folder.discard(entry.name, "it holds what no chat has", chat_id=entry.chat_id)
            elif len(entry.tokens) <= self._n_ctx:
                usable.append(entry)
        self._sound = {entry.name: entry for entry in made_for_it}
        return usable

    def _is_sound(self, entry: FolderEntry) -> bool:
        counts = list(entry.checkpoint_tokens)
        has_places = counts == sorted(set(counts)) and all(0 < count <= len(entry.tokens) for count in counts)
        return bool(entry.tokens) and has_places and min(entry.tokens) >= 0 and max(entry.tokens) < self._n_vocab
