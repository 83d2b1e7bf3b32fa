"""WindowActions: what the window does when something happens; joins the widgets with the model and the conversation."""

from collections.abc import Callable

from PySide6.QtCore import QT_TRANSLATE_NOOP, QObject, QUrl
from PySide6.QtGui import QActionGroup, QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QMenu

from app.desktop.chat_presenter import ChatPresenter
from app.desktop.find_presenter import FindPresenter
from app.desktop.list_presenter import ListPresenter
from app.desktop.rendering.links import is_allowed
from app.desktop.session.chat_format_choice import ChatFormatChoice
from app.desktop.session.chats import Chats
from app.desktop.session.kept_prompts import KeptPrompts
from app.desktop.session.model_session import ModelSession, ModelState, Starter
from app.desktop.session.turns import ReplyState
from app.desktop.session.user_settings import UserSettings
from app.desktop.theme.theme import Theme
from app.desktop.widgets.crash_card import CrashCard
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.model_picker import ModelPicker
from app.desktop.widgets.notices import Notice
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.setting_controls import translated
from app.desktop.widgets.settings_page import SettingsPage
from app.desktop.widgets.shortcuts import Shortcut, ShortcutList, install
from app.desktop.window_keys import Calls, chat_keys, list_keys, window_keys
from app.settings import Theme as ThemeMode
from app.settings import setting_infos
from engine import EngineDied, ErrorInfo, ModelDescription, ModelParams

_FORMAT_LABELS = {
    "file": QT_TRANSLATE_NOOP("WindowActions", "As in the file"),
    "completion": QT_TRANSLATE_NOOP("WindowActions", "None: plain text goes on"),
}

# What loads nearly everywhere: a small context, on the processor.
_SAFE_PARAMS = ModelParams(n_ctx=2048, device="CPU")


