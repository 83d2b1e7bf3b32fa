"""One measurement of the window, in a process of its own: `python -m benchmarks.window_cases CASE [--quick]`.

Prints a JSON object. Milliseconds that end in `_cpu` are of the window's thread, which other programs do not slow down
much; the others are by the wall.
"""

import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.window_corpus import CHARS_PER_TOKEN, LONG_REPLY_CHARS, chat, draft, reply

NOT_LOADED = ("numpy", "pyqtgraph")
_TOKENS_PER_S = 300
_FRAME_MS = 33
_WHEEL_UP = 120


def _large_chat() -> list[Any]:
    return chat(2000, 800_000)


def _usual_chat(seed: int = 1) -> list[Any]:
    return chat(400, 600_000, num_long_replies=8, seed=seed)


def _p(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


# The window


def stream(is_quick: bool) -> dict[str, Any]:
    """Stream the end of a reply of 8,000 tokens below 400 messages."""
    from benchmarks.window_scene import Heartbeat, run_in_window, settle, wait_until

    def case(parts: Any, engine: Any) -> dict[str, Any]:
        text = reply(LONG_REPLY_CHARS, seed=77)[:LONG_REPLY_CHARS]
        begin = LONG_REPLY_CHARS - _TOKENS_PER_S * CHARS_PER_TOKEN * (3 if is_quick else 10)
        parts.window.chat_view.set_turns(_usual_chat())
        settle()
        parts.window.composer.text_edit.setPlainText("Go on.")
        parts.window.composer.submit()
        wait_until(lambda: bool(engine.asked))
        for at in range(0, begin, 4000):
            engine.write(text[at : min(at + 4000, begin)])
            settle(0.05)
        settle(1.0)
        times: list[float] = []
        parts.bridge.delta_received.connect(lambda _: times.append(time.thread_time()))
        heartbeat = Heartbeat()
        heartbeat.start()
        began, cpu_began = time.perf_counter(), time.thread_time()
        writer = engine.stream(text[begin:], _TOKENS_PER_S)
        wait_until(lambda: not writer.is_alive())
        wall, cpu = time.perf_counter() - began, time.thread_time() - cpu_began
        heartbeat.stop()
        frames = [(after - before) * 1000 for before, after in itertools.pairwise(times)]
        engine.finish(text)
        wait_until(lambda: not parts.conversation.is_busy)
        return {
            "p50_cpu": statistics.median(frames),
            "p99_cpu": _p(frames, 0.99),
            "max_cpu": max(frames),
            "stall": heartbeat.longest_ms,
            "updates_per_s": len(frames) / wall,
            "thread_share": cpu / wall,
        }

    return run_in_window(case)


def opening(is_quick: bool) -> dict[str, Any]:
    """Open chats of 400 messages."""
    from benchmarks.window_scene import Painted, run_in_window, settle

    def case(parts: Any, engine: Any) -> dict[str, Any]:
        view = parts.window.chat_view
        chats = [_usual_chat(seed) for seed in range(2)]
        painted = Painted(view)
        runs, later = [], []
        for number in range(3 if is_quick else 7):
            runs.append(painted.after(lambda: view.set_turns(chats[number % 2])))  # noqa: B023 - called at once
            cpu = time.thread_time()
            settle(0.5)
            later.append((time.thread_time() - cpu) * 1000)
        return _both("", runs[1:]) | {
            "first": runs[0][1],
            "first_cpu": runs[0][0],
            "later_cpu": statistics.median(later),
        }

    return run_in_window(case)


def moving(is_quick: bool) -> dict[str, Any]:
    """Turn the wheel through a chat of 2,000 messages, jump in it, and resize the window."""
    from benchmarks.window_scene import SIZE, Painted, run_in_window, settle

    def case(parts: Any, engine: Any) -> dict[str, Any]:
        view = parts.window.chat_view
        view.set_turns(_large_chat())
        settle(1.0)
        painted = Painted(view)
        steps: list[tuple[float, float]] = []
        idle: list[float] = []
        limit = 300 if is_quick else 20_000
        while len(steps) < limit and view.verticalScrollBar().value() > 0:
            steps.append(painted.after(lambda: _turn_wheel(view)))
            began = time.perf_counter()
            settle(0)
            idle.append((time.perf_counter() - began) * 1000)
        drawn = random.Random(5)
        bar = view.verticalScrollBar()
        jumps = []
        for _ in range(10 if is_quick else 40):
            value = drawn.randint(0, bar.maximum())
            jumps.append(painted.after(lambda: bar.setValue(value)))  # noqa: B023 - called at once
            settle(0.05)
        sizes = []
        for number in range(6 if is_quick else 20):
            width = SIZE[0] - 7 * (number + 1)
            sizes.append(painted.after(lambda: parts.window.resize(width, SIZE[1])))  # noqa: B023 - called at once
            settle(0.02)
        return {
            **_both("wheel_", steps),
            "wheel_steps": len(steps),
            "wheel_p99": _p([wall for _, wall in steps], 0.99),
            "wheel_p99_cpu": _p([cpu for cpu, _ in steps], 0.99),
            "idle_max": max(idle),
            **_both("jump_", jumps),
            **_both("resize_", sizes),
        }

    return run_in_window(case)


def memory(is_quick: bool) -> dict[str, Any]:
    """Look at the memory of the program with a chat of 2,000 messages, after it was looked through."""
    from benchmarks.window_scene import resident_mb, run_in_window, settle

    def case(parts: Any, engine: Any) -> dict[str, Any]:
        empty = resident_mb()
        view = parts.window.chat_view
        view.set_turns(_large_chat())
        settle(1.0)
        opened = resident_mb()
        bar = view.verticalScrollBar()
        for number in range(10 if is_quick else 60):
            bar.setValue(bar.maximum() * number // 60)
            settle(0.03)
        return {
            "empty": empty,
            "opened": opened,
            "looked_through": resident_mb(),
            "loaded": [name for name in NOT_LOADED if name in sys.modules],
        }

    return run_in_window(case)


def typing(is_quick: bool) -> dict[str, Any]:
    """Type into a draft of 100,000 characters, at its end, in its middle and at its beginning."""
    from PySide6.QtCore import Qt
    from PySide6.QtGui import QTextCursor
    from PySide6.QtTest import QTest

    from benchmarks.window_scene import Painted, run_in_window, settle

    def case(parts: Any, engine: Any) -> dict[str, Any]:
        edit = parts.window.composer.text_edit
        edit.setPlainText(draft(100_000))
        settle(0.5)
        painted = Painted(parts.window.composer)
        keys = []
        for position in (100_000, 50_000, 0):
            cursor = QTextCursor(edit.document())
            cursor.setPosition(min(position, edit.document().characterCount() - 1))
            edit.setTextCursor(cursor)
            settle(0.3)
            for letter in "WRITTEN" * (2 if is_quick else 6):
                key = Qt.Key[f"Key_{letter}"]
                keys.append(painted.after(lambda: QTest.keyClick(edit, key)))  # noqa: B023 - called at once
                settle(0.02)
        return {
            **_both("", keys),
            "p99": _p([wall for _, wall in keys], 0.99),
            "p99_cpu": _p([k[0] for k in keys], 0.99),
        }

    return run_in_window(case)


# What it is compared with: one document that is made anew


def _browser() -> tuple[Any, Any]:
    from PySide6.QtWidgets import QApplication, QTextBrowser

    from benchmarks.window_scene import SIZE, settle

    application = QApplication(sys.argv[:1])
    browser = QTextBrowser()
    browser.resize(*SIZE)
    browser.show()
    settle(0.3)
    return application, browser


def stream_whole(is_quick: bool) -> dict[str, Any]:
    """Set a QTextBrowser's Markdown to the whole reply so far in each frame."""
    from benchmarks.window_scene import Painted, settle

    application, browser = _browser()
    text = reply(LONG_REPLY_CHARS, seed=77)[:LONG_REPLY_CHARS]
    per_frame = _TOKENS_PER_S * CHARS_PER_TOKEN * _FRAME_MS // 1000
    painted = Painted(browser)
    frames = []

    def show(length: int) -> None:
        browser.setMarkdown(text[:length])
        browser.verticalScrollBar().setValue(browser.verticalScrollBar().maximum())

    for number in range(30 if is_quick else 100, 0, -1):
        length = LONG_REPLY_CHARS - number * per_frame
        frames.append(painted.after(lambda: show(length)))  # noqa: B023 - called at once
        settle(0)
    application.shutdown()
    return {**_both("", frames), "p99_cpu": _p([cpu for cpu, _ in frames], 0.99)}


def one_document(is_quick: bool) -> dict[str, Any]:
    """Open a chat of 400 messages as one document, and resize it."""
    from benchmarks.window_scene import SIZE, Painted, settle

    application, browser = _browser()
    painted = Painted(browser)
    whole = "\n\n".join(turn.text for turn in _usual_chat())
    runs, sizes = [], []
    for _ in range(2 if is_quick else 4):
        browser.clear()
        settle(0.1)
        runs.append(painted.after(lambda: browser.setMarkdown(whole)))
    for number in range(3 if is_quick else 8):
        width = SIZE[0] - 7 * (number + 1)
        sizes.append(painted.after(lambda: browser.resize(width, SIZE[1])))  # noqa: B023 - called at once
    application.shutdown()
    return {**_both("", runs), **_both("resize_", sizes)}


# Without a window


def search(is_quick: bool) -> dict[str, Any]:
    """Search 10,000 chats for frequent and rare things."""
    from app.store import ChatStore
    from benchmarks.store import CHINESE, NUM_WORDS, RARE, fill

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.sqlite3"
        _, words = fill(path, 1000 if is_quick else 10_000)
        store, _ = ChatStore.open(path)
        sought = (RARE, words[0], f"{words[0]} {words[1]}", words[NUM_WORDS // 4], CHINESE[:2], "c#", "e", "qzqzqz")
        times = {}
        for text in sought:
            tries = []
            for _ in range(5):
                began = time.perf_counter()
                store.search(text)
                tries.append((time.perf_counter() - began) * 1000)
            times[text] = statistics.median(tries)
        store.close()
    slowest = max(times, key=lambda text: times[text])
    return {"p50": statistics.median(times.values()), "max": times[slowest], "slowest": slowest}


def _turn_wheel(view: Any) -> None:
    from PySide6.QtCore import QCoreApplication, QPoint, QPointF, Qt
    from PySide6.QtGui import QWheelEvent

    centre = QPointF(view.viewport().rect().center())
    event = QWheelEvent(
        centre,
        QPointF(view.viewport().mapToGlobal(centre.toPoint())),
        QPoint(),
        QPoint(0, _WHEEL_UP),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QCoreApplication.sendEvent(view.viewport(), event)


def _both(prefix: str, runs: Sequence[tuple[float, float]]) -> dict[str, float]:
    cpu, wall = [run[0] for run in runs], [run[1] for run in runs]
    return {
        f"{prefix}p50": statistics.median(wall),
        f"{prefix}p50_cpu": statistics.median(cpu),
        f"{prefix}max": max(wall),
        f"{prefix}max_cpu": max(cpu),
    }


CASES: dict[str, Callable[[bool], dict[str, Any]]] = {
    case.__name__: case for case in (stream, stream_whole, opening, one_document, moving, memory, typing, search)
}


def main() -> None:
    """Run the named case."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    print(json.dumps(CASES[sys.argv[1]]("--quick" in sys.argv)))


if __name__ == "__main__":
    main()
