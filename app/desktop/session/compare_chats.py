"""Comparisons and chats: a column goes on as a chat of its own, and past chats are what columns are asked."""

import contextlib
import dataclasses
from collections.abc import Sequence

from app.compare.results import Column
from app.desktop.session.chat_adapters import MAX_SCALE, ChatAdapter
from app.desktop.session.chats import Chats
from app.desktop.session.compare_setup import PastChat
from app.desktop.session.prompt_messages import messages_of
from app.desktop.session.turn_records import turns_of
from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, UserTurn
from app.store import ChatRow, ChatStore

_FLUSH_S = 1.0


def begin_chat(chats: Chats, turns: Sequence[Turn], column: Column) -> None:
    """Show a new chat that begins with these messages, and that is gone on with by the model of the column."""
    chats.new_chat()
    conversation = chats.current
    sampling = {"temperature": column.sampling.temperature} if column.sampling.temperature else {}
    adapters = tuple(
        ChatAdapter(path=adapter.path, scale=adapter.scale)
        for adapter in column.adapters
        if 0 <= adapter.scale <= MAX_SCALE
    )
    conversation.set_settings(
        dataclasses.replace(conversation.settings, model=column.path, sampling=sampling, adapters=adapters)
    )
    parent = conversation.chat.leaf
    for turn in turns:
        if isinstance(turn, UserTurn):
            said: Turn = UserTurn(turn.text, parent_id=parent)
            conversation.chat.add(said)
        elif turn.text and not turn.is_open:
            said = _begun(turn, parent)
            conversation.chat.add(said)
            said.state = ReplyState.DONE
            said.text, said.thinking, said.finish_reason = turn.text, turn.thinking, turn.finish_reason
            conversation.chat.finish(said)
        else:
            break
        parent = said.turn_id
    conversation.path_changed.emit()
    conversation.title_changed.emit()


def _begun(turn: ReplyTurn, parent: str | None) -> ReplyTurn:
    return ReplyTurn(turn.model_name, state=ReplyState.WRITING, parent_id=parent)


def list_past(store: ChatStore) -> list[ChatRow]:
    """Return the chats, the latest first; takes time."""
    _flush(store)
    return store.list_chats()


def read_past(store: ChatStore | None, chat_ids: Sequence[str]) -> list[PastChat]:
    """Return what is shown of these chats, without those that are gone; takes time."""
    if store is None or not chat_ids:
        return []
    _flush(store)
    found: list[PastChat] = []
    for chat_id in chat_ids:
        chat = store.load_chat(chat_id)
        if chat is None or chat.row.deleted_at is not None:
            continue
        shown = {node.id for node in chat.shown_path()}
        turns = [turn for turn in turns_of(chat) if turn.turn_id in shown]
        found.append((chat.row.title, tuple(messages_of(turns, chat.system_prompt))))
    return found


def _flush(store: ChatStore) -> None:
    """Wait for what was asked to be written, but not for long."""
    with contextlib.suppress(TimeoutError):
        store.flush(_FLUSH_S)