class WindowActions(QObject):
    """Connects everything; one for each window.

    Args:
        show_models: shows the page of models.
        toggle_compare: shows the Compare page, or leaves it.
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
        lists: ListPresenter,
        find: FindPresenter,
        settings_file: str,
        crash_card: CrashCard,
        formats: ChatFormatChoice,
        starter: Callable[[], Starter],
        settings: UserSettings,
        kept: KeptPrompts,
        show_models: Callable[[], None],
        toggle_compare: Callable[[], None],
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
        self._settings_file = settings_file
        self._settings_page: SettingsPage | None = None
        self._crash_card = crash_card
        self._formats = formats
        self._starter = starter
        self._settings = settings
        self._kept = kept
        self._picked: tuple[str, str] | None = None  # the chat for which the user picked a model, and which
        self._open_link = open_link or (lambda target: QDesktopServices.openUrl(QUrl(target)))
        calls: Calls = {
            "model": picker.open_menu,
            "models": show_models,
            "compare": toggle_compare,
            "settings": self.show_settings,
            "full_screen": self._toggle_full_screen,
            "shortcuts": self._show_shortcuts,
            "quit": self._quit,
        }
        of_window = window_keys(window, theme, calls)
        of_lists = list_keys(lists, find, new_chat=self.new_chat, new_private=self.new_private_chat)
        self._in_menu = (*of_lists[:4], *of_window)
        self._beside_chat = (*of_lists, *of_window)
        install(window, self.shortcuts)
        self._connect_model()
        self._connect_widgets()
        kept.refused.connect(lambda error: self._show_error("cache-refused", error, ()))
        picker.models_requested.connect(show_models)
        window.top_bar.compare_requested.connect(toggle_compare)
        self._on_model_changed()

    @property
    def shortcuts(self) -> tuple[Shortcut, ...]:
        """All keys, as they are now."""
        return (*chat_keys(self._presenter, self._window, self._settings.now.send_key), *self._beside_chat)

    def choose_model(self, wanted: str | None) -> None:
        """Load a model for the shown chat; replies in progress are stopped."""
        if self._model.state is ModelState.READY:
            self._chats.let_all_go()
        self._picked = (self._chats.current.chat.id, wanted) if wanted is not None else None
        self._model.choose(wanted)
        self._chats.send_queued()  # to the new one

    def _cancel_load(self) -> None:
        self._model.cancel()
        self._chats.take_waiting_back()

    def show_notice(self, notice: Notice) -> None:
        """Show a notice and let a screen reader say it."""
        self._window.notices.show_notice(notice)
        self._window.announce(notice.text)

    def menu(self) -> QMenu:
        """Return the menu of the window."""
        menu = QMenu(self._window)
        themes = menu.addMenu(self.tr("Theme"))
        group = QActionGroup(themes)
        for mode, label in zip(ThemeMode, setting_infos()["theme"].choices, strict=True):
            action = themes.addAction(translated(label))
            action.setCheckable(True)
            action.setChecked(mode is self._settings.now.theme)
            action.triggered.connect(lambda _=False, mode=mode: self._settings.set("theme", mode))
            group.addAction(action)
        self._add_formats(menu)
        menu.addSeparator()
        for shortcut in self._in_menu:
            if shortcut.call is not None:
                menu.addAction(shortcut.menu_text, shortcut.call)
        return menu

    def _add_formats(self, menu: QMenu) -> None:
        formats = menu.addMenu(self.tr("Chat format"))
        formats.setEnabled(bool(self._formats.usable))
        group = QActionGroup(formats)
        in_use = self._formats.chosen or self._formats.default
        for name in self._formats.usable:
            action = formats.addAction(self.tr(str(_FORMAT_LABELS[name])) if name in _FORMAT_LABELS else name)
            action.setCheckable(True)
            action.setChecked(name == in_use)
            action.triggered.connect(lambda _=False, name=name: self._formats.choose(name))
            group.addAction(action)

    def new_chat(self) -> None:
        """Show an empty chat; the others are in the list."""
        self._window.show_page(None)
        self._chats.new_chat()
        self._window.composer.text_edit.setFocus()

    def new_private_chat(self) -> None:
        """Show an empty chat of which nothing is written."""
        self._window.show_page(None)
        self._chats.new_chat(is_private=True)
        self._window.composer.text_edit.setFocus()

    def ask_about_link(self, target: str) -> None:
        """Show where a link leads and let the user decide."""
        if not is_allowed(target):
            return
        actions = (
            (self.tr("Open"), lambda: self._open_link(target)),
            (self.tr("Copy"), lambda: QGuiApplication.clipboard().setText(target)),
        )
        text = self.tr("Open this address outside of Fireside?")
        self.show_notice(Notice(key="link", text=text, hint=target, actions=actions))

    def _connect_model(self) -> None:
        self._model.changed.connect(self._on_model_changed)
        self._model.loaded.connect(self._on_model_loaded)
        self._model.died.connect(self._on_engine_died)
        self._model.refused.connect(self._on_model_refused)

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
        self._crash_card.load_requested.connect(self._load_after_crash)
        self._crash_card.close_button.clicked.connect(self._tell_replies)
        self._settings.changed.connect(self._on_setting_changed)
        self._picker.model_chosen.connect(self.choose_model)
        self._picker.cancel_requested.connect(self._cancel_load)

    def _on_model_changed(self) -> None:
        model, notices = self._model, self._window.notices
        self._picker.show_model(model)
        self._presenter.show_model()
        self._window.chat_view.empty_state.show_model(model)
        if model.state is not ModelState.READY:
            self._readouts.show_model(None)
        if model.state in (ModelState.CHOOSING, ModelState.LOADING, ModelState.READY):
            notices.dismiss("model")
            self._crash_card.hide()
        elif model.state is ModelState.FAILED and model.error is not None and self._needs_notice(model.error):
            actions = ((self.tr("Use the starter model"), lambda: self.choose_model(self._starter().name)),)
            self._show_error("model", model.error, actions)
        self._tell_replies()

    def _tell_replies(self) -> None:
        """Let failed replies offer what helps; what the crash card says they do not say as well."""
        model = self._model
        told = None if self._crash_card.isHidden() else model.error
        can_load = model.state in (ModelState.DEAD, ModelState.FAILED, ModelState.NONE)
        self._window.chat_view.set_can_load(can_load, told)

    def _on_model_loaded(self, description: ModelDescription) -> None:
        self._readouts.show_model(description)
        if not self._chats.current.is_busy:
            self._readouts.show_reply(self._chats.current.last_reply)  # what it takes of the context is known
        if self._model.chosen is not None:
            if self._picked is not None and self._picked[1] == self._model.wanted:
                self._chats.use_model(self._picked[0], self._model.chosen.last_model)
            self._picked = None
            self._picker.remember(self._model.chosen.last_model)
            self._settings.set("last_model", self._model.chosen.last_model)
        self._window.announce(self.tr("{} is loaded").format(self._model.label))
        self._window.notices.dismiss("loaded")
        if description.notices:
            self.show_notice(Notice(key="loaded", text=" ".join(description.notices)))

    def _on_model_refused(self, error: ErrorInfo) -> None:
        self._show_error("model-refused", error, ())

    def _on_engine_died(self, event: EngineDied) -> None:
        self._crash_card.show_death(event.error, event.exit_code, event.log_tail)
        self._tell_replies()
        self._window.announce(self._crash_card.text)

    def _load_after_crash(self, is_safe: bool) -> None:
        if is_safe and self._model.chosen is not None:
            self._settings.set_load_params(self._model.chosen.last_model, _SAFE_PARAMS)
        self._model.load_again()

    def _on_setting_changed(self, _: str) -> None:
        if self._settings_page is not None:
            self._settings_page.show_settings(self._settings.now)

    def show_settings(self) -> None:
        """Show the settings in the place of the conversation; the page is made when it is first wanted."""
        if self._settings_page is None:
            self._settings_page = page = SettingsPage(self._theme, self._window)
            page.show_file(self._settings_file)
            page.changed.connect(self._settings.set)
            page.clear_requested.connect(self._kept.clear)
            self._kept.described.connect(page.cache.show_kept)
            self._kept.described.connect(page.documents.show_kept)
            page.documents.forget_requested.connect(self._kept.forget_named)
            page.closed.connect(lambda: self._window.show_page(None))
        self._settings_page.show_settings(self._settings.now)
        self._kept.describe()
        self._window.show_page(self._settings_page)

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
