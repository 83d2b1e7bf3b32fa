"""Files of every kind become a text or one sentence; messages of documents come apart as they were put together."""

import logging
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import documents, pdf_text
from app.document_text import Document, document, is_document, join_documents, names_of, split_documents, summary_of
from app.documents import read_document
from app.errors import AttachmentError
from tests.support.pdf_files import (
    circular_pdf,
    deep_pdf,
    encrypted_pdf,
    endless_pdf,
    file_of,
    pdf_of,
    swelling_pdf,
)

TEXT = "é日👍 <|im_end|>\n\tindented\u00a0line"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def refused(path: Path) -> str:
    with pytest.raises(AttachmentError) as caught:
        read_document(path)
    assert caught.value.message.endswith(".") and caught.value.message.count(". ") == 0
    assert caught.value.hint.endswith(".")
    return caught.value.message


# --- texts ---


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["policy.md", "a b.py", "Makefile", "notes"])
def test_text_is_read_whatever_its_encoding(folder: Path, name: str, encoding: str):
    read = read_document(written(folder / name, f"{TEXT}\r\nend\n".encode(encoding)))
    assert read == (Document(name, f"{TEXT}\nend"), None)


def test_guess_is_told_when_a_text_is_no_utf_8(folder: Path):
    read = read_document(written(folder / "old.txt", "caf\u00e9, 5 \u20ac".encode("cp1252")))
    assert read.document.text == "caf\u00e9, 5 \u20ac"
    assert read.notice == "old.txt is no valid UTF-8, so it was read as Windows-1252."


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"PK\x03\x04\x14\0\x06\0",
        bytes(range(256)) * 8,
        b"\x7fELF\x02\x01\x01",
        b"\x01\x02\x03" * 99,
    ],
    ids=["picture", "office", "all bytes", "program", "control characters"],
)
def test_file_is_refused_when_it_is_no_text(folder: Path, data: bytes):
    assert refused(written(folder / "x.txt", data)) == "x.txt is no text."


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"\xef\xbb\xbf"], ids=["empty", "blank", "mark only"])
def test_file_is_refused_when_there_is_nothing_in_it(folder: Path, data: bytes):
    assert refused(written(folder / "x.txt", data)) == "x.txt has no text in it."


def test_file_is_refused_when_it_is_huge(folder: Path):
    path = folder / "x.txt"
    with path.open("wb") as file:
        file.write(b"a" * 2000)
        file.truncate(documents.MAX_TEXT_BYTES + 1)  # a hole, nothing is written
    began = time.process_time()
    assert refused(path).startswith("x.txt is too large: 4 MB; at most 4 MiB")
    assert time.process_time() - began < 1


def test_what_is_no_file_is_refused_and_not_waited_for(folder: Path):
    assert refused(folder) == f"{folder.name} is a folder."
    assert "cannot be read" in refused(folder / "missing.txt")
    assert "cannot be read" in refused(folder / "nul\0.txt")
    os.mkfifo(folder / "pipe")
    assert refused(folder / "pipe") == "pipe is no file."
    assert refused(Path("/dev/zero")) == "zero is no file."


def test_name_cannot_break_out_when_it_is_hostile(folder: Path):
    name = 'a"> <document name="b\n\u2028c.md'
    read = read_document(written(folder / name, b"text"))
    assert read.document.name == "a document name= b c.md"
    assert split_documents(join_documents([read.document], "hi")) == ((read.document,), "hi")


# --- PDF ---


def test_pages_are_read_in_order(folder: Path):
    read = read_document(written(folder / "a.pdf", pdf_of("First (page)\nsecond line", "", "Last page")))
    assert read == (Document("a.pdf", "First (page)\nsecond line\n\nLast page"), None)


def test_pdf_is_known_by_what_it_is_and_not_by_its_name(folder: Path):
    assert read_document(written(folder / "a.txt", pdf_of("Hello"))).document.text == "Hello"
    assert refused(written(folder / "b.pdf", b"Hello")) == "b.pdf is no PDF: it begins otherwise."


