"""Going on with a column of a comparison as a chat of its own."""

import dataclasses
from collections.abc import Sequence

from app.compare.results import Column
from app.desktop.session.chats import Chats
from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, UserTurn


def begin_chat(chats: Chats, turns: Sequence[Turn], column: Column) -> None:
    """Show a new chat that begins with these messages, and that is gone on with by the model of the column."""
    chats.new_chat()
    conversation = chats.current
    sampling = {"temperature": column.sampling.temperature} if column.sampling.temperature else {}
    conversation.set_settings(dataclasses.replace(conversation.settings, model=column.path, sampling=sampling))
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
