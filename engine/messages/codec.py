"""Messages to bytes and back: msgpack with a declared type for every message, so that bytes can only become data."""

from typing import TypeVar

import msgspec

from engine.messages.commands import Command
from engine.messages.events import Event

PROTOCOL_VERSION = 5

_T = TypeVar("_T")

_encoder = msgspec.msgpack.Encoder()
_command_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
_event_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


class MessageError(Exception):
    """Bytes that are no message of this protocol."""


def encode(message: Command | Event) -> bytes:
    """Return the bytes of a message."""
    return _encoder.encode(message)


def decode_command(data: bytes) -> Command:
    """Return the command in `data`.

    Raises:
        MessageError: the bytes are not a command.
    """
    return _decode(_command_decoder, data)


def decode_event(data: bytes) -> Event:
    """Return the event in `data`.

    Raises:
        MessageError: the bytes are not an event.
    """
    return _decode(_event_decoder, data)


def _decode(decoder: msgspec.msgpack.Decoder[_T], data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except Exception as error:  # whatever hostile bytes provoke, a settings check included, is one kind of refusal
        raise MessageError(f"not a message of this protocol: {error}") from error
