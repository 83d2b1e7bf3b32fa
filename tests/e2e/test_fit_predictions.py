"""What is predicted of memory beside what the engine takes: before anything was learned, and after one load."""

from pathlib import Path

from app.cli.session import Answer, ChatSession
from app.memory_record import MemoryRecord, reckoned_peak
from engine import ChatMessage, ModelParams, ProcessClient, Role, SamplingParams

QUESTION = (ChatMessage(Role.USER, "Hello"),)


def predicted_and_measured(path: Path, params: ModelParams, record: MemoryRecord) -> tuple[int, int]:
    """Return what a load was predicted to take, corrected by what is learned so far, and what it took."""
    offset = record.offset_bytes()
    with ChatSession(ProcessClient(), memory=record) as session:
        features = session.describe_engine().features
        for _ in session.load(str(path), params):
            pass
        items = list(session.ask(QUESTION, SamplingParams(max_tokens=2)))
        model, answer = session.model, items[-1]
    assert isinstance(answer, Answer)
    assert model is not None
    metrics = answer.finished.metrics
    num_tokens = metrics.num_prompt_tokens + metrics.num_generated_tokens
    predicted = reckoned_peak(model, features=features, num_read=metrics.num_prompt_tokens, num_tokens=num_tokens)
    measured = metrics.peak_memory_bytes
    assert predicted is not None
    assert measured is not None
    return predicted + offset, measured


def test_memory_is_predicted_and_better_after_one_load(starter_path: Path, data_dir: Path) -> None:
    record = MemoryRecord(data_dir / "memory-record.json")
    params = ModelParams(n_ctx=4096, n_threads=1)
    predicted, measured = predicted_and_measured(starter_path, params, record)
    assert abs(predicted - measured) <= 0.15 * measured
    params = ModelParams(n_ctx=1024, n_threads=1, type_k="q8_0", type_v="q8_0")
    predicted, measured = predicted_and_measured(starter_path, params, MemoryRecord(data_dir / "memory-record.json"))
    assert record.offset_bytes() != 0
    assert abs(predicted - measured) <= 0.05 * measured
