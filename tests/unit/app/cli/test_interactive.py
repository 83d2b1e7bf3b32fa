"""The interactive chat with a scripted engine and scripted lines."""

import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from app.cli.chat_plan import ChatPlan
from app.cli.interactive import InteractiveChat
from app.cli.outcome import ExitCode
from app.cli.session import ChatSession
from app.paths import Paths, find_paths
from app.settings import SettingsStore
from engine import ContextOverflow, LoadModel, ModelParams, PromptMode, Role, SamplingParams
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.cli.scripted_client import DEATH, Cut, ScriptedClient, Thought

_PREFILL = "\rReading the prompt: 4 of 8 tokens"
failure_is_logged = pytest.mark.allow_log(r"ERROR app\.cli\.session: ")


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    return find_paths(str(data_dir))


@pytest.fixture
def chat(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ExitCode]:
    monkeypatch.setenv("COLUMNS", "100")

    def run(client: ScriptedClient, lines: Iterable[str | type[BaseException]], system: str | None = None) -> ExitCode:
        script = iter([*lines, EOFError])

        def read_line() -> str:
            line = next(script)
            if isinstance(line, str):
                return line
            raise line

        plan = ChatPlan("/x.gguf", "tiny\x1b", None, ModelParams(), SamplingParams(), system)
        store = SettingsStore(paths.settings_file)
        with ChatSession(client) as session:
            return InteractiveChat(session, plan, paths, store, read_line=read_line).run()

    return run


Chat = Callable[..., ExitCode]


