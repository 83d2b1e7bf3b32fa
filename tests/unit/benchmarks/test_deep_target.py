"""The synthetic deep model is the same function as the model it was made from."""

import ctypes
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.bare_loop import BareLoop
from benchmarks.deep_target import write_deep
from benchmarks.model_files import MOSTLY_Q4_0, write_level
from engine.backend_llama.library import library
from models import read_gguf_info
from tests.support.gguf_files import edit_gguf, write_tiny_mamba, write_tiny_model

PROMPT = [5, 40, 41, 99, 3, 77, 200]


def logits_of(path: Path, num_steps: int) -> npt.NDArray[np.float32]:
    """Return the logits after the prompt and after each greedy token."""
    llama = library()
    bare = BareLoop(llama, str(path), n_ctx=128, n_threads=1)
    rows = []
    try:
        token = bare._read(PROMPT, 0)
        for step in range(num_steps):
            row: Any = llama.llama_get_logits_ith(bare._context, -1)
            rows.append(
                np.ctypeslib.as_array(ctypes.cast(row, ctypes.POINTER(ctypes.c_float)), (bare._n_vocab,)).copy()
            )
            token = bare._step([token], len(PROMPT) + step)
    finally:
        bare.close()
    return np.stack(rows)


@pytest.mark.parametrize("arch", ["llama", "qwen2"])
def test_deep_model_has_the_same_logits(tmp_path: Path, arch: str) -> None:
    shallow = write_tiny_model(tmp_path / "shallow.gguf", arch=arch, n_layer=3)
    deep = write_deep(shallow, tmp_path / "deep.gguf")
    one, other = logits_of(shallow, 6), logits_of(deep, 6)
    assert np.ptp(one) > 1, "the model tells tokens apart"
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_quantised_model_can_be_made_deep(tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "f32.gguf")
    shallow = write_level(source, tmp_path / "q4.gguf", MOSTLY_Q4_0)
    np.testing.assert_allclose(
        logits_of(write_deep(shallow, tmp_path / "deep.gguf", 1), 3), logits_of(shallow, 3), rtol=1e-5, atol=1e-5
    )


def test_deep_model_has_all_blocks_and_says_that_it_is_synthetic(tmp_path: Path) -> None:
    shallow = write_tiny_model(tmp_path / "shallow.gguf", n_layer=2)
    deep = write_deep(shallow, tmp_path / "deep.gguf", 3)
    before, after = read_gguf_info(shallow), read_gguf_info(deep)
    assert after.block_count == 4 * (before.block_count or 0) == 8
    assert "synthetic" in (after.name or "")
    assert "4 times as deep" in (after.name or "")
    shallow_keys, deep_keys = (gguf.GGUFReader(path).fields for path in (shallow, deep))
    assert set(deep_keys) == set(shallow_keys)
    assert deep_keys["tokenizer.ggml.tokens"].contents() == shallow_keys["tokenizer.ggml.tokens"].contents()


def test_value_of_each_block_is_repeated(tmp_path: Path) -> None:
    plain = write_tiny_model(tmp_path / "plain.gguf", n_layer=2, n_head=4)
    shallow = edit_gguf(plain, tmp_path / "list.gguf", set={"llama.attention.head_count": [4, 4]})
    deep = gguf.GGUFReader(write_deep(shallow, tmp_path / "deep.gguf", 2))
    assert deep.fields["llama.attention.head_count"].contents() == [4] * 6


def test_model_that_adds_in_other_ways_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in other ways"):
        write_deep(write_tiny_mamba(tmp_path / "mamba.gguf"), tmp_path / "deep.gguf")
    assert not (tmp_path / "deep.gguf").exists()
