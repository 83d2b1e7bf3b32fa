"""What scripts rely on in `chat`: an exit code for each kind of failure, one final event, nothing but JSON Lines."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.adapters import STARTER, write_adapter
from tests.support.gguf_files import write_tiny_model
from tests.support.one_core import ON_ONE_CORE

ROOT = Path(__file__).resolve().parents[2]
LONG_REPLIES = "fake:n_words=2000"


class Run(NamedTuple):
    """How a run of the program ended."""

    code: int
    output: str
    complaint: str

    @property
    def final_events(self) -> list[dict[str, Any]]:
        """The events that end a request, of an output that is JSON Lines."""
        events = [json.loads(line) for line in self.output.splitlines()]
        return [event for event in events if event["event"] in ("finished", "failed")]


def chat(*arguments: str | Path) -> Run:
    """Run `chat`."""
    done = subprocess.run(
        [sys.executable, "-m", "app", "chat", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
        **ON_ONE_CORE,
    )
    return Run(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, an adapter of another one, and constraints that cannot be used."""
    folder = tmp_path_factory.mktemp("files")
    write_tiny_model(folder / "tiny.gguf")
    write_adapter(folder / "other.gguf", STARTER)
    (folder / "bad.gbnf").write_text('root ::= "a')
    (folder / "bad.json").write_text('{"type": 5}')
    return folder


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ("--grammar bad.gbnf", 1, "GrammarError"),
        ("--json-schema bad.json", 1, "GrammarError"),
        ("--lora none.gguf", 1, "AdapterMismatch"),
        ("--lora other.gguf", 1, "AdapterMismatch"),
        ("--chat-format nope", 1, "ChatTemplateError"),
        ("--lora other.gguf=abc", 2, "UsageError"),
        ("--lora other.gguf=1000", 2, "InvalidParams"),
        ("--grammar none.gbnf", 2, "UsageError"),
        ("--device NOPE0", 2, "InvalidParams"),
        ("--cache-type-k q9", 2, "InvalidParams"),
        ("--set thinking_budget=x", 2, "UsageError"),
        ("--draft none.gguf", 2, "UsageError"),
    ],
)
def test_failure_has_its_exit_code_one_final_event_and_two_sentences(
    files: Path, arguments: str, code: int, error: str
) -> None:
    flag, value = arguments.split()
    is_file = value.partition("=")[0] in {path.name for path in files.iterdir()}
    done = chat("-m", files / "tiny.gguf", "--json", flag, str(files / value) if is_file else value, "hi")
    [failed] = done.final_events
    assert (done.code, failed["event"], failed["error"]) == (code, "failed", error)
    assert done.complaint.splitlines() == [f"fireside: {failed['message']}", failed["hint"]]
    assert "\n" not in failed["message"]


def test_reply_that_fills_the_context_ends_and_says_so() -> None:
    asked = ("--fake-engine", "-m", LONG_REPLIES, "--ctx", "256", "Write a very long list")
    done = chat(*asked)
    assert (done.code, done.complaint) == (0, "fireside: The context is full, so the reply ends here.\n")
    assert done.output
    as_events = chat(*asked, "--json")
    [finished] = as_events.final_events
    assert (finished["finish_reason"], as_events.complaint) == ("context_full", "")


def test_long_conversation_goes_on_without_its_oldest_turns_and_says_so_once_a_reply(tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("\n".join(["one", "two", "three", "four", "five"]), "utf-8")
    asked = ("--fake-engine", "-m", "fake:n_words=12", "--ctx", "128", "--max-tokens", "8", "--turns", turns)
    as_events = chat(*asked, "--json")
    assert (as_events.code, as_events.complaint) == (0, "")
    assert [event["event"] for event in as_events.final_events] == ["finished"] * 5
    dropped = [json.loads(line) for line in as_events.output.splitlines() if '"turns_dropped"' in line]
    counts = [event["num_messages"] for event in dropped]
    assert counts and counts == sorted(counts) and len(counts) < 5
    done = chat(*asked)
    told = done.complaint.splitlines()
    assert [int(sentence.split(": ")[2].split()[0]) for sentence in told] == counts
    assert all("left out." in sentence for sentence in told)


def test_help_names_every_flag_that_works() -> None:
    done = chat("--help")
    assert done.code == 0
    built = """
        --system --chat-format --max-tokens --stop --turns --json --temperature --top-k --top-p --min-p --repeat-penalty
        --seed --set --samplers --grammar --json-schema --ctx --threads --gpu-layers --device --flash-attn
        --cache-type-k --cache-type-v --experts-on-cpu --lora --reproducible
        --draft --draft-max --strict --document --prepare --response-cache --save
    """
    assert [flag for flag in built.split() if flag not in done.output] == []
