"""The real window with the real model: a document that was read ahead outlives the chat in which that was, unless that
one is private."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine import CacheSource
from tests.e2e.test_documents_in_window import attach
from tests.e2e.test_kept_chats_in_window import files, open_window
from tests.support.person import Person

__all__ = ["files", "open_window"]

pytestmark = pytest.mark.qt_log_ignore("plugin does not support", "propagateSizeHints")


def written(path: Path, when: str) -> Path:
    """Write a document of some length."""
    path.write_text("".join(f"Rule {number}: whoever is {when} rings {number} times.\n" for number in range(20)))
    return path


def read_ahead(person: Person, path: Path) -> int:
    """Attach a document and have it read; return its tokens."""
    attach(person, path)
    row = person.composer.pasted.reading
    person.click(row.button)
    person.wait(lambda: row.text.startswith("Read ahead: "))
    return int(row.text.removeprefix("Read ahead: ").removesuffix(" tokens"))


def test_document_is_read_from_disk_when_the_chat_that_prepared_it_is_deleted(
    open_window: Callable[[], Person], files: Callable[[], list[Path]], tmp_path: Path
) -> None:
    policy, other = written(tmp_path / "policy.md", "late"), written(tmp_path / "other.md", "early")
    person = open_window()
    num_tokens = read_ahead(person, policy)
    person.wait(files)
    [shared] = files()
    person.say("How often do I ring?")
    chat_id = person.parts.conversation.chat.id
    person.wait(lambda: len(files()) == 2)
    person.parts.chats.delete(chat_id)
    person.parts.trash.purge_requested.emit(chat_id)
    person.wait(lambda: files() == [shared])

    person.parts.chats.new_chat(is_private=True)
    private_id = person.parts.conversation.chat.id
    read_ahead(person, other)
    person.parts.chats.close_private(private_id)

    person = open_window()
    assert files() == [shared], "a private chat writes none"
    person.parts.actions.new_chat()
    attach(person, policy)
    person.say("Which rule is the last?")
    reply = person.last_reply
    assert reply.cache is not None and reply.metrics is not None
    assert reply.cache.source is CacheSource.DISK
    assert num_tokens <= reply.cache.num_cached_tokens
    assert reply.metrics.num_prompt_tokens - num_tokens < 20
