"""What the engine keeps of chats: read when they are opened, dropped when they go, whatever ran meanwhile."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.cache_limits import cache_params
from app.settings import Settings
from engine import CacheDescribed, CacheParams, DescribeCache, ForgetChats, Generate, LoadModel, OpenChat, SetCache
from tests.gui.scripted_engine import Desk

OpenDesk = Callable[..., Desk]


@pytest.fixture
def open_desk(make_desk: Callable[..., Desk], tmp_path: Path) -> OpenDesk:
    """Open a window on the same chats, again and again."""

    def open_one(*, is_loaded: bool = True) -> Desk:
        desk = make_desk()
        with desk.qtbot.waitSignal(desk.parts.keeping.opened):
            desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
        if is_loaded:
            desk.load()
        return desk

    return open_one


def answer(desk: Desk) -> None:
    """Let the engine tell what it keeps: nothing."""
    request_id = desk.client.last(DescribeCache).request_id
    desk.client.emit(
        CacheDescribed(request_id=request_id, kept=(), ram_bytes=0, max_ram_bytes=0, disk_bytes=0, max_disk_bytes=0)
    )
    desk.parts.bridge._drain()


def begin_chat(desk: Desk, text: str) -> str:
    desk.parts.actions.new_chat()
    desk.reply(text, "answer")
    return desk.parts.conversation.chat.id


def purge(desk: Desk, chat_id: str) -> None:
    desk.parts.chats.delete(chat_id)
    desk.parts.trash.purge_requested.emit(chat_id)


def wait_until_forgotten(desk: Desk, *chat_ids: str) -> None:
    desk.qtbot.waitUntil(lambda: desk.client.count(ForgetChats) > 0)
    assert desk.client.last(ForgetChats).chat_ids == chat_ids


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(), CacheParams(folder="/f")),
        (Settings(chat_memory_mib=0, chat_disk_mib=2048), CacheParams(folder="/f", ram_mib=0, disk_mib=2048)),
        (Settings(chat_disk_mib=0), CacheParams(folder="/f", disk_mib=0)),
    ],
    ids=["automatic", "amounts", "no-disk"],
)
def test_limits_are_what_the_settings_say(settings: Settings, expected: CacheParams) -> None:
    assert cache_params(settings, "/f") == expected


def test_engine_knows_the_limits_before_a_model_is_loaded_and_with_each(desk: Desk) -> None:
    params = desk.client.last(SetCache).params
    assert isinstance(desk.client.sent[0], SetCache)
    assert params.folder
    assert desk.client.last(LoadModel).cache == params


def test_chat_has_one_name_for_the_engine_and_is_read_when_opened_after_a_restart(open_desk: OpenDesk) -> None:
    desk = open_desk()
    first = begin_chat(desk, "first")
    assert desk.client.last(Generate).chat_id == first
    begin_chat(desk, "second")
    desk.parts.close()
    again = open_desk()
    with again.qtbot.waitSignal(again.parts.chats.current_changed):
        again.parts.chats.open(first)
    assert again.client.last(OpenChat).chat_id == first
    again.reply("go on", "answer")
    assert again.client.last(Generate).chat_id == first


def test_open_chat_is_read_once_its_model_is_loaded(open_desk: OpenDesk) -> None:
    desk = open_desk()
    chat_id = begin_chat(desk, "first")
    desk.parts.close()
    again = open_desk(is_loaded=False)
    with again.qtbot.waitSignal(again.parts.chats.current_changed):
        again.parts.chats.open(chat_id)
    assert again.client.count(OpenChat) == 0
    again.load()
    assert again.client.last(OpenChat).chat_id == chat_id


def test_nothing_is_asked_for_a_chat_not_begun(desk: Desk) -> None:
    desk.parts.actions.new_chat()
    assert desk.client.count(OpenChat) == 0


def test_nothing_is_written_of_chats_that_are_kept_nowhere(desk: Desk) -> None:
    desk.reply("first", "answer")
    assert desk.client.last(Generate).is_private


def test_chats_that_are_kept_may_be_written(open_desk: OpenDesk) -> None:
    desk = open_desk()
    desk.reply("first", "answer")
    assert not desk.client.last(Generate).is_private


def test_chat_in_the_trash_is_kept_and_forgotten_when_it_is_purged(open_desk: OpenDesk) -> None:
    desk = open_desk()
    chat_id = begin_chat(desk, "first")
    desk.parts.chats.delete(chat_id)
    desk.parts.chats.recorder.store.flush(10)  # type: ignore[union-attr]
    assert desk.client.count(ForgetChats) == 0
    desk.parts.trash.purge_requested.emit(chat_id)
    wait_until_forgotten(desk, chat_id)


def test_forgetting_is_asked_once_when_the_engine_answers(open_desk: OpenDesk) -> None:
    desk = open_desk()
    purge(desk, chat_id := begin_chat(desk, "first"))
    wait_until_forgotten(desk, chat_id)
    answer(desk)
    store = desk.parts.chats.recorder.store
    assert store is not None
    store.flush(10)
    assert store.list_purged() == []


@pytest.mark.allow_log("the engine died")
def test_chat_purged_without_an_engine_is_forgotten_at_the_next_start(open_desk: OpenDesk) -> None:
    desk = open_desk()
    chat_id = begin_chat(desk, "first")
    desk.die()
    purge(desk, chat_id)
    desk.parts.close()
    again = open_desk(is_loaded=False)
    wait_until_forgotten(again, chat_id)
    answer(again)
    again.load()
    again.parts.chats.recorder.store.flush(10)  # type: ignore[union-attr]
    assert again.client.count(ForgetChats) == 1


def test_chat_can_be_forgotten_and_stays(open_desk: OpenDesk) -> None:
    desk = open_desk()
    chat_id = begin_chat(desk, "first")
    desk.parts.kept.forget(chat_id)
    wait_until_forgotten(desk, chat_id)
    assert [turn.text for turn in desk.parts.conversation.turns] == ["first", "answer"]


def test_chat_can_be_forgotten_where_no_chats_are_kept(desk: Desk) -> None:
    chat_id = begin_chat(desk, "first")
    desk.parts.kept.forget(chat_id)
    wait_until_forgotten(desk, chat_id)


def test_engine_has_less_than_two_seconds_when_the_window_closes(desk: Desk) -> None:
    desk.parts.close()
    assert desk.client.closed_after is not None
    assert desk.client.closed_after < 2.0
