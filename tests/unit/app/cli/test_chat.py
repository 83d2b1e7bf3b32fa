"""`fireside chat` with a scripted engine: events, text, exit codes, history."""

import argparse
import io
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from app.cli.arguments import ArgumentParser, add_shared_flags
from app.cli.chat import add_arguments, run
from app.cli.outcome import ExitCode
from app.errors import ModelFileMissing, UsageError
from app.paths import Paths, find_paths
from app.settings import Settings, SettingsStore
from engine import ChatMessage, ContextOverflow, Role, UnsupportedModel
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.cli.scripted_client import DEATH, Cut, ScriptedClient, Thought

failure_is_logged = pytest.mark.allow_log(r"ERROR app\.cli\.session: ")

METRICS = """
    num_prompt_tokens num_cached_tokens num_generated_tokens ttft_s prefill_s decode_s prefill_rate decode_rate tpot_s
    num_drafts num_drafted_tokens num_accepted_tokens acceptance_rate cache_source cache_miss_cause
    peak_memory_bytes bandwidth_share joules_per_token cost_per_million_tokens
"""


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    return find_paths(str(data_dir))


def options(*arguments: str) -> argparse.Namespace:
    parser = ArgumentParser(prog="fireside chat")
    add_arguments(parser)
    add_shared_flags(parser)
    return parser.parse_args(arguments)


