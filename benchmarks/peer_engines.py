"""Fireside's engine and its peers behind one small interface, each timed on the caller's clock."""

import http.client
import importlib.util
import itertools
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from engine import (
    Abort,
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
    ProcessClient,
    Rendered,
    RenderPrompt,
    Role,
    SamplingParams,
)

N_CTX = 8192
N_SLOTS = 8
_LIMIT_S = 600.0

Chat = tuple[tuple[str, str], ...]
"""(role, text) of each message."""


class Reply(NamedTuple):
    """One reply as its caller saw it.

    Attributes:
        ttft_s: from the call to the first text.
        decode_rate: tokens/s after the first text; None where there are too few to tell.
        is_whole: whether the model itself ended it.
        num_prompt_tokens: None where the engine does not tell.
    """

    text: str
    ttft_s: float
    decode_rate: float | None
    num_tokens: int
    is_whole: bool
    num_prompt_tokens: int | None = None


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


def _rate(num_after_first: int, seconds: float) -> float | None:
    return num_after_first / seconds if num_after_first >= 4 and seconds > 0 else None


class Fireside:
    """Ours, through the worker process and the pipe; it chooses its threads itself.

    Args:
        reads_ahead: whether the change of turns is read while the engine is idle.
    """

    def __init__(self, path: Path, *, reads_ahead: bool = True) -> None:
        self.name = "Fireside" if reads_ahead else "Fireside without read-ahead"
        self._reads_ahead = reads_ahead
        self._events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
        self._ids = itertools.count()
        self._path = str(path)
        self._params = ModelParams(n_ctx=N_CTX, n_seq_max=N_SLOTS, n_gpu_layers=0)
        self._client = ProcessClient()
        self._client.start(lambda event: self._events.put((time.perf_counter(), event)))
        self._is_known = False
        self.reset()

    def reset(self) -> None:
        """See Peer; the model is loaded again."""
        load = LoadModel(request_id=self._new_id(), path=self._path, params=self._params, is_known=self._is_known)
        self._client.send(load)
        self._until(ModelLoaded)
        self._is_known = True

    def ask(self, chat: Chat, num_tokens: int) -> Reply:
        """See Peer."""
        began = time.perf_counter()
        self._send(chat, num_tokens)
        first, delta = self._until(Delta)
        last, finished = self._until(Finished)
        metrics = finished.metrics
        return Reply(
            finished.text,
            first - began,
            _rate(metrics.num_generated_tokens - delta.num_generated_tokens, last - first),
            metrics.num_generated_tokens,
            finished.finish_reason is FinishReason.STOP,
            metrics.num_prompt_tokens,
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

    def render(self, chat: Chat) -> str:
        """Return the prompt text of a chat."""
        self._client.send(RenderPrompt(request_id=self._new_id(), messages=_messages(chat)))
        return str(self._until(Rendered)[1].text)

    def close(self) -> None:
        """See Peer."""
        self._client.close()

    def _send(self, chat: Chat, num_tokens: int) -> str:
        request_id = self._new_id()
        sampling = SamplingParams(temperature=0, max_tokens=num_tokens)
        self._client.send(
            Generate(request_id=request_id, messages=_messages(chat), sampling=sampling, read_ahead=self._reads_ahead)
        )
        return request_id

    def _new_id(self) -> str:
        return f"r{next(self._ids)}"

    def _until(self, event_type: type[Any]) -> tuple[float, Any]:
        while True:
            at, event = self._events.get(timeout=_LIMIT_S)
            if isinstance(event, Failed):
                raise RuntimeError(event.error.message)
            if isinstance(event, event_type):
                return at, event


class Binding:
    """llama-cpp-python's `Llama`, called in this process."""

    name = "llama-cpp-python"

    def __init__(self, path: Path, n_threads: int) -> None:
        from llama_cpp import Llama

        self._llama = Llama(
            str(path),
            n_ctx=N_CTX,
            n_batch=2048,
            n_threads=n_threads,
            n_threads_batch=n_threads,
            flash_attn=True,
            verbose=False,
        )

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
        rate = _rate(len(times) - 1, times[-1] - times[0])
        return Reply("".join(pieces), times[0] - began, rate, len(times), reason == "stop")

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


class Server:
    """llama.cpp's own server over HTTP on loopback, from the package xllamacpp."""

    name = "llama.cpp server"

    def __init__(self, path: Path, n_threads: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        options = {"--ctx": N_CTX, "--threads": n_threads, "--slots": N_SLOTS, "--slot-folder": self._folder.name}
        command = [sys.executable, "-m", "benchmarks.peer_server", str(path)]
        command += [str(item) for pair in options.items() for item in pair]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        line = next((line for line in self._process.stdout if line.startswith("http")), "")
        if not line:
            raise RuntimeError("llama.cpp's server did not start")
        self._address = line.strip().removeprefix("http://")
        self._drain = threading.Thread(target=self._process.stdout.read, daemon=True)  # it may go on to print
        self._drain.start()

    def reset(self) -> None:
        """See Peer."""
        for slot in range(N_SLOTS):
            connection, response = self._request("POST", f"/slots/{slot}?action=erase", {})
            response.read()
            connection.close()
            if response.status != http.client.OK:
                raise RuntimeError(f"llama.cpp's server could not empty a slot (status {response.status})")

    def ask(self, chat: Chat, num_tokens: int) -> Reply:
        """See Peer."""
        began = time.perf_counter()
        connection, response = self._request("POST", "/v1/chat/completions", _body(chat, num_tokens))
        pieces, times, reason, timings = [], [], None, dict[str, Any]()
        for event in _events(response):
            timings = event.get("timings", timings)
            for choice in event.get("choices", ()):
                reason = choice.get("finish_reason") or reason
                if text := choice["delta"].get("content"):
                    pieces.append(text)
                    times.append(time.perf_counter())
        connection.close()
        if not times:
            raise RuntimeError(f"llama.cpp's server returned no text (status {response.status})")
        num_prompt = timings["prompt_n"] + timings.get("cache_n", 0) if timings else None
        rate = _rate(len(times) - 1, times[-1] - times[0])
        return Reply("".join(pieces), times[0] - began, rate, len(times), reason == "stop", num_prompt)

    def ask_together(self, chats: Sequence[Chat], num_tokens: int) -> Together:
        """See Peer."""
        counts: list[int] = []
        threads = [
            threading.Thread(target=lambda chat=chat: counts.append(self.ask(chat, num_tokens).num_tokens))
            for chat in chats
        ]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(counts) < len(chats):
            raise RuntimeError("llama.cpp's server did not answer every request")
        return Together(sum(counts), time.perf_counter() - began)

    def stop_in_prefill(self, chat: Chat, after_s: float) -> float:
        """See Peer; the connection is closed, and the server asked for its slots, which it tells between steps."""
        connection = http.client.HTTPConnection(self._address, timeout=_LIMIT_S)
        connection.request("POST", "/v1/chat/completions", json.dumps(_body(chat, 8)), _JSON)
        time.sleep(after_s)
        began = time.perf_counter()
        connection.close()
        while True:
            asked, response = self._request("GET", "/slots", None)
            slots = json.loads(response.read())
            asked.close()
            if not any(slot["is_processing"] for slot in slots):
                return time.perf_counter() - began
            time.sleep(0.001)

    def close(self) -> None:
        """See Peer."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._drain.join()
        self._folder.cleanup()

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._address, timeout=_LIMIT_S)
        connection.request(method, path, None if body is None else json.dumps(body), _JSON)
        return connection, connection.getresponse()


_JSON = {"Content-Type": "application/json"}


def has_server() -> bool:
    """Return whether the package with llama.cpp's server is installed."""
    return importlib.util.find_spec("xllamacpp") is not None


def _messages(chat: Chat) -> tuple[ChatMessage, ...]:
    return tuple(ChatMessage(Role(role), text) for role, text in chat)


def _body(chat: Chat, num_tokens: int) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in chat]
    options = {"stream": True, "temperature": 0, "max_tokens": num_tokens, "cache_prompt": True}
    return {"messages": messages, "timings_per_token": False, **options}


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in response:
        data = line.strip().removeprefix(b"data: ")
        if data.startswith(b"{"):
            yield json.loads(data)
