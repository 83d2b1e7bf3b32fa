"""A file on a disk that never answers: others are attached, and it can be given up."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.desktop import document_presenter
from app.document_text import document, join_documents
from app.documents import ReadDocument, read_document
from tests.gui.scripted_engine import Desk
from tests.gui.test_documents import drop, line, press

HUNG = "hung.txt"
BLOCK = join_documents([document("policy.md", "Ring twice.")], "")


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "policy.md").write_text("Ring twice.")
    return str(tmp_path / "policy.md")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let a file of one name hang until this is set."""
    answers, done = threading.Event(), threading.Event()

    def read(path: Path, *, is_wanted: Callable[[], bool]) -> ReadDocument:
        if path.name != HUNG:
            return read_document(path, is_wanted=is_wanted)
        assert answers.wait(60)
        done.set()
        return ReadDocument(document(HUNG, "late"), None)

    monkeypatch.setattr(document_presenter, "read_document", read)
    yield answers
    answers.set()
    assert done.wait(10)


def test_next_file_is_attached_when_one_that_hangs_was_given_up(
    desk: Desk, file: str, answers: threading.Event
) -> None:
    drop(desk, [f"/nowhere/{HUNG}"])
    desk.qtbot.waitUntil(lambda: HUNG in line(desk))
    press(desk, "Stop")
    assert HUNG not in line(desk)
    drop(desk, [file])
    desk.qtbot.waitUntil(lambda: desk.composer.pasted.documents == (BLOCK,))
    answers.set()
    drop(desk, [file])
    desk.qtbot.waitUntil(lambda: desk.composer.pasted.documents == (BLOCK, BLOCK))


def test_file_of_another_chat_is_attached_when_one_hangs(desk: Desk, file: str, answers: threading.Event) -> None:
    desk.reply("first", "answer")
    drop(desk, [f"/nowhere/{HUNG}"])
    desk.parts.actions.new_chat()
    drop(desk, [file])
    desk.qtbot.waitUntil(lambda: desk.composer.pasted.documents == (BLOCK,))
    assert not answers.is_set()
