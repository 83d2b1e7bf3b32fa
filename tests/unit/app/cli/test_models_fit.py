"""`fireside models fit` with a scripted engine: the table, the event, and what is said of bad input."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

import app.cli.models_fit
from app.cli.arguments import ArgumentParser, add_shared_flags
from app.cli.models_fit import add_fit_parser, run_fit
from app.cli.outcome import ExitCode
from app.cli.program import run_program
from app.errors import ModelFileMissing, UsageError
from app.paths import find_paths
from app.settings import SettingsStore
from engine import EngineStartFailed, InvalidParams
from models import GGUFError
from tests.support.adapters import write_tiny_pair
from tests.support.gguf_files import edit_gguf, write_tiny_model
from tests.support.split_models import split_model
from tests.unit.app.cli.scripted_client import ScriptedClient


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.cli.models_fit, "ProcessClient", lambda *, fake: ScriptedClient())


def parse(*arguments: str) -> argparse.Namespace:
    parser = ArgumentParser(prog="fireside models")
    add_fit_parser(parser.add_subparsers(parser_class=ArgumentParser))
    add_shared_flags(parser)
    return parser.parse_args(["fit", *arguments])


def event(capsys: pytest.CaptureFixture[str], data_dir: Path, *arguments: str) -> dict[str, Any]:
    assert run_fit(parse(*arguments, "--json"), find_paths(str(data_dir))) == ExitCode.DONE
    [line] = capsys.readouterr().out.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert found["event"] == "fit"
    return found


def test_event_has_every_part(capsys: pytest.CaptureFixture[str], data_dir: Path, starter_path: Path) -> None:
    found = event(capsys, data_dir, "starter", "--ctx", "4096")
    assert found["model"] == str(starter_path)
    assert (found["n_ctx"], found["type_k"], found["verdict"]) == (4096, "f16", "fits")
    assert (found["kv_bytes"], found["kv_bytes_per_token"], found["state_bytes"]) == (4096 * 23_040, 23_040, 0)
    assert found["weight_bytes"] == found["active_bytes"] > 80e6
    assert found["needed_bytes"] > found["weight_bytes"] + found["kv_bytes"]
    assert found["free_bytes"] > found["needed_bytes"]
    assert found["largest_n_ctx"] == 8192
    assert found["decode_rate"] == pytest.approx(2.5e10 / found["active_bytes"])  # as measured now, and remembered
    assert SettingsStore(find_paths(str(data_dir)).settings_file).load()[0].read_bandwidth == {"2": 25_000_000_000}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("starter",), 0), (("/no/such.gguf",), 3), (("starter", "--ctx", "-1"), 2), (("starter", "--ctx", "x"), 2)],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_command_line_ends_with_the_exit_code_of_its_kind(
    capsys: pytest.CaptureFixture[str], data_dir: Path, arguments: tuple[str, ...], code: int
) -> None:
    assert run_program(["models", "fit", *arguments, "--json", "--data-dir", str(data_dir)]) == code
    out, err = capsys.readouterr()
    [line] = out.splitlines()
    assert json.loads(line)["event"] == ("failed" if code else "fit")
    assert bool(err) == bool(code)
    assert "Traceback" not in err


def test_table_can_be_read(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    assert run_fit(parse("starter", "--ctx", "8192"), find_paths(str(data_dir))) == ExitCode.DONE
    out = capsys.readouterr().out
    for words in ("context of 8,192 tokens", "180 MiB  f16 keys, f16 values", "verdict           fits"):
        assert words in out
    assert "longest context   8,192 tokens, all it was trained for" in out
    assert "full context, as memory is read at 25.0 GB/s" in out


def test_speed_follows_from_the_measured_bandwidth(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    SettingsStore(find_paths(str(data_dir)).settings_file).update(read_bandwidth={"2": 2e10, "x": "fast"})
    found = event(capsys, data_dir, "starter", "--ctx", "4096")
    assert found["decode_rate"] == pytest.approx(2e10 / found["active_bytes"])
    assert found["full_decode_rate"] == pytest.approx(2e10 / (found["active_bytes"] + 4096 * 23_040))
    run_fit(parse("starter"), find_paths(str(data_dir)))
    assert "as memory is read at 20.0 GB/s" in capsys.readouterr().out


def test_cache_type_draft_and_adapter_count(capsys: pytest.CaptureFixture[str], data_dir: Path, tmp_path: Path) -> None:
    base, adapter = write_tiny_pair(tmp_path)
    plain = event(capsys, data_dir, "starter", "--ctx", "4096")
    more = event(
        *(capsys, data_dir, "starter", "--ctx", "4096", "--cache-type-k", "q8_0", "--cache-type-v", "q8_0"),
        *("--draft", str(base), "--lora", f"{adapter}=0.5"),
    )
    assert more["kv_bytes"] * 64 == plain["kv_bytes"] * 34
    assert more["draft_bytes"] > base.stat().st_size // 2
    assert more["adapter_bytes"] > 0
    change = more["draft_bytes"] + more["adapter_bytes"] + more["kv_bytes"] - plain["kv_bytes"]
    assert more["needed_bytes"] - plain["needed_bytes"] == change


def test_all_files_of_a_split_model_count(capsys: pytest.CaptureFixture[str], data_dir: Path, tmp_path: Path) -> None:
    whole = write_tiny_model(tmp_path / "whole.gguf")
    parts = split_model(whole, tmp_path, "split", 3)
    found = event(capsys, data_dir, str(parts[2]))
    assert found["model"] == str(parts[0])
    alone = event(capsys, data_dir, str(whole))
    assert [found[name] for name in ("weight_bytes", "active_bytes", "needed_bytes")] == [
        alone[name] for name in ("weight_bytes", "active_bytes", "needed_bytes")
    ]


def test_cache_that_cannot_be_is_f16_and_told(
    capsys: pytest.CaptureFixture[str], data_dir: Path, tmp_path: Path
) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    run_fit(parse(str(path), "--cache-type-k", "q8_0"), find_paths(str(data_dir)))
    assert "The cache is kept as f16" in capsys.readouterr().out


def test_architecture_that_is_not_known_has_a_range(
    capsys: pytest.CaptureFixture[str], data_dir: Path, tmp_path: Path
) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", arch="deepseek4")
    run_fit(parse(str(path)), find_paths(str(data_dir)))
    out = capsys.readouterr().out
    assert " to " in next(line for line in out.splitlines() if line.strip().startswith("needed"))
    assert "longest context   not known" in out
    assert "keep more than keys and values" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("starter", "--ctx", "-1"), InvalidParams),
        (("starter", "--ctx", "99999999999"), InvalidParams),
        (("starter", "--cache-type-k", "q9"), InvalidParams),
        (("starter", "--slots", "0"), InvalidParams),
        (("/no/such.gguf",), ModelFileMissing),
        (("starter", "--draft", "/no/such.gguf"), ModelFileMissing),
        (("starter", "--lora", "/no/such.gguf"), UsageError),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value.__name__,
)
def test_bad_input_is_one_sentence(data_dir: Path, arguments: tuple[str, ...], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        run_fit(parse(*arguments), find_paths(str(data_dir)))
    assert getattr(caught.value, "message", "").endswith(".")


def test_hostile_header_is_one_sentence(data_dir: Path, tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "sound.gguf")
    path = edit_gguf(source, tmp_path / "bad.gguf", set={"llama.attention.head_count": 0x7FFFFFFF})
    with pytest.raises(GGUFError):
        run_fit(parse(str(path)), find_paths(str(data_dir)))


def test_engine_that_does_not_start_leaves_the_devices_out(
    capsys: pytest.CaptureFixture[str], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object) -> None:
        raise EngineStartFailed("The engine did not start.", "Install it again.")

    monkeypatch.setattr("app.cli.models_fit.ChatSession.describe_engine", fail)
    found = event(capsys, data_dir, "starter")
    assert found["reasons"] == ["Graphics devices are left out: The engine did not start."]
    run_fit(parse("starter"), find_paths(str(data_dir)))
    assert "not known: nothing is measured yet" in capsys.readouterr().out
