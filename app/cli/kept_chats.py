"""Chats of the terminal that are kept: what is asked and answered goes into the store of the window.

A chat that is not to be kept has the same shape and writes nothing.
"""

import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec

from app.cli.chat_plan import ChatPlan
from app.cli.outcome import show_error
from app.errors import StoreError, StoreReadOnly
from app.paths import Paths
from app.reply_records import reply_measures, title_of
from app.sampling_layers import changed_values
from app.store import ChatChange, ChatStore, NewChat, NewNode, NodeState, Partial, ReplyEnd, new_id
from engine import Delta, EngineError, Finished, FinishReason, Role, SamplingParams, TurnsDropped

_PARTIAL_EVERY_S = 1.0


class KeptChats:
    """Where the chats of one run go.

    Args:
        store: None keeps nothing.

    Attributes:
        has_lost: whether something could not be written, which was said; settled after `close`.
    """

    def __init__(self, store: ChatStore | None = None) -> None:
        self._store = store
        self._writes: list[Future[None]] = []
        self._open: KeptReply | None = None
        self.has_lost = False

    @classmethod
    def open(cls, paths: Paths) -> "KeptChats":
        """Open the store of the window.

        Raises:
            StoreError: nothing can be kept there.
        """
        said: set[str] = set()

        def tell(error: StoreError) -> None:
            if error.message not in said:
                said.add(error.message)
                show_error(error)

        store, notices = ChatStore.open(paths.database_file, on_trouble=tell)
        if not store.is_kept:
            store.close()
            raise StoreReadOnly(
                f"The chats in {paths.database_file} cannot be written.",
                "Make the file and its folder writable, or leave --save out.",
            )
        for notice in notices:
            print(f"fireside: {notice}", file=sys.stderr)
        return cls(store)

    def __enter__(self) -> "KeptChats":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is still to be written."""
        if self._store is None:
            return
        if self._open is not None:  # the program ends in the middle of a reply
            self._open.save()
        self._store.close()
        self.has_lost = any(write.cancelled() or write.exception() is not None for write in self._writes)

    def begin(self) -> "KeptChat":
        """Begin a chat; the store hears of it with its first message."""
        return KeptChat(self)

    def write(self, job: Callable[[ChatStore], Future[None]]) -> None:
        """Have something written, if anything is."""
        if self._store is not None:
            self._writes.append(job(self._store))

    def write_partial(self, partial: Partial) -> None:
        """Have what arrived of a reply written, if anything is."""
        if self._store is not None:
            self._store.save_partial(partial)

    def set_open(self, reply: "KeptReply | None") -> None:
        """Take note of the reply that is in progress."""
        self._open = reply


class KeptChat:
    """One chat, a straight line of messages but for replies that were asked for again.

    Attributes:
        id: names it for the engine too, so that removing the chat removes what the engine keeps of it.
    """

    def __init__(self, chats: KeptChats) -> None:
        self.id = new_id()
        self._chats = chats
        self._known: ChatChange | None = None
        self._before: str | None = None  # the message before the last question
        self._last: KeptReply | None = None

    def ask(self, content: str, words: str, plan: ChatPlan) -> "KeptReply":
        """Add a question and an open reply to it.

        Args:
            content: the whole message, its documents too.
            words: what was typed, which names a chat that has no name yet.
        """
        change = ChatChange(system_prompt=plan.system or "", model=plan.last_model or "", settings=_settings_of(plan))
        if self._known is None:
            self._write_chat(title_of(words), change)
        else:
            self._note(change)
        self._known = change
        question = NewNode(
            chat_id=self.id, parent_id=self._last.id if self._last else None, role=Role.USER, content=content
        )
        self._chats.write(lambda store: store.add_node(question))
        return self._begin(question.id, None, plan)

    def ask_again(self, plan: ChatPlan) -> "KeptReply":
        """Add an open reply beside the last one."""
        assert self._last is not None
        return self._begin(self._last.question_id, self._last, plan)

    def go_on(self, plan: ChatPlan) -> "KeptReply":
        """Add an open reply beside the last one, which begins with what that says."""
        assert self._last is not None
        last = self._last
        reply = self._begin(last.question_id, last, plan)
        reply.go_on_from(last)
        return reply

    def _begin(self, question_id: str, source: "KeptReply | None", plan: ChatPlan) -> "KeptReply":
        node = NewNode(
            chat_id=self.id,
            parent_id=question_id,
            source_id=source.id if source else None,
            role=Role.ASSISTANT,
            state=NodeState.OPEN,
            settings=_making_of(plan),
            model_name=plan.label,
            model_fingerprint=plan.fingerprint,
            template_hash=plan.template_hash,
        )
        self._chats.write(lambda store: store.add_node(node))
        return KeptReply(self, self._chats, node)

    def settle(self, reply: "KeptReply") -> None:
        """Let the chat go on behind a reply that has ended well."""
        self._last = reply

    def _write_chat(self, title: str, change: ChatChange) -> None:
        chat = NewChat(
            id=self.id,
            title=title,
            system_prompt=change.system_prompt or "",
            model=change.model or "",
            settings=change.settings or {},
        )
        self._chats.write(lambda store: store.add_chat(chat))

    def _note(self, change: ChatChange) -> None:
        if change != self._known:
            self._chats.write(lambda store: store.change_chat(self.id, change))


class KeptReply:
    """A reply in progress."""

    def __init__(self, chat: KeptChat, chats: KeptChats, node: NewNode) -> None:
        self.id = node.id
        self.question_id = node.parent_id or ""
        self._source_id = node.source_id
        self._chat = chat
        self._chats = chats
        self._text, self._thinking = "", ""
        self._begun = ("", "")
        self._dropped: TurnsDropped | None = None
        self._saved_at = time.monotonic()
        chats.set_open(self)

    def go_on_from(self, reply: "KeptReply") -> None:
        """Begin with what another one says."""
        self._begun = self._text, self._thinking = reply._text, reply._thinking

    def take(self, item: object) -> None:
        """Take in what comes of the request."""
        match item:
            case TurnsDropped():
                self._dropped = item
            case Delta():
                if item.was_thinking:
                    self._begun = "", self._begun[1] + self._begun[0]
                    self._text, self._thinking = "", self._thinking + self._text
                self._text += item.text
                self._thinking += item.thinking
                if time.monotonic() - self._saved_at > _PARTIAL_EVERY_S:
                    self.save()

    def save(self) -> None:
        """Keep what has arrived."""
        self._saved_at = time.monotonic()
        self._chats.write_partial(Partial(node_id=self.id, content=self._text, thinking=self._thinking))

    def finish(self, finished: Finished) -> None:
        """End it as the engine did."""
        begun_text, begun_thinking = self._begun
        if finished.finish_reason is not FinishReason.ABORT or finished.text or finished.thinking:
            self._text, self._thinking = begun_text + finished.text, begun_thinking + finished.thinking
        measures = reply_measures(
            finished.metrics,
            dropped=self._dropped,
            cache=finished.cache,
            speculative=finished.speculative,
            drafted_spans=() if begun_text else finished.drafted_spans,
            thinking_s=finished.metrics.thinking_s,
        )
        self._end(
            ReplyEnd(
                node_id=self.id,
                content=self._text,
                thinking=self._thinking,
                token_ids=() if begun_text or begun_thinking else finished.token_ids,  # else those of two requests
                finish_reason=finished.finish_reason,
                stop_string=finished.stop_string,
                metrics=measures,
            )
        )
        if self._text or self._thinking or self._source_id is None:
            self._chat.settle(self)
        else:  # stopped before it said anything: the one it was to replace stays
            self._show_source()

    def fail(self, error: EngineError) -> None:
        """End it with an error; what had arrived stays, and the reply it was to replace is shown again."""
        info = msgspec.to_builtins(error.info())
        self._end(ReplyEnd(node_id=self.id, content=self._text, thinking=self._thinking, error=info))
        self._show_source()

    def give_up(self) -> None:
        """End it without a word from the engine."""
        self._end(
            ReplyEnd(node_id=self.id, content=self._text, thinking=self._thinking, finish_reason=FinishReason.ABORT)
        )

    def _show_source(self) -> None:
        if (source := self._source_id) is not None:
            self._chats.write(lambda store: store.show_node(source))

    def _end(self, end: ReplyEnd) -> None:
        self._chats.set_open(None)
        self._chats.write(lambda store: store.finish_reply(end))


def _settings_of(plan: ChatPlan) -> Mapping[str, Any]:
    """Return what the chat needs of its own to be gone on with alike."""
    sampling = changed_values(plan.sampling, SamplingParams())
    adapters = [
        {"path": str(Path(adapter.path).absolute()), "scale": adapter.scale, "is_on": True} for adapter in plan.adapters
    ]
    return {**({"sampling": sampling} if sampling else {}), **({"adapters": adapters} if adapters else {})}


def _making_of(plan: ChatPlan) -> Mapping[str, Any]:
    """Return what a reply is made with, as the window tells it of its own."""
    adapters = [{"path": adapter.path, "scale": adapter.scale} for adapter in plan.adapters if adapter.scale]
    return {
        "sampling": msgspec.to_builtins(plan.sampling),
        "system_prompt": plan.system or "",
        "chat_format": plan.chat_format or "",
        **({"adapters": adapters} if adapters else {}),
    }
