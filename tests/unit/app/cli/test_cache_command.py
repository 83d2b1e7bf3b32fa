"""`fireside cache` and `/cache`: what is kept of prompts, listed and forgotten."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.cli.arguments import ArgumentParser
from app.cli.cache import add_arguments, run
from app.cli.chat_plan import ChatPlan
from app.cli.interactive import InteractiveChat
from app.cli.outcome import ExitCode
from app.cli.session import ChatSession
from app.errors import UsageError
from app.paths import Paths, find_paths
from app.settings import SettingsStore
from engine import (
    CacheDescribed,
    CacheSource,
    ClearCache,
    Command,
    DescribeCache,
    Event,
    ForgetChats,
    ForgetNamed,
    KeptPrompt,
    ModelParams,
    SamplingParams,
    SetCache,
)
from tests.unit.app.cli.scripted_client import ScriptedClient

HOSTILE = "a\x1b[2J\u202efdp.md"


def kept(name: str, chat_id: str | None = None, source: CacheSource = CacheSource.DISK) -> KeptPrompt:
    return KeptPrompt(
        source=source,
        model_name="tiny",
        num_tokens=3012,
        num_bytes=64_000_000,
        chat_id=chat_id,
        last_used=None,
        name=name,
    )


class KeepingClient(ScriptedClient):
    """A client whose engine keeps something."""

    def __init__(self, *entries: KeptPrompt) -> None:
        super().__init__()
        self._entries = list(entries)

    def _answer(self, command: Command) -> Iterable[Event]:
        match command:
            case SetCache():
                return []
            case ForgetNamed():
                self._entries = [item for item in self._entries if item.name not in command.names]
            case ForgetChats():
                self._entries = [item for item in self._entries if item.chat_id not in command.chat_ids]
            case ClearCache() | DescribeCache():
                if isinstance(command, ClearCache):
                    self._entries = []
                return [self._told(command.request_id)]
            case _:
                return super()._answer(command)
        return []

    def _told(self, request_id: str) -> CacheDescribed:
        return CacheDescribed(
            request_id=request_id,
            kept=tuple(self._entries),
            ram_bytes=0,
            max_ram_bytes=0,
            disk_bytes=sum(item.num_bytes for item in self._entries),
            max_disk_bytes=8_000_000_000,
            num_replies=2,
            reply_bytes=2_000,
        )


ENTRIES = (kept("", "c1"), kept("policy.md"), kept("policy.md", source=CacheSource.RAM), kept("other.md", "c2"))


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    return find_paths(str(data_dir))


def cache(paths: Paths, client: ScriptedClient, *arguments: str) -> ExitCode:
    parser = ArgumentParser(prog="fireside cache")
    add_arguments(parser)
    options = argparse.Namespace(fake_engine=False, **vars(parser.parse_args(arguments)))
    return run(options, paths, make_client=lambda fake: client)


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_list_shows_names_before_chats(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    client = KeepingClient(*ENTRIES)
    assert cache(paths, client, "list") == ExitCode.DONE
    assert capsys.readouterr().out == (
        "Read ahead\n"
        "  policy.md: 3,012 tokens, 64.0 MB in memory, 64.0 MB on disk, tiny\n"
        "  other.md: 3,012 tokens, 64.0 MB on disk, tiny\n"
        "Chats\n"
        "  c1: 3,012 tokens, 64.0 MB on disk, tiny\n"
        "On disk: 256.0 MB of 8.0 GB.\n"
        "Whole replies: 2, 2.0 kB.\n"
    )
    first = client.commands[0]
    assert isinstance(first, SetCache) and first.params.folder == str(paths.prompt_cache_dir)
    assert client.is_closed


def test_list_is_json_lines_when_asked_for(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    cache(paths, KeepingClient(*ENTRIES), "list", "--json")
    *rows, last = lines_of(capsys)
    assert [row["event"] for row in rows] == ["kept"] * 4
    assert rows[1] == {"event": "kept", **msgspec.to_builtins(ENTRIES[1])}
    assert last == {
        "event": "listed",
        "num_kept": 4,
        "ram_bytes": 0,
        "max_ram_bytes": 0,
        "disk_bytes": 256_000_000,
        "max_disk_bytes": 8_000_000_000,
        "num_replies": 2,
        "reply_bytes": 2_000,
    }


def test_nothing_is_said_to_be_kept_when_there_is_nothing(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    cache(paths, KeepingClient(), "list")
    assert capsys.readouterr().out.startswith("Nothing is kept of prompts.\nOn disk: 0 bytes of 8.0 GB.\n")


def test_name_and_chat_are_forgotten_and_the_rest_stays(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    client = KeepingClient(*ENTRIES)
    assert cache(paths, client, "forget", "policy.md", "c1", "--json") == ExitCode.DONE
    assert lines_of(capsys) == [
        {"event": "forgotten", "name": "policy.md", "chat_id": None, "num_bytes": 128_000_000},
        {"event": "forgotten", "name": "", "chat_id": "c1", "num_bytes": 64_000_000},
    ]
    assert client._entries == [ENTRIES[3]]


def test_nothing_is_forgotten_when_one_name_is_wrong(paths: Paths) -> None:
    client = KeepingClient(*ENTRIES)
    with pytest.raises(UsageError, match=r"Nothing is kept under the name polcy\.md"):
        cache(paths, client, "forget", "policy.md", "polcy.md")
    assert client._entries == list(ENTRIES)


def test_all_is_deleted_when_it_is_cleared(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    client = KeepingClient(*ENTRIES)
    cache(paths, client, "clear", "--json")
    assert lines_of(capsys) == [{"event": "cleared", "num_bytes": 256_000_000, "num_replies": 2}]
    assert client._entries == []


def test_hostile_name_moves_no_cursor(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    client = KeepingClient(kept(HOSTILE), kept("n\n" * 100))
    cache(paths, client, "list")
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out
    assert len(out.splitlines()) == 5
    cache(paths, client, "forget", HOSTILE)
    assert "\x1b" not in capsys.readouterr().out


def test_chat_in_the_terminal_lists_forgets_and_clears(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    client = KeepingClient(*ENTRIES)
    lines = iter(["/cache", "/cache forget policy.md", "/cache forget", "/cache forget nothing", "/cache clear"])

    def read_line() -> str:
        line = next(lines, None)
        if line is None:
            raise EOFError
        return line

    plan = ChatPlan("/x.gguf", "tiny", None, ModelParams(), SamplingParams(), None)
    with ChatSession(client) as session:
        InteractiveChat(session, plan, paths, SettingsStore(paths.settings_file), read_line=read_line).run()
    shown = capsys.readouterr()
    assert "  policy.md: 3,012 tokens" in shown.out
    assert "policy.md is forgotten (128.0 MB)." in shown.out
    assert "/cache does not know 'forget'." in shown.err and "under the name nothing" in shown.err
    assert "is deleted (128.0 MB). The chats stay." in shown.out
    assert client._entries == []
