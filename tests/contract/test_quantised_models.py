"""What was quantised runs: tiny models in types of every family, a split one, and a level of the starter model."""

import random
import struct
from pathlib import Path

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.backend_llama import LlamaLoader
from engine.importance import write_importance
from engine.params import ModelParams, SamplingParams
from models import ModelsError, QuantizePlan, QuantizeRun, plan_ladder, plan_quantize, read_gguf_info
from tests.support.gguf_files import write_tiny_model

TYPES = ("F16", "Q8_0", "Q6_K", "Q4_0", "Q2_K_S")


def make(plans: tuple[object, ...]) -> list[QuantizePlan]:
    """Make files and return their plans, all of which must have succeeded with the size that was planned."""
    ready = [plan for plan in plans if isinstance(plan, QuantizePlan)]
    assert len(ready) == len(plans)
    run = QuantizeRun(ready, n_threads=1)
    run.start()
    results = run.wait(100)
    assert results is not None
    assert [result.error and result.error.details for result in results] == [None] * len(ready)
    assert [plan.output.stat().st_size for plan in ready] == [plan.output_bytes for plan in ready]
    return ready


def first_token(path: Path, prompt: tuple[int, ...] = (1, 2, 3)) -> int:
    """Return the token that a model answers with."""
    loader = LlamaLoader()
    backend = loader.load(str(path), ModelParams(n_ctx=256, n_threads=1), lambda share: True, is_known=True)
    assert backend is not None
    try:
        assert backend.decode([BatchPart(0, 0, prompt, wants_logits=True)]) is DecodeStatus.DONE
        sampler = backend.new_sampler(SamplingParams(temperature=0), 1, prompt)
        try:
            return sampler.sample(0)
        finally:
            sampler.close()
    finally:
        backend.close()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model whose rows every type divides."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny-F32.gguf", n_embd=256)


def test_types_of_every_family_load_and_answer(source: Path, tmp_path: Path) -> None:
    loader, matrix = LlamaLoader(), tmp_path / "matrix"
    backend = loader.load(str(source), ModelParams(n_ctx=256, n_threads=1), lambda share: True, is_known=True)
    assert backend is not None
    found = loader.sum_importance(backend, [[place % 200 for place in range(64)]], lambda num_done: True)
    backend.close()
    assert found is not None
    write_importance(matrix, found, num_chunks=1, text_name="x")
    plans = make(plan_ladder(source, {name: tmp_path / f"{name}.gguf" for name in TYPES}, imatrix=matrix))
    expected = first_token(source)
    answers = {plan.type.name: first_token(plan.output) for plan in plans}
    assert all(token >= 0 for token in answers.values())
    assert answers["F16"] == expected


def test_split_model_becomes_one_file_whichever_part_is_named(source: Path, tmp_path: Path) -> None:
    first, last = split(source, tmp_path)
    plans = make(plan_ladder(last, {"Q8_0": tmp_path / "whole.gguf"}))
    assert plans[0].source == first
    info = read_gguf_info(tmp_path / "whole.gguf")
    assert (info.split_count, info.num_tensors) == (1, read_gguf_info(source).num_tensors)
    assert first_token(tmp_path / "whole.gguf") == first_token(source)


def split(source: Path, folder: Path) -> tuple[Path, Path]:
    """Write a model in two parts."""
    import gguf

    reader = gguf.GGUFReader(source)
    paths = (folder / "m-00001-of-00002.gguf", folder / "m-00002-of-00002.gguf")
    half = len(reader.tensors) // 2
    for number, (path, tensors) in enumerate(zip(paths, (reader.tensors[:half], reader.tensors[half:]), strict=True)):
        writer = gguf.GGUFWriter(path, "llama")
        if number == 0:
            for field in reader.fields.values():
                if not field.name.startswith(("GGUF.", "general.architecture")):
                    sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                    writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return paths


def test_level_of_the_starter_loads_and_answers(starter_path: Path, tmp_path: Path) -> None:
    [plan] = make((plan_quantize(starter_path, "Q8_0", tmp_path / "starter.gguf"),))
    assert first_token(plan.output, (504, 3575, 282, 4649, 314)) > 0


def test_hostile_sources_cost_a_sentence_each(source: Path, tmp_path: Path) -> None:
    whole, chance = source.read_bytes(), random.Random(6)
    head = read_gguf_info(source).header_bytes
    refused = 0
    for number in range(24):
        data = bytearray(whole)
        for _ in range(3):
            place = chance.randrange(24, head)
            data[place : place + 4] = struct.pack("<I", chance.choice((0, 1, 0xFFFFFFFF, 2**31, 999)))
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(data)
        try:
            plan_quantize(path, "Q4_0", tmp_path / "x.gguf")
        except ModelsError as error:
            assert error.message.endswith(".")
            assert error.message.isprintable()
            refused += 1
        path.unlink()
    assert refused > 0
    assert list(tmp_path.iterdir()) == []
