"""Worker processes that do wrong, for the tests of the client: each stands in for the program of the child."""

import logging
import os
import signal
from multiprocessing.connection import Connection

from engine.errors import ErrorInfo
from engine.messages import (
    PROTOCOL_VERSION,
    CacheRefused,
    Counted,
    CountTokens,
    Event,
    Hello,
    LogLine,
    Shutdown,
    decode_command,
    encode,
)


def _send(connection: Connection, *events: Event) -> None:
    for event in events:
        connection.send_bytes(encode(event))


def _hello(version: int = PROTOCOL_VERSION) -> Hello:
    return Hello(protocol_version=version, pid=os.getpid(), engine_version="0")


def ends_at_once(connection: Connection, fake: bool) -> None:
    """End before the greeting."""
    os._exit(3)


def speaks_another_version(connection: Connection, fake: bool) -> None:
    """Greet in the protocol of another version, and stay."""
    _send(connection, _hello(PROTOCOL_VERSION + 1))
    connection.poll(60)


def sends_garbage(connection: Connection, fake: bool) -> None:
    """Greet, then send what is no message, and stay."""
    _send(connection, _hello())
    connection.send_bytes(b"\xc1 no message")
    connection.poll(60)


def logs_and_crashes(connection: Connection, fake: bool) -> None:
    """Greet, write many log lines, and crash in the way of native code when asked for something."""
    _send(connection, _hello(), *(LogLine(level=logging.INFO, text=f"line {number}") for number in range(100)))
    connection.recv_bytes()
    os.kill(os.getpid(), signal.SIGABRT)


def answers_twice(connection: Connection, fake: bool) -> None:
    """Answer every count twice, and end when told."""
    _send(connection, _hello())
    while not isinstance(command := decode_command(connection.recv_bytes()), Shutdown):
        if isinstance(command, CountTokens):
            _send(connection, *(Counted(request_id=command.request_id, num_tokens=number) for number in (1, 2)))


def refuses_at_the_end(connection: Connection, fake: bool) -> None:
    """Say what else is to be said when it is told to end, and that nothing could be kept."""
    _send(connection, _hello())
    while not isinstance(decode_command(connection.recv_bytes()), Shutdown):
        pass
    refused = CacheRefused(error=ErrorInfo("CacheNotWritten", "There is no space.", "Make some."))
    _send(connection, LogLine(level=logging.INFO, text="the end"), refused)


def hears_nothing(connection: Connection, fake: bool) -> None:
    """Greet, and never read nor end."""
    _send(connection, _hello())
    signal.pause()
