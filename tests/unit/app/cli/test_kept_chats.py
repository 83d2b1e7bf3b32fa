"""`--save`: chats of the terminal in the store of the window, as that one would have written them."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from app.cli.chat_plan import ChatPlan
from app.cli.interactive import InteractiveChat
from app.cli.kept_chats import KeptChats
from app.cli.outcome import ExitCode
from app.cli.session import ChatSession
from app.desktop.session.chat_settings import settings_of
from app.desktop.session.turn_records import turns_of
from app.desktop.session.turns import ReplyState, ReplyTurn, UserTurn
from app.errors import StoreReadOnly
from app.paths import Paths, find_paths
from app.settings import SettingsStore
from app.store import Chat, ChatStore, NodeState
from engine import ContextOverflow, FinishReason, ModelParams, Role, SamplingParams
from tests.unit.app.cli.scripted_client import DEATH, Cut, ScriptedClient, Thought
from tests.unit.app.cli.test_chat import chat

failure_is_logged = pytest.mark.allow_log(r"ERROR app\.cli\.session: ")


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    return find_paths(str(data_dir))


def kept_chats(paths: Paths) -> list[Chat]:
    store, notices = ChatStore.open(paths.database_file)
    try:
        found = [store.load_chat(row.id) for row in store.list_chats()]
    finally:
        store.close()
    assert notices == ()
    return [stored for stored in found if stored is not None]


def talk(paths: Paths, client: ScriptedClient, lines: Iterable[str], system: str | None = None) -> list[Chat]:
    script = iter(lines)

    def read_line() -> str:
        try:
            return next(script)
        except StopIteration:
            raise EOFError from None

    plan = ChatPlan("/x.gguf", "tiny", "/x.gguf", ModelParams(), SamplingParams(), system)
    with KeptChats.open(paths) as kept, ChatSession(client) as session:
        store = SettingsStore(paths.settings_file)
        InteractiveChat(session, plan, paths, store, read_line=read_line, kept=kept).run()
    assert not kept.has_lost
    return kept_chats(paths)


def shown(stored: Chat) -> list[str]:
    return [node.content for node in stored.path()]


def test_nothing_is_kept_when_it_is_not_asked_for(paths: Paths) -> None:
    assert chat(paths, ScriptedClient(["one"]), "hi") == ExitCode.DONE
    assert not paths.database_file.exists()


def test_chat_stands_in_the_window_when_it_was_saved(paths: Paths, tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("Tell me about\u2028the sea.\nAnd the sky?\n\nOther chat\n", "utf-8")
    client = ScriptedClient([Thought("hm", "blue", is_late=True), Cut("grey", 1), "three"])
    assert chat(paths, client, "--save", "--turns", str(turns), "--system", "Be brief.", "--top-k", "7") == 0
    other, first = kept_chats(paths)
    assert (shown(other), other.row.title) == (["Other chat", "three"], "Other chat")
    assert shown(first) == ["Tell me about\u2028the sea.", "blue", "And the sky?", "grey"]
    assert settings_of(first).system_prompt == "Be brief."
    assert dict(settings_of(first).sampling) == {"top_k": 7}
    question, blue, _, grey = turns_of(first)
    assert isinstance(question, UserTurn)
    assert isinstance(blue, ReplyTurn) and isinstance(grey, ReplyTurn)
    assert (blue.text, blue.thinking, blue.state, tuple(blue.token_ids)) == ("blue", "hm", ReplyState.DONE, (1, 2))
    assert blue.metrics is not None and blue.metrics.seed == 7
    assert (grey.finish_reason, grey.dropped is not None) == (FinishReason.CONTEXT_FULL, True)
    assert blue.model_name == "fake engine"
    assert blue.settings["sampling"]["top_k"] == 7
    # Whoever removes the chat removes what the engine keeps of it: they share their name.
    assert [request.chat_id for request in client.requests] == [first.row.id, first.row.id, other.row.id]


@failure_is_logged
def test_failed_reply_is_kept_and_the_chat_goes_on_without_it(paths: Paths, tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("one\ntwo\nthree\n", "utf-8")
    client = ScriptedClient(["1", ContextOverflow("Too long.", "Shorten it."), "3"])
    assert chat(paths, client, "--save", "--turns", str(turns)) == ExitCode.REQUEST_FAILED
    [found] = kept_chats(paths)
    assert shown(found) == ["one", "1", "three", "3"]
    [failed] = [node for node in found.nodes if node.state is NodeState.FAILED]
    assert failed.error is not None and failed.error["message"] == "Too long."


@failure_is_logged
def test_what_had_arrived_is_kept_when_the_engine_dies(paths: Paths) -> None:
    assert chat(paths, ScriptedClient([DEATH]), "--save", "hi") == ExitCode.ENGINE_DIED
    [found] = kept_chats(paths)
    assert [(node.role, node.state) for node in found.nodes] == [
        (Role.USER, NodeState.DONE),
        (Role.ASSISTANT, NodeState.FAILED),
    ]


def test_reply_is_kept_as_far_as_it_came_when_the_program_is_ended(paths: Paths) -> None:
    def end() -> None:
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        chat(paths, ScriptedClient([end]), "--save", "hi")
    [found] = kept_chats(paths)
    assert [node.content for node in found.nodes if node.role is Role.USER] == ["hi"]
    [state] = [node.state for node in found.nodes if node.role is Role.ASSISTANT]
    assert state in (NodeState.OPEN, NodeState.INTERRUPTED), "the first while what wrote it is not collected"


@pytest.mark.parametrize("is_json", [False, True], ids=["plain", "json"])
def test_answer_is_the_same_when_it_is_kept(paths: Paths, capsys: pytest.CaptureFixture[str], is_json: bool) -> None:
    outputs = []
    for flags in ((), ("--save",)):
        chat(paths, ScriptedClient(["a b"]), *flags, *(("--json",) if is_json else ()), "hi")
        out, err = capsys.readouterr()
        assert err == ""
        lines = out.splitlines()
        outputs.append([json.loads(line)["event"] for line in lines] if is_json else lines)
    assert outputs[0] == outputs[1]


def test_versions_stand_beside_each_other_when_a_reply_is_asked_for_again_or_goes_on(paths: Paths) -> None:
    lines = ["hi", "/again", "/continue", "more", "/new", "next"]
    newer, older = talk(paths, ScriptedClient(["one", "two", " and on", "four", "five"]), lines, system="Be kind.")
    assert shown(older) == ["hi", "two and on", "more", "four"]
    replies = [node for node in older.nodes if node.role is Role.ASSISTANT]
    assert [node.content for node in replies] == ["one", "two", "two and on", "four"]
    assert [node.source_id for node in replies[:3]] == [None, replies[0].id, replies[1].id]
    assert len({node.parent_id for node in replies[:3]}) == 1
    assert [tuple(node.token_ids) for node in replies[:3]] == [(1, 2), (1, 2), ()]
    assert (shown(newer), newer.system_prompt) == (["next", "five"], "Be kind.")


def test_changed_settings_are_those_the_chat_is_reopened_with(paths: Paths) -> None:
    [found] = talk(paths, ScriptedClient(["one", "two"]), ["hi", "/set top_k=3", "again"])
    assert dict(settings_of(found).sampling) == {"top_k": 3}


def test_nothing_is_asked_when_chats_cannot_be_kept(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    paths.database_file.parent.mkdir(parents=True, exist_ok=True)
    opened = ChatStore.open

    def open_elsewhere(path: Path, **others: object) -> tuple[ChatStore, tuple[str, ...]]:
        return opened(path / "no" / "folder", **others)  # type: ignore[arg-type]

    paths.database_file.write_bytes(b"")
    monkeypatch.setattr("app.cli.kept_chats.ChatStore.open", open_elsewhere)
    client = ScriptedClient(["one"])
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        chat(paths, client, "--save", "hi")
    assert client.requests == []


def test_what_cannot_be_written_is_told_and_exits_1(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.store.store.writes.finish_reply", _full)
    assert chat(paths, ScriptedClient(["one"]), "--save", "hi") == ExitCode.REQUEST_FAILED
    out, err = capsys.readouterr()
    assert (out, err) == ("one\n", "fireside: The disk is full, so nothing can be saved.\nMake room.\n")


def _full(*arguments: object) -> None:
    from app.errors import StoreFull

    raise StoreFull("The disk is full, so nothing can be saved.", "Make room.")


@failure_is_logged
def test_earlier_reply_stays_the_shown_one_when_asking_again_fails(paths: Paths) -> None:
    client = ScriptedClient(["one", ContextOverflow("Too long.", "Shorten it."), "two"])
    [found] = talk(paths, client, ["hi", "/again", "more"])
    assert shown(found) == ["hi", "one", "more", "two"]
    assert [message.content for message in client.requests[-1].messages] == ["hi", "one", "more"]


def test_earlier_reply_stays_when_asking_again_is_stopped_at_once(paths: Paths) -> None:
    client = ScriptedClient(["one", Cut("", is_stopped=True), "two"])
    [found] = talk(paths, client, ["hi", "/again", "more"])
    assert shown(found) == ["hi", "one", "more", "two"]
    assert [message.content for message in client.requests[-1].messages] == ["hi", "one", "more"]
