"""Drafting in the terminal: what the flags mean, a draft model that cannot be used, and the figures of a reply."""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from app.cli.arguments import ArgumentParser, add_shared_flags
from app.cli.chat import add_arguments, run
from app.cli.chat_plan import ChatPlan
from app.cli.draft_commands import drafting_line
from app.cli.interactive import InteractiveChat
from app.cli.outcome import ExitCode
from app.cli.session import ChatSession
from app.draft_models import DraftCheck
from app.errors import UsageError
from app.paths import Paths, find_paths
from app.settings import SettingsStore
from engine import (
    DrafterStats,
    DraftMismatch,
    DraftMode,
    DraftState,
    ModelParams,
    SamplingParams,
    SetDraft,
    SpeculativeParams,
    SpeculativeStats,
)
from tests.support.gguf_files import write_tiny_model
from tests.support.refused_drafts import REFUSED, write_refused
from tests.unit.app.cli.scripted_client import DEATH, ScriptedClient

refusal_is_logged = pytest.mark.allow_log(r"ERROR app\.cli\.session: ")
MISMATCH = DraftMismatch("The draft model has another vocabulary.", "Choose one of the same family.")
STATS = SpeculativeStats(
    state=DraftState.ON,
    net_speedup=1.42,
    drafters=(
        DrafterStats(drafter="ngram", num_drafts=4, num_drafted_tokens=20, num_accepted_tokens=16),
        DrafterStats(drafter="model", num_drafts=12, num_drafted_tokens=28, num_accepted_tokens=15),
    ),
)


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    return find_paths(str(data_dir))


@pytest.fixture
def draft(tmp_path: Path) -> str:
    return str(write_tiny_model(tmp_path / "small é.gguf"))


def options(*arguments: str) -> argparse.Namespace:
    parser = ArgumentParser(prog="fireside chat")
    add_arguments(parser)
    add_shared_flags(parser)
    return parser.parse_args(arguments)


def chat(paths: Paths, client: ScriptedClient, *arguments: str) -> ExitCode:
    return run(options("--fake-engine", "hi", *arguments), paths, make_client=lambda is_fake: client)


def drafts(client: ScriptedClient) -> list[str | None]:
    return [command.path for command in client.commands if isinstance(command, SetDraft)]


def wanted(client: ScriptedClient) -> SpeculativeParams:
    return client.requests[-1].speculative


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ((), DraftMode.AUTO),
        (("--draft", "none"), DraftMode.OFF),
        (("--draft", "off"), DraftMode.OFF),
        (("--draft", "auto"), DraftMode.AUTO),
        (("--draft", "ngram"), DraftMode.NGRAM),
        (("--reproducible",), DraftMode.OFF),
    ],
    ids=["default", "none", "off", "auto", "ngram", "reproducible"],
)
def test_mode_reaches_the_engine_when_no_model_is_needed(flags: tuple[str, ...], mode: DraftMode, paths: Paths) -> None:
    client = ScriptedClient(["ok"])
    assert chat(paths, client, *flags) == ExitCode.DONE
    assert (wanted(client).mode, drafts(client)) == (mode, [])


@pytest.mark.parametrize(
    ("words", "mode"), [((), DraftMode.MODEL), (("both",), DraftMode.BOTH), (("auto",), DraftMode.AUTO)]
)
def test_named_model_is_set_before_the_request(
    words: tuple[str, ...], mode: DraftMode, paths: Paths, draft: str
) -> None:
    client = ScriptedClient(["ok"])
    flags = [flag for word in words for flag in ("--draft", word)]
    limits = ("--draft-max", "5", "--strict", "--threads", "1")
    assert chat(paths, client, *flags, "--draft", draft, *limits) == ExitCode.DONE
    assert wanted(client) == SpeculativeParams(mode=mode, draft_max=5, strict=True)
    [command] = [command for command in client.commands if isinstance(command, SetDraft)]
    assert (command.path, command.params) == (draft, ModelParams(n_threads=1))


