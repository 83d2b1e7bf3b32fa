"""A file with the largest vocabulary there is: read in little time and memory."""

import struct
import time
import tracemalloc
from pathlib import Path

from models import read_gguf_info
from tests.support.hostile_gguf import ARRAY, STRING, key_bytes
from tests.support.small_models import write_small

_NUM_TOKENS = 262_144
_MAX_CPU_S = 5 * 0.050  # five times what is promised
_MAX_PEAK_BYTES = 64 * 2**20


def test_vocabulary_of_262144_tokens_is_read_in_little_time_and_memory(tmp_path: Path) -> None:
    texts = b"".join(struct.pack("<Q", 1 + n % 12) + b"x" * (1 + n % 12) for n in range(_NUM_TOKENS))
    tokens = key_bytes("more.tokens", ARRAY, struct.pack("<IQ", STRING, _NUM_TOKENS) + texts)
    scores = key_bytes("more.scores", ARRAY, struct.pack("<IQ", 6, _NUM_TOKENS) + bytes(4 * _NUM_TOKENS))
    path = write_small(tmp_path / "x.gguf", keys=[tokens, scores])
    before = time.thread_time()
    info = read_gguf_info(path)
    assert time.thread_time() - before < _MAX_CPU_S
    assert info.header_bytes > 4_000_000
    tracemalloc.start()
    try:
        assert read_gguf_info(path) == info
        assert tracemalloc.get_traced_memory()[1] < _MAX_PEAK_BYTES
    finally:
        tracemalloc.stop()
