"""llama.cpp's own server over HTTP, as a peer."""

import http.client
import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peer_engines import LIMIT_S, N_CTX, N_SLOTS, Chat, Reply, Together, decode_rate, longest_gap

_JSON = {"Content-Type": "application/json"}
_SAVED = "chat.bin"


class Server:
    """llama.cpp's own server over HTTP on loopback, from the package xllamacpp.

    Args:
        options: further ones of `benchmarks.peer_server`.
    """

    name = "llama.cpp server"

    def __init__(
        self, path: Path, n_threads: int, *, n_slots: int = N_SLOTS, options: Sequence[str] = (), name: str = name
    ) -> None:
        self.name = name
        self._num_slots = n_slots
        self._folder = tempfile.TemporaryDirectory()
        usual = {"--ctx": N_CTX, "--threads": n_threads, "--slots": n_slots, "--slot-folder": self._folder.name}
        self._command = [sys.executable, "-m", "benchmarks.peer_server", str(path), *options]
        self._command += [str(item) for pair in usual.items() for item in pair]
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
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
        for slot in range(self._num_slots):
            self._act(slot, "erase")

    def restart(self, chat: Chat) -> float:
        """See LastingPeer; it saves a slot only when it is told to."""
        self._act(0, "save")
        self._end()
        self._start()
        began = time.perf_counter()
        self._act(0, "restore")
        return time.perf_counter() - began

    def kept_bytes(self) -> int | None:
        """See LastingPeer."""
        path = Path(self._folder.name) / _SAVED
        return path.stat().st_size if path.exists() else None

    def ask(self, chat: Chat, num_tokens: int, **options: float) -> Reply:
        """See Peer.

        Args:
            options: of the request, as the server names them.
        """
        began = time.perf_counter()
        body = _body(chat, num_tokens) | options
        connection, response = self._request("POST", "/v1/chat/completions", body)
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
        rate = decode_rate(len(times) - 1, times[-1] - times[0])
        return Reply(
            "".join(pieces),
            times[0] - began,
            rate,
            timings.get("predicted_n", len(times)),
            reason == "stop",
            num_prompt,
            num_evaluated=timings.get("prompt_n"),
            longest_gap_s=longest_gap(times),
            wall_s=times[-1] - began,
            num_drafted=timings.get("draft_n"),
            num_accepted=timings.get("draft_n_accepted"),
        )

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
        connection = http.client.HTTPConnection(self._address, timeout=LIMIT_S)
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
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._drain.join()

    def _act(self, slot: int, action: str) -> None:
        body = {} if action == "erase" else {"filename": _SAVED}
        connection, response = self._request("POST", f"/slots/{slot}?action={action}", body)
        response.read()
        connection.close()
        if response.status != http.client.OK:
            raise RuntimeError(f"llama.cpp's server could not {action} a slot (status {response.status})")

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._address, timeout=LIMIT_S)
        connection.request(method, path, None if body is None else json.dumps(body), _JSON)
        return connection, connection.getresponse()


def has_server() -> bool:
    """Return whether the package with llama.cpp's server is installed."""
    return importlib.util.find_spec("xllamacpp") is not None


def _body(chat: Chat, num_tokens: int) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in chat]
    options = {"stream": True, "temperature": 0, "max_tokens": num_tokens, "cache_prompt": True}
    return {"messages": messages, "timings_per_token": False, **options}


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in response:
        data = line.strip().removeprefix(b"data: ")
        if data.startswith(b"{"):
            yield json.loads(data)
