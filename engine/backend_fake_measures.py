"""What the backend without weights answers when it is measured: the same figures every time."""

import struct
from collections.abc import Callable, Sequence

from engine.backend import TensorImportance
from engine.messages import BareLoopRun, CacheTypeRow, MachineSpeed, ModelDescription, RunBareLoop

_MIB = 1 << 20


def fake_cache_types(description: ModelDescription) -> tuple[CacheTypeRow, ...]:
    """Return the pair in use."""
    size = description.kv_bytes_per_token
    return (
        CacheTypeRow(
            type_k=description.type_k,
            type_v=description.type_v,
            bytes_per_token=size,
            total_bytes=size * description.n_ctx,
            prefill_rate=1000.0,
            decode_rate=100.0,
        ),
    )


def fake_machine_speed(n_threads: int) -> MachineSpeed:
    """Return ten gigabytes and a hundred gigaflops a second."""
    return MachineSpeed(
        n_threads=max(1, n_threads),
        read_bandwidth=1e10,
        buffer_bytes=128 * _MIB,
        cache_bytes=32 * _MIB,
        matmul_rate=1e11,
    )


def fake_bare_loop(request: RunBareLoop) -> BareLoopRun:
    """Return a millisecond for each token."""
    return BareLoopRun(
        request_id=request.request_id,
        n_threads=1,
        prefill_s=0.001 * request.num_prompt_tokens * request.num_sequences,
        step_s=(0.001,) * (request.num_tokens - 1),
    )


def fake_importance(
    chunks: Sequence[Sequence[int]], on_chunk: Callable[[int], bool]
) -> dict[str, TensorImportance] | None:
    """Return one weight of two columns, each as important as there are tokens."""
    for number in range(len(chunks)):
        if not on_chunk(number):
            return None
    count = float(sum(map(len, chunks)))
    return {"blk.0.attn_q.weight": TensorImportance(2, struct.pack("<2f", count, count), struct.pack("<f", count))}
