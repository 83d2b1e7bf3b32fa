"""`python -m app chat` and `doctor` as real programs: the contract of the command line, on real models."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from tests.support.gguf_files import edit_gguf, write_other_kinds, write_tiny_model
from tests.support.hostile_gguf import FOREIGN_FILES, IMPOSSIBLE_FILES
from tests.support.one_core import ON_ONE_CORE

ROOT = Path(__file__).resolve().parents[2]
METRICS = """
    num_prompt_tokens num_cached_tokens num_generated_tokens ttft_s prefill_s decode_s prefill_rate decode_rate tpot_s
    num_drafts num_drafted_tokens num_accepted_tokens acceptance_rate cache_source cache_miss_cause
    peak_memory_bytes bandwidth_share joules_per_token cost_per_million_tokens
"""
SLOW_MODEL = "fake:step_s=0.02,n_words=2000"
posix = pytest.mark.skipif(os.name != "posix", reason="closed descriptors and signals work differently on Windows")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "app", *map(str, arguments)]


def flags(text: str) -> list[str]:
    return text.split()


def fireside(
    *arguments: str | Path, stdin: bytes = b"", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        timeout=60,
        env=os.environ | (environment or {}),
        check=False,
        **ON_ONE_CORE,
    )


def events(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.decode("utf-8").splitlines()]


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(*arguments), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, **ON_ONE_CORE
    ) as program:
        assert program.stdout is not None
        try:
            yield program, program.stdout
        finally:
            if program.poll() is None:
                program.kill()


def wait_for_text(output: IO[bytes]) -> None:
    assert any(json.loads(line)["event"] == "delta" for line in iter(output.readline, b""))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "dir ä日 #?%20&'\""
    folder.mkdir()
    return write_tiny_model(folder / "a b.gguf", n_ctx_train=256)


def test_starter_answers_in_events_with_all_metrics() -> None:
    done = fireside(
        "chat", "-m", "starter", "Name three primary colours.", *flags("--json --temperature 0 --max-tokens 12")
    )
    assert (done.returncode, done.stderr) == (0, b"")
    found = events(done.stdout)
    names = [event["event"] for event in found]
    assert names[0] == "loaded"
    assert names[-1] == "finished"
    assert names.count("finished") == 1
    assert {"prefill", "delta"} <= set(names)
    finished = found[-1]
    assert finished["text"] == "".join(event["text"] for event in found if event["event"] == "delta")
    metrics = finished["metrics"]
    assert set(METRICS.split()) <= set(metrics)
    assert metrics["num_generated_tokens"] == 12
    assert metrics["ttft_s"] <= finished["client_ttft_s"]
    assert metrics["decode_rate"] > 0


def test_second_turn_reuses_what_the_first_one_held(tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("Tell me about the sea.\nAnd the sky?\n", "utf-8")
    done = fireside("chat", "-m", "starter", "--turns", turns, *flags("--json --temperature 0 --max-tokens 16"))
    assert done.returncode == 0, done.stderr
    first, second = (event["metrics"] for event in events(done.stdout) if event["event"] == "finished")
    held = first["num_prompt_tokens"] + first["num_generated_tokens"]
    assert second["num_cached_tokens"] >= 0.9 * held
    assert second["cache_source"] == "slot"


def test_text_alone_is_on_standard_output(tiny: Path) -> None:
    done = fireside("chat", "-m", tiny, "--max-tokens", "4", "--seed", "1", stdin="é日👍\n".encode())
    assert (done.returncode, done.stderr) == (0, b"")
    as_events = fireside("chat", "-m", tiny, *flags("--max-tokens 4 --seed 1 --json"), stdin="é日👍\n".encode())
    assert done.stdout.decode().rstrip("\n") == events(as_events.stdout)[-1]["text"].rstrip("\n")


def test_odd_paths_are_no_trouble(tiny: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data ä日 #?%20&'\""
    done = fireside("--data-dir", data_dir, "chat", "-m", tiny, *flags("--json --max-tokens 2"), "hi")
    assert done.returncode == 0, done.stderr
    assert events(done.stdout)[0]["path"] == str(tiny)
    remembered = fireside("--data-dir", data_dir, "chat", *flags("--json --max-tokens 2"), "hi")
    assert events(remembered.stdout)[0]["path"] == str(tiny)


@pytest.mark.parametrize("vocab", ["bpe", "spm"])
def test_other_vocabularies_answer(tmp_path: Path, vocab: str) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", arch="qwen2" if vocab == "bpe" else "llama", vocab=vocab)
    done = fireside("chat", "-m", path, *flags("--json --max-tokens 3"), "hello world é日")
    assert done.returncode == 0, done.stdout
    assert events(done.stdout)[-1]["metrics"]["num_generated_tokens"] >= 1


def test_greedy_is_greedy_whatever_else_is_set(tiny: Path) -> None:
    # Each setting for itself: tests/e2e/test_engine_process.py.
    rows = ["", "--top-k 0 --top-p 0 --min-p 1 --seed 3", "--top-k 1 --temperature 1"]
    texts = set()
    for row in rows:
        done = fireside("chat", "-m", tiny, *flags(f"--json --max-tokens 8 --threads 1 --temperature 0 {row}"), "hi")
        assert done.returncode == 0, done.stdout
        texts.add(events(done.stdout)[-1]["text"])
    assert len(texts) == 1


def test_random_seeds_differ_and_the_one_shown_repeats_the_reply(tiny: Path) -> None:
    given = flags("--json --max-tokens 8 --threads 1 --temperature 1")
    drawn = [events(fireside("chat", "-m", tiny, *given, "hi").stdout)[-1] for _ in range(2)]
    seeds = [end["metrics"]["seed"] for end in drawn]
    assert seeds[0] != seeds[1]
    again = events(fireside("chat", "-m", tiny, *given, "--seed", str(seeds[0]), "hi").stdout)[-1]
    assert (again["text"], again["metrics"]["seed"]) == (drawn[0]["text"], seeds[0])


def test_empty_stop_string_stops_nothing_and_a_blank_does() -> None:
    given = flags("--fake-engine --seed 1")
    empty, blank = (fireside("chat", *given, "--stop", stop, "hi").stdout.strip() for stop in ("", " "))
    assert b" " in empty
    assert blank == empty.partition(b" ")[0]


def test_failed_request_exits_1(tiny: Path, tmp_path: Path) -> None:
    refuses = "{% if messages[0].content == 'hi' %}{{ raise_exception('no') }}{% endif %}x"
    broken = edit_gguf(tiny, tmp_path / "broken.gguf", set={"tokenizer.chat_template": refuses})
    for model, prompt, error in ((broken, "hi", "ChatTemplateError"), (tiny, "word " * 400, "ContextOverflow")):
        done = fireside("chat", "-m", model, "--json", prompt)
        assert done.returncode == 1, done.stdout
        assert events(done.stdout)[-1]["error"] == error
        assert len(done.stderr.decode().splitlines()) == 2


@pytest.mark.parametrize("arguments", [["--top-p", "2"], ["--nothing"], [""]], ids=" ".join)
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    done = fireside("chat", "-m", "starter", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(done.stderr.decode().splitlines()) == 2


def test_file_that_cannot_be_loaded_exits_3(tmp_path: Path, starter_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    with starter_path.open("rb") as whole, bad.open("wb") as part:
        part.write(whole.read(4 << 20))
    pointer = tmp_path / "pointer.gguf"
    pointer.write_bytes(FOREIGN_FILES["lfs"][1])
    hostile = tmp_path / "hostile.gguf"
    hostile.write_bytes(IMPOSSIBLE_FILES["tensor count 2^60"])
    cases = {
        tmp_path / "none.gguf": "ModelFileMissing",
        bad: "TruncatedGGUF",
        pointer: "NotGGUF",
        hostile: "CorruptGGUF",
        write_other_kinds(tmp_path)["projector"]: "NotAChatModel",
    }
    for path, error in cases.items():
        done = fireside("chat", "-m", path, "--json", "hi")
        assert done.returncode == 3
        [failed] = events(done.stdout)
        assert (failed["event"], failed["error"]) == ("failed", error)
        assert path.name in done.stderr.decode()
        assert failed["hint"]


def test_model_the_engine_refuses_exits_3(tmp_path: Path) -> None:
    unknown = edit_gguf(
        write_tiny_model(tmp_path / "tiny.gguf"), tmp_path / "u.gguf", set={"tokenizer.ggml.model": "klingon"}
    )
    done = fireside("chat", "-m", unknown, "--json", "hi")
    assert done.returncode == 3, done.stdout
    assert [event["event"] for event in events(done.stdout)] == ["failed"]
    assert "Traceback" not in done.stderr.decode()


@posix
def test_engine_that_is_killed_exits_4() -> None:
    with running("chat", "--fake-engine", "-m", SLOW_MODEL, "--json", "hi") as (program, output):
        wait_for_text(output)
        children = psutil.Process(program.pid).children()
        for child in children:
            if "spawn_main" in " ".join(child.cmdline()):
                child.kill()
        rest = events(output.read())
        assert program.wait(10) == 4
        assert [event["event"] for event in rest if event["event"] != "delta"] == ["failed"]
        assert rest[-1]["error"] == "EngineDied"


@posix
def test_ctrl_c_ends_the_reply_and_exits_130() -> None:
    with running("chat", "--fake-engine", "-m", SLOW_MODEL, "--json", "hi") as (program, output):
        wait_for_text(output)
        program.send_signal(signal.SIGINT)
        rest = events(output.read())
        assert program.wait(10) == 130
        assert program.stderr is not None
        assert program.stderr.read() == b""
        assert (rest[-1]["event"], rest[-1]["finish_reason"]) == ("finished", "abort")


@posix
def test_reader_that_leaves_ends_it_quietly() -> None:
    with running("chat", "--fake-engine", "-m", "fake:n_words=20000", "--json", "hi") as (program, output):
        output.readline()
        output.close()
        assert program.wait(20) == 0
        assert program.stderr is not None
        assert program.stderr.read() == b""


@posix
@pytest.mark.parametrize("redirection", ["1>&- 2>&-", "<&- 1>&- 2>&-", ">/dev/null 2>&-"])
def test_closed_streams_are_no_trouble(tiny: Path, data_dir: Path, redirection: str) -> None:
    line = f'exec "$0" -m app chat --max-tokens 2 -m "$1" hi {redirection}'
    shell = ["/bin/sh", "-c", line, sys.executable, str(tiny)]
    done = subprocess.run(shell, cwd=ROOT, timeout=60, check=False, **ON_ONE_CORE)
    assert done.returncode == 0
    assert "Traceback" not in (data_dir / "logs" / "fireside.log").read_text("utf-8")


def test_damaged_settings_are_set_aside_and_the_start_goes_on(data_dir: Path) -> None:
    data_dir.mkdir(parents=True)
    (data_dir / "settings.toml").write_bytes("theme".encode("utf-16"))  # other damage: tests/unit/app/test_settings.py
    done = fireside("chat", "--fake-engine", "hi")
    assert done.returncode == 0
    assert b"damaged" in done.stderr
    assert len(list(data_dir.glob("settings.toml.damaged-*"))) == 1
    assert fireside("chat", "--fake-engine", "hi").stderr == b""


def test_locale_without_unicode_is_no_trouble(tmp_path: Path) -> None:
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    model = write_tiny_model(tmp_path / "tiny.gguf")
    # Two conversations of one message each: the second is as long as the first where each byte is a token.
    turns = tmp_path / "turns.txt"
    turns.write_text("é日👍\n\n" + "x" * len("é日👍".encode()), "utf-8")
    line: list[str | Path] = ["chat", "-m", model, *flags("--max-tokens 2")]
    done = fireside(*line, "--json", "--turns", turns, environment=environment)
    assert done.returncode == 0, done.stdout
    ends = [event["metrics"] for event in events(done.stdout) if event["event"] == "finished"]
    assert len({end["num_prompt_tokens"] for end in ends}) == 1
    assert len(ends) == 2
    plain = fireside(*line, stdin="é日👍".encode(), environment=environment)
    assert (plain.returncode, plain.stderr) == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a display")
def test_without_a_display_the_terminal_chat_answers_and_says_why() -> None:
    nothing = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "QT_QPA_PLATFORM": ""}
    done = fireside("--fake-engine", stdin=b"hi", environment=nothing)
    assert done.returncode == 0
    assert done.stdout
    assert b"no display" in done.stderr


def test_doctor_tells_versions_and_devices() -> None:
    done = fireside("doctor", "--json")
    assert done.returncode == 0, done.stderr
    [found] = events(done.stdout)
    assert found["versions"]["llama-cpp-python"] == "0.3.36"
    assert found["versions"]["llama.cpp"]
    assert found["devices"]
    assert found["starter"]["path"]


@posix
def test_terminal_chat_answers_and_leaves() -> None:
    import pty

    ours, theirs = pty.openpty()
    line = command("chat", "--fake-engine", "-m", "fake:n_words=3")
    with subprocess.Popen(line, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        try:
            shown = _talk(ours, [(b"/help.", b"hello\r"), (b"reused", b"/quit\r")])
            assert program.wait(10) == 0
        finally:
            program.kill()
            os.close(ours)
    assert b"prompt tokens reused" in shown


def _talk(terminal: int, script: list[tuple[bytes, bytes]]) -> bytes:
    """Type each answer once its cue was shown, and return everything that was shown."""
    shown = b""
    for cue, answer in script:
        while cue not in shown:
            shown += os.read(terminal, 4096)
        os.write(terminal, answer)
    with contextlib.suppress(OSError):  # a terminal without a program at its other end
        while chunk := os.read(terminal, 4096):
            shown += chunk
    return shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["plain", "json"])
def test_output_that_cannot_be_written_costs_one_sentence(flags: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "app", "chat", "--fake-engine", *flags, "hi"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, cwd=ROOT, **ON_ONE_CORE)
    assert done.returncode == 1
    assert done.stderr.startswith(b"fireside: The output could not be written")
    assert b"Traceback" not in done.stderr