def test_choice_of_the_window_is_taken_when_no_flag_says_otherwise(paths: Paths, draft: str) -> None:
    store = SettingsStore(paths.settings_file)
    store.update(drafting={"": {"mode": "both", "path": draft}}, draft_max=7, draft_strict=True)
    client = ScriptedClient(["ok", "ok"])
    chat(paths, client)
    assert wanted(client) == SpeculativeParams(mode=DraftMode.BOTH, draft_max=7, strict=True)
    assert drafts(client) == [draft]
    other = ScriptedClient(["ok"])
    chat(paths, other, "--draft", "ngram")
    assert (wanted(other).mode, drafts(other)) == (DraftMode.NGRAM, [])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--draft", "/no/such é.gguf"), "There is no"),
        (("--draft", "no-such-name"), "no model of that name"),
        (("--draft", ""), "names no model"),
        (("--draft", "both"), "There is no draft model"),
        (("--draft", "both", "--draft", "ngram"), "says two things"),
        (("--draft-max", "0"), "is not possible"),
        (("--draft-max", "33"), "is not possible"),
    ],
    ids=["file", "name", "empty", "both-of-one", "two", "too-few", "too-many"],
)
def test_wrong_flag_is_refused_before_any_load(flags: tuple[str, ...], message: str, paths: Paths) -> None:
    client = ScriptedClient()
    with pytest.raises(UsageError, match=message) as caught:
        chat(paths, client, *flags)
    assert caught.value.hint
    assert client.commands == []


