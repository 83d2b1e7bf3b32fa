"""Damaged copies of sound model files: a few bytes of the header changed, moved, doubled or gone, by a fixed seed."""

import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from engine import ModelParams
from engine.backend_llama.probing import Budget, ProbeRequest
from engine.probe_child import NoChild, try_file
from models import GGUFError, Library, LibraryEntry, read_gguf_info
from tests.support.gguf_files import write_tiny_mamba, write_tiny_model
from tests.support.hostile_gguf import key_bytes
from tests.support.small_models import library_of, number_key, text_key, write_small, write_split

_EXTREMES = (0, 1, 2, 31, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**60, 2**63 - 1, 2**64 - 1)
MAX_READ_S = 2.0
_MAX_TRY_S = 30.0  # starting a process on a busy machine is in it; one that hangs is ended after twice that
_BUDGET = Budget(resident_bytes=2**30, address_bytes=2**34)


def write_bases(folder: Path) -> list[bytes]:
    """Return the bytes of sound files of several kinds."""
    experts = {"blk.0.ffn_up_exps.weight": (256, 2, 4), "blk.0.ffn_norm.weight": (256, 1)}
    expert_keys = [number_key("llama.expert_count", 4), number_key("llama.expert_used_count", 2)]
    heads = key_bytes("llama.attention.head_count_kv", 9, struct.pack("<IQ4I", 4, 4, 2, 2, 0, 2))
    paths = [
        write_small(folder / "plain.gguf"),
        write_small(folder / "experts.gguf", tensors=experts, keys=[*expert_keys, heads], level="Q8_0"),
        write_small(
            folder / "adapter.gguf", keys=[text_key("general.type", "adapter"), text_key("adapter.type", "lora")]
        ),
        write_small(folder / "bert.gguf", arch="bert", num_tokens=400),
        *write_split(folder, "parts", 2),
    ]
    return [path.read_bytes() for path in paths]


def mutated(data: bytes, drawn: random.Random) -> bytes:
    """Return a copy with one to four changes, most of them in its first kilobyte."""
    changed = bytearray(data)
    for _ in range(drawn.randint(1, 4)):
        end = len(changed) if drawn.random() < 0.2 else min(len(changed), 1024)
        at = drawn.randrange(max(end, 1))
        kind = drawn.randrange(6)
        if kind == 0:
            changed[at : at + 1] = bytes([drawn.randrange(256)])
        elif kind == 1:
            layout = drawn.choice(("<I", "<Q"))
            number = drawn.choice(_EXTREMES) & (2 ** (8 * struct.calcsize(layout)) - 1)
            changed[at : at + struct.calcsize(layout)] = struct.pack(layout, number)
        elif kind == 2:
            del changed[at : at + drawn.randint(1, 40)]
        elif kind == 3:
            changed[at:at] = changed[at : at + drawn.randint(1, 200)]
        elif kind == 4:
            changed[at:at] = drawn.randbytes(drawn.randint(1, 16))
        else:
            del changed[drawn.randrange(len(changed) + 1) :]
        if not changed:
            break
    return bytes(changed)


def scan_mutated(folder: Path, bases: list[bytes], seed: int, count: int) -> None:
    """Write damaged files, scan them, and check that each is a model or has one sentence."""
    drawn = random.Random(seed)
    library = library_of(folder)
    for number in range(count):
        (folder / "ours" / f"m{number:05d}.gguf").write_bytes(mutated(drawn.choice(bases), drawn))
    scan = library.scan()
    assert scan.num_files == count
    assert scan.seconds < MAX_READ_S + count * 0.05
    assert sum(1 + len(entry.other_places) + len(entry.paths) - 1 for entry in scan.entries) == count
    for entry in scan.entries:
        check_sentence(entry)
    check_index(library, folder, len(scan.entries))


def check_sentence(entry: LibraryEntry) -> None:
    """Check that what is said of an entry is one harmless sentence."""
    assert (entry.title + entry.name + entry.licence).isprintable()
    if entry.problem is not None:
        assert entry.problem.isprintable(), entry.problem
        assert entry.problem.endswith("."), entry.problem
        assert len(entry.problem) < 1000


def check_index(library: Library, folder: Path, num_entries: int) -> None:
    """Check that what was found is found again without reading a file."""
    again = library_of(folder).scan()
    assert (len(again.entries), again.num_read) == (num_entries, 0)
    assert again.entries == library.entries()


def write_runnable(folder: Path) -> list[bytes]:
    """Return the bytes of files that the engine loads."""
    paths = [
        write_tiny_model(folder / "llama.gguf"),
        write_tiny_model(folder / "gemma.gguf", arch="gemma3", vocab="spm"),
        write_tiny_mamba(folder / "mamba.gguf"),
    ]
    return [path.read_bytes() for path in paths]


def accepted(bases: list[bytes], path: Path, seed: int) -> Iterator[bytes]:
    """Yield damaged files without end that our own reader does not refuse; the others never reach the engine."""
    drawn = random.Random(seed)
    while True:
        data = mutated(drawn.choice(bases), drawn)
        path.write_bytes(data)
        try:
            read_gguf_info(path)
        except GGUFError:
            continue
        yield data


def try_mutated(path: Path) -> None:
    """Have the process for that try a damaged file, and check that there is an outcome in time."""
    started_at = time.monotonic()
    found = try_file(ProbeRequest(path=str(path), params=ModelParams(), budget=_BUDGET), lambda: True)
    assert found is not None
    assert not isinstance(found, NoChild)
    assert time.monotonic() - started_at < _MAX_TRY_S
