"""One thread for what a disk may keep waiting; a disk that never answers keeps nobody else."""

import concurrent.futures
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class DiskThread:
    """Does one thing after the other.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(1, name)
        self._open: set[concurrent.futures.Future[Any]] = set()

    def submit(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> "concurrent.futures.Future[_T]":
        """Have something done after all that was submitted before."""
        future = self._pool.submit(call, *args, **kwargs)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future

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
