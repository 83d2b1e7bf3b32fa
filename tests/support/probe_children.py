"""Stand-ins for the process that tries a file: those that die, hang or never begin."""

import os
import signal
import sys
from multiprocessing.connection import Connection

from engine.probe_child import GREETING


def die(connection: Connection) -> None:
    """Greet and end by a fault of memory, as native code does."""
    connection.send_bytes(GREETING)
    connection.recv_bytes()
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(connection: Connection) -> None:
    """Greet and never answer."""
    connection.send_bytes(GREETING)
    while True:
        connection.recv_bytes()


def talk(connection: Connection) -> None:
    """Greet and never stop talking."""
    connection.send_bytes(GREETING)
    while True:
        connection.send_bytes(b"word:again")


def leave(connection: Connection) -> None:
    """End before the greeting."""
    sys.exit(1)
