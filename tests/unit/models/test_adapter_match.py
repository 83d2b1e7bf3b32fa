"""An adapter fits the model it was made for, and of any other one reason is told; hostile headers harm nobody."""

import random
from pathlib import Path
from typing import Any

import gguf
import numpy
import pytest

from models import (
    AdapterBase,
    CorruptGGUF,
    GGUFError,
    NotAnAdapter,
    adapter_misfit,
    names_other_base,
    read_adapter_base,
    read_adapter_info,
    read_gguf_info,
)
from tests.support.adapters import STARTER, TINY, Target, write_adapter
from tests.support.gguf_files import edit_gguf, write_other_kinds, write_tiny_model
from tests.support.hostile_gguf import FOREIGN_FILES, IMPOSSIBLE_FILES

QUERY = "blk.0.attn_q.weight"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> AdapterBase:
    return read_base(write_tiny_model(tmp_path_factory.mktemp("base") / "tiny.gguf"))


def read_base(path: Path) -> AdapterBase:
    return read_adapter_base(read_gguf_info(path))


def misfit(path: Path, base: AdapterBase, **settings: Any) -> str:
    return adapter_misfit(read_adapter_info(write_adapter(path, **settings)), base)


def test_adapter_fits_the_model_it_was_made_for(base: AdapterBase, tmp_path: Path) -> None:
    path = write_adapter(tmp_path / "a.gguf", rank=6, keys={"general.base_model.0.name": "Tiny Llama 3B"})
    info = read_adapter_info(path)
    assert adapter_misfit(info, base) == ""
    assert (info.name, info.rank, info.architecture, info.bases) == ("a", 6, "llama", ("Tiny Llama 3B",))
    assert info.file_bytes == path.stat().st_size
    assert set(info.changes) == {target.name for target in TINY}


def test_adapter_of_the_starter_fits_it(starter_path: Path, tmp_path: Path) -> None:
    assert misfit(tmp_path / "a.gguf", read_base(starter_path), targets=STARTER) == ""


