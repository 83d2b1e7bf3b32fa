"""Processes that stand in for the one that quantises: each goes wrong in its own way."""

import os
import pathlib
import signal
import time
from multiprocessing.connection import Connection

import msgspec

from models.quantize_child import run_child
from models.quantize_messages import LastWords, Made, MakeRequest, Request, TensorBegun


def full_disk(connection: Connection) -> None:
    """Write as usual, on a disk that is full after 64 KiB."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # else it ends the process; a full disk does not
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))
    run_child(connection)


def _begin(connection: Connection) -> str:
    request = msgspec.msgpack.decode(connection.recv_bytes(), type=Request)
    output = request.output if isinstance(request, MakeRequest) else os.devnull
    with pathlib.Path(output).open("wb") as file:
        file.write(b"GGUF" + b"\0" * 60)
    connection.send_bytes(msgspec.msgpack.encode(TensorBegun(number=1, num_tensors=3)))
    return output


def abort(connection: Connection) -> None:
    """Say why, and abort in the middle of a file."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _begin(connection)
    connection.send_bytes(msgspec.msgpack.encode(LastWords(text="GGML_ASSERT(rows > 0) failed")))
    os.kill(os.getpid(), signal.SIGABRT)


def hang(connection: Connection) -> None:
    """Begin a file and never end."""
    _begin(connection)
    time.sleep(600)


def lie(connection: Connection) -> None:
    """Say that a file is made which is not."""
    _begin(connection)
    connection.send_bytes(msgspec.msgpack.encode(Made()))


def leave(connection: Connection) -> None:
    """Begin a file and end in peace, without another word."""
    _begin(connection)


def babble(connection: Connection) -> None:
    """Answer with what is no message."""
    _begin(connection)
    connection.send_bytes(b"\xc1 nonsense")
    time.sleep(600)
