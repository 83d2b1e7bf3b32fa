"""Damage to messages, and what a decoder must do with it."""

import contextlib
import random
from collections.abc import Callable
from typing import Any

from engine.messages import MessageError, encode


def check_fuzz(decode: Callable[[bytes], Any], data: bytes) -> None:
    """Decode bytes: a message, which can be sent on, or MessageError; nothing else."""
    with contextlib.suppress(MessageError):
        encode(decode(data))


def damaged(generator: random.Random, message: bytes) -> bytes:
    """Return a message with some bytes changed, and often cut."""
    data = bytearray(message)
    for _ in range(generator.randint(1, 4)):
        data[generator.randrange(len(data))] = generator.randrange(256)
    if generator.random() < 0.3:
        del data[generator.randint(len(data) // 2, len(data)) :]
    return bytes(data)
