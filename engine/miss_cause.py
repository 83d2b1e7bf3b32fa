"""Why a chat's prompt was not found whole in the cache."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from engine.metrics import CacheMissCause

_MAX_CHATS = 256

Common = Callable[[Sequence[int], Sequence[int]], tuple[int, int]]
"""Takes cached tokens and a prompt; returns how many of each make up their common beginning."""


class ChatLedger:
    """Remembers what each chat last left in the cache, to tell an edit from an eviction.

    Args:
        common: KVCache.common.
    """

    def __init__(self, common: Common) -> None:
        self._common = common
        self._held: OrderedDict[str, list[int]] = OrderedDict()

    def note(self, chat_id: str | None, tokens: list[int]) -> None:
        """Remember what a chat holds now."""
        if chat_id is None:
            return
        self._held[chat_id] = tokens
        self._held.move_to_end(chat_id)
        if len(self._held) > _MAX_CHATS:
            self._held.popitem(last=False)

    def cause(
        self, chat_id: str | None, prompt: Sequence[int], *, num_cached: int, num_system_tokens: int
    ) -> CacheMissCause | None:
        """Return the cause of what a request could not reuse, None when nothing was missed.

        Args:
            prompt: tokens of the prompt in the cache's terms.
            num_cached: how many of them were reused.
            num_system_tokens: how many of them reach to the end of the system message.
        """
        held = self._held.get(chat_id) if chat_id is not None else None
        if held is None:
            return CacheMissCause.FIRST_USE if num_cached == 0 else None
        num_held, num_covered = self._common(held, prompt)
        if num_cached < num_covered:
            return CacheMissCause.EVICTED
        if num_held == len(held) or num_covered == len(prompt) - 1:
            return None
        return CacheMissCause.SYSTEM_PROMPT_CHANGED if num_covered < num_system_tokens else CacheMissCause.EDITED
