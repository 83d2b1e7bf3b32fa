"""ListPresenter: the chats in the sidebar and in the trash, and what a person does with a whole chat."""

import datetime
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject

from app.desktop.bridge.background import Background
from app.desktop.itemmodels.chat_list import chat_entries
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.chats import Chats
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.notices import Notice
from app.desktop.widgets.sidebar import Sidebar
from app.desktop.widgets.trash_page import TrashPage
from app.store import ChatRow

_DELETED, _FORGOTTEN, _PRIVATE = "chat-deleted", "chat-forgotten", "chat-private"


class ListPresenter(QObject):
    """Connects the chats with their lists.

    Args:
        background: where lists are put in order, one after the other.
        retention_days: tells how long the trash keeps.
        forget: drops what is cached of a chat.
    """

    def __init__(
        self,
        window: MainWindow,
        chats: Chats,
        *,
        sidebar: Sidebar,
        trash: TrashPage,
        background: Background,
        retention_days: Callable[[], int],
        show_notice: Callable[[Notice], None],
        forget: Callable[[str], None],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._chats = chats
        self._sidebar = sidebar
        self._trash = trash
        self._background = background
        self._retention_days = retention_days
        self._show_notice = show_notice
        self._forget = forget
        self._titles: dict[str, str] = {}
        sidebar.chat_opened.connect(self._open)
        sidebar.renamed.connect(chats.rename)
        sidebar.pin_toggled.connect(lambda chat_id, is_pinned: chats.set_pinned(chat_id, is_pinned=is_pinned))
        sidebar.delete_requested.connect(self._delete)
        sidebar.forget_requested.connect(self._on_forget)
        sidebar.search_changed.connect(self._on_search_changed)
        sidebar.trash_requested.connect(self.show_trash)
        trash.restore_requested.connect(self._on_restore)
        trash.purge_requested.connect(self._on_purge)
        trash.closed.connect(lambda: window.show_page(None))
        chats.rows_changed.connect(self._on_rows_changed)
        chats.marks_changed.connect(self._show_marks)
        chats.current_changed.connect(self._show_current)
        chats.found.connect(sidebar.show_hits)
        chats.trash_read.connect(self._on_trash_read)
        chats.deleted.connect(self._on_deleted)
        self._show_current()

    def delete_current(self) -> None:
        """Put the shown chat into the trash."""
        self._delete(self._chats.current.chat.id)

    def rename_current(self) -> None:
        """Let the title of the shown chat be typed in the list."""
        if self._chats.current.chat.is_begun:
            if not self._window.is_sidebar_visible:
                self._window.toggle_sidebar()
            self._sidebar.begin_rename(self._chats.current.chat.id)

    def search(self) -> None:
        """Let something be typed to look for in all chats."""
        if not self._window.is_sidebar_visible:
            self._window.toggle_sidebar()
        self._sidebar.focus_search()

    def step(self, step: int) -> None:
        """Show the chat below the present one, or above it."""
        chat_id = self._sidebar.neighbour(step)
        if chat_id is not None:
            self._chats.open(chat_id)

    def show_trash(self) -> None:
        """Show what was deleted."""
        self._chats.read_trash()
        self._window.show_page(self._trash)
        self._trash.focus_list()

    def _open(self, chat_id: str) -> None:
        self._window.close_overlay()
        self._window.show_page(None)
        self._chats.open(chat_id)

    def _delete(self, chat_id: str) -> None:
        """Put a chat into the trash; a private one is gone, which is asked before."""
        if chat_id not in self._chats.private_ids:
            self._chats.delete(chat_id, self._titles.get(chat_id, ""))
            return
        if self._chats.current.chat.id == chat_id and not self._chats.current.chat.is_begun:
            self._chats.close_private(chat_id)
            return
        text = self.tr("Close this private chat? Nothing of it is kept, and it cannot be brought back.")
        actions = ((self.tr("Close it"), lambda: self._close_private(chat_id)),)
        title = isolated(shortened(self._titles.get(chat_id, ""), 60))
        self._show_notice(Notice(key=_PRIVATE, text=text, hint=title, actions=actions))

    def _close_private(self, chat_id: str) -> None:
        self._window.notices.dismiss(_PRIVATE)
        self._chats.close_private(chat_id)

    def _on_search_changed(self, text: str) -> None:
        if text.strip():
            self._chats.search(text)

    def _on_rows_changed(self, rows: Sequence[ChatRow]) -> None:
        self._titles = {row.id: row.title for row in rows}
        now, private_ids = datetime.datetime.now().astimezone(), self._chats.private_ids
        self._background.run(lambda: chat_entries(rows, now, private_ids), self._sidebar.show_entries, self._on_failed)

    def _on_trash_read(self, rows: Sequence[ChatRow]) -> None:
        self._trash.show_rows(rows, self._retention_days())

    def _show_current(self) -> None:
        chat = self._chats.current.chat
        self._sidebar.set_current(chat.id if chat.is_begun else None)

    def _show_marks(self) -> None:
        self._sidebar.set_marks(self._chats.busy, self._chats.unread)
        self._show_current()

    def _on_restore(self, chat_id: str) -> None:
        self._chats.restore(chat_id)
        self._chats.read_trash()

    def _on_purge(self, chat_id: str) -> None:
        self._chats.purge(chat_id)
        self._chats.read_trash()

    def _on_deleted(self, chat_id: str, title: str) -> None:
        def undo() -> None:
            self._chats.restore(chat_id)
            self._chats.open(chat_id)

        text = self.tr("The chat is in the trash.")
        self._show_notice(Notice(key=_DELETED, text=text, hint=title, actions=((self.tr("Undo"), undo),)))

    def _on_forget(self, chat_id: str) -> None:
        self._forget(chat_id)
        text = self.tr("What was cached of the chat is deleted. Its next message is read from the beginning.")
        self._show_notice(Notice(key=_FORGOTTEN, text=text, hint=self._titles.get(chat_id, "")))

    def _on_failed(self, error: Exception) -> None:
        raise error
