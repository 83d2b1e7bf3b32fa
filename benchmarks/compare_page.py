"""How long the window's thread works for each frame while columns are written: `python -m benchmarks.compare_page`.

Four columns get 100 tokens a second each, as text with tables, code and formulas. CPU time of the window's thread from
one frame to the next is counted, with all that laying out and painting take; then the same by the wall. Target:
p99 <= 12 ms of CPU.
"""

import argparse
import gc
import itertools
import json
import os
import statistics
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.window_corpus import CHARS_PER_TOKEN, reply

_WARM_UP_S = 2.0
_PIECE_S = 1 / 60


def measure(num_columns: int, tokens_per_s: int, seconds: float) -> dict[str, float]:
    """Return the milliseconds of frames."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QEventLoop
    from PySide6.QtWidgets import QApplication

    from app.compare.events import CellStarted, CellText
    from app.compare.plan import Place, new_comparison
    from app.compare.results import Column, Mode, PromptItem
    from app.desktop.bridge.background import Background
    from app.desktop.bridge.compare_job import Begun, CompareJob
    from app.desktop.rendering.formula_images import FormulaImages
    from app.desktop.rendering.highlighting import CodeLexer
    from app.desktop.rendering.lazy_parser import LazyParser
    from app.desktop.session.compare_board import CompareBoard
    from app.desktop.theme.theme import Theme
    from app.desktop.widgets.compare_page import ComparePage
    from engine import ChatMessage, Role

    application = QApplication.instance() or QApplication([])
    assert isinstance(application, QApplication)
    theme = Theme(application)
    background = Background()
    page = ComparePage(theme, LazyParser(), CodeLexer(background), formulas=FormulaImages(background))
    page.resize(1440, 860)
    page.show()
    prompt = PromptItem(id="1", messages=(ChatMessage(Role.USER, "Tell me about caches."),))
    columns = [Column(id="", label=f"Model {number}", path=f"fake:{number}") for number in range(num_columns)]
    board = CompareBoard(new_comparison(columns, [prompt], mode=Mode.RACE))
    job = CompareJob(lambda comparison: None)
    page.columns.show_board(board)
    page.show_view(page.columns)
    LazyParser()()
    application.processEvents()
    gc.freeze()  # as the program does after its first paint
    frames: list[tuple[float, float]] = []

    def take(event: object) -> None:
        if isinstance(event, CellText):
            board.grow(event)
        elif isinstance(event, CellStarted):
            board.begin(event.place)
        if not isinstance(event, Begun):
            page.columns.take(event)

    job.happened.connect(take)
    job._timer.timeout.connect(lambda: frames.append((time.thread_time(), time.perf_counter())))
    places = [Place(column.id, "1", 0) for column in board.comparison.columns]
    texts = [reply(round(tokens_per_s * seconds * 2) * CHARS_PER_TOKEN, seed=number) for number in range(num_columns)]
    job._is_running = True
    job._timer.start()
    stop = threading.Event()

    def write() -> None:
        for place in places:
            job._events.append(CellStarted(place))
        began, done = time.perf_counter(), 0
        while not stop.wait(_PIECE_S):
            count = int((time.perf_counter() - began) * tokens_per_s)
            for place, text in zip(places, texts, strict=True):
                piece = text[done * CHARS_PER_TOKEN : count * CHARS_PER_TOKEN]
                job._events.append(CellText(place, piece, "", False, count, time.perf_counter() - began))
            done = count

    writer = threading.Thread(target=write)
    writer.start()
    end = time.perf_counter() + _WARM_UP_S + seconds
    while time.perf_counter() < end:
        application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    stop.set()
    writer.join()
    job._is_running = False
    job.close()
    background.close()
    behind = max(len(text.text) for text in job._texts.values()) if job._texts else 0
    written = [len(board.replies[place].text) for place in places]
    page.close()
    first = frames[0][1] + _WARM_UP_S
    kept = [frame for frame in frames if frame[1] >= first]
    cpu = sorted((after[0] - before[0]) * 1000 for before, after in itertools.pairwise(kept))
    wall = sorted((after[1] - before[1]) * 1000 for before, after in itertools.pairwise(kept))
    return {
        "columns": num_columns,
        "tokens_per_s": tokens_per_s,
        "p50_cpu_ms": round(statistics.median(cpu), 1),
        "p99_cpu_ms": round(cpu[int(len(cpu) * 0.99)], 1),
        "max_cpu_ms": round(cpu[-1], 1),
        "p99_wall_ms": round(wall[int(len(wall) * 0.99)], 1),
        "frames_per_s": round(len(kept) / seconds, 1),
        "least_chars_shown": min(written),
        "most_chars_waiting": behind,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with TemporaryDirectory():
        found = measure(options.columns, options.rate, options.seconds)
    text = json.dumps(found, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
