"""Work with files beside the window's thread: outcomes, progress, giving up, closing."""

import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.desktop.bridge.model_jobs import Job, JobCalls, ModelJobs


class Heard:
    """What was called back, and in which thread."""

    def __init__(self) -> None:
        self.results: list[object] = []
        self.errors: list[Exception] = []
        self.progress: list[object] = []
        self.threads: set[threading.Thread] = set()

    @property
    def calls(self) -> JobCalls[object]:
        return JobCalls(
            on_result=lambda result: self._note(self.results, result),
            on_error=lambda error: self._note(self.errors, error),
            on_progress=lambda progress: self._note(self.progress, progress),
        )

    def _note(self, kept: list[object] | list[Exception], value: object) -> None:
        kept.append(value)  # type: ignore[arg-type]
        self.threads.add(threading.current_thread())


@pytest.fixture
def jobs(qapp: QObject) -> Iterator[ModelJobs]:
    jobs = ModelJobs()
    yield jobs
    jobs.close()


def until_cancelled(job: Job) -> str:
    while not job.is_cancelled:
        threading.Event().wait(0.005)
    return "ended"


def test_result_comes_on_the_window_thread(jobs: ModelJobs, qtbot: QtBot) -> None:
    heard = Heard()
    jobs.run("a", lambda _: threading.current_thread(), heard.calls)
    assert jobs.is_running("a")
    qtbot.waitUntil(lambda: bool(heard.results))
    assert heard.results[0] is not threading.main_thread()
    assert heard.threads == {threading.main_thread()}
    assert not jobs.is_running("a")


def test_error_comes_as_an_error(jobs: ModelJobs, qtbot: QtBot) -> None:
    heard, error = Heard(), ValueError("x")

    def fail(_: Job) -> None:
        raise error

    jobs.run("a", fail, heard.calls)
    qtbot.waitUntil(lambda: heard.errors == [error])
    assert heard.results == []


def test_many_reports_in_a_moment_are_one(jobs: ModelJobs, qtbot: QtBot) -> None:
    heard = Heard()

    def work(job: Job) -> None:
        for number in range(1000):
            job.report(number)

    jobs.run("a", work, heard.calls)
    qtbot.waitUntil(lambda: bool(heard.results))
    assert heard.progress[0] == 0
    assert len(heard.progress) < 100


def test_nothing_is_heard_of_a_job_that_was_given_up(jobs: ModelJobs, qtbot: QtBot) -> None:
    heard, other = Heard(), Heard()
    jobs.run("a", until_cancelled, heard.calls)
    assert jobs.cancel("a")
    assert not jobs.cancel("a")
    jobs.run("b", lambda _: "b", other.calls)
    qtbot.waitUntil(lambda: other.results == ["b"])
    assert heard.results == []


def test_second_job_of_a_key_takes_the_place_of_the_first(jobs: ModelJobs, qtbot: QtBot) -> None:
    first, second = Heard(), Heard()
    jobs.run("a", until_cancelled, first.calls)
    jobs.run("a", lambda _: "second", second.calls)
    qtbot.waitUntil(lambda: second.results == ["second"])
    assert first.results == []


def test_closing_gives_everything_up_and_waits_for_it(jobs: ModelJobs, qtbot: QtBot) -> None:
    ended = threading.Event()

    def work(job: Job) -> None:
        until_cancelled(job)
        ended.set()

    heard = Heard()
    jobs.run("a", work, heard.calls)
    jobs.close()
    assert ended.is_set()
    qtbot.wait(1)
    assert heard.results == []


def test_closing_does_not_wait_for_work_that_hangs(jobs: ModelJobs) -> None:
    let_go = threading.Event()
    jobs.run("a", lambda _: let_go.wait(5), Heard().calls)
    jobs.close(timeout_s=0.01)
    let_go.set()
