"""WindowActions: what the window does when something happens; joins the widgets with the model and the conversation."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QActionGroup, QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QMenu

from app.desktop.chat_presenter import ChatPresenter
from app.desktop.rendering.links import is_allowed
from app.desktop.session.chat_format_choice import ChatFormatChoice
from app.desktop.session.chats import Chats
from app.desktop.session.model_session import ModelSession, ModelState, Starter
from app.desktop.session.turns import ReplyState
from app.desktop.theme.theme import Theme
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.model_picker import ModelPicker
from app.desktop.widgets.notices import Notice
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.shortcuts import Shortcut, ShortcutList, install
from app.settings import Theme as ThemeMode
from engine import ErrorInfo, ModelDescription

_MODE_LABELS = ((ThemeMode.SYSTEM, "As the system"), (ThemeMode.LIGHT, "Light"), (ThemeMode.DARK, "Dark"))

_FORMAT_LABELS = {"file": "As in the file", "completion": "None: plain text goes on"}


class WindowActions(QObject):
    """Connects everything; one for each window.

    Args:
        save: keeps settings, given by name.
        open_link: hands an agreed target to the desktop.
    """

    def __init__(
        self,
        theme: Theme,
        window: MainWindow,
        *,
        picker: ModelPicker,
        readouts: Readouts,
        model: ModelSession,
        chats: Chats,
        presenter: ChatPresenter,
        formats: ChatFormatChoice,
        starter: Callable[[], Starter],
        save: Callable[[str, object], None],
        open_link: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(window)
        self._theme = theme
        self._window = window
        self._picker = picker
        self._readouts = readouts
        self._model = model
        self._chats = chats
        self._presenter = presenter
        self._formats = formats
        self._starter = starter
        self._save = save
        self._picked: tuple[str, str] | None = None  # the chat for which the user picked a model, and which
        self._open_link = open_link or (lambda target: QDesktopServices.openUrl(QUrl(target)))
        self.shortcuts = self._declare_shortcuts()
        install(window, self.shortcuts)
        self._connect_model()
        self._connect_widgets()
        self._on_model_changed()

    def choose_model(self, wanted: str | None) -> None:
        """Load a model for the shown chat; replies in progress are stopped."""
        if self._model.state is ModelState.READY:
            self._chats.let_all_go()
        self._picked = (self._chats.current.chat.id, wanted) if wanted is not None else None
        self._model.choose(wanted)

    def show_notice(self, notice: Notice) -> None:
        """Show a notice and let a screen reader say it."""
        self._window.notices.show_notice(notice)
        self._window.announce(notice.text)

    def menu(self) -> QMenu:
        """Return the menu of the window."""
        menu = QMenu(self._window)
        themes = menu.addMenu("Theme")
        group = QActionGroup(themes)
        for mode, label in _MODE_LABELS:
            action = themes.addAction(label)
            action.setCheckable(True)
            action.setChecked(mode is self._theme.mode)
            action.triggered.connect(lambda _=False, mode=mode: self.set_theme_mode(mode))
            group.addAction(action)
        self._add_formats(menu)
        menu.addSeparator()
        for shortcut in self.shortcuts:
            if shortcut.call is not None and shortcut.label in _IN_MENU:
                menu.addAction(f"{shortcut.label}\t{shortcut.shown}", shortcut.call)
        return menu

    def _add_formats(self, menu: QMenu) -> None:
        formats = menu.addMenu("Chat format")
        formats.setEnabled(bool(self._formats.usable))
        group = QActionGroup(formats)
        in_use = self._formats.chosen or self._formats.default
        for name in self._formats.usable:
            action = formats.addAction(_FORMAT_LABELS.get(name, name))
            action.setCheckable(True)
            action.setChecked(name == in_use)
            action.triggered.connect(lambda _=False, name=name: self._formats.choose(name))
            group.addAction(action)

    def set_theme_mode(self, mode: ThemeMode) -> None:
        """Switch the look and keep it."""
        self._theme.set_mode(mode)
        self._save("theme", mode)

    def new_chat(self) -> None:
        """Show an empty chat; the others are in the list."""
        self._chats.new_chat()
        self._window.composer.text_edit.setFocus()

    def ask_about_link(self, target: str) -> None:
        """Show where a link leads and let the user decide."""
        if not is_allowed(target):
            return
        actions = (
            ("Open", lambda: self._follow(target)),
            ("Copy", lambda: QGuiApplication.clipboard().setText(target)),
        )
        notice = Notice(key="link", text="Open this address outside of Fireside?", hint=target, actions=actions)
        self.show_notice(notice)

    def _follow(self, target: str) -> None:
        self._open_link(target)

    def _declare_shortcuts(self) -> tuple[Shortcut, ...]:
        window, view, chat = self._window, self._window.chat_view, self._presenter
        return (
            Shortcut(label="Send", keys=("Return",)),
            Shortcut(label="New line", keys=("Shift+Return",)),
            Shortcut(label="Stop the reply", keys=("Esc", "Ctrl+."), call=chat.stop),
            Shortcut(label="Ask again", keys=("Ctrl+R",), call=chat.retry),
            Shortcut(label="Continue the reply", keys=("Ctrl+Shift+R",), call=chat.continue_reply),
            Shortcut(label="Show or hide the thinking", keys=("Ctrl+T",), call=chat.toggle_thinking),
            Shortcut(label="New chat", keys=("Ctrl+N", "Ctrl+Shift+O"), call=self.new_chat),
            Shortcut(label="Write a message", keys=("Shift+Esc", "Ctrl+J"), call=window.composer.text_edit.setFocus),
            Shortcut(label="Choose a model", keys=("Ctrl+L",), call=self._picker.open_menu),
            Shortcut(label="Show or hide the inspector", keys=("Ctrl+I",), call=window.toggle_inspector),
            Shortcut(label="Copy the last reply", keys=("Ctrl+Shift+C",), call=chat.copy_last_reply),
            Shortcut(label="Copy the last code block", keys=("Ctrl+Shift+;",), call=chat.copy_last_code),
            Shortcut(label="First message", keys=("Ctrl+Home",), call=view.go_to_start),
            Shortcut(label="Newest text", keys=("Ctrl+End",), call=view.follow),
            Shortcut(label="Larger", keys=("Ctrl++", "Ctrl+="), call=self._theme.zoom_in),
            Shortcut(label="Smaller", keys=("Ctrl+-",), call=self._theme.zoom_out),
            Shortcut(label="Normal size", keys=("Ctrl+0",), call=self._theme.reset_zoom),
            Shortcut(label="Full screen", keys=("F11",), call=self._toggle_full_screen),
            Shortcut(label="Keyboard shortcuts", keys=("Ctrl+/",), call=self._show_shortcuts),
            Shortcut(label="Quit", keys=("Ctrl+Q",), call=self._quit),
        )

    def _connect_model(self) -> None:
        self._model.changed.connect(self._on_model_changed)
        self._model.loaded.connect(self._on_model_loaded)
        self._model.died.connect(self._on_engine_died)
        self._model.refused.connect(lambda error: self._show_error("model-refused", error, ()))

    def _connect_widgets(self) -> None:
        window = self._window
        view, empty = window.chat_view, window.chat_view.empty_state
        window.composer.page_requested.connect(view.scroll_page)
        window.model_dropped.connect(self.choose_model)
        window.top_bar.new_chat_requested.connect(self.new_chat)
        window.top_bar.menu_requested.connect(self._open_menu)
        view.load_requested.connect(self._model.load_again)
        view.link_activated.connect(self.ask_about_link)
        empty.open_requested.connect(self._picker.open_file)
        empty.starter_requested.connect(lambda: self.choose_model(self._starter().name))
        self._picker.model_chosen.connect(self.choose_model)
        self._picker.cancel_requested.connect(self._model.cancel)

    def _on_model_changed(self) -> None:
        model, notices = self._model, self._window.notices
        self._picker.show_model(model)
        self._window.chat_view.empty_state.show_model(model)
        self._window.chat_view.set_can_load(model.state in (ModelState.DEAD, ModelState.FAILED, ModelState.NONE))
        if model.state is not ModelState.READY:
            self._readouts.show_model(None)
        if model.state in (ModelState.CHOOSING, ModelState.LOADING, ModelState.READY):
            notices.dismiss("model")
        elif model.state is ModelState.FAILED and model.error is not None and self._needs_notice(model.error):
            actions = (("Use the starter model", lambda: self.choose_model(self._starter().name)),)
            self._show_error("model", model.error, actions)

    def _on_model_loaded(self, description: ModelDescription) -> None:
        self._readouts.show_model(description)
        if self._model.chosen is not None:
            if self._picked is not None and self._picked[1] == self._model.wanted:
                self._chats.use_model(self._picked[0], self._model.chosen.last_model)
            self._picked = None
            self._picker.remember(self._model.chosen.last_model)
            self._save("last_model", self._model.chosen.last_model)
        self._window.announce(f"{self._model.label} is loaded")
        self._window.notices.dismiss("loaded")
        if description.notices:
            self.show_notice(Notice(key="loaded", text=" ".join(description.notices)))

    def _on_engine_died(self, error: ErrorInfo) -> None:
        if self._needs_notice(error):
            self._show_error("model", error, (("Load the model again", self._model.load_again),))

    def _needs_notice(self, error: ErrorInfo) -> bool:
        """Tell whether neither the empty chat nor the last reply shows this error already."""
        conversation = self._chats.current
        reply = conversation.last_reply
        is_in_reply = reply is not None and reply.state is ReplyState.FAILED and reply.error == error
        is_in_empty_chat = not conversation.turns and self._model.state is ModelState.FAILED
        return not is_in_reply and not is_in_empty_chat

    def _show_error(self, key: str, error: ErrorInfo, actions: tuple[tuple[str, Callable[[], None]], ...]) -> None:
        self.show_notice(Notice(key=key, text=error.message, hint=error.hint, is_error=True, actions=actions))

    def _open_menu(self) -> None:
        button = self._window.top_bar.menu_button
        menu = self.menu()
        menu.aboutToHide.connect(menu.deleteLater)
        corner = button.mapToGlobal(button.rect().bottomRight())
        corner.setX(corner.x() - menu.sizeHint().width())
        menu.popup(corner)

    def _toggle_full_screen(self) -> None:
        if self._window.isFullScreen():
            self._window.showNormal()
        else:
            self._window.showFullScreen()

    def _show_shortcuts(self) -> None:
        ShortcutList(self._theme, self.shortcuts, self._window).show()

    def _quit(self) -> None:
        self._window.close()


_IN_MENU = frozenset(
    ("New chat", "Choose a model", "Show or hide the inspector", "Larger", "Smaller", "Keyboard shortcuts", "Quit")
)
