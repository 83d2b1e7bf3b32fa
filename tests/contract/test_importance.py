"""The importance matrix: sums that are right on every architecture, a file that others read, and a way out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from engine.backend import Backend, TensorImportance
from engine.backend_fake import FakeLoader
from engine.backend_llama import LlamaLoader
from engine.backend_llama import library as native
from engine.backend_llama.importance_pass import _name, _Tensor
from engine.client import InprocClient
from engine.errors import EngineError
from engine.importance import CHUNK_TOKENS, bundled_text, cut, write_importance
from engine.messages import (
    Abort,
    BuildImportance,
    Event,
    Failed,
    ImportanceBuilt,
    ImportanceCancelled,
    ImportanceProgress,
)
from engine.params import ModelParams
from models import ModelKind, read_gguf_info
from tests.support.gguf_files import write_tiny_model
from tests.support.tiny_models import TINY_MODELS
from tests.unit.engine.recorder import Recorder, generate, load

FINAL = (ImportanceBuilt, ImportanceCancelled, Failed)
TOKENS = [(7 * place + place // 5) % 200 for place in range(64)]


@contextmanager
def loaded(path: Path) -> Iterator[tuple[LlamaLoader, Backend]]:
    """Yield a model on one thread."""
    loader = LlamaLoader()
    backend = loader.load(str(path), ModelParams(n_ctx=512, n_threads=1), lambda share: True, is_known=True)
    assert backend is not None
    try:
        yield loader, backend
    finally:
        backend.close()


def summed(path: Path, num_chunks: int = 2) -> dict[str, TensorImportance]:
    """Return the sums over some chunks."""
    with loaded(path) as (loader, backend):
        found = loader.sum_importance(backend, [TOKENS] * num_chunks, lambda num_done: True)
    assert found is not None
    return found


def floats(data: bytes) -> np.ndarray:
    """Return the numbers of an entry."""
    return np.frombuffer(data, "<f4")


@pytest.mark.parametrize("is_copied", [False, True], ids=["in place", "copied from a device"])
def test_first_sums_are_those_of_the_normalised_embeddings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_copied: bool
) -> None:
    if is_copied:
        find = native.native_function

        def native_function(name: str, *kinds: Any) -> Any:
            return (lambda buffer: False) if name == "ggml_backend_buffer_is_host" else find(name, *kinds)

        monkeypatch.setattr(native, "native_function", native_function)
    path = write_tiny_model(tmp_path / "tiny.gguf")
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}
    rows = tensors["token_embd.weight"][TOKENS].astype(np.float64)
    normed = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + 1e-5) * tensors["blk.0.attn_norm.weight"]
    entry = summed(path, num_chunks=3)["blk.0.attn_q.weight"]
    np.testing.assert_allclose(floats(entry.sums), 3 * (normed**2).sum(axis=0), rtol=1e-4)
    assert floats(entry.counts).tolist() == [3 * len(TOKENS)]


@pytest.mark.parametrize("name", TINY_MODELS)
def test_every_architecture_is_summed_over_all_tokens(tmp_path: Path, name: str) -> None:
    path = TINY_MODELS[name].write(tmp_path / "tiny.gguf")
    shapes = {tensor.name: [*map(int, tensor.shape), 1, 1] for tensor in gguf.GGUFReader(path).tensors}
    found = summed(path)
    assert any("blk.1." in weight for weight in found)
    for weight, entry in found.items():
        columns, _, num_matrices = shapes[weight][:3]
        assert entry.num_columns == columns
        assert len(floats(entry.sums)) == columns * num_matrices, weight
        assert (floats(entry.sums) >= 0).all()
        counts = floats(entry.counts)
        if "_exps" in weight:  # each token went to the same number of experts
            assert len(counts) == num_matrices
            assert counts.sum() % (2 * len(TOKENS)) == 0, weight
            assert counts.sum() > 0
        else:
            assert counts.max() <= 2 * len(TOKENS)
            assert counts.sum() > 0, weight


def test_sums_do_not_depend_on_the_size_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.backend_llama import importance_pass

    path = write_tiny_model(tmp_path / "tiny.gguf")
    whole = summed(path)
    monkeypatch.setattr(importance_pass, "_LARGE_VOCABULARY", 0)
    monkeypatch.setattr(importance_pass, "_SMALL_STEP", 16)
    pieces = summed(path)
    assert whole.keys() == pieces.keys()
    for name, entry in whole.items():
        assert entry.counts == pieces[name].counts
        np.testing.assert_allclose(floats(entry.sums), floats(pieces[name].sums), rtol=2e-2)


@pytest.mark.parametrize("shown", ["blk.0.attn_q.weight", "GPU0#blk.0.attn_q.weight#0", "GPU0#blk.0.attn_q.weight"])
def test_copy_on_a_device_has_the_name_of_its_weight(shown: str) -> None:
    assert _name(_Tensor(name=shown.encode())) == "blk.0.attn_q.weight"


def test_file_is_one_that_others_read(tmp_path: Path) -> None:
    found = {
        "blk.1.b.weight": TensorImportance(3, np.arange(6, dtype="<f4").tobytes(), np.ones(2, "<f4").tobytes()),
        "blk.0.a.weight": TensorImportance(2, np.ones(2, "<f4").tobytes(), np.full(1, 9, "<f4").tobytes()),
    }
    path = tmp_path / "matrix"
    write_importance(path, found, num_chunks=5, text_name="é.txt")
    reader = gguf.GGUFReader(path)
    assert [tensor.name for tensor in reader.tensors] == [
        f"{name}.{kind}" for name in sorted(found) for kind in ("in_sum2", "counts")
    ]
    assert {tensor.name: tensor.data.tolist() for tensor in reader.tensors}["blk.1.b.weight.in_sum2"] == [
        [0, 1, 2],
        [3, 4, 5],
    ]
    assert reader.fields["imatrix.chunk_count"].contents() == 5
    assert reader.fields["imatrix.chunk_size"].contents() == CHUNK_TOKENS
    assert reader.fields["imatrix.datasets"].contents() == ["é.txt"]
    assert read_gguf_info(path).kind is ModelKind.IMPORTANCE_MATRIX
    assert [entry.name for entry in tmp_path.iterdir()] == ["matrix"]


def test_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"cannot be written: No such file or directory\.$"):
        write_importance(tmp_path / "no" / "matrix", {}, num_chunks=1, text_name="")


def test_bundled_text_is_varied_and_long_enough() -> None:
    text = bundled_text()
    assert 20_000 < len(text.encode()) < 60_000
    assert all(mark in text for mark in ("def ", "SELECT", "春", "Р" if "Р" in text else "р", "| ---", "User:", "= "))
    assert text.isprintable() or all(c.isprintable() or c == "\n" for c in text)


def test_short_text_is_refused_with_both_numbers() -> None:
    backend = FakeLoader().load("fake:", ModelParams(), lambda share: True)
    assert backend is not None
    with pytest.raises(EngineError, match=r"has 511 tokens, and 512 are the least"):
        cut([1] * 511, backend, 0)
    assert [len(chunk) for chunk in cut([1] * 1100, backend, 0)] == [512, 512]
    assert len(cut([1] * 1100, backend, 1)) == 1


# --- through the worker ---


@pytest.fixture
def client() -> Iterator[InprocClient]:
    """Run an engine without weights in this process."""
    made = InprocClient(fake=True)
    yield made
    made.close()


def answers(recorder: Recorder) -> list[Event]:
    """Return how the building ended."""
    return [event for event in recorder.events if isinstance(event, FINAL)]


def test_matrix_is_built_with_progress_and_one_answer(client: InprocClient, tmp_path: Path) -> None:
    recorder = Recorder()
    client.start(recorder.add)
    load(client, recorder)
    client.send(BuildImportance(request_id="i", path=str(tmp_path / "m")))
    recorder.wait_for_type(ImportanceBuilt)
    [built] = answers(recorder)
    assert isinstance(built, ImportanceBuilt)
    assert built.num_tokens == built.num_chunks * CHUNK_TOKENS
    progress = recorder.of_type(ImportanceProgress)
    assert progress[0].num_chunks_done == 0
    assert (tmp_path / "m").exists()
    client.send(generate("g", max_tokens=2))
    recorder.wait_for("g")


def test_matrix_is_given_up_when_it_is_aborted(client: InprocClient, tmp_path: Path) -> None:
    recorder = Recorder()

    def add(event: Event) -> None:
        recorder.add(event)
        if isinstance(event, ImportanceProgress):
            client.send(Abort(request_id="i"))

    client.start(add)
    load(client, recorder)
    client.send(BuildImportance(request_id="i", path=str(tmp_path / "m")))
    recorder.wait_for_type(ImportanceCancelled)
    assert len(answers(recorder)) == 1
    assert list(tmp_path.iterdir()) == []
    client.send(BuildImportance(request_id="again", path=str(tmp_path / "m"), max_chunks=1))
    recorder.wait(lambda events: any(getattr(event, "request_id", "") == "again" for event in events))


def test_matrix_needs_a_model(client: InprocClient, tmp_path: Path) -> None:
    recorder = Recorder()
    client.start(recorder.add)
    client.send(BuildImportance(request_id="i", path=str(tmp_path / "m")))
    recorder.wait_for_type(Failed)
    [failed] = answers(recorder)
    assert isinstance(failed, Failed)
    assert failed.error.message == "No model is loaded."


def test_real_decode_is_broken_off_at_once(tmp_path: Path) -> None:
    client, recorder = InprocClient(), Recorder()

    def add(event: Event) -> None:
        recorder.add(event)
        if isinstance(event, ImportanceProgress) and event.num_chunks_done == 1:
            client.send(Abort(request_id="i"))

    client.start(add)
    try:
        from engine.messages import LoadModel, ModelLoaded

        path = write_tiny_model(tmp_path / "tiny.gguf")
        params = ModelParams(n_ctx=512, n_threads=1)
        client.send(LoadModel(request_id="l", path=str(path), params=params, is_known=True))
        recorder.wait_for_type(ModelLoaded)
        client.send(BuildImportance(request_id="i", path=str(tmp_path / "m")))
        recorder.wait_for_type(ImportanceCancelled)
        client.send(generate("g", max_tokens=2))
        assert not isinstance(recorder.wait_for("g"), Failed)
    finally:
        client.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny.gguf"]
