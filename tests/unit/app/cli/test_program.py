"""The command line as a whole: which command is meant, and what is refused."""

import json
from pathlib import Path

import pytest

import app.cli.chat
from app.__main__ import main
from tests.unit.app.cli.scripted_client import ScriptedClient


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> ScriptedClient:
    scripted = ScriptedClient(["ok"])
    monkeypatch.setattr(app.cli.chat, "ProcessClient", lambda *, fake: scripted)
    return scripted


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "fireside 0.1.0\n"


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_names_the_commands(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("chat", "doctor", "--data-dir"))


@pytest.mark.parametrize("before", [True, False])
def test_data_dir_may_stand_before_or_after_the_command(
    client: ScriptedClient, tmp_path: Path, before: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    flag = ["--data-dir", str(tmp_path / "my data")]
    command = ["chat", "--fake-engine", "hi"]
    assert main(flag + command if before else command + flag) == 0
    assert (tmp_path / "my data" / "logs" / "fireside.log").exists()


def test_prompt_behind_dashes_may_look_like_a_flag(
    client: ScriptedClient, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "--fake-engine", "--", "--debug"]) == 0
    assert client.requests[0].messages[0].content == "--debug"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", "--json", "x"], "There is no command 'serve'."),
        (["--nothing", "--json"], "There is no option '--nothing'."),
        (["chat", "--json", "-m", "/no\nsuch\x1b[31m.gguf", "hi"], "There is no file /no␤such␛[31m.gguf."),
        (["chat", "--json", "-m", " ", "hi"], "The model has no name."),
        (["models", "inspect", "--json", "-m", ""], "The model to look into has no name."),
    ],
    ids=["command", "option", "odd name", "blank name", "no name"],
)
def test_what_is_not_there_is_told_in_one_line_and_a_hint(
    arguments: list[str], sentence: str, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) in (2, 3)
    out, err = capsys.readouterr()
    assert json.loads(out)["event"] == "failed"
    shown, hint = err.splitlines()
    assert shown == f"fireside: {sentence}"
    assert hint


def test_complaint_is_no_event_when_the_prompt_alone_says_json(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "-m", "/none.gguf", "--", "--json"]) == 3
    assert capsys.readouterr().out == ""


def test_nothing_in_the_product_speaks_of_what_is_not_built() -> None:
    root = Path(app.__file__).parent.parent
    files = [path for folder in ("app", "engine", "models", "docs") for path in (root / folder).rglob("*")]
    texts = {path: path.read_text("utf-8") for path in files if path.suffix in (".py", ".md", ".ts")}
    assert [str(path) for path, text in texts.items() if "not built yet" in text.lower()] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["--nothing"],
        ["chat", "--nothing", "hi"],
        ["chat", "two", "words"],
        ["chat", "--temperature", "hot", "hi"],
        ["chat", "--temperature", "-1", "hi"],
        ["chat", "--lora", "=0.5", "hi"],
        ["chat", "--data-dir", "", "hi"],
        ["chat", "--data-dir"],
        ["chat", ""],
        ["doctor", "extra"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2_with_a_sentence(
    arguments: list[str], client: ScriptedClient, capsys: pytest.CaptureFixture[str], data_dir: Path
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fireside: ")
    assert len(err.splitlines()) == 2
    assert client.commands == []


def test_data_dir_that_cannot_be_made_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--data-dir", str(tmp_path / "file"), "chat", "hi"]) == 2
    assert "cannot be made" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["file", "caf\udce9"], ids=["file", "no text"])
@pytest.mark.parametrize("is_variable", [False, True], ids=["flag", "variable"])
def test_data_folder_that_was_chosen_must_be_usable(
    tmp_path: Path,
    name: str,
    is_variable: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / name)
    if is_variable:
        monkeypatch.setenv("FIRESIDE_DATA_DIR", folder)
    assert main([*(() if is_variable else ("--data-dir", folder)), "models", "list"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 2
    assert "--data-dir" in err
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_missing_model_exits_3(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "-m", "/none.gguf", "--json", "hi"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["error"] == "ModelFileMissing"
    assert "Traceback" not in err


def test_debug_shows_the_traceback(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "-m", "/none.gguf", "--debug", "hi"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_anywhere_exits_130(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app.cli.chat, "make_plan", press)
    assert main(["chat", "hi"]) == 130
    assert capsys.readouterr() == ("", "")


def test_bug_is_shown_without_a_traceback_and_logged_with_one(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(app.cli.chat, "make_plan", fail)
    assert main(["chat", "hi"]) == 1
    out, err = capsys.readouterr()
    assert "bug in Fireside: ZeroDivisionError" in err
    assert "Traceback" not in out + err
    assert "Traceback" in (data_dir / "logs" / "fireside.log").read_text("utf-8")


def test_without_a_display_the_terminal_chat_opens_and_says_why(
    client: ScriptedClient, data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(app.cli.chat, "read_standard_input", lambda: ("from the pipe", None))
    assert main(["--fake-engine"]) == 0
    out, err = capsys.readouterr()
    assert out == "ok\n"
    assert "no display" in err
    assert client.requests[0].messages[0].content == "from the pipe"