@pytest.mark.parametrize(
    ("reason", "settings"),
    [
        ("for the architecture qwen2; this model is llama", {"arch": "qwen2"}),
        ("is 64 × 64 here, not 64 × 32", {"targets": [Target(QUERY, 64, 32)]}),
        ("is 64 × 64 here, not 32 × 64", {"targets": [Target(QUERY, 32, 64)]}),
        ("changes blk.9.x.weight, which this model does not have", {"targets": [Target("blk.9.x.weight", 64, 64)]}),
        ("holds no weights", {"targets": []}),
        ("another kind than LoRA", {"keys": {"adapter.type": "cvec"}}),
        ("another kind than LoRA", {"keys": {"general.type": "model"}}),
        ("activated LoRA", {"keys": {"adapter.alora.invocation_tokens": [1, 2]}}),
        ("alpha is absurd", {"alpha": float("nan")}),
        ("alpha is absurd", {"alpha": 1e30}),
        ("alpha is absurd", {"keys": {"adapter.lora.alpha": 3}}),
        ("alpha is absurd", {"keys": {"adapter.lora.alpha": [3, 3]}}),
        ("changes the token embedding", {"targets": [Target("token_embd.weight", 64, 64)]}),
        ("stored as F64", {"dtype": numpy.float64}),
        ("holds the whole weight blk.0.attn_q.weight", {"extra": {QUERY: numpy.zeros((64, 64), numpy.float32)}}),
        ("one half of x.weight is missing", {"extra": {"x.weight.lora_a": numpy.zeros((4, 64), numpy.float32)}}),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)  # fmt: skip
def test_misfit_has_its_one_reason(base: AdapterBase, tmp_path: Path, reason: str, settings: dict[str, Any]) -> None:
    told = misfit(tmp_path / "a.gguf", base, **settings)
    assert reason in told
    assert told.count(". ") == 0 and told.endswith(".")


def test_halves_that_do_not_belong_together_are_told(base: AdapterBase, tmp_path: Path) -> None:
    halves = {f"{QUERY}.lora_a": numpy.zeros((4, 64)), f"{QUERY}.lora_b": numpy.zeros((64, 5))}
    extra = {name: values.astype(numpy.float32) for name, values in halves.items()}
    assert "do not belong together" in misfit(tmp_path / "a.gguf", base, targets=[], extra=extra)


def test_weights_of_norms_are_passed_over_as_llama_cpp_does(base: AdapterBase, tmp_path: Path) -> None:
    extra = {"blk.0.attn_norm.weight": numpy.zeros(64, numpy.float32)}
    assert misfit(tmp_path / "a.gguf", base, extra=extra) == ""


def test_experts_have_to_be_as_many_as_those_of_the_model(tmp_path: Path) -> None:
    name = "blk.0.ffn_up_exps.weight"
    base = AdapterBase(architecture="llama", names=(), shapes={name: (64, 32, 4)})
    for num_experts, fits in ((4, True), (3, False)):
        extra = {
            f"{name}.lora_a": numpy.zeros((num_experts, 2, 64), numpy.float32),
            f"{name}.lora_b": numpy.zeros((num_experts, 32, 2), numpy.float32),
        }
        path = tmp_path / f"{num_experts}.gguf"
        assert (misfit(path, base, targets=[], extra=extra) == "") is fits


def test_all_parts_of_a_split_model_count(tmp_path: Path) -> None:
    tiny = write_tiny_model(tmp_path / "tiny.gguf")
    whole = read_base(tiny)
    names = sorted(whole.shapes)
    for number, tensors in enumerate((names[:5], names[5:])):
        writer = gguf.GGUFWriter(tmp_path / f"m-{number + 1:05d}-of-00002.gguf", "llama")
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        if number == 0:
            for key in ("block_count", "context_length", "embedding_length", "attention.head_count"):
                writer.add_uint32(f"llama.{key}", 64 if key != "block_count" else 2)
        for name in tensors:
            writer.add_tensor(name, numpy.zeros(whole.shapes[name][::-1], numpy.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    assert read_base(tmp_path / "m-00001-of-00002.gguf").shapes == whole.shapes


@pytest.mark.parametrize(
    ("theirs", "is_other"),
    [("Tiny Llama", False), ("tiny-llama-instruct", False), ("Qwen2.5 0.5B", True), ("T", True), (None, False)],
)
def test_name_of_the_base_is_compared_loosely(
    base: AdapterBase, tmp_path: Path, theirs: str | None, is_other: bool
) -> None:
    info = read_adapter_info(write_adapter(tmp_path / "a.gguf", keys={"general.base_model.0.name": theirs}))
    assert names_other_base(info, base) is is_other
    assert adapter_misfit(info, base) == ""


def test_model_that_was_made_from_the_same_base_is_named_by_it(tmp_path: Path) -> None:
    tiny = write_tiny_model(tmp_path / "tiny.gguf")
    tuned = edit_gguf(tiny, tmp_path / "tuned.gguf", set={"general.base_model.0.name": "Grand Base 3B"})
    adapter = write_adapter(tmp_path / "a.gguf", keys={"general.base_model.0.name": "Grand-Base-3B"})
    assert not names_other_base(read_adapter_info(adapter), read_base(tuned))
    assert names_other_base(read_adapter_info(adapter), read_base(tiny))


def test_other_kinds_are_told_from_adapters(tmp_path: Path) -> None:
    kinds = write_other_kinds(tmp_path) | {"model": write_tiny_model(tmp_path / "tiny.gguf")}
    for kind, path in kinds.items():
        if kind == "adapter":
            continue
        with pytest.raises(NotAnAdapter) as caught:
            read_adapter_info(path)
        assert path.name in caught.value.message and caught.value.hint


def test_hostile_names_are_harmless_in_a_reason(base: AdapterBase, tmp_path: Path) -> None:
    keys = {"general.name": "\x1b[31m" * 50, "general.base_model.0.name": "\u202e" * 900}
    path = write_adapter(tmp_path / "a\x1bb.gguf", [Target("x\x1b\u202e.weight", 64, 64)], keys=keys)
    info = read_adapter_info(path)
    told = (adapter_misfit(info, base), info.name, *info.bases)
    assert all(text.isprintable() and len(text) < 300 for text in told)


@pytest.mark.parametrize("name", [*IMPOSSIBLE_FILES, *FOREIGN_FILES])
def test_hostile_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(IMPOSSIBLE_FILES[name] if name in IMPOSSIBLE_FILES else FOREIGN_FILES[name][1])
    with pytest.raises((GGUFError, NotAnAdapter)) as caught:
        read_adapter_info(path)
    assert "bad.gguf" in caught.value.message


def test_adapter_that_is_cut_off_is_refused_at_every_length(tmp_path: Path) -> None:
    data = write_adapter(tmp_path / "a.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (*range(0, 1200, 37), len(data) - 1):
        cut.write_bytes(data[:length])
        with pytest.raises(GGUFError):
            read_adapter_info(cut)


def test_mutated_headers_have_one_sentence_or_a_reason(base: AdapterBase, tmp_path: Path) -> None:
    data = write_adapter(tmp_path / "a.gguf").read_bytes()
    path, chance = tmp_path / "m.gguf", random.Random(7)
    for _ in range(300):
        mutated = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            mutated[chance.randrange(1200)] = chance.randrange(256)
        path.write_bytes(mutated)
        try:
            told = adapter_misfit(read_adapter_info(path), base)
        except (GGUFError, NotAnAdapter) as error:
            told = error.message
        assert told.isprintable()


def test_damage_of_the_model_is_told(tmp_path: Path) -> None:
    tiny = write_tiny_model(tmp_path / "tiny.gguf")
    info = read_gguf_info(tiny)
    tiny.write_bytes(tiny.read_bytes().replace(b"blk.0", b"blk.1"))
    with pytest.raises(CorruptGGUF):
        read_adapter_base(info)
