"""Sidebar: the chats, the search over all of them, and the way to the trash and the settings."""

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from app.desktop.itemmodels.chat_list import Entry
from app.desktop.rendering.plain import shortened
from app.desktop.theme.glyphs import paint_glyph
from app.desktop.theme.theme import Theme
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.sidebar_chats import ChatList
from app.desktop.widgets.sidebar_hits import HitList
from app.desktop.widgets.sidebar_search import SearchField
from app.store import Hit
from app.store.search import NUM_HITS

WIDTH = 236

_MAX_PROBLEM = 300


class _SideButton(QPushButton):
    """A button with a glyph before its text."""

    def __init__(self, theme: Theme, glyph: str, text: str, kind: str) -> None:
        super().__init__(text)
        self._theme = theme
        self._glyph = glyph
        self.setProperty("kind", kind)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        side = self._theme.px(16)
        left = self._theme.px(10)
        if self.isRightToLeft():
            left = self.width() - left - side
        painter = QPainter(self)
        box = QRectF(left, (self.height() - side) / 2, side, side)
        paint_glyph(painter, self._glyph, box, self._theme.colour("text"))
        painter.end()


class Sidebar(QFrame):
    """The bar at the left.

    Signals:
        chat_opened: a chat was chosen in the list.
        hit_opened: chat, message (None: the chat itself) and the text that was sought.
        new_chat_requested, trash_requested, settings_requested: the buttons.
        renamed: chat and its new title.
        pin_toggled: chat, and whether it is to be pinned.
        forget_requested: what is cached of the chat is to go; the chat stays.
        delete_requested: the chat goes to the trash.
        search_changed: what is sought, when typing pauses; empty when nothing is.
    """

    chat_opened = Signal(str)
    hit_opened = Signal(str, object, str)
    new_chat_requested = Signal()
    renamed = Signal(str, str)
    pin_toggled = Signal(str, bool)
    forget_requested = Signal(str)
    delete_requested = Signal(str)
    search_changed = Signal(str)
    trash_requested = Signal()
    settings_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("sidebar")
        self.setAccessibleName(self.tr("Chats"))
        self._wants_hits = False
        self._shown_text = ""
        self.new_chat = _SideButton(theme, "plus", self.tr("New chat"), "sideNew")
        self.field = SearchField(theme)
        self.chats = ChatList(theme)
        self.hits = HitList(theme)
        self.trash = _SideButton(theme, "trash", self.tr("Trash"), "side")
        self.settings = _SideButton(theme, "gear", self.tr("Settings"), "side")
        self._count = plain_label(role="meta")
        self._empty = plain_label(role="muted")
        self._empty.setText(self.tr("Your chats will be listed here."))
        self._hint = plain_label(role="meta")
        self._hint.setText(self.tr("A search looks for exactly this text, in titles and in all messages."))
        self._problem = plain_label(role="problem")
        self._problem.setObjectName("sidebarProblem")
        self._problem.hide()
        self._stack = QStackedWidget()
        self._chats_page, self._hits_page = self._build_pages()
        self._build()
        self._connect()
        self._on_theme_changed()
        self._show_page()

    @property
    def is_searching(self) -> bool:
        """Whether hits are shown in place of the chats."""
        return bool(self._shown_text)

    @property
    def summary(self) -> str:
        """What is said about the hits that are shown."""
        return self._count.text()

    def sizeHint(self) -> QSize:
        """See QWidget."""
        return QSize(self._theme.px(WIDTH), self._theme.px(480))

    def minimumSizeHint(self) -> QSize:
        """See QWidget; the lists can be of any size."""
        return QSize(self._theme.px(160), self._theme.px(200))

    def show_entries(self, entries: Sequence[Entry]) -> None:
        """Show the chats."""
        self.chats.show_entries(entries)
        self._show_page()

    def set_current(self, chat_id: str | None) -> None:
        """Mark the chat that is open."""
        self.chats.set_open(chat_id)

    def set_marks(self, streaming: frozenset[str], unread: frozenset[str]) -> None:
        """Mark the chats with a reply in progress, and those whose reply was not seen."""
        self.chats.chats.set_marks(streaming, unread)

    def neighbour(self, step: int) -> str | None:
        """Return the chat that is so many below the open one in the list, or above it; None past the ends."""
        ids = [entry.chat_id for entry in self.chats.chats.entries if entry.chat_id]
        current = self.chats.chats.open_id
        if current not in ids:
            return ids[0] if ids else None
        at = ids.index(current) + step
        return ids[at] if 0 <= at < len(ids) else None

    def begin_rename(self, chat_id: str) -> None:
        """Let the title of a chat be typed in its place."""
        self.clear_search()
        self.chats.begin_rename(chat_id)

    def focus_search(self) -> None:
        """Let something be typed to search for."""
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def focus_list(self) -> None:
        """Go to the list that is shown."""
        shown = self.hits if self.is_searching else self.chats
        shown.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def show_hits(self, text: str, hits: Sequence[Hit]) -> None:
        """Show what was found for a text; an answer that comes too late is dropped."""
        sought = text.strip()
        if not sought or sought != self.field.text_sought:
            return
        self._shown_text = sought
        self._count.setText(self._summary_of(hits))
        self.hits.show_hits(hits)
        if not hits and self.hits.hasFocus():
            self.focus_search()
        self.hits.setVisible(bool(hits))
        self._hint.setVisible(not hits)
        self._show_page()
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self._count.text()))
        if self._wants_hits and hits:
            self.focus_list()
        self._wants_hits = False

    def clear_search(self) -> None:
        """Show the chats again."""
        self._wants_hits = False
        self.field.clear()

    def show_problem(self, text: str) -> None:
        """Say what is wrong with keeping the chats; nothing for an empty text."""
        self._problem.setText(shortened(text, _MAX_PROBLEM))
        self._problem.setVisible(bool(text))

    def _build_pages(self) -> tuple[QWidget, QWidget]:
        chats, hits = QWidget(), QWidget()
        for page, parts in ((chats, (self._empty, self.chats)), (hits, (self._count, self._hint, self.hits))):
            box = QVBoxLayout(page)
            box.setContentsMargins(0, 0, 0, 0)
            box.setSpacing(self._theme.px(6))
            for part in parts:
                box.addWidget(part, 1 if part in (self.chats, self.hits) else 0)
            box.addStretch(0)
            self._stack.addWidget(page)
        return chats, hits

    def _build(self) -> None:
        self._foot = QHBoxLayout()
        self._foot.addWidget(self.trash, 1)
        self._foot.addWidget(self.settings, 1)
        self._box = QVBoxLayout(self)
        self._box.addWidget(self.new_chat)
        self._box.addWidget(self.field)
        self._box.addWidget(self._stack, 1)
        self._box.addWidget(self._problem)
        self._box.addLayout(self._foot)

    def _connect(self) -> None:
        self.new_chat.clicked.connect(self.new_chat_requested)
        self.trash.clicked.connect(self.trash_requested)
        self.settings.clicked.connect(self.settings_requested)
        self.field.textChanged.connect(self._on_field_changed)
        self.field.sought.connect(self.search_changed)
        self.field.entered.connect(self._on_entered)
        self.field.escaped.connect(self._leave_search)
        self.chats.row_chosen.connect(lambda row: self.chat_opened.emit(self.chats.chats.entry(row).chat_id))
        self.chats.menu_requested.connect(self._open_menu)
        self.chats.renamed.connect(self.renamed)
        self.chats.rename_ended.connect(self._show_page)
        self.chats.text_typed.connect(self._on_text_typed)
        self.chats.left_upwards.connect(self.focus_search)
        self.hits.hit_chosen.connect(lambda chat, node: self.hit_opened.emit(chat, node, self._shown_text))
        self.hits.escaped.connect(self._leave_search)
        self.hits.left_upwards.connect(self.focus_search)
        self._theme.changed.connect(self._on_theme_changed)

    def menu(self, chat_id: str) -> QMenu:
        """Return the menu of a chat."""
        entry = self.chats.chats.entry(self.chats.chats.row_of(chat_id))
        is_pinned = entry.is_pinned
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(_with_keys(self.tr("Rename"), "F2"), lambda: self.begin_rename(chat_id))
        if entry.is_private:
            menu.addSeparator()
            close = _with_keys(self.tr("Close for good"), "Ctrl+Shift+Backspace")
            menu.addAction(close, lambda: self.delete_requested.emit(chat_id))
            return menu
        pin = self.tr("Unpin") if is_pinned else self.tr("Pin")
        menu.addAction(pin, lambda: self.pin_toggled.emit(chat_id, not is_pinned))
        menu.addAction(self.tr("Forget what is cached"), lambda: self.forget_requested.emit(chat_id))
        menu.addSeparator()
        menu.addAction(
            _with_keys(self.tr("Delete"), "Ctrl+Shift+Backspace"), lambda: self.delete_requested.emit(chat_id)
        )
        return menu

    def _open_menu(self, chat_id: str, place: QPoint) -> None:
        self.menu(chat_id).popup(place)

    def _summary_of(self, hits: Sequence[Hit]) -> str:
        if not hits:
            return self.tr("Nothing found")
        if len(hits) == 1:
            return self.tr("1 hit")
        if len(hits) >= NUM_HITS:
            return self.tr("The first {count} hits").format(count=len(hits))
        return self.tr("{count} hits").format(count=len(hits))

    def _show_page(self) -> None:
        has_chats = bool(self.chats.chats.entries)
        if not has_chats and self.chats.hasFocus():
            self.new_chat.setFocus()
        self._empty.setVisible(not has_chats)
        self.chats.setVisible(has_chats)
        self._stack.setCurrentWidget(self._hits_page if self.is_searching else self._chats_page)

    def _on_field_changed(self) -> None:
        if self.field.text_sought or not self.is_searching:
            return
        had_focus = self.hits.hasFocus()
        self._shown_text = ""
        self._show_page()
        self.hits.show_hits(())
        if had_focus:
            self.focus_list()

    def _on_entered(self) -> None:
        is_answered = self._shown_text == self.field.text_sought
        if is_answered and (not self.is_searching or not self.hits.isHidden()):
            self.focus_list()
        self._wants_hits = not is_answered

    def _on_text_typed(self, text: str) -> None:
        self.focus_search()
        self.field.setText(text)

    def _leave_search(self) -> None:
        self.clear_search()
        self.focus_list()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(12), px(12), px(12), px(10))
        self._box.setSpacing(px(8))
        self._foot.setContentsMargins(0, 0, 0, 0)
        self._foot.setSpacing(px(4))
        for label in (self._empty, self._count, self._hint):
            label.setContentsMargins(px(10), px(2), px(10), 0)
        self.new_chat.setFixedHeight(px(34))
        self.updateGeometry()


def _with_keys(text: str, keys: str) -> str:
    return f"{text}\t{QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)}"
