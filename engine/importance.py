"""The importance matrix of a model: which columns of its weights a text really uses, for quantising.

Owns how the text is cut, and the file; the sums themselves come from the backend. The file is the one llama.cpp's own
tools write and read: a GGUF file with the sum of squares of each column, and how many rows were summed.
"""

import contextlib
import importlib.resources
import os
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.backend import Backend, Loader, TensorImportance
from engine.errors import InvalidParams, RequestError
from engine.measuring import no_model
from engine.messages import BuildImportance, ImportanceBuilt, ImportanceCancelled
from engine.text_tokens import TextTokenizer

CHUNK_TOKENS = 512  # as long as llama.cpp's own tools have it; what is quantised with it was measured with that
_TEXT_FILE = "calibration.txt"
_OWN_TEXT = "bundled"
_ALIGNMENT = 32
_U32, _STRING, _ARRAY = 4, 8, 9
_F32 = 0

OnChunk = Callable[[int, int], bool]
"""Told how many chunks are done, of how many; returns False to give up."""


def build_importance(
    command: BuildImportance,
    loader: Loader,
    backend: Backend | None,
    compute: Callable[[Callable[[], list[int]]], list[int]],
    on_chunk: OnChunk,
) -> ImportanceBuilt | ImportanceCancelled:
    """Compute the importance matrix of a loaded model and write its file.

    Args:
        compute: runs what tokenises, on a thread whose stack is large enough for it.

    Raises:
        EngineError: there is no model, the text is too short, or the file cannot be written.
    """
    if backend is None:
        raise no_model()
    began = time.perf_counter()
    tokenizer, text = TextTokenizer(backend.vocabulary), command.text or bundled_text()
    chunks = cut(compute(lambda: tokenizer.tokenize_text(text)), backend, command.max_chunks)
    on_chunk(0, len(chunks))
    found = loader.sum_importance(backend, chunks, lambda num_done: on_chunk(num_done, len(chunks)))
    if found is None:
        return ImportanceCancelled(request_id=command.request_id)
    write_importance(Path(command.path), found, num_chunks=len(chunks), text_name=command.text_name or _OWN_TEXT)
    return ImportanceBuilt(
        request_id=command.request_id,
        path=command.path,
        num_chunks=len(chunks),
        num_tokens=sum(map(len, chunks)),
        num_tensors=len(found),
        seconds=time.perf_counter() - began,
    )


def bundled_text() -> str:
    """Return the text that comes with the program: prose, talk, code, lists and numbers in several languages."""
    return importlib.resources.files("engine").joinpath(_TEXT_FILE).read_text("utf-8")


def cut(tokens: list[int], backend: Backend, max_chunks: int) -> list[list[int]]:
    """Return the whole chunks in a text; the first token of each begins a text where the model wants one.

    Raises:
        InvalidParams: there is not one.
    """
    vocabulary = backend.vocabulary
    num_chunks = len(tokens) // CHUNK_TOKENS
    if num_chunks == 0:
        raise InvalidParams(
            f"The text for the importance matrix has {len(tokens):,} tokens, and {CHUNK_TOKENS} are the least.",
            "Give a longer text; some thousand words are better.",
        )
    if max_chunks > 0:
        num_chunks = min(num_chunks, max_chunks)
    chunks = [tokens[start : start + CHUNK_TOKENS] for start in range(0, num_chunks * CHUNK_TOKENS, CHUNK_TOKENS)]
    if vocabulary.adds_bos and vocabulary.bos_id is not None:
        for chunk in chunks:
            chunk[0] = vocabulary.bos_id
    return chunks


def write_importance(path: Path, found: Mapping[str, TensorImportance], *, num_chunks: int, text_name: str) -> None:
    """Write an importance matrix, all of it or nothing.

    Raises:
        RequestError: it cannot be written.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(_head(found, num_chunks, text_name))
            for name in sorted(found):
                for data in (found[name].sums, found[name].counts):
                    file.write(data + _padding(len(data)))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RequestError(
            f"The importance matrix cannot be written: {error.strerror or error}.", "Free some space, and try again."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _head(found: Mapping[str, TensorImportance], num_chunks: int, text_name: str) -> bytes:
    keys = [
        _key("general.type", _STRING, _text("imatrix")),
        _key("imatrix.datasets", _ARRAY, struct.pack("<IQ", _STRING, 1) + _text(text_name)),
        _key("imatrix.chunk_count", _U32, struct.pack("<I", num_chunks)),
        _key("imatrix.chunk_size", _U32, struct.pack("<I", CHUNK_TOKENS)),
    ]
    tensors, offset = [], 0
    for name in sorted(found):
        entry = found[name]
        num_matrices = len(entry.counts) // 4
        for suffix, columns, data in (("in_sum2", entry.num_columns, entry.sums), ("counts", 1, entry.counts)):
            rows = len(data) // 4 // columns if suffix == "in_sum2" else num_matrices
            tensors.append(_text(f"{name}.{suffix}") + struct.pack("<IQQIQ", 2, columns, rows, _F32, offset))
            offset += len(data) + len(_padding(len(data)))
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys)) + b"".join(keys + tensors)
    return head + _padding(len(head))


def _key(name: str, value_type: int, payload: bytes) -> bytes:
    return _text(name) + struct.pack("<I", value_type) + payload


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return struct.pack("<Q", len(data)) + data


def _padding(length: int) -> bytes:
    return b"\0" * (-length % _ALIGNMENT)
