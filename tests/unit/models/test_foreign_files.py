"""Files that are no GGUF are called what they are."""

import struct

import pytest

from models.foreign_files import HEAD_BYTES, recognise
from tests.support.hostile_gguf import FOREIGN_FILES


@pytest.mark.parametrize("name", FOREIGN_FILES)
def test_foreign_file_is_named(name: str) -> None:
    word, data = FOREIGN_FILES[name]
    foreign = recognise(data[:HEAD_BYTES], len(data))
    assert word in foreign.what
    assert foreign.hint.endswith(".")


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b'{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}', "settings"),
        (b'{"weight_map": {"a": "model-00001.safetensors"}}', "index"),
        (b'{"a": ' + b"1" * HEAD_BYTES, "settings"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "error text"),
        (b"<Error><Code>NoSuchKey</Code></Error>", "error text"),
        (b"<?xml version='1.0'?><html xmlns='x'>", "web page"),
        (b"<script>location='/login'</script>", "web page"),
        (b"version https://hawser.github.com/spec/v1\noid sha256:4d7a\nsize 9\n", "pointer"),
        (b"version https://git-lfs.github.com/spec/v1\r\noid sha256:4d7a\r\nsize 9\r\n", "pointer"),
        (b"# xet version 0\nfilesize = 9\n", "pointer"),
        (b'{"message":"403 Forbidden"}', "error text"),
        (b'{"Error":{"code":401}}', "error text"),
        (b"{}", "error text"),
        (b'{"version":"1.0","truncation":null}', "JSON file"),
        (b'["a"]', "JSON file"),
        (b"[" * HEAD_BYTES, "settings"),
        (b'{"error":' * 454, "settings"),
        (b" \n\t ", "blanks"),
        (b"FUGG\0\0\0\3", "wrong order"),
        (b"GIF89a", "picture"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\xef\xbb\xbf<html>", "web page"),
        (b"\x1f\x8b\x08\0", "gzip"),
        (b"\x7fELF\x02", "program"),
        (b"\x80\x02}q", "PyTorch"),
        (struct.pack("<Q", 2**62) + b'{"a"', "not a GGUF"),  # no safetensors header is longer than its file
        ("Zugriff verweigert: ungültig".encode(), "error text"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_contents_are_named(head: bytes, word: str) -> None:
    assert word in recognise(head[:HEAD_BYTES], len(head)).what


def test_long_text_is_not_taken_for_an_error() -> None:
    assert recognise(b"word " * 1000, 50_000).what == "a text file"


def test_head_that_ends_inside_a_character_is_still_a_text() -> None:
    head = ("é" * HEAD_BYTES).encode()[: HEAD_BYTES - 1] + b"\xc3"
    assert recognise(head, 10 * HEAD_BYTES).what == "a text file"


def test_excerpt_is_short_and_on_one_line() -> None:
    what = recognise(b"Not\nfound " * 100, 1000).what
    assert "\n" not in what
    assert len(what) < 200
