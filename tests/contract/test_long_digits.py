"""A vocabulary that groups digits from the right takes time by the square of a length: it never gets long numbers."""

import time
from pathlib import Path

import pytest

from engine.text_tokens import TextTokenizer
from tests.support.gguf_files import write_tiny_model
from tests.support.vocabularies import loaded_vocabulary


@pytest.mark.parametrize("pre", ["superbpe", "llama-bpe", "deepseek-llm", "gpt-2"])
def test_long_number_is_tokenised_soon_and_whole(pre: str, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", pre=pre)
    text = "1234567" * 4000  # at once it takes superbpe some 25 seconds
    began = time.thread_time()
    with loaded_vocabulary(path) as vocabulary:
        tokens = TextTokenizer(vocabulary).tokenize([(text, False)])
    assert time.thread_time() - began < 12.0
    assert b"".join(vocabulary.pieces[token] for token in tokens).decode() == text


@pytest.mark.parametrize("pre", ["superbpe", "llama-bpe", "deepseek-llm", "gpt-2"])
@pytest.mark.parametrize("length", [1, 998, 999])
def test_number_is_tokenised_as_ever_when_it_is_short(pre: str, length: int, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", pre=pre)
    text = f"a {'7' * length} b"
    with loaded_vocabulary(path) as vocabulary:
        expected = vocabulary.tokenize(text, parse_special=False)
        assert TextTokenizer(vocabulary).tokenize([(text, False)]) == expected