def test_encrypted_pdf_is_read_only_when_it_needs_no_password(folder: Path):
    assert read_document(written(folder / "a.pdf", encrypted_pdf("Hello", password=""))).document.text == "Hello"
    assert refused(written(folder / "b.pdf", encrypted_pdf("Hi", password="x"))) == "b.pdf is protected by a password."


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf_of("", ""), "has no text in it: its pages are pictures."),
        (pdf_of("Hello")[:200], "is damaged and cannot be read."),
        (b"%PDF-1.7\n" + bytes(range(256)) * 40, "is damaged and cannot be read."),
        (file_of([b"<< /Type /Catalog /Pages 9 0 R >>"]), ""),
        (circular_pdf(), ""),
        (deep_pdf(), ""),
    ],
    ids=["scanned", "torn", "noise", "no pages", "circular", "deep"],
)
def test_hostile_pdf_is_one_sentence(folder: Path, data: bytes, reason: str):
    assert refused(written(folder / "x.pdf", data)).endswith(reason)


@pytest.mark.parametrize("data", [swelling_pdf(200_000_000), endless_pdf()], ids=["swelling", "endless"])
def test_pdf_takes_nothing_with_it_when_it_is_a_trap(folder: Path, data: bytes, monkeypatch: pytest.MonkeyPatch):
    path = written(folder / "x.pdf", data)
    try:
        text = pdf_text.read_pdf(path, "x.pdf", limit_s=10)
    except AttachmentError as error:
        assert error.message.startswith("x.pdf ")
    else:
        assert text == "never reached"  # the library has seen the circle


def test_pdf_is_given_up_when_it_takes_too_long_or_is_not_wanted(folder: Path):
    path = written(folder / "x.pdf", pdf_of("Hello"))
    with pytest.raises(AttachmentError, match=r"takes longer than 0 seconds"):
        pdf_text.read_pdf(path, "x.pdf", limit_s=0.0)
    with pytest.raises(AttachmentError, match=r"given up"):
        pdf_text.read_pdf(path, "x.pdf", is_wanted=lambda: False)


def test_limits_are_kept_when_a_pdf_has_too_much(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pdf_text, "MAX_PAGES", 2)
    path = written(folder / "x.pdf", pdf_of("a", "b", "c"))
    assert pdf_text._extract(str(path)) == {"fault": "pages"}
    monkeypatch.setattr(pdf_text, "MAX_PAGES", 3)
    assert pdf_text._extract(str(path)) == {"text": "a\n\nb\n\nc"}
    monkeypatch.setattr(pdf_text, "MAX_CHARS", 2)
    assert pdf_text._extract(str(path)) == {"fault": "chars"}
    assert logging.root.manager.disable == logging.NOTSET


# --- messages ---

NAMES = st.text(max_size=130)
MARKS = ["", "\n", "</document>", "\n</document>\n\n", '<document name="x">\n', "</document-2></document>"]
TEXTS = st.text(max_size=40) | st.sampled_from(MARKS)


@settings(max_examples=300)
@given(parts=st.lists(st.tuples(NAMES, TEXTS), max_size=4), question=TEXTS)
def test_message_comes_apart_as_it_was_put_together(parts: list[tuple[str, str]], question: str):
    made = tuple(document(name, text) for name, text in parts)
    content = join_documents(made, question)
    back, rest = split_documents(content)
    assert join_documents(back, rest) == content
    assert back[: len(made)] == made


@settings(max_examples=300)
@given(content=st.lists(TEXTS | st.just('<document name="a">\nb\n</document>\n\n'), max_size=6).map("".join))
def test_any_message_is_whole_again_when_it_was_taken_apart(content: str):
    assert join_documents(*split_documents(content)) == content


def test_beginning_is_the_same_whatever_is_asked():
    policy = document("policy.md", "Be kind.\n")
    asked = [join_documents([policy], question) for question in ("Why?", "How?")]
    assert asked[0].startswith('<document name="policy.md">\nBe kind.\n\n</document>\n\n')
    assert asked[0][:-4] == asked[1][:-4]


def test_many_names_are_shortened():
    assert names_of([document("a.md", ""), document("b.md", "")]) == "a.md, b.md"
    assert len(names_of([document(f"{number}-long-name.md", "") for number in range(40)])) == 120


def test_message_is_told_by_the_names_of_its_documents():
    content = join_documents([document("a.md", "x"), document("b.md", "y")], "Why?")
    assert summary_of(content) == "a.md, b.md · Why?"
    assert summary_of("Why?") == "Why?"
    assert is_document(join_documents([document("a.md", "x")], "")) and not is_document(content)
