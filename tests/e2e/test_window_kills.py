"""The window is killed while a reply is being written: all but the last quarter of a second is kept."""

from pathlib import Path

from tests.support.window_kills import find_losses, stream_and_kill

NUM_KILLS = 3
LONGEST_STREAM_S = 1.0  # so that the last of them comes in a second reply


def test_what_was_shown_is_kept_when_the_window_is_killed(tmp_path: Path, starter_path: Path) -> None:
    data_dir = tmp_path / "data"
    exchanges = []
    for number in range(NUM_KILLS):
        exchanges += stream_and_kill(data_dir, number, longest_stream_s=LONGEST_STREAM_S)
        assert find_losses(data_dir, exchanges) == []
    assert sum(len(exchange.shown) for exchange in exchanges) > 0
    assert [part.name for part in data_dir.iterdir() if ".damaged-" in part.name] == []
