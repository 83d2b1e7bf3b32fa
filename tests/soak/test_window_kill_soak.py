"""The window is killed two hundred times while a reply is being written."""

from pathlib import Path

import pytest

from tests.support.window_kills import find_losses, stream_and_kill

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
NUM_KILLS = 200


def test_what_was_shown_is_kept_when_the_window_is_killed_again_and_again(tmp_path: Path, starter_path: Path) -> None:
    data_dir = tmp_path / "data"
    exchanges = []
    for number in range(NUM_KILLS):
        latest = stream_and_kill(data_dir, number)
        assert find_losses(data_dir, latest) == []
        exchanges += latest
    assert find_losses(data_dir, exchanges) == []
    assert [part.name for part in data_dir.iterdir() if ".damaged-" in part.name] == []
