"""Whole replies that are given again, unread and uncomputed, to just the same request.

Only a reply that would come out the same is kept: of the likeliest tokens, or with a fixed seed. It is found by
everything that its text depends on: the tokens of the prompt, the model and its context, adapters, and all that the
request asks for beside its messages.
"""

import hashlib
import logging
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.backend import Backend, StateKeys
from engine.errors import EngineError
from engine.messages import Delta, Event, Failed, Finished, Generate
from engine.metrics import CacheReport, CacheSource, RequestMetrics
from engine.params import DraftMode, SamplingParams
from engine.response_file import MAX_REPLY_BYTES, WHOLE, KeptReply, reply_bytes
from engine.response_folder import ResponseFolder
from engine.sequence import Prompt
from engine.version import engine_version

_LOG = logging.getLogger(__name__)
MAX_BYTES = 32 << 20  # in memory, and the same on disk
_MAX_CHATS = 64  # of one reply
_MODEL_MODES = (DraftMode.AUTO, DraftMode.MODEL, DraftMode.BOTH)
_SCAN_WAIT_S = 0.5  # for the first look at the folder, which a load usually outlasts


class _Expected(NamedTuple):
    """A request whose reply is to be kept."""

    key: str
    chat_id: str | None
    received_at: float


class ResponseCache:
    """The stored replies of one worker, whichever model is loaded; off until it is switched on.

    Args:
        max_bytes: of all replies together.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._set: tuple[bool, Path | None, int] = (False, None, 0)  # whether it is on, where, and bytes there
        self._folder: ResponseFolder | None = None
        self._has_waited = False
        self._is_unread = False  # what the folder held at first stays there unread: some of it was forgotten
        self._expected: dict[str, _Expected] = {}  # by request
        self._lock = threading.Lock()  # guards the two below: files are read on another thread
        self._replies: OrderedDict[str, tuple[KeptReply, int]] = OrderedDict()  # with their bytes, used last at the end
        self._num_bytes = 0

    @property
    def num_replies(self) -> int:
        """How many are kept."""
        with self._lock:
            return len(self._replies)

    @property
    def num_bytes(self) -> int:
        """Bytes of all that are kept."""
        with self._lock:
            return self._num_bytes

    def set_on(self, is_on: bool, folder: Path | None, *, max_disk_bytes: int, close_s: float) -> None:
        """Keep replies from now on, in a folder too where there is one; or none, and delete those that are there."""
        wanted = (is_on, folder, min(max_disk_bytes, self._max_bytes) if is_on else 0)
        if wanted == self._set:
            return
        if not is_on:
            self._expected = {}
            self._drop_all()
        self.close(close_s)
        self._set = wanted
        if folder is not None:
            self._is_unread = self._has_waited = False
            self._folder = ResponseFolder(folder, max_bytes=wanted[2], on_read=self._take_read)

    def answer(
        self, command: Generate, prompt: Prompt, backend: Backend, *, draft: StateKeys | None = None
    ) -> list[Event]:
        """Return the events of a stored reply; none where there is none: then this one's will be stored.

        Args:
            draft: see `key_of`.
        """
        if not self._set[0] or command.is_private or not is_repeatable(command.sampling):
            return []
        try:
            key = key_of(command, prompt, backend, draft=draft)
        except EngineError:  # the engine tells of it
            return []
        kept = None if command.is_fresh else self._find(key)
        if kept is None:
            self._expected[prompt.request_id] = _Expected(key, command.chat_id, prompt.received_at)
            return []
        self._note_use(kept, command.chat_id)
        return _events(kept, prompt)

    def note(self, event: Event) -> None:
        """Hear of what the engine tells: a whole reply is stored."""
        if isinstance(event, Finished | Failed) and event.request_id in self._expected:
            expected = self._expected.pop(event.request_id)
            if isinstance(event, Finished) and event.finish_reason in WHOLE and (event.text or event.thinking):
                self._keep(expected, event)

    def expect_nothing(self) -> None:
        """Store none of the replies that are being computed: what drafts for them has changed meanwhile."""
        self._expected = {}

    def forget(self, chat_ids: Iterable[str]) -> None:
        """Drop the replies of chats, and store none that is being computed for them."""
        gone = frozenset(chat_ids)
        self._expected = {name: item for name, item in self._expected.items() if item.chat_id not in gone}
        if self._folder is not None and not self._is_folder_read():
            self.clear()  # not all replies are known yet
            return
        with self._lock:
            keys = [key for key, (reply, _) in self._replies.items() if gone.intersection(reply.chat_ids)]
        self._drop(keys)
        if self._folder is not None:  # it may hold more: what left the memory first, and what others have written
            self._folder.forget(gone)

    def clear(self) -> None:
        """Drop all replies, and store none that is being computed."""
        self._expected = {}
        self._drop_all()
        if self._folder is not None:
            with self._lock:
                self._is_unread = True
            self._folder.clear()

    def when_forgotten(self, call: Callable[[], object]) -> None:
        """Call something once all files are deleted that were to be; at once where they are, else on another thread."""
        if self._folder is None:
            call()
        else:
            self._folder.when_forgotten(call)

    def close(self, wait_s: float) -> None:
        """Write what was handed over, as far as the time allows."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close(wait_s)

    def _find(self, key: str) -> KeptReply | None:
        self._is_folder_read()
        with self._lock:
            found = self._replies.get(key)
            if found is not None:
                self._replies.move_to_end(key)
        return found[0] if found is not None else None

    def _note_use(self, kept: KeptReply, chat_id: str | None) -> None:
        """Let a reply belong to one more chat: it goes when any of them does."""
        if chat_id is not None and chat_id not in kept.chat_ids and len(kept.chat_ids) < _MAX_CHATS:
            self._put(msgspec.structs.replace(kept, chat_ids=(*kept.chat_ids, chat_id)))
        elif self._folder is not None:
            self._folder.touch(kept.key)

    def _keep(self, expected: _Expected, event: Finished) -> None:
        metrics = event.metrics
        reply = KeptReply(
            key=expected.key,
            chat_ids=() if expected.chat_id is None else (expected.chat_id,),
            text=event.text,
            thinking=event.thinking,
            token_ids=event.token_ids,
            finish_reason=event.finish_reason,
            stop_string=event.stop_string,
            seconds=max(time.perf_counter() - expected.received_at, 0.0),
            num_prompt_tokens=metrics.num_prompt_tokens,
            num_thinking_tokens=metrics.num_thinking_tokens,
            seed=metrics.seed,
        )
        self._put(reply, asked_at=time.time() - (time.perf_counter() - expected.received_at))

    def _put(self, reply: KeptReply, *, asked_at: float | None = None) -> None:
        """Keep a reply in memory, and on disk where it belongs to a chat."""
        num_bytes = len(reply_bytes(reply))
        if num_bytes > min(MAX_REPLY_BYTES, self._max_bytes):
            return
        with self._lock:
            self._insert(reply, num_bytes)
        if self._folder is not None and reply.chat_ids:
            self._folder.write(reply, asked_at=asked_at)

    def _insert(self, reply: KeptReply, num_bytes: int) -> None:
        self._num_bytes += num_bytes - self._replies.pop(reply.key, (reply, 0))[1]
        self._replies[reply.key] = (reply, num_bytes)
        while self._num_bytes > self._max_bytes:
            self._num_bytes -= self._replies.popitem(last=False)[1][1]

    def _take_read(self, reply: KeptReply) -> None:
        with self._lock:
            if reply.key not in self._replies and not self._is_unread:  # one that was computed meanwhile is as good
                self._insert(reply, len(reply_bytes(reply)))

    def _drop(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        with self._lock:
            for key in keys:
                self._num_bytes -= self._replies.pop(key, (None, 0))[1]
        if self._folder is not None and keys:
            self._folder.delete(keys)

    def _drop_all(self) -> None:
        with self._lock:
            self._replies, self._num_bytes = OrderedDict(), 0

    def _is_folder_read(self) -> bool:
        """Whether all replies on disk are known; waits for that once, for a moment."""
        if self._folder is None:
            return True
        wait_s, self._has_waited = 0.0 if self._has_waited else _SCAN_WAIT_S, True
        return self._folder.is_read(wait_s)


def is_repeatable(sampling: SamplingParams) -> bool:
    """Whether the same request has the same reply: always the likeliest token, or a fixed seed."""
    return sampling.temperature == 0.0 or sampling.seed is not None


def key_of(command: Generate, prompt: Prompt, backend: Backend, *, draft: StateKeys | None = None) -> str:
    """Return the name of everything that the text of a reply depends on.

    Of the command nothing is left out but its names, its messages, which are in the tokens, and what only concerns the
    cache: whatever else a request may ask for makes it another one, how tokens are drafted and `strict` included.

    Args:
        draft: the draft model that there is; it only counts where it may draw with chance.

    Raises:
        EngineError: an adapter cannot be used.
    """
    sampling = command.sampling
    if sampling.temperature == 0.0:
        sampling = msgspec.structs.replace(sampling, seed=None)
    asked = msgspec.structs.replace(
        command,
        request_id="",
        messages=(),
        sampling=sampling,
        chat_id=None,
        adapters=(),
        read_ahead=True,
        is_private=False,
        is_fresh=False,
    )
    thinking = None if prompt.thinking is None else (prompt.thinking.format, prompt.thinking.is_open)
    drawn_by = draft if _may_be_drawn(command) else None
    made_with = (engine_version(), *backend.state_keys, backend.load_adapters(prompt.adapters), drawn_by)
    digest = hashlib.blake2b(repr((*made_with, prompt.reply, thinking)).encode(), digest_size=20)
    digest.update(msgspec.msgpack.encode(asked))
    digest.update(array("i", prompt.tokens).tobytes())
    return digest.hexdigest()


def _may_be_drawn(command: Generate) -> bool:
    """Whether a draft model may draw drafts with chance: the same seed then has another text than without it."""
    sampling = command.sampling
    return command.speculative.mode in _MODEL_MODES and sampling.temperature > 0.0 and not sampling.reproducible


def _events(kept: KeptReply, prompt: Prompt) -> list[Event]:
    """Return what is told of a stored reply: no time is told for what did not happen."""
    num_tokens = len(kept.token_ids)
    report = CacheReport(
        num_cached_tokens=kept.num_prompt_tokens,
        source=CacheSource.RESPONSE,
        miss_cause=None,
        seconds_saved=kept.seconds,
    )
    metrics = RequestMetrics(
        num_prompt_tokens=kept.num_prompt_tokens,
        num_cached_tokens=kept.num_prompt_tokens,
        num_generated_tokens=num_tokens,
        ttft_s=time.perf_counter() - prompt.received_at,
        cache_source=CacheSource.RESPONSE,
        seed=kept.seed,
        num_thinking_tokens=kept.num_thinking_tokens,
    )
    delta = Delta(
        request_id=prompt.request_id,
        text=kept.text,
        num_generated_tokens=num_tokens,
        num_context_tokens=kept.num_prompt_tokens + num_tokens,
        decode_s=0.0,
        thinking=kept.thinking,
    )
    finished = Finished(
        request_id=prompt.request_id,
        text=kept.text,
        token_ids=kept.token_ids,
        finish_reason=kept.finish_reason,
        metrics=metrics,
        stop_string=kept.stop_string,
        thinking=kept.thinking,
        cache=report,
    )
    before: list[Event] = [] if prompt.dropped is None else [prompt.dropped]
    return [*before, delta, finished]
