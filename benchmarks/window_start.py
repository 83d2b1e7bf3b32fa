"""Opens the real window once and prints the seconds from the start of this process until it has painted and takes
input, by the wall and of its CPU time: `python -m benchmarks.window_start`.

The start is what the caller passes as an argument (time.time()), since a process does not know its own well enough.
"""

import os
import sys
import tempfile
import time


def main() -> None:
    """Open the window with an empty data directory, print the time, and leave."""
    started_at = float(sys.argv[1]) if len(sys.argv) > 1 else time.time()
    from PySide6.QtCore import QEvent, QObject, QTimer
    from PySide6.QtWidgets import QApplication, QWidget

    from app.desktop.application import run_window
    from app.paths import find_paths

    application = QApplication(sys.argv[:1])

    class FirstPaint(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.Paint and isinstance(watched, QWidget) and watched.isWindow():
                application.removeEventFilter(self)
                QTimer.singleShot(0, self._report)  # comes after the paint, when the event loop takes input
            return False

        def _report(self) -> None:
            print(f"{time.time() - started_at:.3f} {time.process_time():.3f}", flush=True)
            QTimer.singleShot(0, application.closeAllWindows)

    watcher = FirstPaint()
    application.installEventFilter(watcher)
    with tempfile.TemporaryDirectory() as data_dir:
        run_window(find_paths(data_dir), model=None, fake_engine=False)


if __name__ == "__main__":
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    main()
