"""GGUF headers byte by byte, and the files made of them that must be refused."""

import struct
from collections.abc import Sequence

U32, STRING, ARRAY = 4, 8, 9


def text_bytes(text: str | bytes) -> bytes:
    """Return a string as GGUF stores it."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def key_bytes(name: str | bytes, value_type: int, payload: bytes) -> bytes:
    """Return one key with its value as GGUF stores it."""
    return text_bytes(name) + struct.pack("<I", value_type) + payload


def tensor_bytes(name: str = "t.weight", shape: Sequence[int] = (4,), tensor_type: int = 0, offset: int = 0) -> bytes:
    """Return one tensor entry as GGUF stores it."""
    dimensions = b"".join(struct.pack("<q", size) for size in shape)
    return text_bytes(name) + struct.pack("<I", len(shape)) + dimensions + struct.pack("<IQ", tensor_type, offset)


def header_bytes(
    keys: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    *,
    version: int = 3,
    num_tensors: int | None = None,
    num_keys: int | None = None,
    data: bytes = b"",
) -> bytes:
    """Return a whole file; the counts can be lies."""
    head = b"GGUF" + struct.pack(
        "<Iqq",
        version,
        len(tensors) if num_tensors is None else num_tensors,
        len(keys) if num_keys is None else num_keys,
    )
    body = head + b"".join(keys) + b"".join(tensors)
    return body + b"\0" * (-len(body) % 32) + data if data else body


def _with_tensor(*shape: int, tensor_type: int = 0, offset: int = 0) -> bytes:
    architecture = key_bytes("general.architecture", STRING, text_bytes("llama"))
    return header_bytes([architecture], [tensor_bytes("t.weight", shape, tensor_type, offset)], data=b"\0" * 64)


IMPOSSIBLE_FILES: dict[str, bytes] = {
    "tensor count 2^60": header_bytes(num_tensors=2**60),
    "tensor count -1": header_bytes(num_tensors=-1),
    "key count 2^60": header_bytes(num_keys=2**60),
    "key count -5": header_bytes(num_keys=-5),
    "key length 2^62": header_bytes(num_keys=1) + struct.pack("<Q", 2**62) + b"abc",
    "key length 2^64-1": header_bytes(num_keys=1) + struct.pack("<Q", 2**64 - 1) + b"abc",
    "string array of 2^50": header_bytes([key_bytes("a", ARRAY, struct.pack("<IQ", STRING, 2**50))]),
    "array inside an array": header_bytes([key_bytes("a", ARRAY, struct.pack("<IQ", ARRAY, 1) + b"\0" * 12)]),
    "value type 77": header_bytes([key_bytes("a", 77, b"\0" * 8)]),
    "empty key": header_bytes([key_bytes("", U32, struct.pack("<I", 1))]),
    "key twice": header_bytes([key_bytes("a", U32, struct.pack("<I", 1))] * 2),
    "alignment 0": header_bytes([key_bytes("general.alignment", U32, struct.pack("<I", 0))]),
    "alignment 24": header_bytes([key_bytes("general.alignment", U32, struct.pack("<I", 24))]),
    "alignment is a text": header_bytes([key_bytes("general.alignment", STRING, text_bytes("32"))]),
    "0 bytes": b"",
    "3 bytes": b"GGU",
    "4 bytes": b"GGUF",
    "23 bytes": header_bytes()[:23],
    "dimension 0": _with_tensor(4, 0),
    "dimension -1": _with_tensor(4, -1),
    "dimensions 2^40": _with_tensor(2**40, 2**40),
    "nine dimensions": _with_tensor(*[1] * 9),
    "tensor type 999": _with_tensor(4, tensor_type=999),
    "removed tensor type": _with_tensor(4, tensor_type=4),
    "row no multiple of the block": _with_tensor(33, tensor_type=8),
    "offset 2^40": _with_tensor(4, offset=2**40),
    "offset 2^64-32": _with_tensor(4, offset=2**64 - 32),
    "tensor data missing": _with_tensor(1024),
    "tensor name of 64 bytes": header_bytes([], [tensor_bytes("x" * 64)], data=b"\0" * 64),
    "tensor twice": header_bytes([], [tensor_bytes(), tensor_bytes(offset=32)], data=b"\0" * 64),
}

# What the message must name, and the bytes of the file.
FOREIGN_FILES: dict[str, tuple[str, bytes]] = {
    "lfs": ("pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98362432\n"),
    "html": ("web page", b"\n<!DOCTYPE html><html><body>Sign in</body></html>"),
    "error": ("error text", b"Internal Error"),
    "json": ("error text", b'{"error":"Invalid username or password."}'),
    "ggjt": ("old format", b"tjgg\x03\0\0\0" + b"\0" * 64),
    "ggla": ("old format", b"algg\x01\0\0\0" + b"\0" * 64),
    "zip": ("zip", b"PK\x03\x04" + b"\0" * 64),
    "torch": ("PyTorch", b"PK\x03\x04" + b"\0" * 26 + b"archive/data.pkl" + b"\0" * 64),
    "safetensors": ("safetensors", struct.pack("<Q", 40) + b'{"__metadata__":{"format":"pt"}}' + b" " * 40),
    "zeros": ("zeros", b"\0" * 4096),
    "utf16": ("error text", "Forbidden".encode("utf-16")),
    "noise": ("not a GGUF", bytes(range(255, 0, -1))),
}

VERSION_FILES: dict[str, tuple[str, bytes]] = {
    "version 0": ("too old", header_bytes(version=0)),
    "version 1": ("too old", header_bytes(version=1)),
    "version 99": ("newer", header_bytes(version=99)),
    "big-endian": ("big-endian", b"GGUF" + struct.pack(">Iqq", 3, 0, 0)),
}
