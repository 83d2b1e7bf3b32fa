"""The file of one stored reply: a short prelude with a checksum, then the reply; all is checked before it is used."""

import os
import stat
import struct
import zlib
from pathlib import Path

import msgspec

from engine.messages import FinishReason

_MAGIC = b"FREPL\r\n\x1a"  # what is copied as text does not survive it
_VERSION = 1
_PRELUDE = struct.Struct("<8sIII")  # magic, version, bytes of the reply, its checksum
MAX_REPLY_BYTES = 1 << 20
WHOLE = (FinishReason.STOP, FinishReason.LENGTH)


class ResponseFault(Exception):
    """A file that cannot be used, and why."""


class KeptReply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply, and what it is the reply to.

    Attributes:
        key: names everything that the text depends on.
        chat_ids: the chats that have it; empty where it belongs to none, and is not written.
        seconds: that it took when it was computed.
        num_prompt_tokens, num_thinking_tokens, seed: as in its metrics then.
        mac: of all the others, by the key of the folder; see `folder_key.signed`. Empty in memory.
    """

    key: str
    chat_ids: tuple[str, ...]
    text: str
    thinking: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stop_string: str | None
    seconds: float
    num_prompt_tokens: int
    num_thinking_tokens: int
    seed: int | None
    mac: bytes = b""


def reply_bytes(reply: KeptReply) -> bytes:
    """Return the content of a reply's file."""
    data = msgspec.msgpack.encode(reply)
    return _PRELUDE.pack(_MAGIC, _VERSION, len(data), zlib.crc32(data)) + data


def read_reply(path: Path) -> KeptReply:
    """Return the reply in a file.

    Raises:
        ResponseFault: it is torn, damaged, or holds something else.
        OSError: it cannot be read.
    """
    data = _content(path)
    if len(data) < _PRELUDE.size:
        raise ResponseFault("torn")
    magic, version, num_bytes, checksum = _PRELUDE.unpack_from(data)
    body = data[_PRELUDE.size :]
    if (magic, version) != (_MAGIC, _VERSION):
        raise ResponseFault("foreign")
    if num_bytes != len(body) or zlib.crc32(body) != checksum:
        raise ResponseFault("torn or damaged")
    try:
        reply = msgspec.msgpack.decode(body, type=KeptReply)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ResponseFault(str(error)) from error
    numbers = (*reply.token_ids, reply.num_prompt_tokens, reply.num_thinking_tokens, reply.seed or 0)
    if reply.finish_reason not in WHOLE or min(numbers) < 0 or not 0 <= reply.seconds < float("inf"):
        raise ResponseFault("a value that no reply has")
    return reply


def _content(path: Path) -> bytes:
    """Return what a file holds; a pipe that nobody writes to is not waited for."""
    with open(path, "rb", opener=_open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_REPLY_BYTES + _PRELUDE.size:
            raise ResponseFault("no reply")
        return file.read(MAX_REPLY_BYTES + _PRELUDE.size + 1)


def _open_at_once(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
