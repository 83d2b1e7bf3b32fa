"""AdapterPresenter: finds the adapters for the shown chat's model, and keeps what the chat chose of them."""

import dataclasses
import logging
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject

from app.adapter_files import AdapterFiles, FoundAdapter
from app.desktop.bridge.background import Background
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.chat_adapters import ChatAdapter, adapters_in_use
from app.desktop.session.chats import Chats
from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelSession
from app.desktop.session.turns import ReplyState, ReplyTurn
from app.desktop.session.user_settings import UserSettings
from app.desktop.widgets.adapter_panel import AdapterPanel
from app.desktop.widgets.file_dialog import ask_for_file
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.notices import Notice
from engine import AdapterMismatch

_LOG = logging.getLogger(__name__)
_MISMATCH = AdapterMismatch.__name__
_MAX_NAME = 60


class AdapterPresenter(QObject):
    """Connects the panel with the shown chat and the files.

    Args:
        background: on which files are looked at, one call after the other; for this alone.
    """

    def __init__(
        self,
        window: MainWindow,
        panel: AdapterPanel,
        *,
        chats: Chats,
        model: ModelSession,
        files: AdapterFiles,
        settings: UserSettings,
        background: Background,
        show_notice: Callable[[Notice], None],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._panel = panel
        self._chats = chats
        self._model = model
        self._files = files
        self._settings = settings
        self._background = background
        self._show_notice = show_notice
        self._conversation: Conversation | None = None
        self._looked_for = ""  # the model that adapters were looked for last
        self._number = 0
        panel.changed.connect(self._on_changed)
        panel.let_go.connect(lambda: chats.current.save_settings())
        panel.add_requested.connect(self._ask)
        panel.seen.connect(self.look_again)
        model.changed.connect(self._on_model_changed)
        chats.current_changed.connect(self._show_current)
        self._show_current()

    def look_again(self) -> None:
        """Find what there is for the shown chat's model, once it is to be seen."""
        if not self._panel.isVisible():
            self._looked_for = ""  # then it looks when it is seen
            return
        model, files = self._model_key, self._files
        self._looked_for = model
        self._number += 1
        number = self._number
        if not model:
            self._panel.set_found(())
            self._panel.set_state(self.tr("Load a model to see which adapters fit it."))
            return
        also = (*self._settings.now.adapter_files, *self._in_use_paths())
        self._background.run(
            lambda: files.find(model, also), lambda found: self._on_found(number, found), self._on_fault
        )

    def add(self, path: str) -> None:
        """Offer a file of the user's, and use it in the shown chat if it fits."""
        conversation, model, files = self._chats.current, self._model_key, self._files
        self._background.run(
            lambda: files.look_at(path, model or None),
            lambda found: self._on_added(conversation, found),
            self._on_not_added,
        )

    def close(self) -> None:
        """Look at no more files."""
        self._background.close()

    @property
    def _model_key(self) -> str:
        chosen = self._model.chosen
        return self._chats.current.settings.model or (chosen.last_model if chosen is not None else "")

    def _in_use_paths(self) -> list[str]:
        return [adapter.path for adapter in self._chats.current.settings.adapters if adapter.is_on]

    def _show_current(self) -> None:
        before, self._conversation = self._conversation, self._chats.current
        if before is not self._conversation:
            if before is not None:
                before.settings_changed.disconnect(self._on_model_changed)
                before.request_sent.disconnect(self._on_request_sent)
                before.reply_changed.disconnect(self._on_reply_changed)
            self._conversation.settings_changed.connect(self._on_model_changed)
            self._conversation.request_sent.connect(self._on_request_sent)
            self._conversation.reply_changed.connect(self._on_reply_changed)
        self._panel.set_chosen(self._conversation.settings.adapters)
        self.look_again()

    def _on_model_changed(self) -> None:
        if self._model_key != self._looked_for:
            self.look_again()

    def _on_changed(self) -> None:
        self._set_adapters(self._chats.current, self._panel.chosen)

    def _set_adapters(self, conversation: Conversation, adapters: Sequence[ChatAdapter]) -> None:
        conversation.set_settings(dataclasses.replace(conversation.settings, adapters=tuple(adapters)))

    def _on_found(self, number: int, found: list[FoundAdapter]) -> None:
        if number != self._number:
            return
        in_use = set(self._in_use_paths())
        listed = [adapter for adapter in found if not adapter.is_missing or adapter.path in in_use]
        self._panel.set_found(listed)
        folder = self._files.folder
        if listed:
            self._panel.set_state("")
        elif folder is None:
            self._panel.set_state(self.tr("No adapters were found."))
        else:
            words = self.tr("No adapters were found. Put LoRA files (GGUF) into {folder}, or add one.")
            self._panel.set_state(words.format(folder=isolated(str(folder))))

    def _ask(self) -> None:
        ask_for_file(self._window, self.tr("Add an adapter"), self.add, kinds=self.tr("LoRA adapters (*.gguf)"))

    def _on_added(self, conversation: Conversation, found: FoundAdapter) -> None:
        kept = self._settings.now.adapter_files
        self._settings.set("adapter_files", {**kept, found.path: found.label})
        if found.misfit:
            self._panel.show_fault(f"{_name_of(found.path)}: {found.misfit}")
        elif conversation is self._chats.current:
            self._panel.set_found((*self._panel.found, found))
            self._panel.use(found.path)
        self.look_again()

    def _on_not_added(self, error: Exception) -> None:
        message, hint = getattr(error, "message", None), getattr(error, "hint", "")
        if not isinstance(message, str):
            self._on_fault(error)
            message = self.tr("The file could not be looked at because of a fault in Fireside.")
        self._panel.show_fault(f"{message} {hint}".strip())

    def _on_fault(self, error: Exception) -> None:
        _LOG.error("looking for adapters failed", exc_info=error)

    # What becomes of the files of a chat

    def _on_request_sent(self) -> None:
        self._check(self._tell_of_replaced)

    def _on_reply_changed(self, reply: ReplyTurn) -> None:
        if reply.state is ReplyState.FAILED and reply.error is not None and reply.error.error == _MISMATCH:
            self._check(self._leave_out)

    def _check(self, then: Callable[[Conversation, list[FoundAdapter]], None]) -> None:
        """Look at the files that the shown chat uses, beside the window's thread."""
        conversation, model, files = self._chats.current, self._model_key, self._files
        paths = [adapter.path for adapter in adapters_in_use(conversation.settings.adapters)]
        if paths:
            self._background.run(
                lambda: files.check(paths, model or None), lambda found: then(conversation, found), self._on_fault
            )

    def _tell_of_replaced(self, conversation: Conversation, found: list[FoundAdapter]) -> None:
        now = {adapter.path: adapter.stamp for adapter in found if not adapter.misfit}
        adapters = conversation.settings.adapters
        other = [adapter for adapter in adapters if now.get(adapter.path, adapter.stamp) != adapter.stamp]
        if not other:
            return
        self._set_adapters(
            conversation,
            [dataclasses.replace(adapter, stamp=now.get(adapter.path, adapter.stamp)) for adapter in adapters],
        )
        self._show_again(conversation)
        replaced = [_name_of(adapter.path) for adapter in other if adapter.stamp]
        if replaced:
            text = self.tr("Replaced by another file, which is used from now on: {names}").format(
                names=", ".join(replaced)
            )
            self._show_notice(Notice(key="adapter", text=text))

    def _leave_out(self, conversation: Conversation, found: list[FoundAdapter]) -> None:
        """Let a chat go on without the adapters that cannot be used; why was said where its reply failed."""
        unusable = {adapter.path for adapter in found if adapter.misfit}
        if not unusable:
            return
        adapters = conversation.settings.adapters
        self._set_adapters(
            conversation,
            [
                dataclasses.replace(adapter, is_on=adapter.is_on and adapter.path not in unusable)
                for adapter in adapters
            ],
        )
        self._show_again(conversation)
        names = ", ".join(_name_of(path) for path in sorted(unusable))
        text = self.tr("This chat goes on without {names}.").format(names=names)
        hint = self.tr("It can be chosen again once its file is in order.")
        self._show_notice(Notice(key="adapter", text=text, hint=hint))

    def _show_again(self, conversation: Conversation) -> None:
        if conversation is self._chats.current:
            self._panel.set_chosen(conversation.settings.adapters)
            self.look_again()


def _name_of(path: str) -> str:
    name = path.replace("\\", "/").rpartition("/")[2]
    return isolated(shortened(name, _MAX_NAME))
