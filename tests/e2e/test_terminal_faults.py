"""The terminal as a real program where it is treated badly: signals, locales, odd names, kept chats."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.store import ChatStore, NodeState
from engine import Role
from tests.support.gguf_files import write_tiny_model
from tests.support.one_core import ON_ONE_CORE

ROOT = Path(__file__).resolve().parents[2]
SLOW_MODEL = "fake:step_s=0.02,n_words=2000"
posix = pytest.mark.skipif(os.name != "posix", reason="signals and locales work differently on Windows")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "app", *map(str, arguments)]


@posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_reply_so_far_is_kept_when_the_program_is_ended(data_dir: Path, name: str) -> None:
    number = getattr(signal, name)
    line = command("chat", "--fake-engine", "-m", SLOW_MODEL, "--json", "--save", "hi")
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as program:
        assert program.stdout is not None and program.stderr is not None
        try:
            assert any(json.loads(text)["event"] == "delta" for text in iter(program.stdout.readline, b""))
            program.send_signal(number)
            program.stdout.read()
            assert program.wait(20) == 128 + number
            assert program.stderr.read() == b""
        finally:
            program.kill()
    store, notices = ChatStore.open(data_dir / "chats.sqlite3")
    store.flush()
    [row] = store.list_chats()
    stored = store.load_chat(row.id)
    store.close()
    assert notices == ()
    assert stored is not None
    [reply] = [node for node in stored.nodes if node.role is Role.ASSISTANT]
    assert reply.state is NodeState.INTERRUPTED
    assert reply.content


@posix
def test_names_and_prompts_arrive_whole_when_the_locale_is_ascii(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "é日 model.gguf")
    data_dir = tmp_path / "data é日"
    done = subprocess.run(
        command("--data-dir", data_dir, "chat", "-m", model, "--json", "--save", "--max-tokens", "2", "é日👍"),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        check=False,
        **ON_ONE_CORE,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.splitlines()[0])["path"] == str(model)
    store, _ = ChatStore.open(data_dir / "chats.sqlite3")
    titles = [row.title for row in store.list_chats()]
    store.close()
    assert titles == ["é日👍"]
