"""Documents in `fireside chat`, one question at a time and in the interactive chat."""

import io
import json
import sys
from pathlib import Path

import pytest

from app.cli.chat_plan import ChatPlan
from app.cli.interactive import InteractiveChat
from app.cli.outcome import ExitCode
from app.cli.session import ChatSession
from app.document_text import document, join_documents
from app.errors import AttachmentError, UsageError
from app.paths import Paths, find_paths
from app.settings import SettingsStore
from engine import ChatMessage, ContextOverflow, Generate, LoadModel, ModelParams, Prepare, Role, SamplingParams
from tests.unit.app.cli.scripted_client import ScriptedClient
from tests.unit.app.cli.test_chat import chat, failure_is_logged

POLICY = document("policy.md", "Be kind.")
NOTES = document("a.py", "x = 1")


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    return find_paths(str(data_dir))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "policy.md").write_text("Be kind.\n")
    (tmp_path / "a.py").write_text("x = 1\n")
    return [str(tmp_path / "policy.md"), str(tmp_path / "a.py")]


def asked(client: ScriptedClient) -> list[list[str]]:
    return [[message.content for message in request.messages] for request in client.requests]


def test_documents_stand_before_the_first_question_of_each_chat(paths: Paths, files: list[str], tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("one\ntwo\n\nthree\n")
    client = ScriptedClient(["a", "b", "c"])
    given = [flag for name in files for flag in ("--document", name)]
    assert chat(paths, client, "--turns", str(turns), *given) == ExitCode.DONE
    one, three = (join_documents([POLICY, NOTES], question) for question in ("one", "three"))
    assert asked(client) == [[one], [one, "a", "two"], [three]]


@failure_is_logged
def test_documents_stay_with_the_next_question_when_one_fails(paths: Paths, files: list[str], tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("one\ntwo\n")
    client = ScriptedClient([ContextOverflow("Too long.", "Shorten it."), "b"])
    chat(paths, client, "--turns", str(turns), "--document", files[0])
    assert asked(client)[1] == [join_documents([POLICY], "two")]


def test_documents_and_system_prompt_are_prepared_before_the_question(
    paths: Paths, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    client = ScriptedClient(["a"])
    assert chat(paths, client, "--document", files[0], "--system", "S", "--prepare", "hi") == ExitCode.DONE
    prepare, generate = (command for command in client.commands if isinstance(command, Prepare | Generate))
    assert isinstance(prepare, Prepare) and isinstance(generate, Generate)
    assert prepare.name == "policy.md"
    assert prepare.messages == (
        ChatMessage(Role.SYSTEM, "S"),
        ChatMessage(Role.USER, '<document name="policy.md">\nBe kind.\n</document>\n\n'),
    )
    assert generate.messages[1].content == prepare.messages[1].content + "hi"
    out = capsys.readouterr()
    assert out.out == "a\n"
    assert out.err == "fireside: policy.md: 8 tokens read ahead in 0.5 s, 2 of them reused; kept on disk.\n"


def test_program_ends_when_there_is_only_something_to_prepare(
    paths: Paths, files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    client = ScriptedClient()
    assert chat(paths, client, "--document", files[1], "--prepare", "--json") == ExitCode.DONE
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["loaded", "prefill", "prefill", "prepared"]
    assert lines[-1]["name"] == "a.py" and lines[-1]["num_tokens"] == 8 and lines[-1]["source"] == "disk"


def test_nothing_is_loaded_when_there_is_nothing_to_prepare(paths: Paths) -> None:
    client = ScriptedClient()
    with pytest.raises(UsageError, match="nothing to prepare"):
        chat(paths, client, "--prepare", "hi")
    assert client.commands == []


def test_nothing_is_loaded_when_a_document_cannot_be_read(paths: Paths, tmp_path: Path) -> None:
    client = ScriptedClient()
    with pytest.raises(AttachmentError):
        chat(paths, client, "--document", str(tmp_path / "missing.md"), "hi")
    with pytest.raises(AttachmentError):
        chat(paths, client, "--document", "~nobody-has-this-name/x.md", "hi")
    assert client.commands == []


def test_interactive_chat_attaches_and_prepares(
    paths: Paths, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    client = ScriptedClient(["a", "b"])
    lines = iter([
        "/prepare", f"/attach {files[0]}", "/attach", f"/attach {files[0]}", f"/attach '{files[1]}'",
        "/attach /nowhere.md", "/prepare", "hi", "and", "/prepare",
    ])  # fmt: skip

    def read_line() -> str:
        line = next(lines, None)
        if line is None:
            raise EOFError
        return line

    plan = ChatPlan("/x.gguf", "tiny", None, ModelParams(), SamplingParams(), None)
    with ChatSession(client) as session:
        InteractiveChat(session, plan, paths, SettingsStore(paths.settings_file), read_line=read_line).run()
    assert [type(command) for command in client.commands] == [LoadModel, Prepare, Generate, Generate, Prepare]
    both = join_documents([POLICY, NOTES], "hi")
    assert asked(client) == [[both], [both, "a", "and"]]
    first, last = (command for command in client.commands if isinstance(command, Prepare))
    assert (first.name, first.messages) == ("policy.md, a.py", (ChatMessage(Role.USER, both.removesuffix("hi")),))
    assert (last.name, len(last.messages)) == ("chat", 4)
    out = capsys.readouterr()
    assert "Before the next message: policy.md, a.py." in out.out
    assert "Nothing is attached." in out.out and "8 tokens read ahead" in out.out
    assert "There is nothing to prepare." in out.err and "nowhere.md cannot be read" in out.err


def test_interactive_chat_begins_prepared_when_asked_to(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    client = ScriptedClient()

    def read_line() -> str:
        raise EOFError

    plan = ChatPlan("/x.gguf", "tiny", None, ModelParams(), SamplingParams(), "S")
    store = SettingsStore(paths.settings_file)
    with ChatSession(client) as session:
        InteractiveChat(session, plan, paths, store, documents=(POLICY,), prepares=True, read_line=read_line).run()
    prepare = client.commands[-1]
    assert isinstance(prepare, Prepare) and len(prepare.messages) == 2
    assert "policy.md: 8 tokens read ahead" in capsys.readouterr().out
