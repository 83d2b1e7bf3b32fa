"""The real program and somebody who asks one question after the other, on the fake engine, slowed down.

`python -m tests.support.window_driver DATA_DIR LOG NAME`. Writes to LOG, a JSON array a line with the seconds since
1970 in front: what was asked, each piece of a reply when it was shown, its end, and a beat of the window's thread.
Whoever kills the process reads there what a person had seen.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

BEAT_S = 0.05
_SLOW_MODEL = "fake:step_s=0.008,n_words=50"


def main() -> None:
    """Open the window and ask until the process is killed."""
    from PySide6.QtCore import QTimer

    from app.desktop import application
    from app.paths import find_paths
    from engine import Command, LoadModel, ProcessClient

    data_dir, log_path, name = sys.argv[1:4]
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    build = application.build_window

    def note(*entry: object) -> None:
        # One write to the system: what is noted is there even if the next instruction is never reached.
        os.write(log, (json.dumps([time.time(), *entry]) + "\n").encode())

    class SlowClient(ProcessClient):
        def send(self, command: Command) -> None:
            if isinstance(command, LoadModel):
                command = LoadModel(request_id=command.request_id, path=_SLOW_MODEL, params=command.params)
            super().send(command)

    class Person:
        def __init__(self, parts: Any) -> None:
            self._parts = parts
            self._number = 0

        def ask(self) -> None:
            self._number += 1
            question = f"question {self._number} of {name}"
            note("asked", question)
            self._parts.window.composer.text_edit.setPlainText(question)
            self._parts.window.composer.submit()

    def build_with_person(*args: Any, **kwargs: Any) -> Any:
        parts = build(*args, **kwargs)
        person = Person(parts)
        beat = QTimer(parts.window)
        beat.timeout.connect(lambda: note("beat"))
        beat.start(round(BEAT_S * 1000))
        parts.window.first_painted.connect(person.ask)
        parts.bridge.delta_received.connect(lambda delta: note("shown", delta.text))
        parts.bridge.reply_finished.connect(lambda event: note("ended", event.text))
        parts.bridge.reply_finished.connect(lambda _: QTimer.singleShot(0, person.ask))
        parts.bridge.reply_failed.connect(lambda _, error: note("failed", error.message))
        parts.bridge.load_failed.connect(lambda _, error: note("failed", error.message))
        return parts

    vars(application).update(ProcessClient=SlowClient, build_window=build_with_person)
    application.run_window(find_paths(str(Path(data_dir))), model=None, fake_engine=True)


if __name__ == "__main__":
    main()
