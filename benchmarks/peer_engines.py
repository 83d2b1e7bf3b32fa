"""Fireside's engine and its peers behind one small interface, each timed on the caller's clock."""

import itertools
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from engine import (
    Abort,
    CacheParams,
    ChatMessage,
    Delta,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    LoadModel,
    ModelLoaded,
    ModelParams,
    OpenChat,
    ProcessClient,
    Rendered,
    RenderPrompt,
    Role,
    SamplingParams,
)

N_CTX = 8192
N_SLOTS = 8
LIMIT_S = 600.0

Chat = tuple[tuple[str, str], ...]
"""(role, text) of each message."""


class Reply(NamedTuple):
    """One reply as its caller saw it.

    Attributes:
        ttft_s: from the call to the first text.
        decode_rate: tokens/s after the first text; None where there are too few to tell.
        is_whole: whether the model itself ended it.
        num_prompt_tokens, num_evaluated: of the prompt, and what of it was not cached; None where the engine does not
            tell, as for all that follows.
        longest_gap_s: between two pieces of its text.
        wall_s: from the call to the end.
        source: where the cached tokens came from.
        num_drafted, num_accepted: tokens.
    """

    text: str
    ttft_s: float
    decode_rate: float | None
    num_tokens: int
    is_whole: bool
    num_prompt_tokens: int | None = None
    num_evaluated: int | None = None
    longest_gap_s: float | None = None
    wall_s: float | None = None
    source: str | None = None
    num_drafted: int | None = None
    num_accepted: int | None = None


class Together(NamedTuple):
    """Several replies that were asked for at once."""

    num_tokens: int
    wall_s: float


class Peer(Protocol):
    """One engine with one loaded model."""

    name: str

    def reset(self) -> None:
        """Forget everything that is cached."""

    def ask(self, chat: Chat, num_tokens: int) -> Reply:
        """Return the greedy reply to a chat, of at most `num_tokens`."""

    def ask_together(self, chats: Sequence[Chat], num_tokens: int) -> Together:
        """Ask for all replies at once."""

    def stop_in_prefill(self, chat: Chat, after_s: float) -> float:
        """Ask, stop after `after_s`, and return the seconds until the engine computes no longer."""

    def close(self) -> None:
        """End the engine."""


class LastingPeer(Peer, Protocol):
    """An engine that can be started again, with what it keeps on disk."""

    def restart(self, chat: Chat) -> float:
        """End the engine, start it, load the model, and open `chat` again as far as it was kept.

        Returns:
            The seconds that its caller waited for this last step.
        """

    def kept_bytes(self) -> int | None:
        """Return the size of that chat on disk, None where nothing is kept."""


def longest_gap(times: Sequence[float]) -> float | None:
    """Return the longest time between two of these moments."""
    return max((later - sooner for sooner, later in itertools.pairwise(times)), default=None)


def decode_rate(num_after_first: int, seconds: float) -> float | None:
    return num_after_first / seconds if num_after_first >= 4 and seconds > 0 else None


