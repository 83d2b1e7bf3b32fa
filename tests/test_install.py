"""The installation: stages are done once, a broken-off one leaves no stamp, and no backend gets another's library."""

import importlib.util
import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


def load(name: str) -> ModuleType:
    """Return a script of the packaging folder as a module."""
    spec = importlib.util.spec_from_file_location(f"fireside_{name}", ROOT / "packaging" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install = load("install")
check_system = load("check_system")


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return an environment in a folder of the test, with nothing in it but its marker."""
    monkeypatch.setattr(install, "ROOT", tmp_path)
    environment = install.Environment("cpu")
    environment.marker.mkdir(parents=True)
    return environment


def test_each_backend_has_an_environment_and_only_its_own_switch_is_on() -> None:
    names = {backend: install.Environment(backend).path.name for backend in install.CMAKE_ARGS}
    assert names == {"cpu": ".venv", "metal": ".venv-metal", "cuda": ".venv-cuda", "vulkan": ".venv-vulkan"}
    for backend, arguments in install.CMAKE_ARGS.items():
        on = [argument for argument in arguments.split() if argument.endswith("=on")]
        assert on == ([] if backend == "cpu" else [f"-DGGML_{backend.upper()}=on"])
        assert arguments.count("=off") + len(on) == 3


def test_llama_is_built_from_source_without_a_cache_and_the_users_switches_cannot_change_the_backend(
    env, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(env, "pip", lambda *arguments: calls.append(arguments))
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=on -DGGML_NATIVE=off")
    archive = _archive(env)
    install._build_llama(env)
    _, arguments, _, variables = calls[0]
    assert {"--no-deps", "--force-reinstall", "--no-cache-dir", str(archive)} <= set(arguments)
    assert arguments[arguments.index("--no-binary") + 1] == "llama-cpp-python"
    assert variables["CMAKE_ARGS"] == f"-DGGML_CUDA=on -DGGML_NATIVE=off {install.CMAKE_ARGS['cpu']}"


def _archive(env) -> Path:
    """Return a source distribution with a little of what the real one holds, where the installation looks for it."""
    archive = env.sources / "llama_cpp_python-0.3.36.tar.gz"
    env.sources.mkdir()
    with tarfile.open(archive, "w:gz") as file:
        for name in (
            "templates/a.jinja",
            "templates/README.md",
            "ggml-vocab-b.gguf",
            "ggml-vocab-b.gguf.inp",
            "../c.gguf",
        ):
            member = tarfile.TarInfo(f"llama_cpp_python-0.3.36/vendor/llama.cpp/models/{name}")
            member.size = 3
            file.addfile(member, io.BytesIO(b"abc"))
    return archive


def test_templates_and_vocabularies_are_kept_from_the_source_that_is_built(
    env, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def download(stage: str, arguments: list[str], label: str, *, verb: str) -> None:
        calls.append((verb, arguments))
        _archive(env)

    monkeypatch.setattr(env, "pip", download)
    (env.models / "templates").mkdir(parents=True)
    (env.models / "templates" / "old.jinja").touch()
    install._fetch_sources(env, "llama-cpp-python==0.3.36")
    verb, arguments = calls[0]
    assert (verb, arguments[-1]) == ("download", "llama-cpp-python==0.3.36")
    assert arguments[arguments.index("--no-binary") + 1] == "llama-cpp-python"
    kept = sorted(path.relative_to(env.models).as_posix() for path in env.models.rglob("*") if path.is_file())
    assert kept == ["ggml-vocab-b.gguf", "templates/a.jinja"]


def test_build_says_so_when_its_source_is_gone(env) -> None:
    with pytest.raises(install.InstallError, match="remove that folder"):
        install._build_llama(env)


def test_stage_is_done_again_when_what_it_depends_on_changes(env) -> None:
    assert not env.is_done("project", "a")
    env.stamp("project", "a")
    assert env.is_done("project", "a")
    assert not env.is_done("project", "b")
    env.unstamp("project")
    assert not env.is_done("project", "a")


def test_failed_command_says_its_last_lines_and_what_to_do(env, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; [print('line', n) for n in range(60)]; print('No space left on device'); sys.exit(3)"
    with pytest.raises(install.InstallError, match=r"^The disk is full.*x\.log"):
        env.run("x", [sys.executable, "-c", code], label="trial")
    output = capsys.readouterr()
    assert output.err.splitlines()[0] == "line 21"
    assert len(output.err.splitlines()) == install.TAIL_LINES
    assert "trial: failed" in output.out
    assert (env.marker / "x.log").read_text("utf-8").startswith("line 0\n")


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way there")
def test_broken_off_command_takes_its_children_with_it(env) -> None:
    # The guards of the suite look for the process that is left.
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        env.run("x", [sys.executable, "-c", code], label="trial")
    timer.join()


def test_metadata_of_a_broken_off_installation_is_dropped(env) -> None:
    site = env.path / "lib" / "python3.11" / "site-packages"
    for name in ("whole-1.dist-info", "torn-1.dist-info", "~moved"):
        (site / name).mkdir(parents=True)
    (site / "whole-1.dist-info" / "RECORD").touch()
    env._drop_torn()
    assert [path.name for path in site.iterdir()] == ["whole-1.dist-info"]


def test_environment_that_somebody_else_made_is_not_touched(env) -> None:
    env.marker.rmdir()
    (env.path / "theirs").touch()
    with pytest.raises(install.InstallError, match="was not made by this program"):
        env.create()
    assert (env.path / "theirs").exists()


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("  [12/193] Building CXX object src/llama.cpp.o\n", "step 12 of 193"),
        ("[ 45%] Building C object ggml.c.o\n", "45 %"),
        ("Collecting numpy<3,>=1.26\n", "collecting numpy<3,>=1.26"),
        ("  Building wheel for llama-cpp-python (pyproject.toml): started\n", "compiling"),
        ("warning: unused variable [-Wunused]\n", ""),
    ],
    ids=["ninja", "make", "pip", "wheel", "other"],
)
def test_progress_is_read_from_the_output(line: str, detail: str) -> None:
    assert install._detail(line) == detail


def test_old_python_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install.sys, "version_info", (3, 9, 1))
    with pytest.raises(install.InstallError, match=r"needs Python 3\.11 or newer"):
        install._check_python()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Qt brings its libraries")
def test_missing_system_library_is_named_with_the_line_that_installs_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(check_system.OFFSCREEN, "libnowhere.so.9", "libnowhere9")
    monkeypatch.setattr(sys, "argv", ["check_system.py"])
    assert check_system.main() == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Qt cannot start: libnowhere.so.9 not found on this system."
    assert second == (
        "On Debian and Ubuntu: apt-get install libglib2.0-0 libgl1 libegl1 libxkbcommon0 libfontconfig1 libdbus-1-3 "
        "libnowhere9"
    )


def test_qt_loads_here() -> None:
    check = [sys.executable, str(ROOT / "packaging" / "check_system.py")]
    checked = subprocess.run(check, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
