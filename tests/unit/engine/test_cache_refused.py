"""A disk that takes nothing: it is told once, in a sentence and a hint, however late it is found."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import process as process_module
from engine import snapshot_folder
from engine.client import InprocClient
from engine.errors import CacheNotWritten
from engine.folder_limit import refusal_of
from engine.messages import CacheRefused, Finished, Hello, SetCache, UnloadModel
from engine.params import CacheParams
from engine.process import ProcessClient
from engine.prompt_cache import PromptCache
from engine.snapshot_folder import SnapshotFolder
from tests.unit.engine import bad_workers
from tests.unit.engine.recorder import Recorder, generate, load
from tests.unit.engine.snapshot_writers import header_of, state_of

SIZE = 100


def put(folder: SnapshotFolder, *tokens: int) -> None:
    folder.write(header_of([*tokens], num_bytes=SIZE), [state_of([*tokens], SIZE)], can_cut=True)
    folder.flush(10)


def block(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("in the way")


def fill(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1 << 20

    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage)


def refuse(code: int) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def set_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def write(*_: object) -> bool:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(snapshot_folder, "write_snapshot", write)

    return set_up


@pytest.mark.allow_log("a snapshot could not be written|cannot be used")
@pytest.mark.parametrize("disk_mib", [None, 64])
@pytest.mark.parametrize(
    ("hinder", "text"),
    [
        (block, "cannot be written"),
        (fill, "too little free space"),
        (refuse(errno.ENOSPC), "too little free space"),
        (refuse(errno.EROFS), "cannot be written"),
    ],
    ids=["no folder", "nearly full", "full", "read only"],
)
def test_it_is_told_once_when_nothing_can_be_kept(
    hinder: Callable[[Path, pytest.MonkeyPatch], None],
    text: str,
    disk_mib: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    told: list[CacheNotWritten] = []
    hinder(tmp_path / "cache", monkeypatch)
    params = CacheParams(ram_mib=64, disk_mib=disk_mib, folder=str(tmp_path / "cache"))
    kept = PromptCache(params, on_refused=told.append)
    assert kept.folder is not None
    for number in range(3):
        put(kept.folder, number, 1)
    kept.close()
    [refusal] = told
    assert text in refusal.message
    assert refusal.hint


@pytest.mark.parametrize("max_bytes", [0, SIZE // 2, 1 << 30])
def test_nothing_is_told_when_it_is_kept_or_the_limit_is_what_somebody_wants(max_bytes: int, tmp_path: Path):
    told: list[CacheNotWritten] = []
    folder = SnapshotFolder(tmp_path, max_bytes=max_bytes, on_refused=told.append)
    put(folder, 1, 2)
    folder.close(10)
    assert told == []


@pytest.mark.allow_log("cannot be used")
def test_no_folder_is_missed_when_nothing_is_to_be_kept(tmp_path: Path):
    told: list[CacheNotWritten] = []
    (tmp_path / "cache").write_text("in the way")
    PromptCache(CacheParams(disk_mib=0, folder=str(tmp_path / "cache")), on_refused=told.append).close()
    assert told == []


def test_hint_names_the_folder_when_it_cannot_be_written():
    refusal = refusal_of(PermissionError(errno.EACCES, "no"), Path("/data/prompt-cache"))
    assert "/data/prompt-cache" in refusal.hint


@pytest.mark.allow_log("cannot be used")
def test_front_end_is_told_and_replies_come_when_the_folder_cannot_be_made(recorder: Recorder, tmp_path: Path):
    (tmp_path / "cache").write_text("in the way")
    client = InprocClient(fake=True)
    client.start(recorder.add)
    client.send(SetCache(params=CacheParams(folder=str(tmp_path / "cache"))))
    load(client, recorder)
    client.send(generate("a"))
    assert isinstance(recorder.wait_for("a"), Finished)
    client.send(UnloadModel())
    client.close()
    assert len(recorder.of_type(CacheRefused)) == 1


def test_refusal_comes_before_the_client_is_closed_when_it_is_found_at_the_end(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process_module, "_run_worker", bad_workers.refuses_at_the_end)
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    recorder.wait_for_type(Hello)
    client.close(20)
    assert [type(event) for event in recorder.events] == [Hello, CacheRefused]
    assert not [thread for thread in threading.enumerate() if thread.name == "engine-reader"]
