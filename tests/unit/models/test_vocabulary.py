"""Two files have one vocabulary, or not."""

import shutil
from pathlib import Path

from models import read_gguf_info, vocabulary_hash
from tests.support.gguf_files import write_tiny_model


def hash_of(path: Path) -> str:
    """Return the hash of the vocabulary in a file."""
    return vocabulary_hash(read_gguf_info(path))


def test_levels_of_one_model_have_one_vocabulary(tmp_path: Path) -> None:
    one = write_tiny_model(tmp_path / "one.gguf")
    other = write_tiny_model(tmp_path / "other.gguf", n_layer=1, chat_template=None, seed=3)
    assert hash_of(one) == hash_of(other)
    assert len(hash_of(one)) == 64


def test_other_vocabulary_is_told(tmp_path: Path) -> None:
    bpe = write_tiny_model(tmp_path / "bpe.gguf")
    spm = write_tiny_model(tmp_path / "spm.gguf", vocab="spm")
    assert hash_of(bpe) != hash_of(spm)


def test_name_and_place_do_not_matter(tmp_path: Path) -> None:
    one = write_tiny_model(tmp_path / "one.gguf")
    assert hash_of(one) == hash_of(Path(shutil.copyfile(one, tmp_path / "two.gguf")))
