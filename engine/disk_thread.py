"""One thread for what a disk may keep waiting; a disk that never answers keeps nobody else."""

import concurrent.futures
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_LOG = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")


class DiskThread:
    """Does one thing after the other; orders come first.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(1, name)
        self._open: set[concurrent.futures.Future[Any]] = set()
        self._lock = threading.Lock()  # guards the two below
        self._orders: deque[Callable[[], object]] = deque()
        self._num_orders = 0

    def submit(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> "concurrent.futures.Future[_T]":
        """Have something done after all that was submitted before."""
        future = self._pool.submit(call, *args, **kwargs)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future

    @property
    def has_orders(self) -> bool:
        """Whether something that was ordered is not done."""
        with self._lock:
            return self._num_orders > 0

    def order(self, call: Callable[[], object]) -> None:
        """Have something done as soon as what runs asks for orders, in the order in which they were given."""
        with self._lock:
            self._orders.append(call)
            self._num_orders += 1
        self.submit(self.obey)

    def obey(self) -> None:
        """Do what was ordered; to be called on the thread, by what takes long."""
        while True:
            with self._lock:
                if not self._orders:
                    return
                call = self._orders.popleft()
            try:
                call()
            except (OSError, ValueError) as error:
                _LOG.warning("the disk refused something: %s", error)
            finally:
                with self._lock:
                    self._num_orders -= 1

    def end(self, wait_s: float, *, drops_waiting: bool = False) -> bool:
        """End the thread when all is done; False where that takes longer: then it ends by itself, later.

        Args:
            drops_waiting: whether what has not begun is not done any more.
        """
        self._pool.shutdown(wait=False, cancel_futures=drops_waiting)
        is_done = not concurrent.futures.wait(tuple(self._open), timeout=wait_s).not_done
        if is_done:
            self._pool.shutdown(wait=True)
        return is_done
