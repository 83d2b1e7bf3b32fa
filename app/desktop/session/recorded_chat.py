"""RecordedChat: the tree of one chat, each change of it written as it is made, and the way back from each."""

import dataclasses
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from app.desktop.session.chat_recorder import ChatRecorder
from app.desktop.session.chat_settings import ChatSettings, settings_of
from app.desktop.session.chat_tree import ChatTree
from app.desktop.session.turn_records import end_of, node_of, partial_of, turns_of
from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, UserTurn, words_of
from app.document_text import names_of
from app.reply_records import title_of
from app.store import NO_CHAT, Chat, ChatRow, NewChat, NewNode, NodeState, new_id


class _Undo(NamedTuple):
    """How to go back: to the path that was shown, or to a message that was deleted."""

    leaf: str | None = None
    deleted: str | None = None


class RecordedChat:
    """A chat in memory that is always a step ahead of the store.

    Attributes:
        is_begun: whether there is, or was, a message; the store knows only of such chats.
        is_private: whether no store is ever to know of it; its recorder writes nothing then.
    """

    def __init__(self, recorder: ChatRecorder, stored: Chat | None = None, *, is_private: bool = False) -> None:
        self._recorder = recorder
        self.is_private = is_private
        self.id = stored.row.id if stored else new_id()
        self.title = stored.row.title if stored else ""
        self.settings = settings_of(stored) if stored else ChatSettings()
        self.is_begun = stored is not None
        self._undo: list[_Undo] = []
        self._tree = ChatTree(turns_of(stored), stored.active_leaf) if stored else ChatTree()

    @property
    def is_kept(self) -> bool:
        """Whether what is said in it is written: what is not kept here is kept nowhere."""
        store = self._recorder.store
        return store is not None and store.is_kept

    @property
    def leaf(self) -> str | None:
        """The message after which the next one comes; None in an empty chat."""
        return self._tree.leaf

    def row(self) -> ChatRow:
        """Return the chat as a line of a list, for where no store has one."""
        now = time.time()
        return ChatRow(
            self.id,
            self.title,
            title_is_own=False,
            created_at=now,
            changed_at=now,
            change_number=0,
            is_pinned=False,
            deleted_at=None,
        )

    @property
    def turns(self) -> Iterable[Turn]:
        """All messages, in the order in which they were added."""
        return self._tree.turns

    def shown(self) -> Sequence[Turn]:
        """Return the shown messages, oldest first."""
        return self._tree.shown()

    def path_to(self, turn_id: str) -> Sequence[Turn]:
        """Return the messages up to one, shown or not, that are not deleted."""
        return self._tree.path_to(turn_id)

    def get(self, turn_id: str) -> Turn | None:
        """Return a message, shown or not."""
        return self._tree.get(turn_id)

    def add(self, turn: Turn) -> None:
        """Add a message below its parent and show it; the first one begins the chat and names it."""
        if not self.is_begun:
            self.is_begun = True
            self.title = title_of(words_of(turn)) or title_of(_names_in(turn))
            self._record_chat()
            self._recorder.write(lambda store: store.save_draft(NO_CHAT, ""), is_listed=False, key=_key(NO_CHAT))
        self._tree.add(turn)
        self._record_node(node_of(self.id, turn))

    def record_all(self) -> None:
        """Write all of it once more, for a store that may have lost some; what is there stays as it is."""
        if not self.is_begun:
            return
        self._record_chat()
        for turn in self.turns:
            node = node_of(self.id, turn)
            is_ended = isinstance(turn, ReplyTurn) and not turn.is_open and not turn.is_edited
            if is_ended:
                node = dataclasses.replace(node, state=NodeState.OPEN)
            self._record_node(node)
            if isinstance(turn, ReplyTurn) and is_ended and turn.state is not ReplyState.INTERRUPTED:
                self.finish(turn)
            if turn.is_deleted:
                self._record_deletion(turn.turn_id)
        self.show(self._tree.leaf)

    def _record_node(self, node: NewNode) -> None:
        self._recorder.write(lambda store: store.add_node(node))

    def _record_deletion(self, turn_id: str) -> None:
        self._recorder.write(lambda store: store.delete_node(turn_id))

    def _record_chat(self) -> None:
        chat = NewChat(
            id=self.id,
            title=self.title,
            system_prompt=self.settings.system_prompt,
            model=self.settings.model,
            settings=self.settings.stored,
        )
        self._recorder.write(lambda store: store.add_chat(chat))

    def save_partial(self, reply: ReplyTurn) -> None:
        """Keep what has arrived of a reply in progress."""
        partial = partial_of(reply)
        self._recorder.write(lambda store: store.save_partial(partial), is_listed=False, key=f"partial {self.id}")

    def finish(self, reply: ReplyTurn) -> None:
        """Keep a reply at its end."""
        end = end_of(reply)
        self._recorder.write(lambda store: store.finish_reply(end))

    def delete(self, turn: Turn) -> None:
        """Take a message out of the shown path."""
        self._tree.set_deleted(turn.turn_id, is_deleted=True)
        self._record_deletion(turn.turn_id)

    def show(self, leaf: str | None, *, is_kept: bool = True) -> None:
        """Let the shown path end at a message.

        Args:
            is_kept: whether the store hears of it; it knows only of paths that end at a leaf.
        """
        self._tree.show(leaf)
        if leaf is not None and is_kept:
            self._recorder.write(lambda store: store.show_node(leaf), is_listed=False)

    def reveal(self, turn_id: str) -> bool:
        """Show the newest branch through a message; False where it is shown already, or is not there."""
        if self._tree.get(turn_id) is None or any(turn.turn_id == turn_id for turn in self.shown()):
            return False
        self.remember_path()
        self.show(self._tree.leaf_below(turn_id))
        return True

    def beside(self, turn_id: str, step: int) -> Turn | None:
        """Return the message so many places beside one."""
        turn = self._tree.get(turn_id)
        if turn is None:
            return None
        beside = self._tree.variants(turn)
        number = beside.index(turn) + step
        return beside[number] if 0 <= number < len(beside) else None

    @property
    def can_undo(self) -> bool:
        """Whether the last change of the messages can be taken back."""
        return bool(self._undo)

    def remember_path(self) -> None:
        """Make the present path one to go back to."""
        self._undo.append(_Undo(leaf=self._tree.leaf))

    def forget_last_path(self) -> None:
        """Take back the last `remember_path`: what it was for came to nothing."""
        if self._undo and self._undo[-1].deleted is None:
            self._undo.pop()

    @property
    def undo_leaves_path(self) -> bool:
        """Whether undoing the last change shows the same path, with a message more."""
        return not self._undo or self._undo[-1].deleted is not None

    def remember_deleted(self, turn_id: str) -> None:
        """Make a deleted message one to bring back."""
        self._undo.append(_Undo(deleted=turn_id))

    def forget_paths(self) -> None:
        """Go back to no path from before: the present one has gone on."""
        self._undo = [undo for undo in self._undo if undo.deleted is not None]

    def undo(self) -> bool:
        """Take the last change back; False where there is none."""
        if not self._undo:
            return False
        leaf, deleted = self._undo.pop()
        if deleted is None:
            self.show(leaf)
        else:
            self._tree.set_deleted(deleted, is_deleted=False)
            self._recorder.write(lambda store: store.restore_node(deleted))
        return True

    def rename(self, title: str) -> None:
        """Give the chat a name of the user's."""
        self.title = title
        self._recorder.write(lambda store: store.rename_chat(self.id, title))

    def save_settings(self) -> None:
        """Keep the settings as they are."""
        change = self.settings.change
        if self.is_begun:
            self._recorder.write(lambda store: store.change_chat(self.id, change), is_listed=False)

    def save_draft(self, text: str) -> None:
        """Keep what is typed and not sent."""
        key = self.id if self.is_begun else NO_CHAT
        self._recorder.write(lambda store: store.save_draft(key, text), is_listed=False, key=_key(key))


def _key(chat_id: str) -> str:
    return f"draft {chat_id}"


def _names_in(turn: Turn) -> str:
    return names_of(turn.parts[0]) if isinstance(turn, UserTurn) else ""
