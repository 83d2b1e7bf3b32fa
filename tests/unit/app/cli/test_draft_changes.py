"""Drafting in the terminal when things change in between: other drafts, other models, a load that is given up."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from app.cli.chat_plan import ChatPlan
from app.cli.interactive import InteractiveChat
from app.cli.outcome import ExitCode
from app.cli.session import ChatSession
from app.errors import UsageError
from app.paths import Paths, find_paths
from app.settings import SettingsStore
from app.speculation import DraftChoice
from engine import DraftMode, DraftSet, Event, ModelParams, SamplingParams, SetDraft
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.cli.scripted_client import ScriptedClient
from tests.unit.app.cli.test_draft_commands import MISMATCH, chat, drafts

refusal_is_logged = pytest.mark.allow_log(r"ERROR app\.cli\.session: ")


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    return find_paths(str(data_dir))


@pytest.fixture
def draft(tmp_path: Path) -> str:
    return str(write_tiny_model(tmp_path / "small.gguf"))


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(write_tiny_model(tmp_path / "target.gguf"))


@pytest.fixture
def talk(paths: Paths, target: str) -> Callable[..., ExitCode]:
    def run_lines(client: ScriptedClient, lines: Iterable[str], **plan: object) -> ExitCode:
        script = iter(lines)

        def read_line() -> str:
            line = next(script, None)
            if line is None:
                raise EOFError
            return line

        chosen = ChatPlan(target, "tiny", None, ModelParams(), SamplingParams(), None, **plan)  # type: ignore[arg-type]
        with ChatSession(client) as session:
            client.session = session  # type: ignore[attr-defined]
            store = SettingsStore(paths.settings_file)
            return InteractiveChat(session, chosen, paths, store, read_line=read_line).run()

    return run_lines


def test_draft_before_is_freed_when_the_next_one_is_refused_by_its_header(
    talk: Callable[..., ExitCode], draft: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.gguf").write_text("not found")
    client = ScriptedClient()
    talk(client, [f"/draft {draft}", f"/draft {tmp_path / 'text.gguf'}"])
    assert drafts(client) == [draft, None]
    assert "Replies go on without it." in capsys.readouterr().err


@refusal_is_logged
def test_draft_is_tried_again_when_it_was_refused_and_is_named_again(talk: Callable[..., ExitCode], draft: str) -> None:
    client = ScriptedClient(draft=MISMATCH)
    talk(client, [f"/draft {draft}", f"/draft {draft}", "/draft"])
    assert drafts(client) == [draft, draft]


class _Impatient(ScriptedClient):
    """Ctrl-C is pressed while a draft model is loaded, once."""

    session: ChatSession

    def __init__(self) -> None:
        super().__init__(["one"])
        self.late: list[Event] = []

    def _answer_draft(self, command: SetDraft) -> Event:
        if command.path is not None and not self.late:
            self.late.append(super()._answer_draft(command))
            self.session.interrupt()
            return DraftSet(request_id="another", draft=None)
        return super()._answer_draft(command)


def test_draft_whose_load_is_given_up_is_freed_and_named_again(
    talk: Callable[..., ExitCode], draft: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = _Impatient()
    assert talk(client, [f"/draft {draft}", "hello", f"/draft {draft}"]) == ExitCode.DONE
    assert drafts(client) == [draft, None, draft]
    assert len(client.requests) == 1
    out, err = capsys.readouterr()
    assert (
        err
        == "fireside: Loading the draft model was given up.\nReplies go on without it. `/draft NAME` loads it again.\n"
    )
    assert "small drafts" in out


def test_chat_begins_without_a_draft_whose_load_is_given_up(talk: Callable[..., ExitCode], draft: str) -> None:
    client = _Impatient()
    drafting = DraftChoice(mode=DraftMode.MODEL, path=draft)
    assert talk(client, ["hello"], drafting=drafting) == ExitCode.DONE
    assert (drafts(client), len(client.requests)) == ([draft, None], 1)


@pytest.mark.parametrize(
    ("said", "mode"),
    [(DraftMode.OFF, DraftMode.OFF), (DraftMode.NGRAM, DraftMode.NGRAM), (DraftMode.AUTO, DraftMode.BOTH)],
    ids=["none", "ngram", "auto"],
)
def test_what_was_said_holds_for_the_next_model_too(
    said: DraftMode, mode: DraftMode, talk: Callable[..., ExitCode], paths: Paths, draft: str, tmp_path: Path
) -> None:
    other = str(write_tiny_model(tmp_path / "other.gguf"))
    SettingsStore(paths.settings_file).update(drafting={other: {"mode": "both", "path": draft}})
    client = ScriptedClient(["one"])
    drafting = DraftChoice(mode=said, draft_max=3, strict=True)
    talk(client, [f"/model {other}", "hello"], drafting=drafting, is_drafting_asked=True)
    wanted = client.requests[-1].speculative
    assert (wanted.mode, wanted.draft_max, wanted.strict) == (mode, 3, True)


def test_draft_is_not_loaded_for_a_reproducible_reply(
    paths: Paths, draft: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = ScriptedClient(["ok"])
    assert chat(paths, client, "--reproducible", "--draft", draft) == ExitCode.DONE
    assert drafts(client) == []
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("ok\n", 2)
    assert err.startswith("fireside: A reproducible reply is not drafted")


@pytest.mark.parametrize("name", ["x" * 5_000, f"{'x' * 300}.gguf", "~nobody-of-this-name/x.gguf"])
def test_name_of_no_file_is_refused_in_a_sentence_when_the_system_does_not_take_it(name: str, paths: Paths) -> None:
    with pytest.raises(UsageError, match="There is no"):
        chat(paths, ScriptedClient(), "--draft", name)


def test_load_of_a_draft_is_seen_while_it_lasts(
    talk: Callable[..., ExitCode], draft: str, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(ScriptedClient(), [f"/draft {draft}", "/draft none"])
    out = capsys.readouterr().out
    assert out.count("\rLoading the draft model ...\r\x1b[Ksmall drafts") == 1
    assert out.count("Loading the draft model") == 1
