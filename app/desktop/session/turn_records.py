"""Turns as the store keeps them, and back; whatever a file holds becomes a turn or is left out, never an error."""

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, UserTurn
from app.reply_records import CACHE, DRAFTED, DRAFTING, DROPPED, THINKING_S, reply_measures
from app.store import Chat, NewNode, Node, NodeState, Partial, ReplyEnd
from engine import CacheReport, ErrorInfo, RequestMetrics, Role, SpeculativeStats, TextSpan, TurnsDropped

_LOG = logging.getLogger(__name__)
_STATES = {
    NodeState.OPEN: ReplyState.INTERRUPTED,
    NodeState.INTERRUPTED: ReplyState.INTERRUPTED,
    NodeState.FAILED: ReplyState.FAILED,
    NodeState.DONE: ReplyState.DONE,
}
_T = TypeVar("_T")


def turns_of(chat: Chat) -> list[Turn]:
    """Return the messages of a stored chat, parents before their children."""
    return [_turn_of(node) for node in chat.nodes]


def node_of(chat_id: str, turn: Turn) -> NewNode:
    """Return a message to be added to the store, as it is now; a reply in progress is an open one."""
    if isinstance(turn, UserTurn):
        return NewNode(
            id=turn.turn_id,
            chat_id=chat_id,
            parent_id=turn.parent_id,
            source_id=turn.source_id,
            role=Role.USER,
            content=turn.text,
        )
    return NewNode(
        id=turn.turn_id,
        chat_id=chat_id,
        parent_id=turn.parent_id,
        source_id=turn.source_id,
        role=Role.ASSISTANT,
        content=turn.text,
        thinking=turn.thinking,
        state=NodeState.OPEN if turn.is_open else NodeState.DONE,
        settings=turn.settings,
        model_name=turn.model_name,
    )


def partial_of(reply: ReplyTurn) -> Partial:
    """Return what has arrived of a reply."""
    return Partial(node_id=reply.turn_id, content=reply.text, thinking=reply.thinking)


def end_of(reply: ReplyTurn) -> ReplyEnd:
    """Return a reply at its end."""
    metrics = reply_measures(
        reply.metrics,
        dropped=reply.dropped,
        cache=reply.cache,
        speculative=reply.speculative,
        drafted_spans=reply.drafted_spans,
        thinking_s=reply.thinking_s,
    )
    return ReplyEnd(
        node_id=reply.turn_id,
        content=reply.text,
        thinking=reply.thinking,
        token_ids=reply.token_ids,
        finish_reason=reply.finish_reason,
        stop_string=reply.stop_string,
        error=msgspec.to_builtins(reply.error) if reply.error is not None else None,
        metrics=metrics,
        settings=reply.settings,
        template_hash=reply.template_hash,
        model_fingerprint=reply.model_fingerprint,
        model_name=reply.model_name,
    )


def _turn_of(node: Node) -> Turn:
    placed: dict[str, Any] = {
        "turn_id": node.id,
        "parent_id": node.parent_id,
        "source_id": node.source_id,
        "created_at": node.created_at,
        "is_deleted": node.is_deleted,
    }
    if node.role is not Role.ASSISTANT:
        return UserTurn(node.content, **placed)
    metrics, thinking_s = _read(node.metrics, RequestMetrics), node.metrics.get(THINKING_S)
    return ReplyTurn(
        node.model_name,
        state=_STATES[node.state],
        text=node.content,
        thinking=node.thinking,
        thinking_s=thinking_s if isinstance(thinking_s, int | float) else None,
        dropped=_read(node.metrics.get(DROPPED), TurnsDropped),
        finish_reason=node.finish_reason,
        stop_string=node.stop_string,
        metrics=metrics,
        cache=_read(node.metrics.get(CACHE), CacheReport),
        speculative=_read(node.metrics.get(DRAFTING), SpeculativeStats),
        drafted_spans=_spans(node.metrics.get(DRAFTED), len(node.content)),
        error=_read(node.error, ErrorInfo),
        is_edited=_is_edited(node),
        token_ids=node.token_ids,
        settings=node.settings,
        model_fingerprint=node.model_fingerprint,
        template_hash=node.template_hash,
        **placed,
    )


def _is_edited(node: Node) -> bool:
    return node.state is NodeState.DONE and node.finish_reason is None and not node.metrics


def _spans(places: object, length: int) -> tuple[TextSpan, ...]:
    """Return parts of a text that has `length` characters; none where they are not such."""
    if not isinstance(places, list) or len(places) % 2:
        return ()
    is_rising = all(isinstance(place, int) for place in places) and places == sorted(places)
    if not is_rising or (places and not 0 <= places[0] <= places[-1] <= length):
        return ()
    return tuple(TextSpan(start, end) for start, end in zip(places[::2], places[1::2], strict=True))


def _read(values: object, kind: type[_T]) -> _T | None:
    if not values or not isinstance(values, Mapping):
        return None
    try:
        return msgspec.convert(dict(values), kind)  # what the kind does not know is passed over
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        _LOG.info("a record of a reply is not understood: %s", error)
        return None
