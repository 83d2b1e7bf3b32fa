"""Runs chat templates in a warm child process with limited memory and time, and ends it when it is late."""

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import msgspec

from engine.errors import ChatTemplateError

RENDER_LIMIT_S = 1.0
_START_LIMIT_S = 20.0
_HINT = "Choose another chat format, or another model file: this one's chat template cannot be used."


class RenderJob(msgspec.Struct):
    """What the template child is asked."""

    template: str
    variables: dict[str, Any]


class RenderResult(msgspec.Struct):
    """What it answers: `text`, or else `error`, one line."""

    text: str | None = None
    error: str | None = None


class TemplateRenderer:
    """The warm child process; started on first use, and again after it was killed for being late.

    Attributes:
        spare_s: how much of its time the last template left; 0 when the child was ended.
    """

    def __init__(self) -> None:
        self.spare_s = 0.0
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._is_ready = False

    def warm_up(self) -> None:
        """Start the child without waiting for it."""
        if self._process is not None and not self._process.is_alive():
            self.close()
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe(duplex=True)
            process = context.Process(target=_run_child, args=(theirs,), name="fireside-template", daemon=True)
            process.start()
            theirs.close()
            self._process, self._connection, self._is_ready = process, ours, False

    def render(self, template: str, variables: dict[str, Any], limit_s: float = RENDER_LIMIT_S) -> str:
        """Return what `template` prints.

        Raises:
            ChatTemplateError: it raised, took longer than `limit_s`, or killed its process.
        """
        try:
            self.warm_up()
            assert self._connection is not None
            if not self._is_ready:
                self._receive(_START_LIMIT_S)
                self._is_ready = True
            began = time.monotonic()
            self._connection.send_bytes(msgspec.msgpack.encode(RenderJob(template, variables)))
            result = msgspec.msgpack.decode(self._receive(limit_s), type=RenderResult)
            self.spare_s = limit_s - (time.monotonic() - began)
        except TimeoutError:
            self.close()
            raise ChatTemplateError("The model's chat template took too long.", _HINT) from None
        except (EOFError, OSError, msgspec.MsgspecError) as error:
            self.close()
            raise ChatTemplateError("The model's chat template ended its process.", _HINT, str(error)) from error
        if result.text is None:
            raise ChatTemplateError(f"The model's chat template failed: {result.error}", _HINT)
        return result.text

    def close(self) -> None:
        """End the child."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        self.spare_s = 0.0
        if process is not None and connection is not None:
            connection.close()
            process.kill()
            process.join()
            process.close()

    def _receive(self, limit_s: float) -> bytes:
        assert self._connection is not None
        if not self._connection.poll(limit_s):
            raise TimeoutError
        return self._connection.recv_bytes()


def _run_child(connection: Connection) -> None:
    from engine.template_child import run_child  # in the child: the worker has no use for the template language

    run_child(connection)
