"""Chats: the chats of the window, which of them is shown, and which has the model."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.desktop.bridge.background import Background
from app.desktop.session.chat_listing import ChatListing, flush, read_chat
from app.desktop.session.chat_recorder import ChatRecorder
from app.desktop.session.chat_settings import ChatSettings
from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelState
from app.desktop.session.private_recorder import PrivateRecorder
from app.desktop.session.recorded_chat import RecordedChat
from app.desktop.session.surroundings import Surroundings
from app.store import NO_CHAT, ChatChange, ChatRow, ChatStore, Hit
from engine import ErrorInfo

_LOG = logging.getLogger(__name__)
_DAY_MS = 24 * 3600 * 1000


class Chats(QObject):
    """Opens chats, keeps those alive that have something to do, and reads the store beside the window's thread.

    Signals:
        current_changed: another chat is shown.
        rows_changed: sequence of ChatRow; the list of chats is another one.
        marks_changed: a reply begins or ends somewhere, or was seen.
        found: text, sequence of Hit.
        trash_read: sequence of ChatRow.
        deleted: id, title; a chat went to the trash.
        private_closed: id; a private chat is gone.
        read_failed: Exception.
        refused_unseen: Conversation that is not shown, text of a message that was taken back there, ErrorInfo or None.
    """

    current_changed = Signal()
    rows_changed = Signal(object)
    marks_changed = Signal()
    found = Signal(str, object)
    trash_read = Signal(object)
    deleted = Signal(str, str)
    private_closed = Signal(str)
    read_failed = Signal(object)
    refused_unseen = Signal(object, str, object)

    def __init__(self, around: Surroundings, background: Background) -> None:
        super().__init__(around.bridge)
        self._around = around
        self._background = background
        self._live: dict[str, Conversation] = {}
        self._trashed: set[str] = set()  # in this session
        self._unread: set[str] = set()
        self._stored_draft = ""  # of the chat not begun, from an earlier session
        self._drafts: dict[str, str] = {}  # of the chats let go of; the store may have them later, or not
        self._open_number = 0
        self._listing = ChatListing(around.recorder, background, self._begun, self)
        self._listing.rows_changed.connect(self.rows_changed)
        self._listing.read_failed.connect(self.read_failed)
        self._private = PrivateRecorder(self)
        self._private.recorded.connect(self._listing.note_change)
        self._purge_timer = QTimer(self)
        self._purge_timer.setInterval(_DAY_MS)
        self._purge_timer.timeout.connect(self._purge)
        around.model.changed.connect(self._on_model_changed)
        around.model.refused.connect(self._on_model_refused)
        around.recorder.recovered.connect(self.save_drafts)
        around.recorder.settled.connect(self._forget_idle)
        self._current = self._new_conversation(RecordedChat(around.recorder))

    @property
    def current(self) -> Conversation:
        """The chat that is shown."""
        return self._current

    @property
    def live(self) -> Sequence[Conversation]:
        """The chats in memory."""
        return tuple(self._live.values())

    @property
    def recorder(self) -> ChatRecorder:
        """What brings the chats to the store."""
        return self._around.recorder

    @property
    def busy(self) -> frozenset[str]:
        """Ids of the chats in which a reply is in progress or waits."""
        return frozenset(chat_id for chat_id, chat in self._live.items() if chat.is_busy)

    @property
    def unread(self) -> frozenset[str]:
        """Ids of the chats in which a reply ended that was not seen."""
        return frozenset(self._unread)

    @property
    def private_ids(self) -> frozenset[str]:
        """Ids of the private chats."""
        return frozenset(chat_id for chat_id, chat in self._live.items() if chat.chat.is_private)

    def set_store(self, store: ChatStore, *, is_mended: bool = False) -> None:
        """Keep chats in a store from now on, and list those that are there.

        Args:
            is_mended: whether it may have lost some of what it was given.
        """

        def record_all() -> None:
            for conversation in self.live:
                conversation.chat.record_all()

        self.recorder.set_store(store, record_all if is_mended else lambda: None)
        self._purge()
        self._purge_timer.start()
        self._listing.read()
        if self._takes_stored_draft():
            self._background.run(lambda: store.load_draft(NO_CHAT), self._on_draft_read, self._on_read_failed)

    # Which chat is shown

    def new_chat(self, *, is_private: bool = False) -> None:
        """Show an empty chat.

        Args:
            is_private: whether it is kept in memory alone: it is gone when it is closed, or the window is.
        """
        self._open_number += 1
        chat = self._current.chat
        if chat.is_begun or chat.is_private is not is_private:
            self._show(self._fresh(is_private=is_private))

    def open_first(self, chat_id: str, is_untouched: Callable[[], bool]) -> None:
        """Show a chat at the start, unless something was begun or typed until it is read."""
        before = self._current

        def is_wanted() -> bool:
            is_same = self._current is before and not before.chat.is_begun
            return is_same and is_untouched() and before.draft == self._stored_draft

        if is_wanted():
            self._read_and_enter(chat_id, None, lambda: None, is_wanted)

    def open(self, chat_id: str, *, node_id: str | None = None, then: Callable[[], None] = lambda: None) -> None:
        """Show a chat.

        Args:
            node_id: a message that is to be on the shown path.
            then: called when it is shown.
        """
        self._open_number += 1
        if chat_id in self._trashed:
            return
        live = self._live.get(chat_id)
        if live is not None:
            self._enter(live, node_id, then)
        else:
            number = self._open_number
            self._read_and_enter(chat_id, node_id, then, lambda: number == self._open_number)

    # What happens to chats

    def rename(self, chat_id: str, title: str) -> None:
        """Give a chat a name of the user's."""
        live = self._live.get(chat_id)
        if live is not None:
            live.rename(title)
        elif title.strip():
            self.recorder.write(lambda store: store.rename_chat(chat_id, title.strip()))

    def use_model(self, chat_id: str, name: str) -> None:
        """Let a chat take another model from now on, by what the settings call it."""
        if (live := self._live.get(chat_id)) is not None:
            live.use_model(name)
        else:
            self.recorder.write(lambda store: store.change_chat(chat_id, ChatChange(model=name)), is_listed=False)

    def set_pinned(self, chat_id: str, *, is_pinned: bool) -> None:
        """Pin a chat, or let it go; a private one stands at the top by itself."""
        if chat_id not in self.private_ids:
            self.recorder.write(lambda store: store.change_chat(chat_id, ChatChange(is_pinned=is_pinned)))

    def delete(self, chat_id: str, title: str = "") -> None:
        """Put a chat into the trash; `title` is told with it where the chat is not open."""
        live = self._live.get(chat_id)
        if live is not None and (live.chat.is_private or not live.chat.is_begun):
            return
        if live is not None:
            title = live.chat.title
            live.let_go()
        self.recorder.write(lambda store: store.trash_chat(chat_id))
        self._trashed.add(chat_id)
        self._unread.discard(chat_id)
        if live is not None and live is self._current:
            self.new_chat()
        self._forget_idle()
        self.deleted.emit(chat_id, title)

    def close_private(self, chat_id: str) -> None:
        """Let a private chat be gone."""
        live = self._live.get(chat_id)
        if live is None or not live.chat.is_private:
            return
        live.let_go()
        del self._live[chat_id]
        self._unread.discard(chat_id)
        if live is self._current:
            self._show(self._fresh(is_private=False))
        live.deleteLater()
        self._listing.note_change()
        self.private_closed.emit(chat_id)

    def save_drafts(self) -> None:
        """Write the drafts once more, which are not tried again by themselves, and the settings that are still due."""
        for conversation in self.live:
            conversation.save_settings()
            conversation.chat.save_draft(conversation.draft)

    def restore(self, chat_id: str) -> None:
        """Take a chat out of the trash."""
        self._trashed.discard(chat_id)
        self.recorder.write(lambda store: store.restore_chat(chat_id))

    def purge(self, chat_id: str) -> None:
        """Remove a chat of the trash for good."""
        if (live := self._live.get(chat_id)) is not None and live is not self._current:
            self._forget(live)
        self.recorder.write(lambda store: store.purge_chat(chat_id))

    def read_trash(self) -> None:
        """Read what is in the trash, with all that was put there or taken out before."""

        def read(store: ChatStore) -> list[ChatRow]:
            flush(store)
            return store.list_chats(trashed=True)

        self._read(read, self.trash_read.emit)

    def search(self, text: str) -> None:
        """Look for a text in all chats."""

        def look(store: ChatStore) -> list[Hit]:
            return store.search(text)

        self._read(look, lambda hits: self.found.emit(text, hits))

    # Replies

    def let_all_go(self) -> None:
        """End all replies in progress."""
        for conversation in tuple(self._live.values()):
            conversation.let_go()

    def send_queued(self) -> None:
        """Let every chat go on in which something waits and no reply is in progress."""
        for conversation in self.live:
            conversation.send_queued()

    def take_waiting_back(self) -> None:
        """Stop the replies that wait for a model: the user does not want it loaded."""
        for conversation in self._waiting():
            conversation.stop()

    def _fresh(self, *, is_private: bool) -> Conversation:
        """Return a chat that is not begun."""
        for conversation in self.live:
            if not conversation.chat.is_begun and conversation.chat.is_private is is_private:
                return conversation
        recorder = self._private if is_private else self.recorder
        return self._new_conversation(RecordedChat(recorder, is_private=is_private))

    def _begun(self) -> list[RecordedChat]:
        chats = [conversation.chat for conversation in self.live]
        return [chat for chat in chats if chat.is_begun and chat.id not in self._trashed]

    def _takes_stored_draft(self) -> bool:
        chat = self._current.chat
        return not (chat.is_begun or chat.is_private or self._current.draft)

    def _new_conversation(self, chat: RecordedChat) -> Conversation:
        recorder = self._private if chat.is_private else self.recorder
        conversation = Conversation(self._around._replace(recorder=recorder), chat, self)
        conversation.model_wanted.connect(self._provide_model)
        conversation.busy_changed.connect(lambda is_busy: self._on_busy_changed(conversation, is_busy))
        conversation.text_refused.connect(lambda text, error: self._on_text_refused(conversation, text, error))
        self._live[conversation.chat.id] = conversation
        return conversation

    def _enter(self, conversation: Conversation, node_id: str | None, then: Callable[[], None]) -> None:
        if node_id is not None:
            conversation.show(node_id)
        self._show(conversation)
        then()

    def _show(self, conversation: Conversation) -> None:
        before, self._current = self._current, conversation
        self._unread.discard(conversation.chat.id)
        if before is not conversation:
            before.save_settings()
            self.current_changed.emit()
            self._forget_idle()
        self.marks_changed.emit()

    def _can_be_read_again(self, conversation: Conversation) -> bool:
        """Tell whether nothing of a chat is in memory alone."""
        is_idle = not conversation.is_busy and not conversation.queue
        is_empty = not conversation.draft and conversation.settings == ChatSettings()
        is_stored = conversation.chat.is_begun and not conversation.chat.is_private
        return is_idle and (is_stored or (is_empty and not conversation.chat.is_begun))

    def _forget_idle(self) -> None:
        """Let go of the chats that are not shown and do nothing; they are read again when they are opened."""
        if self.recorder.is_up_to_date:
            for conversation in self.live:
                if conversation is not self._current and self._can_be_read_again(conversation):
                    self._forget(conversation)

    def _forget(self, conversation: Conversation) -> None:
        self._live.pop(conversation.chat.id, None)
        conversation.save_settings()
        if conversation.chat.is_begun:
            self._drafts[conversation.chat.id] = conversation.draft
        conversation.deleteLater()

    def _on_text_refused(self, conversation: Conversation, text: str, error: ErrorInfo | None) -> None:
        if conversation is not self._current:
            self.refused_unseen.emit(conversation, text, error)

    def _on_busy_changed(self, conversation: Conversation, is_busy: bool) -> None:
        if not is_busy and conversation is not self._current:
            self._unread.add(conversation.chat.id)
        self.marks_changed.emit()
        self._look_again()

    def _provide_model(self) -> None:
        """Load the model that a waiting reply needs, once no other reply is made with the present one."""
        model = self._around.model
        waiting = self._waiting()
        if not waiting or model.is_busy or any(chat.is_generating for chat in self._live.values()):
            return
        wanted = waiting[0].settings.model
        if wanted and not model.is_loaded(wanted):
            model.choose(wanted)
        elif model.state in (ModelState.DEAD, ModelState.FAILED, ModelState.NONE):
            model.load_again()

    def _waiting(self) -> list[Conversation]:
        return [chat for chat in self._live.values() if chat.is_busy and not chat.is_generating]

    def _on_model_changed(self) -> None:
        if not self._around.model.is_busy:
            self._look_again()

    def _on_model_refused(self, error: ErrorInfo) -> None:
        for conversation in self._waiting():
            if not conversation.has_model:
                conversation.fail(error)

    def _look_again(self) -> None:
        """See whether a model is needed, after all that hear of the same change have done so."""
        QTimer.singleShot(0, self, self._provide_model)

    # The store

    def _read(self, read: Callable[[ChatStore], Any], on_result: Callable[[Any], None]) -> None:
        store = self.recorder.store
        if store is not None:
            self._background.run(lambda: read(store), on_result, self._on_read_failed)

    def _purge(self) -> None:
        self.recorder.write(lambda store: store.purge_expired(), is_listed=False)

    def _read_and_enter(
        self, chat_id: str, node_id: str | None, then: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None:
        def enter(found: tuple[RecordedChat, str] | None) -> None:
            if found is not None and found[0].id not in self._trashed and is_wanted():
                self._enter(self._live_of(*found), node_id, then)

        self._read(lambda store: read_chat(store, self.recorder, chat_id), enter)

    def _live_of(self, chat: RecordedChat, draft: str) -> Conversation:
        conversation = self._live.get(chat.id)
        if conversation is None:
            conversation = self._new_conversation(chat)
            conversation.draft = self._drafts.pop(chat.id, draft)
        return conversation

    def _on_draft_read(self, draft: str) -> None:
        if draft and self._takes_stored_draft():
            self._current.draft = self._stored_draft = draft
            self.current_changed.emit()

    def _on_read_failed(self, error: Exception) -> None:
        _LOG.warning("the chats could not be read", exc_info=error)
        self.read_failed.emit(error)
