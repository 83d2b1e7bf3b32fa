"""WindowActions: what the window does when something happens; joins the widgets with the model and the conversation."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QActionGroup, QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QMenu

from app.desktop.rendering.links import is_allowed
from app.desktop.rendering.plain import shortened
from app.desktop.session.chat_format_choice import ChatFormatChoice
from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelSession, ModelState, Starter
from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, TurnAction, UserTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.model_picker import ModelPicker
from app.desktop.widgets.notices import Notice
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.reply_outcome import dropped_text
from app.desktop.widgets.shortcuts import Shortcut, ShortcutList, install
from app.settings import Theme as ThemeMode
from engine import ErrorInfo, FinishReason, ModelDescription

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
        conversation: Conversation,
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
        self._conversation = conversation
        self._formats = formats
        self._starter = starter
        self._save = save
        self._open_link = open_link or (lambda target: QDesktopServices.openUrl(QUrl(target)))
        self.shortcuts = self._declare_shortcuts()
        install(window, self.shortcuts)
        self._connect_model()
        self._connect_conversation()
        self._connect_widgets()
        self._on_model_changed()

    def choose_model(self, wanted: str | None) -> None:
        """Load a model; a reply in progress is stopped."""
        if self._conversation.is_busy and self._model.state is ModelState.READY:
            self._conversation.stop()
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
        """Begin an empty chat; the old one can be brought back."""
        if self._conversation.turns:
            self._conversation.start_new()
            self._offer_other_chat("A new chat has begun.")
        self._window.composer.text_edit.setFocus()

    def _offer_other_chat(self, text: str) -> None:
        self.show_notice(Notice(key="new-chat", text=text, actions=(("Bring it back", self._bring_back),)))

    def _bring_back(self) -> None:
        self._conversation.bring_back()
        if self._conversation.has_set_aside:
            self._offer_other_chat("The other chat is put aside.")

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

    def continue_reply(self) -> None:
        """Let the last reply go on; the keys are where one would write next, for the button goes away."""
        self._window.composer.text_edit.setFocus()
        self._conversation.go_on()

    def toggle_thinking(self) -> None:
        """Show or hide what the model thought before its last reply."""
        if reply := self._conversation.last_reply:
            self._window.chat_view.toggle_thinking(reply.turn_id)

    def copy_last_reply(self) -> None:
        """Put the last reply on the clipboard."""
        reply = self._conversation.last_reply
        if reply is not None and self._window.chat_view.copy_turn(reply.turn_id):
            self._window.announce("Reply copied")

    def copy_last_code(self) -> None:
        """Put the last code block on the clipboard."""
        if self._window.chat_view.copy_last_code():
            self._window.announce("Code copied")

    def _follow(self, target: str) -> None:
        self._open_link(target)

    def _declare_shortcuts(self) -> tuple[Shortcut, ...]:
        window, view = self._window, self._window.chat_view
        return (
            Shortcut(label="Send", keys=("Return",)),
            Shortcut(label="New line", keys=("Shift+Return",)),
            Shortcut(label="Stop the reply", keys=("Esc", "Ctrl+."), call=self._conversation.stop),
            Shortcut(label="Ask again", keys=("Ctrl+R",), call=self._conversation.retry),
            Shortcut(label="Continue the reply", keys=("Ctrl+Shift+R",), call=self.continue_reply),
            Shortcut(label="Show or hide the thinking", keys=("Ctrl+T",), call=self.toggle_thinking),
            Shortcut(label="New chat", keys=("Ctrl+N", "Ctrl+Shift+O"), call=self.new_chat),
            Shortcut(label="Write a message", keys=("Shift+Esc", "Ctrl+J"), call=window.composer.text_edit.setFocus),
            Shortcut(label="Choose a model", keys=("Ctrl+L",), call=self._picker.open_menu),
            Shortcut(label="Show or hide the inspector", keys=("Ctrl+I",), call=window.toggle_inspector),
            Shortcut(label="Copy the last reply", keys=("Ctrl+Shift+C",), call=self.copy_last_reply),
            Shortcut(label="Copy the last code block", keys=("Ctrl+Shift+;",), call=self.copy_last_code),
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

    def _connect_conversation(self) -> None:
        conversation, view, readouts = self._conversation, self._window.chat_view, self._readouts
        conversation.turn_added.connect(self._on_turn_added)
        conversation.turn_removed.connect(view.remove_turn)
        conversation.reset.connect(self._on_reset)
        conversation.reply_grew.connect(self._on_reply_grew)
        conversation.thinking_grew.connect(self._on_thinking_grew)
        conversation.answer_taken_back.connect(self._on_answer_taken_back)
        conversation.turns_dropped.connect(self._on_turns_dropped)
        conversation.reply_restarted.connect(self._on_reply_restarted)
        conversation.reply_changed.connect(self._on_reply_changed)
        conversation.busy_changed.connect(self._window.composer.set_busy)
        conversation.text_refused.connect(self._on_text_refused)
        conversation.request_sent.connect(readouts.begin)
        conversation.first_token_received.connect(readouts.show_first_token)
        conversation.first_token_received.connect(lambda _: self._window.announce("Reply started"))
        conversation.prefill_progressed.connect(readouts.show_prefill)
        conversation.delta_received.connect(readouts.show_delta)
        conversation.reply_finished.connect(readouts.show_finished)

    def _connect_widgets(self) -> None:
        window = self._window
        view, empty = window.chat_view, window.chat_view.empty_state
        window.composer.submitted.connect(self._conversation.submit)
        window.composer.stop_requested.connect(self._conversation.stop)
        window.composer.page_requested.connect(view.scroll_page)
        window.model_dropped.connect(self.choose_model)
        window.top_bar.new_chat_requested.connect(self.new_chat)
        window.top_bar.menu_requested.connect(self._open_menu)
        view.action_requested.connect(self._on_action)
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
        reply = self._conversation.last_reply
        is_in_reply = reply is not None and reply.state is ReplyState.FAILED and reply.error == error
        is_in_empty_chat = not self._conversation.turns and self._model.state is ModelState.FAILED
        return not is_in_reply and not is_in_empty_chat

    def _show_error(self, key: str, error: ErrorInfo, actions: tuple[tuple[str, Callable[[], None]], ...]) -> None:
        self.show_notice(Notice(key=key, text=error.message, hint=error.hint, is_error=True, actions=actions))

    def _on_turn_added(self, turn: Turn) -> None:
        self._window.notices.dismiss("refused")
        self._window.chat_view.add_turn(turn)
        self._show_title()

    def _on_reset(self) -> None:
        self._window.notices.dismiss("new-chat")
        self._window.chat_view.set_turns(self._conversation.turns)
        self._readouts.show_model(self._model.description)
        self._readouts.begin()
        self._show_title()

    def _show_title(self) -> None:
        first = next((turn.text for turn in self._conversation.turns if isinstance(turn, UserTurn)), "")
        self._window.top_bar.set_title(shortened(first.strip(), 200).split("\n", 1)[0])

    def _on_action(self, action: TurnAction, turn_id: str) -> None:
        if action is TurnAction.RETRY:
            self._conversation.retry()
        elif action is TurnAction.CONTINUE:
            self.continue_reply()

    def _on_reply_grew(self, reply: ReplyTurn, text: str) -> None:
        self._window.chat_view.append_text(reply.turn_id, text)

    def _on_thinking_grew(self, reply: ReplyTurn, text: str) -> None:
        self._window.chat_view.append_thinking(reply.turn_id, text)

    def _on_answer_taken_back(self, reply: ReplyTurn) -> None:
        self._window.chat_view.take_back(reply.turn_id)

    def _on_turns_dropped(self, reply: ReplyTurn) -> None:
        if reply.dropped is not None:
            self._window.announce(dropped_text(reply.dropped))

    def _on_reply_restarted(self, reply: ReplyTurn) -> None:
        self._window.chat_view.restart(reply.turn_id)

    def _on_reply_changed(self, reply: ReplyTurn) -> None:
        self._window.chat_view.refresh(reply.turn_id)
        if reply.state is ReplyState.FAILED and reply.error is not None:
            self._readouts.end()
            self._window.announce(reply.error.message)
        elif reply.state is ReplyState.DONE:
            self._readouts.end()
            is_stopped = reply.finish_reason is FinishReason.ABORT
            self._window.announce("Reply stopped" if is_stopped else "Reply finished")

    def _on_text_refused(self, text: str, error: ErrorInfo | None) -> None:
        self._readouts.end()
        self._window.composer.give_back(text)
        self._show_title()
        if error is not None:
            self._show_error("refused", error, ())

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
