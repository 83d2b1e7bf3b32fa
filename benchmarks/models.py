"""Times the reading of model files and the scan of a library: `python -m benchmarks.models [--files N]`.

A file with a vocabulary of 262,144 tokens, and one with as many merges, is written with the gguf package and read. Then
a folder of small files is scanned for the first time, and again. Times are the least of the tries, on the clock and, in
brackets, of the processor; memory is what Python had allocated at most.
"""

import argparse
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy

from models import Library, ScanRoot, read_gguf_info, verify_file
from models.sources.starter import find_starter
from tests.support.small_models import write_small

NUM_TOKENS = 262_144
NUM_TRIES = 5
LEVELS = ("F16", "Q8_0", "Q6_K", "Q4_K_M", "Q2_K")


def main() -> None:
    """Make the files and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=500)
    num_files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as folder:
        measure_reading(Path(folder))
        measure_scan(Path(folder), num_files)
    starter = find_starter()
    if starter is not None:
        print(f"verify {starter.stat().st_size / 1e6:.0f} MB: {least(lambda: verify_file(starter))}")


def least(action: Callable[[], object], num_tries: int = NUM_TRIES) -> str:
    """Return the least milliseconds that an action took, on the clock and of the processor."""
    clock, processor = [], []
    for _ in range(num_tries):
        started_at, used = time.perf_counter(), time.process_time()
        action()
        clock.append(time.perf_counter() - started_at)
        processor.append(time.process_time() - used)
    return f"{1000 * min(clock):.0f} ms ({1000 * min(processor):.0f})"


def measure_reading(folder: Path) -> None:
    """Print what reading a large vocabulary takes, with merges and without."""
    for has_merges in (False, True):
        path = write_vocabulary(folder / f"merges-{has_merges}.gguf", has_merges=has_merges)
        times = least(lambda path=path: read_gguf_info(path))  # type: ignore[misc]
        tracemalloc.start()
        read_gguf_info(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        merges = f" and {NUM_TOKENS:,} merges" if has_merges else ""
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        print(f"{NUM_TOKENS:,} tokens{merges}, {size}: {times}, {peak / 2**20:.1f} MiB")


def write_vocabulary(path: Path, *, has_merges: bool) -> Path:
    """Write a file with a large vocabulary and one tensor."""
    drawn = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz▁éü日本語"
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_name("Large vocabulary")
    writer.add_context_length(8192)
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    tokens = ["".join(drawn.choices(letters, k=drawn.randint(1, 12))) for _ in range(NUM_TOKENS)]
    writer.add_tokenizer_model("gpt2" if has_merges else "llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * NUM_TOKENS)
    writer.add_token_types([1] * NUM_TOKENS)
    if has_merges:
        writer.add_token_merges([f"{token} {token}" for token in tokens])
    writer.add_tensor("token_embd.weight", numpy.zeros((4, 32), numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def measure_scan(folder: Path, num_files: int) -> None:
    """Print what a scan takes the first time, and again in a process that knows nothing but the index."""
    models_dir = folder / "models"
    for number in range(num_files):
        level = LEVELS[number % len(LEVELS)]
        name = f"Model {number // len(LEVELS)}"
        path = models_dir / f"{number // 20}" / f"{number}.gguf"
        write_small(path, name=name, level=level, seed=number, num_tokens=50_000)

    def library() -> Library:
        return Library(
            models_dir=models_dir, state_dir=folder / "state", roots=[ScanRoot(models_dir, "", is_ours=True)]
        )

    first = least(lambda: library().scan(), 1)
    again = least(lambda: library().scan())
    known = least(lambda: library().entries())
    print(f"{num_files} files: first {first}, again {again}, from the index alone {known}")


if __name__ == "__main__":
    main()
