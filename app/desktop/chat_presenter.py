"""ChatPresenter: shows the current chat in the window, and hands on what a person does with its messages."""

import dataclasses
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, SignalInstance

from app.desktop.find_presenter import FindPresenter
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.chats import Chats
from app.desktop.session.conversation import Conversation
from app.desktop.session.token_counts import DraftCount, TokenCounts
from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, TurnAction, UserTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.composer_draft import Draft, read_draft, text_of_all
from app.desktop.widgets.details_card import DetailsCard
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.notices import Notice
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.reply_outcome import dropped_text
from engine import ErrorInfo, FinishReason


class ChatPresenter(QObject):
    """Connects one conversation at a time with the view, the composer and the numbers.

    Args:
        model_to_load: tells what a person calls the model that sending a message loads first; empty for none.
    """

    def __init__(
        self,
        theme: Theme,
        window: MainWindow,
        *,
        chats: Chats,
        readouts: Readouts,
        counts: TokenCounts,
        find: FindPresenter,
        model_to_load: Callable[[Conversation], str],
        pin_seed: Callable[[int], None],
        show_notice: Callable[[Notice], None],
    ) -> None:
        super().__init__(window)
        self._theme = theme
        self._window = window
        self._chats = chats
        self._readouts = readouts
        self._counts = counts
        self._find = find
        self._model_to_load = model_to_load
        self._pin_seed = pin_seed
        self._show_notice = show_notice
        self._connected: list[tuple[SignalInstance, Callable[..., Any]]] = []
        self._shown: Conversation | None = None
        view, composer = window.chat_view, window.composer
        view.action_requested.connect(self._on_action)
        view.edit_submitted.connect(self._on_edited)
        view.typed.connect(self._on_typed)
        composer.submitted.connect(lambda text: self.conversation.submit(text))
        composer.stop_requested.connect(self.stop)
        composer.edit_last_requested.connect(self.edit_last_message)
        composer.queued_edit_requested.connect(self._on_queued_edit)
        composer.queued_drop_requested.connect(lambda message_id: self.conversation.queue.take(message_id))
        composer.draft_changed.connect(self._on_draft_changed)
        composer.count_requested.connect(lambda text: counts.count_draft(self.conversation, text))
        counts.draft_counted.connect(self._on_draft_counted)
        chats.current_changed.connect(self._show_current)
        chats.refused_unseen.connect(self._on_refused_unseen)
        self._show_current()

    @property
    def conversation(self) -> Conversation:
        """The chat that is shown."""
        return self._chats.current

    # What a person does

    def stop(self) -> None:
        """Stop the reply of the shown chat; what waits behind it comes back to be edited, and is not sent."""
        waiting = [self.conversation.queue.take() for _ in range(len(self.conversation.queue))]
        self.conversation.stop()
        if waiting:
            self._window.composer.give_back(text_of_all(waiting))

    def retry(self) -> None:
        """Ask for the last reply once more."""
        self.conversation.retry()

    def continue_reply(self) -> None:
        """Let the last reply go on; the keys are where one would write next, for the button goes away."""
        self._window.composer.text_edit.setFocus()
        self.conversation.go_on()

    def undo(self) -> None:
        """Take back the last change of the messages."""
        if self.conversation.chat.can_undo:
            self._window.notices.dismiss("undo")
            self.conversation.undo()
            self._window.announce(self.tr("Undone"))

    def toggle_thinking(self) -> None:
        """Show or hide what the model thought before its last reply."""
        if reply := self.conversation.last_reply:
            self._window.chat_view.toggle_thinking(reply.turn_id)

    def copy_last_reply(self) -> None:
        """Put the last reply on the clipboard."""
        reply = self.conversation.last_reply
        if reply is not None and self._window.chat_view.copy_turn(reply.turn_id):
            self._window.announce(self.tr("Reply copied"))

    def copy_last_code(self) -> None:
        """Put the last code block on the clipboard."""
        if self._window.chat_view.copy_last_code():
            self._window.announce(self.tr("Code copied"))

    def edit_last_message(self) -> None:
        """Open the newest own message for editing."""
        if message := self.conversation.last_message:
            self._window.chat_view.begin_edit(message.turn_id)

    def _on_action(self, action: TurnAction, turn_id: str) -> None:
        conversation = self.conversation
        match action:
            case TurnAction.RETRY:
                self._window.composer.text_edit.setFocus()
                conversation.retry(turn_id)
            case TurnAction.CONTINUE:
                self._window.composer.text_edit.setFocus()
                conversation.go_on(turn_id)
            case TurnAction.PREVIOUS_VARIANT | TurnAction.NEXT_VARIANT:
                conversation.show_variant(turn_id, 1 if action is TurnAction.NEXT_VARIANT else -1)
            case TurnAction.DELETE:
                conversation.delete(turn_id)
                self._offer_undo(self.tr("The message is deleted."))
            case TurnAction.BRANCH:
                conversation.branch(turn_id)
                self._offer_undo(self.tr("The chat goes on from here; later messages stay in their own branch."))
                self._window.composer.text_edit.setFocus()
            case TurnAction.EDIT:
                self._window.chat_view.begin_edit(turn_id)
            case TurnAction.DETAILS:
                self._show_details(turn_id)

    def _on_typed(self, text: str) -> None:
        self._window.composer.text_edit.setFocus()
        self._window.composer.text_edit.insertPlainText(text)

    def _on_edited(self, turn_id: str, text: str) -> None:
        self._window.composer.text_edit.setFocus()  # the row that has the keys goes away
        self.conversation.edit(turn_id, text)
        if self.conversation.chat.can_undo:
            self._offer_undo(self.tr("Edited; the earlier version is kept beside it."))

    def _offer_undo(self, text: str) -> None:
        self._show_notice(Notice(key="undo", text=text, actions=((self.tr("Undo"), self.undo),)))

    def _show_details(self, turn_id: str) -> None:
        turn = self.conversation.chat.get(turn_id)
        if isinstance(turn, ReplyTurn):
            card = DetailsCard(self._theme, turn, self._window)
            card.seed_pinned.connect(self._pin_seed)
            card.show()

    # The composer

    def keep_place(self) -> None:
        """Let the shown chat remember what is typed and where it is scrolled to."""
        self._window.composer.flush_draft()
        shown, view = self._shown, self._window.chat_view
        if shown is not None and shown.chat.is_begun:
            place = None if view.is_following else view.place()
            shown.set_settings(dataclasses.replace(shown.settings, place=place))

    def keep_unsent(self) -> None:
        """Make what waits to be sent a part of the drafts; the window is about to close."""
        self._window.composer.flush_draft()
        for conversation in self._chats.live:
            waiting = text_of_all([message.text for message in conversation.queue])
            if waiting:
                _put_above_draft(conversation, waiting)
        self._chats.save_drafts()

    def _on_refused_unseen(self, conversation: Conversation, text: str, error: ErrorInfo | None) -> None:
        _put_above_draft(conversation, text)
        if error is not None:
            title = isolated(shortened(conversation.chat.title, 60))
            self._show_notice(Notice(key="refused", text=error.message, hint=title, is_error=True))

    def _on_draft_changed(self, draft: str) -> None:
        if self._shown is not None:
            self._shown.save_draft(draft)

    def _on_draft_counted(self, count: DraftCount | None) -> None:
        composer = self._window.composer
        if count is None:
            composer.show_count(None)
        else:
            num_over = max(0, count.num_tokens - count.n_ctx)
            composer.show_count(
                count.num_tokens, num_over=num_over, n_ctx=count.n_ctx, is_alone_too_long=count.is_alone_too_long
            )

    def _on_queued_edit(self, message_id: str) -> None:
        text = self.conversation.queue.take(message_id)
        if text:
            self._window.composer.give_back(text)

    def _show_queue(self) -> None:
        self._window.composer.set_queue(tuple(self.conversation.queue))

    def _show_history(self) -> None:
        texts = [turn.text for turn in self.conversation.turns if isinstance(turn, UserTurn)]
        self._window.composer.set_history(texts)

    def show_model(self) -> None:
        """Say what sending a message will load."""
        label = isolated(shortened(self._model_to_load(self.conversation), 40))
        words = self.tr("Message. {} is loaded when you send it.").format(label)
        is_private = self.conversation.chat.is_private
        usual = self.tr("Private message, kept in memory only") if is_private else self.tr("Message")
        self._window.composer.set_placeholder(words if label else usual)

    # What the chat does

    def _show_current(self) -> None:
        self.keep_place()
        for signal, slot in self._connected:
            signal.disconnect(slot)
        self._shown = self.conversation
        if self._window.chat_view.focused_number is not None:
            self._window.composer.text_edit.setFocus()  # the messages of the chat before go away
        conversation, view, readouts = self.conversation, self._window.chat_view, self._readouts
        self._connected = [
            (conversation.turn_added, self._on_turn_added),
            (conversation.path_changed, self._on_path_changed),
            (conversation.reply_grew, self._on_reply_grew),
            (conversation.thinking_grew, self._on_thinking_grew),
            (conversation.answer_taken_back, self._on_answer_taken_back),
            (conversation.turns_dropped, self._on_turns_dropped),
            (conversation.reply_changed, self._on_reply_changed),
            (conversation.busy_changed, self._window.composer.set_busy),
            (conversation.text_refused, self._on_text_refused),
            (conversation.attempt_failed, self._on_attempt_failed),
            (conversation.title_changed, self._show_title),
            (conversation.settings_changed, self.show_model),
            (conversation.queue.changed, self._show_queue),
            (conversation.request_sent, readouts.begin),
            (conversation.first_token_received, self._on_first_token),
            (conversation.prefill_progressed, readouts.show_prefill),
            (conversation.delta_received, readouts.show_delta),
            (conversation.reply_finished, readouts.show_finished),
        ]
        for signal, slot in self._connected:
            signal.connect(slot)
        for key in ("undo", "refused", "attempt"):
            self._window.notices.dismiss(key)
        view.set_turns(conversation.turns, place=conversation.settings.place)
        self._window.composer.set_busy(conversation.is_busy)
        self._window.composer.set_draft(conversation.draft)
        readouts.show_reply(conversation.last_reply)
        self._show_queue()
        self._show_history()
        self._show_title()
        self.show_model()

    def _show_title(self) -> None:
        chat = self.conversation.chat
        title = chat.title
        self._window.top_bar.set_private(chat.is_private)
        self._window.chat_view.empty_state.set_private(chat.is_private)
        self._window.top_bar.set_title(title)
        if chat.is_private:  # others see what windows are called
            title = self.tr("Private chat")
        line = isolated(shortened(title, 100)).replace("[*]", "[*][*]")  # where Qt would mark a change
        self._window.setWindowTitle(self.tr("{title} – Fireside").format(title=line) if line else "Fireside")

    def _on_turn_added(self, turn: Turn) -> None:
        for key in ("undo", "refused", "attempt"):
            self._window.notices.dismiss(key)
        self._window.chat_view.add_turn(turn)
        self._find.look_again()
        if isinstance(turn, UserTurn):
            self._show_title()
            self._show_history()

    def _on_path_changed(self) -> None:
        view = self._window.chat_view
        number = view.focused_number  # the message that has the keys may go away
        self._window.notices.dismiss("attempt")
        view.set_turns(self.conversation.turns)
        if not self.conversation.is_busy:
            self._readouts.show_path(self.conversation.last_reply)
        if number is not None:
            view.focus_number(number)
        self._find.look_again()
        self._show_title()
        self._show_history()

    def _on_reply_grew(self, reply: ReplyTurn, text: str) -> None:
        self._window.chat_view.append_text(reply.turn_id, text)
        self._find.look_again()

    def _on_thinking_grew(self, reply: ReplyTurn, text: str) -> None:
        self._window.chat_view.append_thinking(reply.turn_id, text)

    def _on_answer_taken_back(self, reply: ReplyTurn) -> None:
        self._window.chat_view.take_back(reply.turn_id)

    def _on_turns_dropped(self, reply: ReplyTurn) -> None:
        if reply.dropped is not None:
            self._window.announce(dropped_text(reply.dropped))

    def _on_first_token(self, seconds: float) -> None:
        self._readouts.show_first_token(seconds)
        self._window.announce(self.tr("Reply started"))

    def _on_reply_changed(self, reply: ReplyTurn) -> None:
        self._window.chat_view.refresh(reply.turn_id)
        if reply.state is ReplyState.FAILED and reply.error is not None:
            self._readouts.end()
            self._window.announce(reply.error.message)
        elif reply.state is ReplyState.DONE:
            self._readouts.end()
            is_stopped = reply.finish_reason is FinishReason.ABORT
            self._window.announce(self.tr("Reply stopped") if is_stopped else self.tr("Reply finished"))

    def _on_text_refused(self, text: str, error: ErrorInfo | None) -> None:
        self._readouts.end()
        self._window.composer.give_back(text)
        if error is not None:
            self._show_notice(Notice(key="refused", text=error.message, hint=error.hint, is_error=True))

    def _on_attempt_failed(self, reply: ReplyTurn) -> None:
        error = reply.error
        if error is not None:
            call = self.continue_reply if reply.is_continuation else self.retry
            actions = ((self.tr("Retry"), call),)
            notice = Notice(key="attempt", text=error.message, hint=error.hint, is_error=True, actions=actions)
            self._show_notice(notice)


def _put_above_draft(conversation: Conversation, text: str) -> None:
    """Give a message back to a chat that is not shown."""
    conversation.save_draft(Draft(text).fitted().above(read_draft(conversation.draft)).written)
