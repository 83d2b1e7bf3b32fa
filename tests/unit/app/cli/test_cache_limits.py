"""What the terminal keeps of prompts: no more than the user allows the window."""

from pathlib import Path

import pytest

from app.cli.arguments import ArgumentParser
from app.cli.chat_options import add_chat_arguments, chat_cache
from app.settings import Settings
from engine import CacheParams


@pytest.mark.parametrize(
    ("memory", "disk", "expected"),
    [
        (-1, -1, CacheParams(folder="/f")),
        (100, 0, CacheParams(ram_mib=100, disk_mib=0, folder="/f")),
        (0, 300, CacheParams(ram_mib=0, disk_mib=300, folder="/f")),
    ],
    ids=["automatic", "nothing on disk", "limits"],
)
def test_limits_are_those_of_the_settings(memory: int, disk: int, expected: CacheParams):
    settings = Settings(chat_memory_mib=memory, chat_disk_mib=disk)
    parser = ArgumentParser(prog="fireside chat")
    add_chat_arguments(parser)
    assert chat_cache(parser.parse_args([]), settings, Path("/f")) == expected
    assert chat_cache(parser.parse_args(["--no-cache"]), settings, Path("/f")).folder == ""
