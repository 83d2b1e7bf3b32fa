"""ChatStore: what is written comes back, nothing is overwritten, and no write makes the caller wait."""

import os
import stat
import threading
from pathlib import Path

import pytest

from app.errors import StoreError
from app.store import NO_CHAT, ChatChange, ChatStore, NewChat, NewNode, NodeState, Partial, ReplyEnd
from engine import FinishReason, Role
from tests.unit.app.store.conftest import OpenStore
from tests.unit.app.store.samples import add_chat, begin_reply, finish_reply, load, node_of, shown

ODD_TEXTS = {
    "a\ud83d b": "a\ufffd b",
    "a\0b": "a\0b",
    "\ufeffhello": "\ufeffhello",
    "e\u0301": "e\u0301",
    "\u202eabc": "\u202eabc",
    "one\u2028two": "one\u2028two",
    "\ud83d\ude00": "\U0001f600",
    "\0": "\0",
    "  two blanks\t\u00a0\r\n": "  two blanks\t\u00a0\r\n",
}


def test_chat_comes_back_as_it_was_when_opened_again(open_store: OpenStore) -> None:
    store = open_store()
    chat = NewChat(
        title="Tides", title_is_own=True, system_prompt="Be brief.", model="starter", settings={"temperature": 0.5}
    )
    store.add_chat(chat)
    question = NewNode(chat_id=chat.id, parent_id=None, role=Role.USER, content="Why?")
    store.add_node(question)
    reply = NewNode(
        chat_id=chat.id, parent_id=question.id, role=Role.ASSISTANT, state=NodeState.OPEN, settings={"seed": 3}
    )
    store.add_node(reply)
    end = ReplyEnd(
        node_id=reply.id,
        content="The moon.",
        thinking="Hm.",
        token_ids=[1, 151643, 2**31 - 1],
        finish_reason=FinishReason.STOP,
        stop_string="##",
        metrics={"ttft_s": 0.25, "cache_source": "slot"},
        template_hash="t",
        model_fingerprint="f",
        model_name="SmolLM2",
    )
    store.finish_reply(end).result(30)
    store.close()

    found = load(open_store(), chat.id)
    assert (found.row.title, found.row.title_is_own, found.row.is_pinned) == ("Tides", True, False)
    assert (found.system_prompt, found.model, found.settings) == ("Be brief.", "starter", {"temperature": 0.5})
    first, second = found.path()
    assert (first.role, first.content, first.parent_id, first.state) == (Role.USER, "Why?", None, NodeState.DONE)
    assert (second.role, second.content, second.thinking) == (Role.ASSISTANT, "The moon.", "Hm.")
    assert list(second.token_ids) == [1, 151643, 2**31 - 1]
    assert (second.finish_reason, second.stop_string, second.error) == (FinishReason.STOP, "##", None)
    assert (second.metrics, second.settings) == ({"ttft_s": 0.25, "cache_source": "slot"}, {"seed": 3})
    assert (second.template_hash, second.model_fingerprint, second.model_name) == ("t", "f", "SmolLM2")


@pytest.mark.parametrize("text", ODD_TEXTS, ids=ascii)
def test_odd_characters_come_back_when_stored_everywhere(open_store: OpenStore, text: str) -> None:
    right = ODD_TEXTS[text]
    store = open_store()
    chat = NewChat(title=text, system_prompt=text, model=text, settings={"stop": [text]})
    store.add_chat(chat)
    node = NewNode(
        chat_id=chat.id, parent_id=None, role=Role.ASSISTANT, content=text, thinking=text, state=NodeState.OPEN
    )
    store.add_node(node)
    store.finish_reply(ReplyEnd(node_id=node.id, content=text, thinking=text, stop_string=text, error={"m": text}))
    store.save_draft(chat.id, text)
    store.close()

    store = open_store()
    found = load(store, chat.id)
    (stored,) = found.nodes
    assert [found.row.title, found.system_prompt, found.model, *found.settings["stop"]] == [right] * 4
    assert [stored.content, stored.thinking, stored.stop_string, (stored.error or {})["m"]] == [right] * 4
    assert store.load_draft(chat.id) == right


