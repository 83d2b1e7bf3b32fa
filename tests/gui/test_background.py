"""Calls beside the window's thread: one outcome each, in order where that is asked for, none after the end."""

import functools
import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QThread
from pytestqt.qtbot import QtBot

from app.desktop.bridge.background import Background, SerialBackground


@pytest.fixture(params=[Background, SerialBackground], ids=["threads", "one thread"])
def background(request: pytest.FixtureRequest, qtbot: QtBot) -> Iterator[Background]:
    background = request.param()
    yield background
    background.close()


@pytest.fixture
def serial(qtbot: QtBot) -> Iterator[SerialBackground]:
    serial = SerialBackground()
    yield serial
    serial.close()


def refuse(error: Exception) -> None:
    raise error


def test_result_comes_on_the_window_thread(background: Background, qtbot: QtBot) -> None:
    seen: list[tuple[object, bool]] = []
    background.run(
        threading.current_thread,
        lambda thread: seen.append((thread, QThread.currentThread() is background.thread())),
        refuse,
    )
    qtbot.waitUntil(lambda: bool(seen))
    ((thread, is_window_thread),) = seen
    assert thread is not threading.main_thread()
    assert is_window_thread


def test_exception_is_handed_over(background: Background, qtbot: QtBot) -> None:
    seen: list[Exception] = []
    background.run(lambda: 1 // 0, refuse_result, seen.append)
    qtbot.waitUntil(lambda: bool(seen))
    assert [type(error) for error in seen] == [ZeroDivisionError]


def refuse_result(result: object) -> None:
    raise AssertionError(result)


def test_outcome_is_dropped_after_the_end(background: Background, qtbot: QtBot) -> None:
    begun, may_end = threading.Event(), threading.Event()
    seen: list[object] = []

    def wait() -> None:
        begun.set()
        may_end.wait(5)

    background.run(wait, seen.append, seen.append)
    assert begun.wait(5)
    background.close()
    may_end.set()
    background.run(lambda: None, seen.append, seen.append)
    qtbot.wait(50)
    assert seen == []


def test_results_come_in_the_order_of_the_calls(serial: SerialBackground, qtbot: QtBot) -> None:
    may_end = threading.Event()
    order: list[object] = []
    serial.run(lambda: may_end.wait(5) and "slow", order.append, refuse)
    serial.run(lambda: 1 // 0, order.append, lambda error: order.append(type(error)))
    for number in range(20):
        serial.run(functools.partial(int, number), order.append, refuse)
    may_end.set()
    qtbot.waitUntil(lambda: len(order) == 22)
    assert order == ["slow", ZeroDivisionError, *range(20)]


def test_calls_run_on_one_thread_only(serial: SerialBackground, qtbot: QtBot) -> None:
    threads: list[threading.Thread] = []
    for _ in range(5):
        serial.run(threading.current_thread, threads.append, refuse)
    qtbot.waitUntil(lambda: len(threads) == 5)
    assert len(set(threads)) == 1
    assert threads[0].daemon


def test_calls_that_have_not_begun_are_dropped_at_the_end(serial: SerialBackground, qtbot: QtBot) -> None:
    begun, may_end = threading.Event(), threading.Event()
    ran: list[str] = []

    def first() -> threading.Thread:
        begun.set()
        may_end.wait(5)
        return threading.current_thread()

    serial.run(first, refuse_result, refuse)
    serial.run(lambda: ran.append("second"), refuse_result, refuse)
    assert begun.wait(5)
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "window-serial")
    serial.close()
    may_end.set()
    thread.join(5)
    assert not thread.is_alive()
    assert ran == []