class Fireside:
    """Ours, through the worker process and the pipe; it chooses its threads itself.

    Args:
        reads_ahead: whether the change of turns is read while the engine is idle.
        folder: where chats are kept on disk; with it chats are kept in memory as well, as in the program. A chat is
            known by the text of its first message.
    """

    def __init__(
        self, path: Path, *, reads_ahead: bool = True, n_slots: int = N_SLOTS, folder: Path | None = None
    ) -> None:
        self.name = "Fireside" if reads_ahead else "Fireside without read-ahead"
        self._reads_ahead = reads_ahead
        self._events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
        self._ids = itertools.count()
        self._path = str(path)
        self._params = ModelParams(n_ctx=N_CTX, n_seq_max=n_slots, n_gpu_layers=0)
        self._folder = folder
        self._is_known = False
        self._start()

    def reset(self) -> None:
        """See Peer; the model is loaded again."""
        load = LoadModel(
            request_id=self._new_id(),
            path=self._path,
            params=self._params,
            is_known=self._is_known,
            cache=None if self._folder is None else CacheParams(folder=str(self._folder)),
        )
        self._client.send(load)
        self._until(ModelLoaded)
        self._is_known = True

    def ask(self, chat: Chat, num_tokens: int) -> Reply:
        """See Peer."""
        began = time.perf_counter()
        self._send(chat, num_tokens)
        first, delta = self._until(Delta)
        times = [first]
        while True:
            last, event = self._until(Delta | Finished)
            if isinstance(event, Finished):
                break
            times.append(last)
        metrics = event.metrics
        return Reply(
            event.text,
            first - began,
            decode_rate(metrics.num_generated_tokens - delta.num_generated_tokens, last - first),
            metrics.num_generated_tokens,
            event.finish_reason is FinishReason.STOP,
            metrics.num_prompt_tokens,
            num_evaluated=metrics.num_prompt_tokens - metrics.num_cached_tokens,
            longest_gap_s=longest_gap(times),
            wall_s=last - began,
            source=metrics.cache_source.value,
        )

    def ask_together(self, chats: Sequence[Chat], num_tokens: int) -> Together:
        """See Peer."""
        began = time.perf_counter()
        for chat in chats:
            self._send(chat, num_tokens)
        ends = [self._until(Finished) for _ in chats]
        return Together(sum(end.metrics.num_generated_tokens for _, end in ends), ends[-1][0] - began)

    def stop_in_prefill(self, chat: Chat, after_s: float) -> float:
        """See Peer."""
        request_id = self._send(chat, 8)
        time.sleep(after_s)
        began = time.perf_counter()
        self._client.send(Abort(request_id=request_id))
        return self._until(Finished)[0] - began

    def restart(self, chat: Chat) -> float:
        """See LastingPeer."""
        self._client.close()
        self._start()
        self._client.send(OpenChat(chat_id=chat[0][1]))
        return 0.0

    def kept_bytes(self) -> int | None:
        """See LastingPeer; the largest file is that of the longest chat."""
        files = [] if self._folder is None else list(self._folder.glob("*.snapshot"))
        return max((path.stat().st_size for path in files), default=None)

    def render(self, chat: Chat) -> str:
        """Return the prompt text of a chat."""
        self._client.send(RenderPrompt(request_id=self._new_id(), messages=_messages(chat)))
        return str(self._until(Rendered)[1].text)

    def close(self) -> None:
        """See Peer."""
        self._client.close()

    def _start(self) -> None:
        self._client = ProcessClient()
        self._client.start(lambda event: self._events.put((time.perf_counter(), event)))
        self.reset()

    def _send(self, chat: Chat, num_tokens: int) -> str:
        request_id = self._new_id()
        self._client.send(
            Generate(
                request_id=request_id,
                messages=_messages(chat),
                sampling=SamplingParams(temperature=0, max_tokens=num_tokens),
                chat_id=None if self._folder is None else chat[0][1],
                read_ahead=self._reads_ahead,
            )
        )
        return request_id

    def _new_id(self) -> str:
        return f"r{next(self._ids)}"

    def _until(self, event_type: Any) -> tuple[float, Any]:
        while True:
            at, event = self._events.get(timeout=LIMIT_S)
            if isinstance(event, Failed):
                raise RuntimeError(event.error.message)
            if isinstance(event, event_type):
                return at, event


class Binding:
    """llama-cpp-python's `Llama`, called in this process."""

    name = "llama-cpp-python"

    def __init__(self, path: Path, n_threads: int) -> None:
        self._path, self._num_threads = path, n_threads
        self._load()

    def _load(self) -> None:
        from llama_cpp import Llama

        self._llama = Llama(
            str(self._path),
            n_ctx=N_CTX,
            n_batch=2048,
            n_threads=self._num_threads,
            n_threads_batch=self._num_threads,
            flash_attn=True,
            verbose=False,
        )

    def restart(self, chat: Chat) -> float:
        """See LastingPeer; it keeps nothing unless its caller saves it."""
        self._llama.close()
        self._load()
        return 0.0

    def kept_bytes(self) -> int | None:
        """See LastingPeer."""
        return None

    def reset(self) -> None:
        """See Peer."""
        self._llama.reset()

    def ask(self, chat: Chat, num_tokens: int) -> Reply:
        """See Peer."""
        began = time.perf_counter()
        pieces, times, reason = [], [], None
        for chunk in self._stream(chat, num_tokens):
            choice = chunk["choices"][0]
            reason = choice["finish_reason"] or reason
            if text := choice["delta"].get("content"):
                pieces.append(text)
                times.append(time.perf_counter())
        if not times:
            raise RuntimeError("llama-cpp-python returned no text")
        rate = decode_rate(len(times) - 1, times[-1] - times[0])
        gap, whole = longest_gap(times), times[-1] - began
        return Reply(
            "".join(pieces), times[0] - began, rate, len(times), reason == "stop", longest_gap_s=gap, wall_s=whole
        )

    def ask_together(self, chats: Sequence[Chat], num_tokens: int) -> Together:
        """See Peer; it has one sequence, so they come one after the other."""
        began = time.perf_counter()
        count = sum(self.ask(chat, num_tokens).num_tokens for chat in chats)
        return Together(count, time.perf_counter() - began)

    def stop_in_prefill(self, chat: Chat, after_s: float) -> float:
        """See Peer; a prompt is read in one call, so a stop waits for its end."""
        ended: list[float] = []

        def ask() -> None:
            next(self._stream(chat, 1))
            ended.append(time.perf_counter())

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(after_s)
        began = time.perf_counter()
        thread.join()
        return max(ended[0] - began, 0.0)

    def close(self) -> None:
        """See Peer."""
        self._llama.close()

    def _stream(self, chat: Chat, num_tokens: int) -> Iterator[Any]:
        messages: Any = [{"role": role, "content": text} for role, text in chat]
        return iter(self._llama.create_chat_completion(messages, stream=True, temperature=0.0, max_tokens=num_tokens))


def _messages(chat: Chat) -> tuple[ChatMessage, ...]:
    return tuple(ChatMessage(Role(role), text) for role, text in chat)