def test_earlier_reply_stays_reachable_when_a_new_one_fails(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q1", "a1", "q2", "a2", "q3", "a3")
    again = node_of(store, chat_id, ids[3]).variant(state=NodeState.OPEN)
    store.add_node(again)
    store.finish_reply(ReplyEnd(node_id=again.id, content="", error={"error": "DecodeFailed"})).result(30)
    chat = load(store, chat_id)
    assert chat.by_id[again.id].state is NodeState.FAILED
    assert [node.content for node in chat.path(ids[-1])] == ["q1", "a1", "q2", "a2", "q3", "a3"]
    assert [node.id for node in chat.variants(chat.by_id[again.id])] == [ids[3], again.id]
    store.show_node(ids[3])
    assert shown(store, chat_id) == ["q1", "a1", "q2", "a2", "q3", "a3"]


def test_edit_keeps_the_first_text_and_what_followed_it(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q1", "a1", "q2", "a2")
    edited = node_of(store, chat_id, ids[0]).variant("q1, better")
    store.add_node(edited)
    assert shown(store, chat_id) == ["q1, better"]
    assert node_of(store, chat_id, edited.id).source_id == ids[0]
    store.show_node(ids[0])
    assert shown(store, chat_id) == ["q1", "a1", "q2", "a2"]


def test_final_reply_stays_when_it_is_finished_again(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q")
    reply = begin_reply(store, chat_id, ids[0])
    finish_reply(store, reply, "first")
    finish_reply(store, reply, "second")
    store.save_partial(Partial(node_id=reply, content="late"))
    assert node_of(store, chat_id, reply).content == "first"
    assert len(store.search("first")) == 1
    assert store.search("late") == []


def test_adding_twice_adds_once(store: ChatStore) -> None:
    chat = NewChat(title="once")
    node = NewNode(chat_id=chat.id, parent_id=None, role=Role.USER, content="hello there")
    for _ in range(2):
        store.add_chat(chat)
        store.add_node(node)
    assert len(load(store, chat.id).nodes) == 1
    assert len(store.list_chats()) == 1
    assert len(store.search("hello there")) == len(store.search("once")) == 1


@pytest.mark.parametrize("parent", ["of another chat", "of none"])
def test_message_is_refused_when_its_parent_is(store: ChatStore, troubles: list[StoreError], parent: str) -> None:
    _, other = add_chat(store, "elsewhere")
    chat_id, _ = add_chat(store, "here")
    node = NewNode(
        chat_id=chat_id, parent_id=other[0] if parent == "of another chat" else "0" * 32, role=Role.USER, content="x"
    )
    with pytest.raises(StoreError, match="before it is gone"):
        store.add_node(node).result(30)
    assert len(troubles) == 1
    troubles.clear()


def test_message_is_refused_when_its_chat_is_gone(store: ChatStore, troubles: list[StoreError]) -> None:
    node = NewNode(chat_id="0" * 32, parent_id=None, role=Role.USER, content="x")
    with pytest.raises(StoreError, match="chat"):
        store.add_node(node).result(30)
    troubles.clear()


def test_reply_in_progress_is_loaded_with_what_was_saved_of_it(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q")
    reply = begin_reply(store, chat_id, ids[0])
    store.save_partial(Partial(node_id=reply, content="once upon", thinking="hm", num_tokens=2))
    node = node_of(store, chat_id, reply)
    assert (node.state, node.content, node.thinking) == (NodeState.OPEN, "once upon", "hm")


def test_reply_whose_program_ended_has_what_was_saved_of_it(open_store: OpenStore) -> None:
    store = open_store()
    chat_id, ids = add_chat(store, "q")
    reply = begin_reply(store, chat_id, ids[0])
    store.save_partial(Partial(node_id=reply, content="once upon"))
    store.close()
    store = open_store()
    node = node_of(store, chat_id, reply)
    assert (node.state, node.content) == (NodeState.INTERRUPTED, "once upon")
    assert [hit.node_id for hit in store.search("once upon")] == [reply]
    finish_reply(store, reply, "its program was not dead after all")
    assert node_of(store, chat_id, reply).content == "its program was not dead after all"
    assert store.search("once upon") == []


def test_reply_of_a_running_program_is_left_alone(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    chat_id, ids = add_chat(store, "q")
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", os.getppid)
        reply = begin_reply(store, chat_id, ids[0])
    store.close()
    assert node_of(open_store(), chat_id, reply).state is NodeState.OPEN


def test_list_is_in_the_order_of_changes_when_the_clock_goes_back(open_store: OpenStore) -> None:
    times = iter([5e9, 5e9, 4e9, 4e9, 3e9, 3e9, 1e9])
    store = open_store(clock=lambda: next(times))
    first, ids = add_chat(store, "a", title="first")
    add_chat(store, "b", title="second")
    add_chat(store, "c", title="third")
    assert [row.title for row in store.list_chats()] == ["third", "second", "first"]
    store.add_node(NewNode(chat_id=first, parent_id=ids[0], role=Role.USER, content="more")).result(30)
    assert [row.title for row in store.list_chats()] == ["first", "third", "second"]


def test_pinned_chats_come_first_and_other_changes_do_not_move_a_chat(store: ChatStore) -> None:
    chats = [add_chat(store, "x", title=title)[0] for title in ("one", "two", "three")]
    store.change_chat(chats[0], ChatChange(is_pinned=True))
    store.change_chat(chats[1], ChatChange(system_prompt="s", model="m", settings={"top_k": 1}))
    store.rename_chat(chats[1], "zwei")
    found = load(store, chats[1])
    assert [row.title for row in store.list_chats()] == ["one", "three", "zwei"]
    assert (found.system_prompt, found.model, found.settings) == ("s", "m", {"top_k": 1})
    store.change_chat(chats[0], ChatChange(is_pinned=False))
    store.change_chat(chats[1], ChatChange(system_prompt="", settings={}))
    found = load(store, chats[1])
    assert [row.title for row in store.list_chats()] == ["three", "zwei", "one"]
    assert (found.system_prompt, found.model, found.settings) == ("", "m", {})


def test_own_title_stays_when_the_program_makes_one(store: ChatStore) -> None:
    chat_id, _ = add_chat(store, "x")
    for title, is_own in (("made", False), ("mine", True), ("made again", False)):
        store.rename_chat(chat_id, title, is_own=is_own)
    assert load(store, chat_id).row.title == "mine"
    assert [len(store.search(title)) for title in ("made", "mine")] == [0, 1]


def test_drafts_are_kept_for_each_chat_and_the_one_not_begun(store: ChatStore) -> None:
    chat_id, _ = add_chat(store, "x")
    for text in ("h", "he", "hello"):
        store.save_draft(chat_id, text)
    store.save_draft(NO_CHAT, "new")
    store.flush(30)
    assert (store.load_draft(chat_id), store.load_draft(NO_CHAT)) == ("hello", "new")
    store.save_draft(chat_id, "")
    store.flush(30)
    assert (store.load_draft(chat_id), store.load_draft(NO_CHAT)) == ("", "new")


def test_unshown_variant_leaves_the_path_unless_it_goes_on_from_its_end(store: ChatStore) -> None:
    chat_id, ids = add_chat(store, "q", "a")
    store.add_node(node_of(store, chat_id, ids[1]).variant("b"), is_shown=False)
    assert shown(store, chat_id) == ["q", "a"]
    more = NewNode(chat_id=chat_id, parent_id=ids[1], role=Role.USER, content="r")
    store.add_node(more, is_shown=False)
    assert shown(store, chat_id) == ["q", "a", "r"]


def test_many_threads_read_and_write_at_once(store: ChatStore) -> None:
    chat_id, _ = add_chat(store)
    faults: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(20):
                text = f"text {name}-{number}."
                node = NewNode(chat_id=chat_id, parent_id=None, role=Role.USER, content=text)
                store.add_node(node).result(60)
                assert [hit.node_id for hit in store.search(text)] == [node.id]
                assert node.id in {found.id for found in load(store, chat_id).nodes}
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(load(store, chat_id).nodes) == 80


def test_two_programs_write_into_one_file(open_store: OpenStore) -> None:
    one, two = open_store(), open_store()
    for number in range(10):
        add_chat(one, "x", title=f"one {number}")
        add_chat(two, "y", title=f"two {number}")
    assert len(one.list_chats()) == len(two.list_chats()) == 20
    assert len({row.change_number for row in one.list_chats()}) == 20


def test_files_are_the_users_alone(store: ChatStore, path: Path) -> None:
    add_chat(store, "x")
    if os.name == "posix":  # other systems have no such modes
        modes = {part.name: stat.S_IMODE(part.stat().st_mode) for part in path.parent.iterdir()}
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.exists()


def test_closing_writes_everything_and_leaves_one_file_and_its_lock(open_store: OpenStore, path: Path) -> None:
    store = open_store()
    chat = NewChat(title="last")
    store.add_chat(chat)
    for number in range(50):
        store.add_node(NewNode(chat_id=chat.id, parent_id=None, role=Role.USER, content=str(number)))
    store.close()
    assert {part.name for part in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}
    assert len(load(open_store(), chat.id).nodes) == 50


def test_closed_store_says_so_and_can_be_closed_again(open_store: OpenStore) -> None:
    store = open_store()
    store.close()
    store.close()
    with pytest.raises(RuntimeError, match="closed"):
        store.add_chat(NewChat())
    with pytest.raises(RuntimeError, match="closed"):
        store.save_draft(NO_CHAT, "x")
    with pytest.raises(RuntimeError, match="closed"):
        store.list_chats()
