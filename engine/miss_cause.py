"""Why a chat's prompt was not found whole in the cache."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from engine.backend import AdapterKey
from engine.metrics import CacheMissCause
from engine.slot import Common

_MAX_CHATS = 256
_MAX_TOKENS = 4_000_000  # of all chats together, 16 MB


class _Held(NamedTuple):
    """What a chat left; see `ChatLedger.note`."""

    tokens: "array[int]"
    adapters: AdapterKey
    rewritten: tuple[int, int] | None


class ChatLedger:
    """Remembers what each chat last left in the cache, to tell an edit from an eviction.

    Args:
        common: KVCache.common.
    """

    def __init__(self, common: Common) -> None:
        self._common = common
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._num_tokens = 0

    def knows(self, chat_id: str | None) -> bool:
        """Whether a chat left something since the model was loaded."""
        return chat_id in self._held

    def note(
        self,
        chat_id: str | None,
        tokens: Sequence[int],
        adapters: AdapterKey = (),
        rewritten: tuple[int, int] | None = None,
    ) -> None:
        """Remember what a chat holds now.

        Args:
            rewritten: between which tokens its template may write the last reply anew; None where it does not.
        """
        if chat_id is None:
            return
        if chat_id in self._held:
            self._num_tokens -= len(self._held.pop(chat_id).tokens)
        self._held[chat_id] = _Held(array("i", tokens), adapters, rewritten)
        self._num_tokens += len(tokens)
        while len(self._held) > _MAX_CHATS or (self._num_tokens > _MAX_TOKENS and len(self._held) > 1):
            self._num_tokens -= len(self._held.popitem(last=False)[1].tokens)

    def num_known(self, chat_id: str | None, prompt: Sequence[int]) -> int:
        """Return how many tokens of a prompt its chat left in the cache."""
        held = self._held.get(chat_id) if chat_id is not None else None
        return 0 if held is None else self._common(held.tokens, array("i", prompt))[1]

    def cause(
        self,
        chat_id: str | None,
        prompt: Sequence[int],
        *,
        num_cached: int,
        num_known: int,
        num_system_tokens: int,
        adapters: AdapterKey = (),
    ) -> CacheMissCause | None:
        """Return the cause of what a request could not reuse, None when nothing was missed.

        Args:
            prompt: tokens of the prompt in the cache's terms.
            num_cached: how many of them were reused.
            num_known: how many the cache held, though its memory could not go back to all of them.
            num_system_tokens: how many of them reach to the end of the system message.
        """
        held = self._held.get(chat_id) if chat_id is not None else None
        if held is None:
            return CacheMissCause.FIRST_USE if num_cached == 0 else None
        num_held, num_covered = self._common(held.tokens, array("i", prompt))
        if num_cached < num_covered and held.adapters != adapters:
            return CacheMissCause.ADAPTER_CHANGED
        goes_on = num_held == len(held.tokens) or num_covered == len(prompt) - 1
        if not goes_on and held.rewritten is not None:
            start, end = held.rewritten
            if start <= num_held < end and num_cached >= start:
                return CacheMissCause.TEMPLATE_CHANGED
        if num_cached < num_covered:
            return CacheMissCause.UNSUPPORTED_BY_MODEL if num_known > num_cached else CacheMissCause.EVICTED
        if goes_on:
            return None
        return CacheMissCause.SYSTEM_PROMPT_CHANGED if num_covered < num_system_tokens else CacheMissCause.EDITED
