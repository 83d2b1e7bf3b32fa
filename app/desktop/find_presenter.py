"""FindPresenter: finding a text in the shown chat."""

from PySide6.QtCore import QObject, QTimer

from app.desktop.session.chats import Chats
from app.desktop.session.turns import words_of
from app.desktop.widgets.find_bar import FindBar, find_in_turns
from app.desktop.widgets.main_window import MainWindow

_AGAIN_MS = 500


class FindPresenter(QObject):
    """Connects the find bar with the shown chat; what grows meanwhile is looked through again, not at each token."""

    def __init__(self, window: MainWindow, chats: Chats, bar: FindBar) -> None:
        super().__init__(window)
        self._window = window
        self._chats = chats
        self._bar = bar
        self._query = ""
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_AGAIN_MS)
        self._timer.timeout.connect(self._look)
        bar.query_changed.connect(self._on_query_changed)
        bar.place_shown.connect(self._on_place_shown)
        bar.closed.connect(self._on_closed)
        bar.hide()
        chats.current_changed.connect(bar.leave)

    def open(self, text: str = "") -> None:
        """Show the bar, with a text to find or with the one before."""
        self._window.show_page(None)
        self._bar.open_with(text)

    def go(self, step: int) -> None:
        """Show the next place, or the previous."""
        if self._bar.isHidden():
            self.open()
        else:
            self._bar.go(step)

    def look_again(self) -> None:
        """Look again in a moment: the chat has changed."""
        if self._query and not self._timer.isActive():
            self._timer.start()

    def show_hit(self, turn_id: str, text: str) -> None:
        """Show where a search over all chats found a text."""
        self.open(text)
        self._window.chat_view.show_turn(turn_id, text=text)

    def _on_query_changed(self, query: str) -> None:
        self._query = query
        self._window.chat_view.set_highlight(query)
        self._look()

    def _look(self) -> None:
        turns = [(turn.turn_id, words_of(turn)) for turn in self._chats.current.turns]
        place = self._window.chat_view.place()
        self._bar.set_places(find_in_turns(turns, self._query), near=place[0] if place else None)

    def _on_place_shown(self, turn_id: str, number: int) -> None:
        self._window.chat_view.show_turn(turn_id, text=self._query, number=number)

    def _on_closed(self) -> None:
        self._query = ""
        self._timer.stop()
        self._window.chat_view.set_highlight("")
        self._window.composer.text_edit.setFocus()
