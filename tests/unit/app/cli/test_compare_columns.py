"""`fireside compare` with settings for each column, with a chosen reference, and again from a record."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.arguments import ArgumentParser, add_shared_flags
from app.cli.compare import add_arguments, run
from app.cli.compare_columns import column_plan
from app.cli.outcome import ExitCode
from app.errors import UsageError
from app.paths import Paths, find_paths
from engine import Adapter, FlashAttention, InvalidParams
from tests.support.adapters import write_adapter
from tests.support.gguf_files import write_tiny_model
from tests.unit.app.compare.runs import EchoClient

FAKE = "fake:n_words=3"


@pytest.fixture
def paths(data_dir: Path) -> Paths:
    """Return a data folder that is there."""
    found = find_paths(str(data_dir))
    found.create()
    return found


def compare(paths: Paths, *arguments: str, is_fake: bool = True) -> ExitCode:
    """Run the command as it is written."""
    parser = ArgumentParser(prog="fireside compare")
    add_arguments(parser)
    add_shared_flags(parser)
    flags = ["--fake-engine"] if is_fake else []
    return run(parser.parse_args([*arguments, *flags]), paths, lambda fake: EchoClient())


def record_of(output: str) -> dict[str, Any]:
    """Return the comparison that `--json` printed."""
    last = json.loads(output.splitlines()[-1])
    assert last["event"] == "comparison"
    found: dict[str, Any] = last["record"]
    return found


def test_same_model_is_compared_with_different_settings(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("type_k=q8_0", "type-v=q8_0", "n_threads=2", "temperature=0.7", "adapter=/a:b/style.gguf:0.5")
    assert compare(paths, FAKE, "--column", FAKE, *settings, "--prompt", "hi", "--json") == ExitCode.DONE
    usual, own = record_of(capsys.readouterr().out)["columns"]
    assert [usual["label"], own["label"]] == [
        FAKE,
        f"{FAKE} · q8_0 cache · 2 threads · style × 0.5 · temperature 0.7",
    ]
    changed = {"type_k": "q8_0", "type_v": "q8_0", "n_threads": 2}
    assert own["params"] == {**usual["params"], **changed}
    assert own["sampling"] == {**usual["sampling"], "temperature": 0.7}
    assert own["adapters"] == [{"path": "/a:b/style.gguf", "scale": 0.5}]
    assert own["sampling"]["reproducible"] is True


def test_columns_stand_behind_the_models_in_their_order(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    compare(paths, "fake:n_words=2", "--column", FAKE, "top_k=4", "--column", FAKE, "--prompt", "hi", "--json")
    labels = [column["label"] for column in record_of(capsys.readouterr().out)["columns"]]
    assert labels == ["fake:n_words=2", f"{FAKE} · top k 4", FAKE]


def test_column_alone_needs_no_other_model(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    compare(paths, "--column", FAKE, "seed=5", "--samples", "2", "--prompt", "hi", "--json")
    record = record_of(capsys.readouterr().out)
    assert [column["sampling"]["seed"] for column in record["columns"]] == [5]


@pytest.mark.parametrize(
    ("text", "adapter"),
    [
        ("x.gguf", Adapter(path="x.gguf")),
        ("x.gguf:0.5", Adapter(path="x.gguf", scale=0.5)),
        ("x.gguf=-1", Adapter(path="x.gguf", scale=-1)),
        ("a:b", Adapter(path="a:b")),
        ("C:\\x.gguf", Adapter(path="C:\\x.gguf")),
        ("C:\\x.gguf:2", Adapter(path="C:\\x.gguf", scale=2)),
    ],
    ids=["path", "scale", "equals", "colon", "drive", "drive and scale"],
)
def test_adapter_is_a_path_and_a_scale(text: str, adapter: Adapter) -> None:
    assert column_plan(["m", f"adapter={text}"]).adapters == (adapter,)


def test_settings_of_every_kind_are_read() -> None:
    plan = column_plan(["m", "n_gpu_layers=auto", "device=CPU", "flash_attn=off", "seed=random", "rope_freq_scale=0.5"])
    assert plan.params == {
        "n_gpu_layers": None,
        "device": "CPU",
        "flash_attn": FlashAttention.OFF,
        "rope_freq_scale": 0.5,
    }
    assert plan.sampling == {"seed": None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["other.gguf"], "'other.gguf' is no setting of m"),
        (["colour=red"], "'colour=red' names no setting"),
        (["n_threads=two"], "The value of n_threads is wrong"),
        (["temperature=warm"], "The value of temperature is wrong"),
        (["flash_attn=maybe"], "'maybe' is no value of flash_attn"),
        (["n_ctx=4096"], "n_ctx is the same for all columns"),
        (["max_tokens=9"], "max_tokens is the same for all columns"),
        (["adapter="], "The adapter is wrong"),
    ],
    ids=lambda value: str(value),
)
def test_wrong_setting_is_one_sentence(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        column_plan(["m", *words])


@pytest.mark.parametrize(
    "settings",
    [("type_k=q9",), ("n_threads=-1",), ("flash_attn=off", "type_v=q8_0"), ("temperature=1000",)],
    ids=["type", "range", "pair", "sampling"],
)
def test_settings_that_are_not_legal_are_refused_before_anything_is_loaded(
    paths: Paths, settings: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidParams):
        compare(paths, "--column", FAKE, *settings, "--prompt", "hi")


@pytest.mark.parametrize(
    ("wanted", "reference"), [("fake:n_words=5", "c2"), (FAKE, "c1"), ("3", "c3"), (None, "c1")], ids=str
)
def test_reference_is_the_one_that_is_named(
    paths: Paths, capsys: pytest.CaptureFixture[str], wanted: str | None, reference: str
) -> None:
    flags = () if wanted is None else ("--reference", wanted)
    compare(paths, FAKE, "fake:n_words=5", "--column", FAKE, "top_k=2", "--prompt", "hi", "--json", *flags)
    assert record_of(capsys.readouterr().out)["reference"] == reference


@pytest.mark.parametrize("wanted", ["other", "0", "4", "-1", "9" * 40], ids=["name", "0", "4", "sign", "long"])
def test_reference_that_is_no_column_is_refused(paths: Paths, wanted: str) -> None:
    with pytest.raises(UsageError, match="none of the models"):
        compare(paths, FAKE, "fake:n_words=5", f"--reference={wanted}", "--prompt", "hi")


def test_adapters_are_looked_at_before_anything_is_loaded(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(write_tiny_model(tmp_path / "one.gguf"))
    adapters = (
        write_adapter(tmp_path / "style.gguf"),
        write_adapter(tmp_path / "strange.gguf", arch="qwen2"),
        tmp_path / "gone.gguf",
    )
    columns = [word for path in adapters for word in ("--column", model, f"adapter={path}")]
    compare(paths, *columns, "--prompt", "hi", "--json", is_fake=False)
    found = record_of(capsys.readouterr().out)["columns"]
    assert [column["label"] for column in found] == ["one · style", "one · strange", "one · gone"]
    errors = [column["error"] for column in found]
    assert errors[0] == ""
    assert errors[1].startswith("The adapter strange cannot be used.")
    assert errors[2].startswith("There is no adapter file")
    assert [len(column["adapters"]) for column in found] == [1, 1, 1]
    assert len(found[0]["adapter_fingerprints"]) == 1


def test_report_is_run_again(paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "out.html"
    flags = ("--repeats", "2", "--reference", "fake:n_words=5", "--prompt", "hi")
    columns = (FAKE, "fake:n_words=5", "--column", FAKE, "type_k=q8_0")
    compare(paths, *columns, *flags, "--report", str(report), "--json")
    first = record_of(capsys.readouterr().out)
    assert compare(paths, "--again", str(report), "--json") == ExitCode.DONE
    again = record_of(capsys.readouterr().out)
    same = ("columns", "prompts", "repeats", "reference", "mode")
    assert [again[name] for name in same] == [first[name] for name in same]
    assert again["id"] != first["id"]
    places = [[(cell["column"], cell["repeat"], cell["text"]) for cell in record["cells"]] for record in (first, again)]
    assert places[0] == places[1]


@pytest.mark.parametrize(
    "others",
    [(FAKE,), ("--prompt", "hi"), ("--repeats", "2"), ("--column", FAKE), ("--reference", "1"), ("--race",)],
    ids=lambda others: others[0],
)
def test_plan_of_a_record_is_not_changed(paths: Paths, others: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="is run again has its models and prompts already"):
        compare(paths, *others, "--again", "last")