@refusal_is_logged
def test_reply_comes_without_the_draft_when_the_engine_refuses_it(
    paths: Paths, draft: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = ScriptedClient(["ok"], draft=MISMATCH)
    assert chat(paths, client, "--draft", draft) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert out == "ok\n"
    assert err.splitlines() == [
        "fireside: The draft model has another vocabulary.",
        "Replies go on without it. Choose one of the same family.",
    ]


def test_reply_comes_without_the_draft_when_its_file_tells_that_it_cannot(
    paths: Paths, tmp_path: Path, draft: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = DraftCheck(reason="small \x1b is an embedding model.", hint="Choose a model that writes.")
    monkeypatch.setattr("app.cli.draft_commands.check_draft", lambda target, path, **_: check)
    target = str(write_tiny_model(tmp_path / "target.gguf"))
    client = ScriptedClient(["ok"])
    assert chat(paths, client, "--json", "-m", target, "--draft", draft) == ExitCode.DONE
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in found] == ["loaded", "draft", "prefill", "delta", "finished"]
    assert found[1] == {
        "event": "draft",
        "is_used": False,
        "path": draft,
        "reason": check.reason,
        "hint": check.hint,
    }
    assert drafts(client) == []
    assert "embedding model.\nReplies go on without it. Choose" in err and "\x1b" not in err


@pytest.mark.parametrize("kind", REFUSED)
def test_each_kind_of_file_that_cannot_draft_costs_its_sentence(
    kind: str, paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, refused = write_refused(tmp_path, kind)
    nothing = SpeculativeStats(state=DraftState.UNAVAILABLE, reason="There is no draft model.")
    client = ScriptedClient(["ok"], speculative=nothing)
    assert chat(paths, client, "-m", str(target), "--draft", str(refused)) == ExitCode.DONE
    out, err = capsys.readouterr()
    sentence, hint = err.splitlines()
    assert out == "ok\n"
    assert sentence.startswith("fireside: ") and REFUSED[kind] in sentence and sentence.endswith(".")
    assert hint.startswith("Replies go on without it. ") and hint.endswith(".")
    assert drafts(client) == []


@refusal_is_logged
def test_engine_that_dies_of_a_draft_ends_the_program(paths: Paths, draft: str) -> None:
    with pytest.raises(type(DEATH)):
        chat(paths, ScriptedClient(["ok"], draft=DEATH), "--draft", draft)


def _metrics(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return next(event["metrics"] for event in found if event["event"] == "finished")


def test_metrics_tell_what_drafting_did(paths: Paths, draft: str, capsys: pytest.CaptureFixture[str]) -> None:
    chat(paths, ScriptedClient(["ok"], speculative=STATS), "--json", "--draft", draft)
    metrics = _metrics(capsys)
    assert metrics["net_speedup"] == 1.42
    assert metrics["mean_acceptance_length"] == pytest.approx(1 + 31 / 16)
    assert (metrics["draft_state"], metrics["draft_reason"]) == ("on", None)
    assert [item["drafter"] for item in metrics["drafters"]] == ["ngram", "model"]
    assert metrics["drafters"][1]["num_accepted_tokens"] == 15


def test_metrics_have_every_name_when_nothing_is_drafted(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    chat(paths, ScriptedClient(["ok"]), "--json", "--draft", "none")
    metrics = _metrics(capsys)
    names = ("mean_acceptance_length", "net_speedup", "drafting_speedup", "draft_state", "draft_reason")
    assert [metrics[name] for name in names] == [None] * 5
    assert metrics["drafters"] == []


@pytest.mark.parametrize(
    ("stats", "line"),
    [
        (None, ""),
        (STATS, "drafts: 31 of 48 accepted (65 %), 2.9 tokens a step, 1.4x plain"),
        (
            SpeculativeStats(state=DraftState.ON, drafters=STATS.drafters),
            "drafts: 31 of 48 accepted (65 %), 2.9 tokens",
        ),
        (
            SpeculativeStats(state=DraftState.SLOWER, net_speedup=0.99, drafting_speedup=0.88, drafters=STATS.drafters),
            "drafting off: it was 12 % slower on this chat",
        ),
        (SpeculativeStats(state=DraftState.SLOWER, net_speedup=1.0), "drafting off: it was slower on this chat"),
        (SpeculativeStats(state=DraftState.SLOWER), "drafting off: it was slower on this chat"),
        (SpeculativeStats(state=DraftState.UNAVAILABLE, reason="It cannot trim."), "no drafting: It cannot trim."),
        (SpeculativeStats(state=DraftState.IDLE), "nothing was drafted"),
        (SpeculativeStats(state=DraftState.ON), "nothing was drafted"),
        (SpeculativeStats(state=DraftState.OFF), ""),
    ],
    ids=["none", "on", "no-speed", "slower", "as-fast", "unknown", "unavailable", "idle", "in-vain", "off"],
)
def test_line_of_a_reply_says_what_drafting_did(stats: SpeculativeStats | None, line: str) -> None:
    said = drafting_line(stats, is_asked=True)
    assert said.startswith(line) and bool(said) is bool(line)
    is_known_unasked = line.startswith("draft")
    assert bool(drafting_line(stats, is_asked=False)) is is_known_unasked


def test_line_stands_on_standard_error_when_drafting_was_asked_for(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    chat(paths, ScriptedClient(["ok"], speculative=STATS), "--draft", "ngram")
    assert capsys.readouterr() == (
        "ok\n",
        "fireside: drafts: 31 of 48 accepted (65 %), 2.9 tokens a step, 1.4x plain\n",
    )
    chat(paths, ScriptedClient(["ok"], speculative=STATS))
    assert capsys.readouterr() == ("ok\n", "")


@pytest.fixture
def interactive(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ExitCode]:
    monkeypatch.setenv("COLUMNS", "100")

    def run_lines(client: ScriptedClient, lines: Iterable[str]) -> ExitCode:
        script = iter(lines)

        def read_line() -> str:
            line = next(script, None)
            if line is None:
                raise EOFError
            return line

        plan = ChatPlan("/x.gguf", "tiny", None, ModelParams(), SamplingParams(), None)
        with ChatSession(client) as session:
            return InteractiveChat(session, plan, paths, SettingsStore(paths.settings_file), read_line=read_line).run()

    return run_lines


def test_draft_is_chosen_listed_and_given_back_in_the_chat(
    interactive: Callable[..., ExitCode], draft: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = ScriptedClient(["one", "two", "three"], speculative=STATS)
    lines = [f"/draft {draft}", "a", f"/draft both {draft}", "b", "/stats", "/draft none", "c", "/draft"]
    assert interactive(client, lines) == ExitCode.DONE
    out = capsys.readouterr().out
    assert [request.speculative.mode for request in client.requests] == [DraftMode.MODEL, DraftMode.BOTH, DraftMode.OFF]
    assert drafts(client) == [draft, None]
    assert "small drafts (Q4_0, 100 MiB)." in out
    assert out.count("drafts: 31 of 48 accepted (65 %), 2.9 tokens a step, 1.4x plain") == 2
    assert "16 of 20 accepted" in out
    assert out.count("Nothing is drafted.") == 2


@refusal_is_logged
def test_refused_draft_costs_one_sentence_and_the_chat_goes_on(
    interactive: Callable[..., ExitCode], draft: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = ScriptedClient(["one"], draft=MISMATCH)
    assert interactive(client, [f"/draft {draft}", "a", "/draft both ngram", "/draft /no/such"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert "one" in out
    assert err.count("another vocabulary.\nReplies go on without it.") == 1
    assert "says two things" in err and "There is no" in err
