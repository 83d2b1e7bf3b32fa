"""What is measured between requests: by whom, when not, and the arithmetic beside it."""

import numpy as np
import pytest

from engine import machine_speed
from engine.backend_fake import FakeLoader
from engine.backend_llama.layer_weights import sum_active
from engine.errors import EngineUnavailable, InvalidParams
from engine.machine_speed import buffer_bytes, last_level_cache, read_bandwidth
from engine.measuring import measure
from engine.messages import BareLoopRun, MachineMeasured, MeasureCacheTypes, MeasureMachine, RunBareLoop
from engine.params import ModelParams

MIB = 1 << 20


def bare(num_prompt_tokens: int = 4, num_tokens: int = 3, num_sequences: int = 2) -> RunBareLoop:
    return RunBareLoop(
        request_id="b", num_prompt_tokens=num_prompt_tokens, num_tokens=num_tokens, num_sequences=num_sequences
    )


def test_machine_is_measured_without_a_model():
    answer = measure(MeasureMachine(request_id="m"), FakeLoader(), None)
    assert isinstance(answer, MachineMeasured)
    assert answer.request_id == "m"
    assert answer.speed.n_threads == 1


def test_bare_loop_answers_with_a_time_for_each_step_after_the_first_token():
    loader = FakeLoader()
    backend = loader.load("fake:", ModelParams(), lambda share: True)
    answer = measure(bare(), loader, backend)
    assert isinstance(answer, BareLoopRun)
    assert len(answer.step_s) == 2


@pytest.mark.parametrize("command", [MeasureCacheTypes(request_id="c"), bare()], ids=["cache types", "bare loop"])
def test_measuring_is_refused_when_it_needs_a_model(command: MeasureCacheTypes | RunBareLoop):
    with pytest.raises(EngineUnavailable, match="No model"):
        measure(command, FakeLoader(), None)


@pytest.mark.parametrize("counts", [(0, 3, 2), (4, 0, 2), (4, 3, 0), (-1, 3, 2)])
def test_bare_loop_is_refused_when_there_is_nothing_to_run(counts: tuple[int, int, int]):
    with pytest.raises(InvalidParams):
        measure(bare(*counts), FakeLoader(), None)


@pytest.mark.parametrize(
    ("cache", "free", "expected"),
    [
        (32 * MIB, 1 << 40, 128 * MIB),
        (96 * MIB, 1 << 40, 384 * MIB),
        (2 * MIB, 1 << 40, 128 * MIB),
        (0, 1 << 40, 256 * MIB),
        (96 * MIB, 400 * MIB, 100 * MIB),
        (32 * MIB, 0, MIB),
    ],
    ids=["usual", "large cache", "small cache", "unknown cache", "short memory", "no memory"],
)
def test_buffer_is_four_caches_unless_memory_is_short(cache: int, free: int, expected: int):
    assert buffer_bytes(cache, free) == expected


@pytest.mark.parametrize("n_threads", [1, 3])
def test_every_byte_is_read_by_one_thread_when_bandwidth_is_measured(n_threads: int, monkeypatch: pytest.MonkeyPatch):
    read: list[int] = []

    def count(slices: list[np.ndarray]) -> float:
        read.append(sum(part.nbytes for part in slices))
        assert len(slices) == n_threads
        return 0.5

    monkeypatch.setattr(machine_speed, "_pass_s", count)
    assert read_bandwidth(n_threads, MIB) == 2 * MIB
    assert set(read) == {MIB}


def test_bandwidth_is_a_number_when_it_is_really_measured():
    assert read_bandwidth(2, MIB) > 0
    assert last_level_cache() >= 0


def test_experts_in_use_are_read_and_a_separate_input_table_is_not():
    tensors = [("token_embd.weight", 100), ("output.weight", 100), ("blk.0.attn_q.weight", 10)]
    tensors += [("blk.0.ffn_up_exps.weight", 800), ("output_norm.weight", 1)]
    assert sum_active(iter(tensors), 0.25) == 100 + 10 + 200 + 1


def test_input_table_is_read_when_it_is_the_output_too():
    assert sum_active(iter([("token_embd.weight", 100), ("blk.0.ffn_up.weight", 5)]), 1.0) == 105