def chat(paths: Paths, client: ScriptedClient, *arguments: str) -> ExitCode:
    return run(options("--fake-engine", *arguments), paths, make_client=lambda is_fake: client)


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_text_alone_is_printed(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat(paths, ScriptedClient(["red, \x1b green"]), "hi") == ExitCode.DONE
    assert capsys.readouterr() == ("red, \x1b green\n", "")  # piped text stays as it is


def test_terminal_gets_no_control_characters(
    paths: Paths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.chat.is_terminal", lambda stream: True)
    chat(paths, ScriptedClient(["a\x1b]0;title\x07b"]), "hi")
    assert capsys.readouterr().out == "a␛]0;title␇b\n"


def test_events_come_in_order(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat(paths, ScriptedClient(["é b"]), "--json", "hi") == ExitCode.DONE
    found = events(capsys)
    assert [event["event"] for event in found] == ["loaded", "prefill", "delta", "delta", "finished"]
    assert found[0]["n_ctx"] == 512
    assert (found[1]["done"], found[1]["total"]) == (4, 8)
    finished = found[-1]
    assert finished["text"] == "".join(event["text"] for event in found if event["event"] == "delta") == "é b"
    assert finished["finish_reason"] == "stop"
    assert finished["client_ttft_s"] > 0
    assert set(METRICS.split()) <= set(finished["metrics"])


def test_full_context_is_told_on_standard_error_and_left_out_turns_before_it(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chat(paths, ScriptedClient([Cut("and", num_dropped=1)]), "hi") == ExitCode.DONE
    out, err = capsys.readouterr()
    assert out == "and\n"
    assert err.splitlines() == [
        "fireside: The context is full: 1 earlier message was left out.",
        "fireside: The context is full, so the reply ends here.",
    ]
    chat(paths, ScriptedClient([Cut("and", num_dropped=1)]), "hi", "--json")
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert [event["num_messages"] for event in found if event["event"] == "turns_dropped"] == [1]
    assert (found[-1]["finish_reason"], err) == ("context_full", "")


def test_settings_and_system_prompt_reach_the_engine(paths: Paths) -> None:
    client = ScriptedClient(["ok"])
    chat(paths, client, "--system", "Be brief.", "--temperature", "0", "--seed", "0", "a\0b \ud83d")
    [request] = client.requests
    assert request.messages == (ChatMessage(Role.SYSTEM, "Be brief."), ChatMessage(Role.USER, "a\0b \ufffd"))
    assert (request.sampling.temperature, request.sampling.seed) == (0.0, 0)


def test_turns_are_one_conversation_until_a_blank_line(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = tmp_path / "turns ä.txt"
    turns.write_text("one\ntwo\n\nthree\n", "utf-8")
    client = ScriptedClient(["first", "second", "third"])
    assert chat(paths, client, "--turns", str(turns)) == ExitCode.DONE
    contents = [[message.content for message in request.messages] for request in client.requests]
    assert contents == [["one"], ["one", "first", "two"], ["three"]]
    chats = [request.chat_id for request in client.requests]
    assert chats[0] == chats[1] != chats[2]
    assert capsys.readouterr().out == "first\n\nsecond\n\nthird\n"


@failure_is_logged
def test_failed_turn_is_left_out_and_the_others_go_on(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("one\ntwo\nthree\n", "utf-8")
    client = ScriptedClient(["first", ContextOverflow("Too long.", "Shorten it."), "third"])
    assert chat(paths, client, "--json", "--turns", str(turns)) == ExitCode.REQUEST_FAILED
    ends = [event for event in events(capsys) if event["event"] in ("finished", "failed")]
    assert [end["event"] for end in ends] == ["finished", "failed", "finished"]
    assert (ends[1]["error"], ends[1]["message"], ends[1]["hint"]) == ("ContextOverflow", "Too long.", "Shorten it.")
    assert [message.content for message in client.requests[-1].messages] == ["one", "first", "three"]


@failure_is_logged
def test_death_ends_everything(paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("one\ntwo\n", "utf-8")
    client = ScriptedClient([DEATH])
    assert chat(paths, client, "--json", "--turns", str(turns)) == ExitCode.ENGINE_DIED
    assert [event["event"] for event in events(capsys)] == ["loaded", "prefill", "failed"]
    assert client.is_closed


@failure_is_logged
def test_failed_load_is_raised_and_the_engine_closed(paths: Paths) -> None:
    client = ScriptedClient(load=UnsupportedModel("No.", "Choose another."))
    with pytest.raises(UnsupportedModel):
        chat(paths, client, "hi")
    assert client.is_closed


def test_piped_input_is_the_prompt(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("line é\nline 2\r\n".encode()), encoding="ascii"))
    client = ScriptedClient(["ok"])
    chat(paths, client)
    assert client.requests[0].messages[0].content == "line é\nline 2"


@pytest.mark.parametrize("prompt", ["", " ", "\n\n\n", "\u200b"])
def test_blank_prompt_is_refused_before_anything_is_loaded(paths: Paths, prompt: str) -> None:
    client = ScriptedClient()
    with pytest.raises(UsageError, match="empty"):
        chat(paths, client, prompt)
    assert client.commands == []


def test_turns_without_a_message_and_missing_turns_are_refused(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(UsageError, match="holds no message"):
        chat(paths, ScriptedClient(), "--turns", str(tmp_path / "empty.txt"))
    with pytest.raises(UsageError, match="cannot be read"):
        chat(paths, ScriptedClient(), "--turns", str(tmp_path / "none.txt"))
    with pytest.raises(UsageError, match="PROMPT"):
        chat(paths, ScriptedClient(), "--turns", str(tmp_path / "empty.txt"), "hi")


def test_model_is_remembered_once_it_is_loaded(paths: Paths, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    run(options("-m", str(path), "hi"), paths, make_client=lambda is_fake: ScriptedClient(["ok"]))
    store = SettingsStore(paths.settings_file)
    assert store.load()[0].last_model == str(path)
    client = ScriptedClient(["ok"])
    run(options("hi"), paths, make_client=lambda is_fake: client)
    assert getattr(client.commands[0], "path", None) == str(path)


def test_missing_model_is_named_before_the_engine_starts(paths: Paths) -> None:
    client = ScriptedClient()
    with pytest.raises(ModelFileMissing):
        run(options("-m", "/none.gguf", "hi"), paths, make_client=lambda is_fake: client)
    assert client.commands == []


def test_settings_that_cannot_be_written_stop_no_chat(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    paths.settings_file.parent.parent.mkdir(parents=True, exist_ok=True)
    paths.settings_file.parent.write_text("in the way")
    assert run(options("-m", str(path), "hi"), paths, make_client=lambda f: ScriptedClient(["ok"])) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert out == "ok\n"
    assert "could not be saved" in err


@pytest.mark.allow_log(r"WARNING app\.settings: ")
def test_damaged_settings_are_told_on_standard_error(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    paths.create()
    paths.settings_file.write_text("[a")
    assert chat(paths, ScriptedClient(["ok"]), "hi") == ExitCode.DONE
    out, err = capsys.readouterr()
    assert (out, "damaged" in err) == ("ok\n", True)
    assert SettingsStore(paths.settings_file).load() == (Settings(), None)


def test_notices_of_the_load_are_told_on_standard_error(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    chat(paths, ScriptedClient(["ok"], notices=("The context is smaller.",)), "hi")
    assert capsys.readouterr() == ("ok\n", "fireside: The context is smaller.\n")


def test_interrupted_reply_exits_130(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    client = ScriptedClient([lambda: signal.raise_signal(signal.SIGINT)])
    assert chat(paths, client, "--json", "hi") == ExitCode.INTERRUPTED
    assert events(capsys)[-1]["finish_reason"] == "abort"
    assert client.is_closed


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("can_think", [True, False])
def test_answer_alone_is_piped_when_the_model_thinks(
    paths: Paths, capsys: pytest.CaptureFixture[str], is_late: bool, can_think: bool
) -> None:
    client = ScriptedClient([Thought("hm", "42", is_late)], can_think=can_think or is_late)
    chat(paths, client, "hi")
    assert capsys.readouterr().out == "42\n"


def test_reply_that_was_all_thinking_is_told_apart_from_an_empty_answer(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    for reply, told in ((Thought("hm", ""), "fireside: The reply ended before its answer began"), ("", "")):
        chat(paths, ScriptedClient([reply], can_think=True), "hi")
        out, err = capsys.readouterr()
        assert out == ""
        assert err.partition(":")[0] == told.partition(":")[0] and told in err


def test_answer_is_piped_whole_when_a_model_that_can_think_does_not(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    chat(paths, ScriptedClient(["red green"], can_think=True), "hi")
    assert capsys.readouterr().out == "red green\n"


@pytest.mark.parametrize("is_late", [False, True])
def test_events_tell_thinking_apart(paths: Paths, capsys: pytest.CaptureFixture[str], is_late: bool) -> None:
    chat(paths, ScriptedClient([Thought("hm", "42", is_late)]), "--json", "hi")
    *_, first, second, finished = events(capsys)
    del first["event"], second["event"]
    if is_late:
        assert (first, second) == ({"text": "hm"}, {"text": "42", "was_thinking": True})
    else:
        assert (first, second) == ({"text": "", "thinking": "hm"}, {"text": "42"})
    assert (finished["text"], finished["thinking"]) == ("42", "hm")


FORMATS = ("file", "ChatML", "Llama 3", "completion")


def test_chat_format_is_used_named_and_kept_for_the_model(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SettingsStore(paths.settings_file)
    models = [str(write_tiny_model(tmp_path / name)) for name in ("a.gguf", "b.gguf")]

    def ask(model: str, *arguments: str, formats: tuple[str, ...] = FORMATS) -> str | None:
        client = ScriptedClient(["x"], chat_format="file", chat_formats=formats)
        run(options("-m", model, *arguments, "hi"), paths, make_client=lambda is_fake: client)
        return client.requests[0].options.chat_format

    assert ask(models[0]) is None
    assert capsys.readouterr().err == ""
    assert ask(models[0], "--chat-format", "llama-3") == "Llama 3"
    assert "The chat format is Llama 3; --chat-format chooses one of file, ChatML" in capsys.readouterr().err
    assert ask(models[0]) == "Llama 3"
    assert ask(models[1]) is None
    assert store.load()[0].chat_formats == {models[0]: "Llama 3"}
    capsys.readouterr()
    assert ask(models[0], formats=("file", "completion")) is None
    assert "cannot use the chat format Llama 3 any more" in capsys.readouterr().err
    assert ask(models[1], "--chat-format", "nonsense") == "nonsense"  # the engine refuses it, and says what there is
    assert store.load()[0].chat_formats == {models[0]: "Llama 3"}
