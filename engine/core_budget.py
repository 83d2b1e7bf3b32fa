"""Who computes when several engines of one front end have requests: they take turns, or split the cores.

Two models that compute at once wait for each other's threads at every barrier, and both are slower than one after the
other. So by default a request waits while another engine has one. Must not import the worker half.
"""

import enum
import queue
import threading
from collections import deque

from engine.client import EngineClient, OnEvent
from engine.messages import (
    Abort,
    Command,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    LoadModel,
    RequestState,
    SetThreads,
    StateChanged,
    UnloadModel,
)
from engine.metrics import RequestMetrics


class Sharing(enum.Enum):
    """What happens when a second engine has a request."""

    TURNS = "turns"  # it waits until the first has none; first come, first served
    SPLIT = "split"  # both compute, each with its share of the threads


class CoreBudget:
    """Shares the processor among engines.

    Args:
        num_threads: to be split, what one engine would have for itself.
    """

    def __init__(self, num_threads: int, *, sharing: Sharing = Sharing.TURNS) -> None:
        self._num_threads = num_threads
        self._sharing = sharing
        self._lock = threading.Lock()  # guards what follows
        self._open: dict[BudgetedClient, set[str]] = {}
        self._held: deque[tuple[BudgetedClient, Generate]] = deque()
        self._most: dict[BudgetedClient, int] = {}
        # An engine must not be sent to from another one's callback, which holds that one's lock.
        self._outbox: queue.SimpleQueue[tuple[BudgetedClient, Command | Event] | None] = queue.SimpleQueue()
        self._sender: threading.Thread | None = None

    def client(self, inner: EngineClient) -> "BudgetedClient":
        """Return a client that asks here before its requests go to `inner`."""
        return BudgetedClient(self, inner)

    def join(self, client: "BudgetedClient") -> None:
        """Count an engine in."""
        with self._lock:
            self._open[client] = set()
            if self._sender is None:
                self._sender = threading.Thread(target=self._send_all, name="budget-sender", daemon=True)
                self._sender.start()

    def leave(self, client: "BudgetedClient") -> None:
        """Count an engine out, and what it was going to be asked."""
        with self._lock:
            if self._open.pop(client, None) is None:
                return
            self._most.pop(client, None)
            self._held = deque(item for item in self._held if item[0] is not client)
            self._release()
            self._split()
            sender = self._sender
            if not self._open:
                self._sender = None
                self._outbox.put(None)
        if not self._open and sender is not None:
            sender.join()

    def ask(self, client: "BudgetedClient", command: Generate) -> None:
        """Let a request go on, or hold it."""
        with self._lock:
            is_free = self._sharing is Sharing.SPLIT or not (self._held or self._others_compute(client))
            if is_free:
                self._open[client].add(command.request_id)
                self._outbox.put((client, command))
            else:
                self._held.append((client, command))
                queued = StateChanged(request_id=command.request_id, state=RequestState.QUEUED)
                self._outbox.put((client, queued))
            self._split()

    def give_up(self, client: "BudgetedClient", request_id: str) -> bool:
        """Take a request back; False when it is not held any more."""
        with self._lock:
            item = next((item for item in self._held if item[0] is client and item[1].request_id == request_id), None)
            if item is None:
                return False
            self._held.remove(item)
            self._outbox.put((client, _aborted(item[1])))
            self._release()
            return True

    def hand_over(self, client: "BudgetedClient", command: Command) -> None:
        """Send a command after those that went before; with its model go the requests that were held for it."""
        with self._lock:
            if isinstance(command, (LoadModel, UnloadModel)):
                for _, held in [item for item in self._held if item[0] is client]:
                    self._open[client].add(held.request_id)
                    self._outbox.put((client, held))
                self._held = deque(item for item in self._held if item[0] is not client)
            self._outbox.put((client, command))

    def end(self, client: "BudgetedClient", request_id: str) -> None:
        """Note that a request has its final event."""
        with self._lock:
            if request_id in self._open.get(client, ()):
                self._open[client].discard(request_id)
                self._release()
                self._split()

    def _others_compute(self, client: "BudgetedClient") -> bool:
        return any(requests for other, requests in self._open.items() if other is not client)

    def _release(self) -> None:
        while self._held and not self._others_compute(self._held[0][0]):
            client, command = self._held.popleft()
            self._open[client].add(command.request_id)
            self._outbox.put((client, command))

    def _split(self) -> None:
        """Tell each engine its share, where it has changed."""
        if self._sharing is not Sharing.SPLIT:
            return
        computing = [client for client, requests in self._open.items() if requests]
        for client in computing:
            most = max(1, self._num_threads // len(computing)) if len(computing) > 1 else 0
            if most != self._most.get(client, 0):
                self._most[client] = most
                self._outbox.put((client, SetThreads(most=most)))

    def _send_all(self) -> None:
        while (item := self._outbox.get()) is not None:
            client, message = item
            client.deliver(message)


class BudgetedClient:
    """See EngineClient; a request may wait for other engines, which shows as StateChanged to `queued`.

    `on_event` may be called from two threads, with events of different requests.
    """

    def __init__(self, budget: CoreBudget, inner: EngineClient) -> None:
        self._budget = budget
        self._inner = inner
        self._on_event: OnEvent = lambda event: None
        self._is_closed = False

    def start(self, on_event: OnEvent) -> None:
        """See EngineClient."""
        self._on_event = on_event
        self._budget.join(self)
        self._inner.start(self._hear)

    def send(self, command: Command) -> None:
        """See EngineClient."""
        if isinstance(command, Generate):
            self._budget.ask(self, command)
        elif not isinstance(command, Abort) or not self._budget.give_up(self, command.request_id):
            self._budget.hand_over(self, command)

    def close(self, timeout_s: float = 2.0) -> None:
        """See EngineClient."""
        self._is_closed = True
        self._budget.leave(self)
        self._inner.close(timeout_s)

    def deliver(self, message: Command | Event) -> None:
        """Pass on what the budget has decided: a command to the engine, an event to the front end."""
        if self._is_closed:
            return
        if isinstance(message, (StateChanged, Finished)):
            self._on_event(message)
        elif not isinstance(message, Event):
            self._inner.send(message)

    def _hear(self, event: Event) -> None:
        self._on_event(event)
        if isinstance(event, (Finished, Failed)):
            self._budget.end(self, event.request_id)


def _aborted(command: Generate) -> Finished:
    metrics = RequestMetrics(num_prompt_tokens=0, num_cached_tokens=0, num_generated_tokens=0)
    return Finished(
        request_id=command.request_id, text="", token_ids=(), finish_reason=FinishReason.ABORT, metrics=metrics
    )
