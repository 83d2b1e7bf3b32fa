"""The real program and somebody who compares models in its window.

`python -m tests.support.compare_window_driver DATA_DIR LOG begin|go-on PROMPTS REPEATS MODEL...`. Writes to LOG, a JSON
object a line: when the button was pressed, each reply as the window was told of it, and what was shown in the end. Then
the window is closed. Whoever kills the process reads there how far it was.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BEGIN, GO_ON = "begin", "go-on"
_LOOK_MS = 20
_MAX_TOKENS = 12


def main() -> None:
    """Open the window, compare, and close it when all is done."""
    from app.desktop import application
    from app.paths import find_paths

    data_dir, log_path, how, prompts, repeats, *models = sys.argv[1:]
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    build = application.build_window

    def note(event: str, **values: object) -> None:
        # One write to the system: what is noted is there even if the next instruction is never reached.
        os.write(log, (json.dumps({"event": event, **values}) + "\n").encode())

    def build_with_person(*args: Any, **kwargs: Any) -> Any:
        parts = build(*args, **kwargs)
        parts.window.first_painted.connect(lambda: _compare(parts, note, how, prompts, int(repeats), models))
        return parts

    vars(application).update(build_window=build_with_person)
    sys.exit(application.run_window(find_paths(str(Path(data_dir))), model=models[0], fake_engine=False))


def _compare(
    parts: Any, note: Callable[..., None], how: str, prompts: str, repeats: int, models: Sequence[str]
) -> None:
    """Press what a person would, and note what comes of it."""
    import msgspec
    from PySide6.QtCore import QTimer

    from app.compare.events import CellDone
    from app.desktop.bridge.compare_job import Ended, NotBegun
    from app.desktop.session.compare_setup import ColumnSetup, CompareSetup

    parts.window.top_bar.compare.click()
    page = parts.compare.presenter.page
    button = page.setup.start_button if how == BEGIN else page.setup.resume_button
    if how == BEGIN:
        columns = tuple(ColumnSetup(model) for model in models)
        page.setup.choose(CompareSetup(columns, prompts=prompts, repeats=repeats, max_tokens=_MAX_TOKENS))
    look, close = QTimer(parts.window), QTimer(parts.window)

    def press() -> None:
        if button.isVisible() and button.isEnabled():
            look.stop()
            note("pressed")
            button.click()

    def leave() -> None:
        if page.tabs[2].isEnabled():
            close.stop()
            note("shown", rows=page.result.cells(), told=page.told)
            parts.window.close()

    def hear(event: object) -> None:
        match event:
            case CellDone(cell):
                note("cell", **msgspec.to_builtins(cell))
            case NotBegun(error):
                note("failed", text=str(error))
            case Ended():
                close.start(_LOOK_MS)

    parts.compare._job.happened.connect(hear)
    look.timeout.connect(press)
    close.timeout.connect(leave)
    look.start(_LOOK_MS)


if __name__ == "__main__":
    main()
