"""Stored replies in the terminal: asked for by a flag, told, and asked anew; chats have names of their own."""

import argparse
import json
from pathlib import Path

import pytest

from app.cli.arguments import ArgumentParser, add_shared_flags
from app.cli.chat import add_arguments, run
from app.cli.chat_options import chat_cache
from app.cli.chat_plan import ChatPlan
from app.cli.interactive import InteractiveChat
from app.cli.reply_numbers import summary_of
from app.cli.session import ChatSession
from app.paths import find_paths
from app.reply_measures import completed
from app.settings import Settings, SettingsStore
from engine import CacheSource, ModelParams, RequestMetrics, SamplingParams
from tests.unit.app.cli.scripted_client import ScriptedClient, description

STORED = RequestMetrics(
    num_prompt_tokens=8, num_cached_tokens=8, num_generated_tokens=3, ttft_s=0.01, cache_source=CacheSource.RESPONSE
)


def options(*arguments: str) -> argparse.Namespace:
    parser = ArgumentParser(prog="fireside chat")
    add_arguments(parser)
    add_shared_flags(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("arguments", "settings", "expected"),
    [
        ((), Settings(), False),
        (("--response-cache",), Settings(), True),
        ((), Settings(response_cache=True), True),
        (("--no-cache", "--response-cache"), Settings(response_cache=True), False),
    ],
    ids=["off", "flag", "setting", "no cache"],
)
def test_replies_are_kept_when_the_flag_or_the_setting_says_so(
    arguments: tuple[str, ...], settings: Settings, expected: bool, tmp_path: Path
) -> None:
    assert chat_cache(options(*arguments), settings, tmp_path).responses is expected


def test_line_of_numbers_tells_no_rate_when_the_reply_was_stored() -> None:
    assert summary_of(STORED) == "3 tokens  ·  from cache"


def test_no_energy_is_told_when_the_reply_was_stored() -> None:
    found = completed(STORED, description(), Settings(electricity_price=1.0), joules=5.0)
    assert (found.joules_per_token, found.cost_per_million_tokens) == (None, None)


def test_reply_is_asked_for_anew_and_takes_its_place_when_the_user_says_again(data_dir: Path) -> None:
    client = ScriptedClient(["one", "two", "three"])
    lines = iter(["/again", "a", "/again", "b"])

    def read_line() -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    paths = find_paths(str(data_dir))
    plan = ChatPlan("/x.gguf", "tiny", None, ModelParams(), SamplingParams(), None)
    with ChatSession(client) as session:
        InteractiveChat(session, plan, paths, SettingsStore(paths.settings_file), read_line=read_line).run()
    contents = [[message.content for message in request.messages] for request in client.requests]
    assert contents == [["a"], ["a"], ["a", "two", "b"]]
    assert [request.is_fresh for request in client.requests] == [False, True, False]


def test_chats_of_two_terminals_have_names_of_their_own(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("a\nb\n\nc\n")
    names = []
    for _ in range(2):
        names.append(_asked_in(turns, data_dir))
    assert all(first == second != third for first, second, third in names)
    assert len({name for found in names for name in found}) == 4


def _asked_in(turns: Path, data_dir: Path) -> list[str | None]:
    """Return the names of the chats that a terminal asked for."""
    client = ScriptedClient(["one", "two", "three"])
    run(options("--fake-engine", "--turns", str(turns)), find_paths(str(data_dir)), make_client=lambda fake: client)
    return [request.chat_id for request in client.requests]


def test_event_has_the_source_when_the_reply_was_stored() -> None:
    assert json.loads(json.dumps(STORED.as_dict()))["cache_source"] == "response"
    assert STORED.as_dict()["decode_rate"] is None
