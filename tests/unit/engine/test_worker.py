"""The worker as a process: it keeps to itself, and does not outlive whoever started it."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.messages import EngineDied, Failed, Finished, Hello, LoadModel, ModelLoaded
from engine.process import ProcessClient
from tests.unit.engine.recorder import Recorder, generate, load, pid_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="ends processes by signals")

ROOT = Path(__file__).parents[3]
# A front end that says who its worker is when it has got so far, and then stays.
FRONT_END = """
import threading
from engine.messages import Delta, LoadModel, LoadProgress
from engine.process import ProcessClient
from tests.unit.engine.recorder import Recorder, generate

if __name__ == "__main__":
    recorder = Recorder()
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    settings = "load_s=600" if "{doing}" == "loading" else "step_s=0.01,n_words=100000"
    client.send(LoadModel(request_id="load", path="fake:" + settings))
    client.send(generate("r"))
    recorder.wait_for_type(LoadProgress if "{doing}" == "loading" else Delta)
    print(client.pid, flush=True)
    threading.Event().wait()
"""


@pytest.fixture
def client(recorder: Recorder) -> Iterator[ProcessClient]:
    """Return a started client on the fake engine."""
    client = ProcessClient(fake=True)
    client.start(recorder.add)
    yield client
    client.close()


@pytest.mark.parametrize("doing", ["loading", "generating"])
def test_worker_ends_when_its_front_end_is_killed_while_it_is(doing: str):
    command = [sys.executable, "-c", FRONT_END.format(doing=doing)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as front_end:
        assert front_end.stdout is not None
        worker = psutil.Process(int(front_end.stdout.readline()))
        family = [worker, *worker.children(recursive=True)]
        front_end.kill()
    try:
        _, alive = psutil.wait_procs(family, timeout=5)
        assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    finally:
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def test_worker_goes_on_when_the_terminal_is_interrupted(client: ProcessClient, recorder: Recorder):
    load(client, recorder, "step_s=0.002")
    client.send(generate("r"))
    recorder.wait_for_text("r")
    os.kill(pid_of(client), signal.SIGINT)
    assert isinstance(recorder.wait_for("r"), Finished)
    assert not recorder.of_type(EngineDied)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_worker_has_no_terminal_when_it_runs(client: ProcessClient, recorder: Recorder):
    recorder.wait_for_type(Hello)
    streams = [os.readlink(f"/proc/{client.pid}/fd/{number}") for number in range(3)]  # noqa: PTH115
    assert streams == [os.devnull] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_worker_imports_no_window_and_the_fake_one_no_native_code_when_it_runs(client, recorder: Recorder):
    load(client, recorder)
    maps = Path(f"/proc/{client.pid}/maps").read_text()
    assert "python" in maps
    assert "libllama" not in maps
    assert "PySide6" not in maps


def test_death_tells_the_traceback_when_the_worker_meets_a_fault_of_its_own(client, recorder: Recorder):
    client.send(LoadModel(request_id="load", path="fake:bug=1"))
    client.send(generate("reply"))
    recorder.wait_for_type(EngineDied)
    (death,) = recorder.of_type(EngineDied)
    assert death.exit_code == 70
    assert "Traceback" in "\n".join(death.log_tail)
    assert "RuntimeError" in death.error.details


def test_fault_in_a_load_fails_the_load_and_the_next_one_works(client, recorder: Recorder):
    client.send(LoadModel(request_id="load", path="fake:load_s=nonsense"))  # the fake takes numbers only
    recorder.wait_for_type(Failed)
    (failed,) = recorder.of_type(Failed)
    assert failed.error.error == "InternalError"
    client.send(LoadModel(request_id="again", path="fake:"))
    recorder.wait_for_type(ModelLoaded)
