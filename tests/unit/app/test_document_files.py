"""Files that are not what they seem: a text about PDF, names that no system takes, folders, characters cut in two."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app import text_decoding
from app.document_text import beginning_of, split_documents
from app.documents import read_document
from app.errors import AttachmentError
from tests.support.pdf_files import pdf_of


@pytest.mark.parametrize("name", ["reader.py", "notes.md", "notes"])
def test_text_is_a_text_when_it_speaks_of_pdf(name: str, tmp_path: Path):
    text = '"""Reads PDF files."""\n\nMARK = b"%PDF-"'
    (tmp_path / name).write_text(text)
    assert read_document(tmp_path / name).document.text == text


@pytest.mark.parametrize(("name", "before"), [("a.pdf", b"junk\n"), ("a", b"\n\n"), ("a.bin", b"")])
def test_pdf_is_a_pdf_when_it_is_called_otherwise_or_has_something_before_it(name: str, before: bytes, tmp_path: Path):
    (tmp_path / name).write_bytes(before + pdf_of("Sales went up."))
    assert read_document(tmp_path / name).document.text == "Sales went up."


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000, "a\0b", "\udcff"], ids=["long", "deep", "zero", "no text"])
def test_refusal_is_one_sentence_when_no_system_takes_the_name(name: str, tmp_path: Path):
    with pytest.raises(AttachmentError):
        read_document(tmp_path / name)


def test_folder_is_let_go_of_when_it_is_no_document(tmp_path: Path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)
    with pytest.raises(AttachmentError, match="is a folder"):
        read_document(tmp_path)
    again = os.open(tmp_path, os.O_RDONLY)
    os.close(again)
    assert again == descriptor, "the lowest that is free"


@given(st.text("é日👍\r\na\ufeff", max_size=40), st.sampled_from(["utf-8", "utf-16", "cp1252"]))
def test_text_is_the_same_when_it_is_read_in_pieces_of_any_size(text: str, encoding: str):
    data = text.encode(encoding, "replace")
    whole = text_decoding.decode_text(data)
    with pytest.MonkeyPatch.context() as patched:
        for size in (1, 2, 3, 7):
            patched.setattr(text_decoding, "_PIECE_BYTES", size)
            assert text_decoding.decode_text(data) == whole


@pytest.mark.parametrize("size", [1, 2, 5])
def test_line_ends_are_joined_when_they_lie_in_two_pieces(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_decoding, "_PIECE_BYTES", size)
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\rthree\n\r\nfour\r")
    assert read_document(tmp_path / "a.txt").document.text == "one\ntwo\nthree\n\nfour"


_MARKS = ('<document name="a.md">\n', '<document-2 name="a">\n', '<document name="a  b">\n', "\n</document>\n\n")
_PARTS = st.sampled_from([*_MARKS, "\n</document-2>\n\n", "text", "</document>", "\n"])


@example('<document name="a  b">\n\n</document>\n\n', 1)
@given(st.lists(_PARTS, max_size=7).map("".join), st.integers(1, 9))
def test_beginning_is_that_of_the_only_document_when_a_text_is_taken_apart(text: str, num_chars: int):
    documents, rest = split_documents(text)
    only = documents[0]._replace(text=documents[0].text[:num_chars]) if len(documents) == 1 and not rest else None
    assert beginning_of(text, num_chars) == only


@pytest.mark.parametrize("encoding", ["utf-32", "utf-32-be", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("text", ["é日👍", "a", "a\n" * 700])
def test_text_is_right_when_a_mark_tells_its_encoding(encoding: str, text: str, tmp_path: Path):
    mark = b"\0\0\xfe\xff" if encoding == "utf-32-be" else b""
    (tmp_path / "a.txt").write_bytes(mark + text.encode(encoding))
    read = read_document(tmp_path / "a.txt")
    assert (read.document.text, read.notice) == (text.rstrip(), None)