def test_reply_and_its_numbers_are_shown(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat(ScriptedClient(["red \x1b[2Jgreen"]), ["hi"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "red ␛[2Jgreen" in out
    assert "3 tokens  ·  4.0 tok/s  ·  first token 0.25 s  ·  2 of 8 prompt tokens reused" in out
    assert "tiny␛ is loaded" in out


def test_history_is_sent_with_each_question(chat: Chat) -> None:
    client = ScriptedClient(["one", "two", "three"])
    chat(client, ["a", " \n", "b", "/new", "c"], system="Be brief.")
    contents = [[message.content for message in request.messages] for request in client.requests]
    assert contents == [["Be brief.", "a"], ["Be brief.", "a", "one", "b"], ["Be brief.", "c"]]
    assert client.requests[0].chat_id == client.requests[1].chat_id != client.requests[2].chat_id


def test_system_prompt_can_be_changed_and_taken_away(chat: Chat) -> None:
    client = ScriptedClient(["one", "two"])
    chat(client, ["/system Be kind.", "a", "/system", "b"])
    contents = [[message.content for message in request.messages] for request in client.requests]
    assert contents == [["Be kind.", "a"], ["b"]]


def test_settings_can_be_changed_and_a_wrong_one_is_explained(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    client = ScriptedClient(["one"])
    chat(client, ["/set temperature=0", "/set top_k=-1", "/set nothing=1", "/set seed=5", "/set", "a"])
    assert (client.requests[0].sampling.temperature, client.requests[0].sampling.seed) == (0.0, 5)
    out, err = capsys.readouterr()
    assert "  max_tokens = no limit" in out
    assert "top_k is -1" in err
    assert "names no setting" in err


def test_ctrl_c_stops_the_reply_and_not_the_program(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    client = ScriptedClient([lambda: signal.raise_signal(signal.SIGINT), "next"])
    assert chat(client, ["a", "b"]) == ExitCode.DONE
    assert [message.content for message in client.requests[1].messages] == ["a", "par", "b"]


def test_second_ctrl_c_at_an_empty_prompt_leaves(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    client = ScriptedClient(["one"])
    assert chat(client, [KeyboardInterrupt, "a", KeyboardInterrupt, KeyboardInterrupt, "b"]) == ExitCode.INTERRUPTED
    assert len(client.requests) == 1
    assert capsys.readouterr().out.count("again, or Ctrl-D") == 2


@pytest.mark.parametrize("word", ["/quit", " /exit "])
def test_quit_leaves(chat: Chat, word: str) -> None:
    client = ScriptedClient()
    assert chat(client, [word, "a"]) == ExitCode.DONE
    assert client.requests == []


@failure_is_logged
def test_failed_question_is_shown_and_left_out(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    client = ScriptedClient([ContextOverflow("Too long.", "Shorten it."), "ok"])
    chat(client, ["a", "b"])
    assert "fireside: Too long.\nShorten it." in capsys.readouterr().err
    assert [message.content for message in client.requests[1].messages] == ["b"]


@failure_is_logged
def test_engine_that_died_is_started_again_by_the_next_question(chat: Chat) -> None:
    client = ScriptedClient([DEATH, "ok"])
    chat(client, ["a", "b"])
    loads = [command for command in client.commands if isinstance(command, LoadModel)]
    assert len(loads) == 2
    assert len(client.requests) == 2


def test_other_model_can_be_loaded_and_a_missing_one_is_named(
    chat: Chat, tmp_path: Path, capsys: pytest.CaptureFixture[str], paths: Paths
) -> None:
    path = write_tiny_model(tmp_path / "a b.gguf")
    client = ScriptedClient(["one"])
    chat(client, ["/model /none.gguf", f"/model '{path}'", "hi"])
    loads = [command.path for command in client.commands if isinstance(command, LoadModel)]
    assert loads == ["/x.gguf", str(path)]
    assert "no file /none.gguf" in capsys.readouterr().err
    assert SettingsStore(paths.settings_file).load()[0].last_model == str(path)


def test_stats_and_help_and_unknown_commands(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    chat(ScriptedClient(["one", "two"]), ["/stats", "/help", "/nope", "a", "/stats", "/usr/bin is a folder"])
    out = capsys.readouterr().out
    assert "There is no reply yet." in out
    assert "/set NAME=VALUE" in out
    assert "There is no command /nope" in out
    assert "num_cached_tokens          2" in out
    assert "two" in out  # a path is a message


def test_interrupted_first_load_exits_130(chat: Chat) -> None:
    client = ScriptedClient(load=lambda: signal.raise_signal(signal.SIGINT))
    assert chat(client, []) == ExitCode.INTERRUPTED


@pytest.fixture
def typed(paths: Paths) -> Iterator[Callable[[str], list[str]]]:
    with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=DummyOutput()):

        def run(keys: str) -> list[str]:
            client = ScriptedClient(["ok"] * 5)
            plan = ChatPlan("/x.gguf", "tiny", None, ModelParams(), SamplingParams(), None)
            keyboard.send_text(keys)
            with ChatSession(client) as session:
                InteractiveChat(session, plan, paths, SettingsStore(paths.settings_file)).run()
            return [request.messages[-1].content for request in client.requests]

        yield run


def test_keys_of_the_line_editor(typed: Callable[[str], list[str]], paths: Paths) -> None:
    questions = typed(
        "one\r"  # Enter sends
        "two\x1b\rlines\r"  # Alt+Enter breaks the line
        "three\\\rlines\r"  # so does a backslash before Enter
        "dropped\x03four\r"  # Ctrl-C empties the line
        "\x1b[200~pasted\ntext\x1b[201~\r"  # a paste keeps its line breaks
        "\x04"  # Ctrl-D leaves
    )
    assert questions == ["one", "two\nlines", "three\nlines", "four", "pasted\ntext"]
    if os.name == "posix":
        assert paths.terminal_history_file.stat().st_mode & 0o777 == 0o600
    assert "+two" in paths.terminal_history_file.read_text("utf-8")


def test_history_that_cannot_be_kept_stops_nothing(
    typed: Callable[[str], list[str]], paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    paths.data_dir.parent.mkdir(parents=True, exist_ok=True)
    paths.data_dir.write_text("in the way")
    assert typed("one\r\x04") == ["one"]
    assert "is not remembered" in capsys.readouterr().err
    paths.data_dir.unlink()


def test_title_of_a_terminal_shows_the_live_rate_and_then_the_program(
    chat: Chat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert chat(ScriptedClient(["red"]), ["hi"]) == ExitCode.DONE
    titles = re.findall("\x1b]0;(.*?)\x07", capsys.readouterr().out)
    assert any("tok/s" in title for title in titles[:-1])
    assert titles[-1] == "Fireside"


def test_settings_are_shown_as_they_can_be_given_again(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["/set logit_bias=42:-5,7:1.5", "/set seed=12345678", "/set max_tokens=none"]
    assert chat(ScriptedClient([]), lines) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "logit_bias = 42:-5,7:1.5" in out
    assert "seed = 12345678" in out
    assert "max_tokens = no limit" in out


# --- going on, looking at the prompt, thinking, formats ---


def test_reply_goes_on_in_the_same_message(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    client = ScriptedClient(["one", " two", "three"])
    chat(client, ["/continue", "a", "/continue", "b"])
    modes = [request.options.mode for request in client.requests]
    assert modes == [PromptMode.CHAT, PromptMode.CONTINUE, PromptMode.CHAT]
    contents = [[message.content for message in request.messages] for request in client.requests]
    assert contents == [["a"], ["a", "one"], ["a", "one two", "b"]]
    assert "There is no reply to go on with." in capsys.readouterr().out


def test_nothing_to_add_is_said_when_a_whole_reply_is_to_go_on(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    chat(ScriptedClient(["one", "", "two"]), ["a", "/continue", "b"])
    assert capsys.readouterr().out.count("The model has nothing to add.") == 1


def test_full_context_is_said_before_and_after_the_reply(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    chat(ScriptedClient([Cut("and", num_dropped=2)]), ["a"])
    out = capsys.readouterr().out
    assert "The context is full: 2 earlier messages were left out.\n\r\x1b[Kand\n" in out.replace(_PREFILL, "")
    assert "and\nThe context is full, so the reply ends here.\n" in out


def test_narrow_terminal_breaks_no_word_and_no_line_that_is_written_over(
    chat: Chat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    chat(ScriptedClient(["red"], notices=("The file names no template, so a known one is used.",)), ["/help", "hi"])
    lines = capsys.readouterr().out.replace("\r", "\n").splitlines()
    shown = [re.sub(r"\x1b\[[0-9;]*[mK]", "", line) for line in lines]
    assert [line for line in shown if len(line) > 30] == []
    assert "The file names no template, so" in shown
    assert "Reading the prompt: 4 of 8 to" in shown
    assert "2 of 8 prompt tokens reused" in shown


@failure_is_logged
def test_half_reply_stays_when_going_on_fails(chat: Chat) -> None:
    client = ScriptedClient(["one", ContextOverflow("Too long.", "Shorten it."), "two"])
    chat(client, ["a", "/continue", "b"])
    assert [message.content for message in client.requests[-1].messages] == ["a", "one", "b"]


def test_prompt_is_shown_as_the_model_reads_it(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    chat(ScriptedClient(["one\x07"]), ["/prompt", "a", "/prompt"], system="Be brief.")
    out = capsys.readouterr().out
    assert "There is no message yet." in out
    assert "None:Be brief.|a|one\u2407" in out


@pytest.mark.parametrize("is_late", [False, True])
def test_thinking_is_told_from_the_answer_and_kept_with_it(
    chat: Chat, capsys: pytest.CaptureFixture[str], is_late: bool
) -> None:
    client = ScriptedClient([Thought("hm", "42", is_late), "x"])
    chat(client, ["a", "b"])
    reply = client.requests[-1].messages[1]
    assert (reply.role, reply.content, reply.thinking) == (Role.ASSISTANT, "42", "hm")
    out = capsys.readouterr().out
    if is_late:
        assert "hm\n\x1b[2m(What stands above was thinking.)\x1b[0m\n42" in out
    else:
        assert "\x1b[2mhm\x1b[0m\n\n42" in out


def test_format_is_named_when_it_is_not_the_files_own(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    chat(ScriptedClient(chat_format=None, chat_formats=("ChatML", "completion")), [])
    assert "There is no chat format; --chat-format chooses one of ChatML, completion." in capsys.readouterr().out
