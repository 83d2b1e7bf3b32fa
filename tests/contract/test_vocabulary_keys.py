"""What is put around a text is read from a header as llama.cpp reads it, also where the header does not say."""

from pathlib import Path

import pytest

from engine.backend_llama.library import library
from models import read_draft_file
from models.vocabulary import _PRE_WITH_BOS, _PRE_WITHOUT_BOS, Vocabulary
from tests.support.gguf_files import edit_gguf
from tests.support.vocabularies import FOLDER, loaded_vocabulary

_KEYS = [f"tokenizer.ggml.{key}" for key in ("add_bos_token", "add_eos_token", "bos_token_id", "eos_token_id")]
_KINDS = ("gpt-2", "llama-spm", "phi-3", "bert-bge", "aquila", "falcon")


def vocabulary_of(path: Path) -> Vocabulary:
    """Return the vocabulary as we read it."""
    vocabulary = read_draft_file(path).vocabulary
    assert vocabulary is not None
    return vocabulary


def check(path: Path) -> None:
    """Check that llama.cpp reads the same."""
    ours, native = vocabulary_of(path), library()
    with loaded_vocabulary(path) as loaded:
        handle = loaded.handle
        theirs = (
            native.llama_vocab_n_tokens(handle),
            native.llama_vocab_get_add_bos(handle),
            native.llama_vocab_get_add_eos(handle),
            native.llama_vocab_bos(handle),
            native.llama_vocab_eos(handle),
        )
    assert (ours.num_tokens, ours.adds_bos, ours.adds_eos, ours.bos_id, ours.eos_id) == theirs


@pytest.mark.parametrize("kind", _KINDS)
def test_keys_are_read_as_the_engine_reads_them(kind: str, tmp_path: Path) -> None:
    path = FOLDER / f"ggml-vocab-{kind}.gguf"
    check(path)
    check(edit_gguf(path, tmp_path / "silent.gguf", remove=_KEYS))


@pytest.mark.parametrize("pre", [*sorted(_PRE_WITH_BOS | _PRE_WITHOUT_BOS), "qwen2", "smollm", "gpt-4o"])
def test_pre_tokeniser_decides_where_the_header_is_silent(pre: str, tmp_path: Path) -> None:
    source = FOLDER / "ggml-vocab-gpt-2.gguf"
    check(edit_gguf(source, tmp_path / "pre.gguf", set={"tokenizer.ggml.pre": pre}, remove=_KEYS))


@pytest.mark.parametrize("token", [0, 49_999, 50_257, 2**32 - 1])
def test_token_that_does_not_exist_is_passed_over(token: int, tmp_path: Path) -> None:
    source = FOLDER / "ggml-vocab-gpt-2.gguf"
    check(edit_gguf(source, tmp_path / "odd.gguf", set={"tokenizer.ggml.bos_token_id": token}))
