"""The thread that renders and tokenises prompts beside a running reply, on a stack that long words cannot overflow."""

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from engine.template_renderer import TemplateRenderer

_LOG = logging.getLogger(__name__)

# Some vocabularies split text with a recursive matcher; see `text_tokens`. Only touched pages take memory.
_STACK_BYTES = 128 * 1024 * 1024

Job = Callable[[], None]
_T = TypeVar("_T")


class TokenizerThread:
    """Runs jobs in order on one thread with a large stack; owns the template child."""

    def __init__(self) -> None:
        self.renderer = TemplateRenderer()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        previous = threading.stack_size(_STACK_BYTES)
        try:
            self._thread = threading.Thread(target=self._run, name="engine-tokenizer", daemon=True)
            self._thread.start()
        finally:
            threading.stack_size(previous)

    def submit(self, job: Job) -> None:
        """Queue a job; it must handle its own errors."""
        self._jobs.put(job)

    def finish_jobs(self) -> None:
        """Wait until everything queued so far is done."""
        done = threading.Event()
        self._jobs.put(done.set)
        done.wait()

    def run(self, compute: Callable[[], _T]) -> _T:
        """Compute something on this thread after the jobs queued so far, and wait for it; its exception is raised."""
        done: Future[_T] = Future()

        def job() -> None:
            try:
                done.set_result(compute())
            except Exception as error:
                done.set_exception(error)

        self.submit(job)
        return done.result()

    def close(self) -> None:
        """Finish the queued jobs and end thread and child."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:  # a thread that is gone would leave every later request without an answer
                _LOG.exception("a job of the tokeniser failed")
        self.renderer.close()
