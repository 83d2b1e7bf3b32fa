"""What is read ahead for all chats, and what is of one chat alone; how the settings count them."""

import dataclasses
from collections.abc import Callable

import pytest
from PySide6.QtTest import QTest

from app.desktop.theme.theme import Theme
from app.desktop.widgets.cache_summary import CacheSummary
from engine import CacheSource, KeptPrompt, Prepare
from tests.gui.scripted_engine import Desk
from tests.gui.test_cache_summary import described
from tests.gui.test_cache_summary import kept as kept_of
from tests.gui.test_chats_kept import open_desk
from tests.gui.test_documents import attach, files, line, prepare, prepared

__all__ = ["files", "open_desk"]


def shared(name: str, source: CacheSource) -> KeptPrompt:
    return KeptPrompt(source=source, model_name="S", num_tokens=9, num_bytes=9, chat_id=None, last_used=None, name=name)


def test_what_is_read_goes_with_its_chat_only_when_it_has_words_of_the_chat(desk: Desk, files: list[str]) -> None:
    attach(desk, files[:1])
    order = prepare(desk)
    assert order.chat_id is None
    prepared(desk, order)
    desk.finish(desk.say("When do I ring?"), "Twice.")
    attach(desk, files[1:])
    assert prepare(desk).chat_id == desk.parts.conversation.chat.id


def test_system_prompt_is_read_for_all_chats(desk: Desk) -> None:
    conversation = desk.parts.conversation
    conversation.set_settings(dataclasses.replace(conversation.settings, system_prompt="Be kind."))
    QTest.keySequence(desk.window, "Ctrl+Shift+P")
    assert desk.client.last(Prepare).chat_id is None


def test_private_chat_knows_of_what_all_have_and_others_not_of_its_own(
    open_desk: Callable[[], Desk], files: list[str]
) -> None:
    desk = open_desk()
    attach(desk, files[:1])
    prepared(desk, prepare(desk))
    desk.parts.chats.new_chat(is_private=True)
    attach(desk, files[:1])
    assert line(desk).startswith("Read ahead")
    desk.parts.chats.new_chat(is_private=True)
    attach(desk, files[1:])
    order = prepare(desk)
    assert order.is_private and order.chat_id == desk.parts.conversation.chat.id
    prepared(desk, order)
    desk.parts.actions.new_chat()
    attach(desk, files[1:])
    assert line(desk).startswith("Not read yet")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((shared("a.md", CacheSource.DISK), shared("b.md", CacheSource.DISK)), "2 read ahead"),
        ((kept_of(CacheSource.DISK, "a"), shared("a.md", CacheSource.DISK)), "1 chat, 1 read ahead"),
        ((kept_of(CacheSource.DISK, "a"), shared("a.md", CacheSource.RAM)), "1 chat"),
    ],
    ids=["documents", "both", "elsewhere"],
)
def test_summary_counts_what_is_read_ahead(theme: Theme, entries: tuple[KeptPrompt, ...], expected: str) -> None:
    summary = CacheSummary(theme)
    summary.show_kept(described("x", *entries))
    assert summary.lines[2] == expected
    summary.deleteLater()
