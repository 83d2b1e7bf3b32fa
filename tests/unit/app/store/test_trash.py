"""Trash: everything comes back until its time is over, and no clock makes that time shorter."""

from collections.abc import Callable

import pytest

from app.store import ChatStore, NewNode
from app.store.trash import DAY_S
from engine import Role
from tests.unit.app.store.conftest import OpenStore
from tests.unit.app.store.samples import add_chat, load, node_of, shown

YEAR_S = 365 * DAY_S


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1.7e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return the clock of this test."""
    return Clock()


@pytest.fixture
def store(open_store: OpenStore, clock: Clock) -> ChatStore:
    """Return a store that keeps the trash for 30 days."""
    return open_store(clock=clock, retention_days=30)


@pytest.fixture
def look(store: ChatStore, clock: Clock) -> Callable[[float], int]:
    """Return a function that lets time go by and purges."""

    def after(seconds: float) -> int:
        clock.now += seconds
        return store.purge_expired().result(30)

    return after


def test_deleted_message_keeps_its_children_and_comes_back(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q1", "a1", "q2")
    store.delete_node(ids[1])
    assert shown(store, chat_id) == ["q1", "q2"]
    assert node_of(store, chat_id, ids[1]).content == "a1"
    store.restore_node(ids[1])
    assert shown(store, chat_id) == ["q1", "a1", "q2"]


def test_chat_in_the_trash_is_listed_there_and_comes_back(store: ChatStore) -> None:
    chat_id, _ = add_chat(store, "q1", "a1", title="Tides")
    store.trash_chat(chat_id).result(30)
    assert store.list_chats() == []
    assert [(row.title, row.deleted_at) for row in store.list_chats(trashed=True)] == [("Tides", 1.7e9)]
    store.restore_chat(chat_id).result(30)
    assert [row.deleted_at for row in store.list_chats()] == [None]
    assert shown(store, chat_id) == ["q1", "a1"]


def test_chat_is_not_purged_unless_it_is_in_the_trash(store: ChatStore) -> None:
    chat_id, _ = add_chat(store, "q1")
    assert store.purge_chat(chat_id).result(30) is False
    assert shown(store, chat_id) == ["q1"]


def test_trash_is_purged_when_its_time_is_over(store: ChatStore, look: Callable[[float], int]) -> None:
    chat_id, _ = add_chat(store, "q1", "a1", title="Tides")
    store.save_draft(chat_id, "draft")
    kept, ids = add_chat(store, "kept", "deleted", "kept below", "deleted at the end")
    store.trash_chat(chat_id)
    for deleted in (ids[1], ids[3]):
        store.delete_node(deleted)
    assert [look(DAY_S) for _ in range(29)] == [0] * 29
    assert look(DAY_S) == 3
    assert store.load_chat(chat_id) is None
    assert store.load_draft(chat_id) == ""
    chat = load(store, kept)
    assert [node.content for node in chat.path()] == ["kept", "", "kept below", ""]
    assert shown(store, kept) == ["kept", "kept below"]
    assert [look(DAY_S) for _ in range(40)] == [0] * 40
    store.restore_node(ids[1])
    assert shown(store, kept) == ["kept", "kept below"]
    store.trash_chat(kept)
    assert store.purge_chat(kept).result(30)


def test_restored_message_is_not_purged(store: ChatStore, look: Callable[[float], int]) -> None:
    _, ids = add_chat(store, "q1")
    store.delete_node(ids[0])
    look(20 * DAY_S)
    store.restore_node(ids[0])
    store.delete_node(ids[0])
    assert [look(7 * DAY_S) for _ in range(4)] == [0] * 4
    assert look(7 * DAY_S) == 1


@pytest.mark.parametrize(
    "leaps",
    [
        [50 * YEAR_S],
        [50 * YEAR_S, 60.0],
        [50 * YEAR_S, -50 * YEAR_S],
        [-50 * YEAR_S, 50 * YEAR_S],
        [-50 * YEAR_S, 60.0, 60.0],
        [YEAR_S, YEAR_S, 60.0],
        [60.0] * 100,
    ],
    ids=["forward", "forward and on", "forward and back", "back and forward", "back", "forward twice", "many looks"],
)
def test_nothing_is_purged_when_the_clock_jumps(
    store: ChatStore, look: Callable[[float], int], leaps: list[float]
) -> None:
    chat_id, _ = add_chat(store, "q1")
    store.trash_chat(chat_id)
    assert [look(leap) for leap in leaps] == [0] * len(leaps)
    store.restore_chat(chat_id)
    assert shown(store, chat_id) == ["q1"]


def test_time_before_the_deletion_does_not_count(store: ChatStore, look: Callable[[float], int], clock: Clock) -> None:
    chat_id, _ = add_chat(store, "q1")
    look(0.0)
    clock.now += 7 * DAY_S
    store.trash_chat(chat_id)
    assert [look(7 * DAY_S) for _ in range(4)] == [0] * 4
    assert look(2 * DAY_S) == 1


def test_order_of_messages_does_not_depend_on_the_clock(store: ChatStore, clock: Clock) -> None:
    chat_id, ids = add_chat(store, "q1")
    for number in range(3):
        clock.now -= YEAR_S
        store.add_node(NewNode(chat_id=chat_id, parent_id=ids[0], role=Role.ASSISTANT, content=f"a{number}"))
    chat = load(store, chat_id)
    assert [node.content for node in chat.children(ids[0])] == ["a0", "a1", "a2"]
    assert shown(store, chat_id) == ["q1", "a2"]


def test_purged_chats_and_chats_with_purged_messages_are_listed_until_others_forgot_them(
    store: ChatStore, look: Callable[[float], int]
) -> None:
    whole, _ = add_chat(store, "q1", "a1")
    part, ids = add_chat(store, "q2", "a2")
    add_chat(store, "q3", "a3")
    store.trash_chat(whole)
    store.delete_node(ids[1])
    for _ in range(9):
        look(10 * DAY_S)
    assert sorted(store.list_purged()) == sorted((whole, part))
    store.forget_purged([whole]).result(30)
    assert store.list_purged() == [part]
    store.note_purged(whole).result(30)
    assert sorted(store.list_purged()) == sorted((whole, part))
