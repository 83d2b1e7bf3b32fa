"""The real window with the real model: a document is read ahead, and each chat and start reads only its question."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine import CacheSource
from tests.e2e.test_kept_chats_in_window import files, open_window
from tests.support.person import Person

__all__ = ["files", "open_window"]

pytestmark = pytest.mark.qt_log_ignore("plugin does not support", "propagateSizeHints")


def attach(person: Person, path: Path) -> None:
    """Drop a file on the window."""
    person.parts.window.files_dropped.emit([str(path)])
    person.wait(lambda: len(person.composer.pasted.documents) == 1)


def test_document_is_read_once_for_all_chats_and_starts(
    open_window: Callable[[], Person], files: Callable[[], list[Path]], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.md"
    policy.write_text("".join(f"Rule {number}: whoever is late rings {number} times.\n" for number in range(20)))
    person = open_window()
    attach(person, policy)
    row = person.composer.pasted.reading
    person.click(row.button)
    person.wait(lambda: row.text.startswith("Read ahead: "))
    num_tokens = int(row.text.removeprefix("Read ahead: ").removesuffix(" tokens"))
    assert num_tokens > 200
    person.say("How often do I ring?")
    person.parts.actions.new_chat()
    attach(person, policy)
    assert row.text == f"Read ahead: {num_tokens} tokens"
    person.say("And what is rule 3?")
    reply = person.last_reply
    assert reply.cache is not None and reply.cache.num_cached_tokens >= num_tokens
    person.wait(files)

    person = open_window()
    person.parts.actions.new_chat()
    attach(person, policy)
    person.say("Which rule is the last?")
    reply = person.last_reply
    assert reply.cache is not None and reply.cache.num_cached_tokens >= num_tokens
    assert reply.cache.source is CacheSource.DISK
