"""What the cache did for one request: how much was reused, from where, what that saved, and what was missed and why."""

import bisect

from engine.backend import AdapterKey
from engine.coming_back import CameBack
from engine.metrics import CacheMissCause, CacheReport, CacheSource
from engine.miss_cause import ChatLedger
from engine.sequence import Prompt
from engine.slot import Acquired
from engine.slot_room import SlotRoom


def report_of(
    prompt: Prompt, acquired: Acquired, back: CameBack, *, ledger: ChatLedger, room: SlotRoom, adapters: AdapterKey
) -> CacheReport:
    """Return what a request that has just got its slot is told of the cache."""
    num_cached, tokens = acquired.num_cached, acquired.tokens
    if back.entry is not None and back.entry.chat_id == prompt.chat_id and not ledger.knows(prompt.chat_id):
        ledger.note(prompt.chat_id, back.entry.tokens, back.entry.adapters, back.entry.rewritten)
    cause = ledger.cause(
        prompt.chat_id,
        tokens,
        num_cached=num_cached,
        num_known=max(acquired.num_known, back.num_known),
        num_system_tokens=prompt.num_system_tokens,
        adapters=adapters,
    )
    if cause is CacheMissCause.TEMPLATE_CHANGED and num_cached >= prompt.num_settled_tokens:
        cause = CacheMissCause.EDITED  # the last message, which the template had written so before
    if cause is CacheMissCause.EDITED and prompt.dropped is not None:
        cause = CacheMissCause.TRIMMED
    elif cause is CacheMissCause.FIRST_USE:
        cause = room.first_cause(prompt.chat_id)
    if back.num_lost > num_cached and cause is not CacheMissCause.ADAPTER_CHANGED:
        cause = CacheMissCause.DAMAGED
    source = CacheSource.NONE
    if num_cached:
        source = CacheSource.SLOT if back.source is CacheSource.NONE else back.source
    return CacheReport(
        num_cached_tokens=num_cached,
        source=source,
        miss_cause=cause,
        num_recomputed_tokens=max(ledger.num_known(prompt.chat_id, tokens) - num_cached, 0),
        seconds_saved=room.cost.saved_s(num_cached, back.cost_s),
        miss_message=None if cause is None else _message_at(prompt, num_cached),
    )


def _message_at(prompt: Prompt, num_tokens: int) -> int | None:
    """Return the place, in the request, of the message in which a token lies."""
    if not prompt.message_ends:
        return None
    place = min(bisect.bisect_right(prompt.message_ends, num_tokens), len(prompt.message_ends) - 1)
    is_system = place == 0 and prompt.num_system_tokens > 0
    return place + (prompt.dropped.num_messages if prompt.dropped is not None and not is_system else 0)
