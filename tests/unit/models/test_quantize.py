"""Files are made whole or not at all: exact sizes, cancel, death of the process, full disk, sources that change."""

import hashlib
import os
import random
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from models import (
    QuantizeEnd,
    QuantizeError,
    QuantizePlan,
    QuantizeProgress,
    QuantizeResult,
    QuantizeRun,
    plan_ladder,
    plan_quantize,
    read_gguf_info,
)
from models.quantize import remove_leftovers
from tests.support import quantize_children
from tests.support.gguf_files import edit_gguf, write_tiny_model

TYPES = ("F16", "BF16", "Q6_K", "Q4_K_M", "TQ2_0")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model whose rows every type divides."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny-F32.gguf", n_embd=256)


@pytest.fixture(scope="module")
def plan(source: Path, tmp_path_factory: pytest.TempPathFactory) -> QuantizePlan:
    """Plan one file in a folder of its own."""
    return plan_quantize(source, "Q8_0", tmp_path_factory.mktemp("made") / "made.gguf")


def made_of(
    plans: QuantizePlan | tuple[QuantizePlan, ...],
    *,
    child: Callable[[Connection], None] | None = None,
    on_progress: Callable[[QuantizeProgress], None] = lambda progress: None,
) -> tuple[QuantizeResult, ...]:
    """Run plans to their end."""
    run = QuantizeRun(plans if isinstance(plans, tuple) else (plans,), on_progress=on_progress, n_threads=1)
    run.child_entry = child
    run.start()
    results = run.wait(60)
    assert results is not None
    return results


def digest(path: Path) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_files_are_as_long_as_they_were_planned(source: Path, tmp_path: Path) -> None:
    plans = plan_ladder(source, {name: tmp_path / f"{name}.gguf" for name in TYPES})
    ready = tuple(plan for plan in plans if isinstance(plan, QuantizePlan))
    assert len(ready) == len(TYPES)
    before = digest(source)
    results = made_of(ready)
    assert [result.end for result in results] == [QuantizeEnd.MADE] * len(TYPES)
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {
        f"{plan.type.name}.gguf": plan.output_bytes for plan in ready
    }
    assert [read_gguf_info(plan.output).type_name for plan in ready] == list(TYPES)
    assert digest(source) == before


@pytest.mark.parametrize("how", ["aligned to 64", "without types", "with half a text"])
def test_size_is_exact_whatever_the_keys_of_the_source(source: Path, tmp_path: Path, how: str) -> None:
    odd = tmp_path / "odd.gguf"
    if how == "aligned to 64":
        aligned(source, odd)
    elif how == "without types":
        edit_gguf(source, odd, remove={"general.file_type", "general.quantization_version"})
    else:
        edit_gguf(source, odd, set={"some.texts": ["a\0b", "c"], "some.text": "d\0e", "general.file_type": 7})
    plan = plan_quantize(odd, "Q4_0", tmp_path / "made.gguf")
    [result] = made_of(plan)
    assert result.error is None
    assert plan.output.stat().st_size == plan.output_bytes


def aligned(source: Path, target: Path) -> Path:
    """Write the model again with its tensors aligned to 64 bytes."""
    import gguf

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_custom_alignment(64)
    for field in reader.fields.values():
        if field.name.startswith(("GGUF.", "general.architecture")):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def test_progress_goes_forward_to_the_end(plan: QuantizePlan) -> None:
    seen: list[QuantizeProgress] = []
    made_of(plan, on_progress=seen.append)
    shares = [progress.share for progress in seen]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert seen[-1].num_tensors_done == len(plan.tensors)
    plan.output.unlink()


@pytest.mark.parametrize("at", [0.0, 0.3, 0.9])
def test_cancel_leaves_nothing_wherever_it_comes(plan: QuantizePlan, at: float) -> None:
    run: list[QuantizeRun] = []

    def cancel(progress: QuantizeProgress) -> None:
        if progress.share >= at:
            run[0].cancel()

    run.append(QuantizeRun([plan, plan], on_progress=cancel))
    run[0].start()
    results = run[0].wait(60)
    assert results is not None
    assert [result.end for result in results] == [QuantizeEnd.CANCELLED] * 2
    assert list(plan.output.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("child", "sentence"),
    [
        (quantize_children.full_disk, "its disk is full"),
        (quantize_children.abort, r"ended unexpectedly \(SIGABRT\)"),
        (quantize_children.lie, "was not written whole"),
        (quantize_children.leave, "ended without a word"),
        (quantize_children.babble, "ended unexpectedly"),
    ],
    ids=["full disk", "abort", "lie", "leave", "babble"],
)
def test_failure_leaves_nothing_and_stops_no_other(
    plan: QuantizePlan, child: Callable[[Connection], None], sentence: str
) -> None:
    results = made_of((plan, plan), child=child)
    assert [result.end for result in results] == [QuantizeEnd.FAILED] * 2
    for result in results:
        assert result.error is not None
        with pytest.raises(QuantizeError, match=sentence):
            raise result.error
    assert list(plan.output.parent.iterdir()) == []


def test_last_words_of_the_library_are_kept(plan: QuantizePlan) -> None:
    [result] = made_of(plan, child=quantize_children.abort)
    assert result.error is not None
    assert "rows > 0" in result.error.details


def test_killed_process_is_a_sentence(plan: QuantizePlan) -> None:
    import psutil

    def kill(progress: QuantizeProgress) -> None:
        if progress.num_tensors_done == 0:
            for child in psutil.Process().children():
                if child.pid not in before:
                    child.send_signal(signal.SIGKILL)

    before = {child.pid for child in psutil.Process().children()}
    run = QuantizeRun([plan], on_progress=kill)
    run.child_entry = quantize_children.hang
    run.start()
    results = run.wait(60)
    assert results is not None
    assert results[0].error is not None
    assert "SIGKILL" in results[0].error.message
    assert list(plan.output.parent.iterdir()) == []


def test_hanging_process_is_cancelled_at_once(plan: QuantizePlan) -> None:
    begun = threading.Event()
    run = QuantizeRun([plan], on_progress=lambda progress: begun.set())
    run.child_entry = quantize_children.hang
    run.start()
    assert begun.wait(30)
    run.cancel()
    results = run.wait(10)
    assert results is not None
    assert results[0].end is QuantizeEnd.CANCELLED
    assert list(plan.output.parent.iterdir()) == []


def copied(plan: QuantizePlan, source: Path, folder: Path) -> QuantizePlan:
    """Plan the same of a source that may be harmed."""
    copy = folder / "copy.gguf"
    copy.write_bytes(source.read_bytes())
    return plan_quantize(copy, "Q8_0", plan.output)


@pytest.mark.parametrize("harm", ["replaced", "changed", "shortened"])
def test_source_that_changes_meanwhile_fails(source: Path, plan: QuantizePlan, tmp_path: Path, harm: str) -> None:
    own = copied(plan, source, tmp_path)

    def do_harm(progress: QuantizeProgress) -> None:
        if progress.num_tensors_done != 1:
            return
        if harm == "replaced":
            (tmp_path / "other").write_bytes(b"GGUF" + b"\0" * 99)
            (tmp_path / "other").rename(own.source)
        elif harm == "changed":
            with own.source.open("rb+") as file:
                file.seek(-100, os.SEEK_END)
                file.write(b"\1" * 100)
            os.utime(own.source, ns=(1, 1))
        else:
            os.truncate(own.source, 1000)

    [result] = made_of(own, on_progress=do_harm)
    assert result.end is QuantizeEnd.FAILED
    assert list(plan.output.parent.iterdir()) == []


def test_source_that_is_gone_before_it_begins_is_told(source: Path, plan: QuantizePlan, tmp_path: Path) -> None:
    own = copied(plan, source, tmp_path)
    own.source.unlink()
    [result] = made_of(own)
    assert result.error is not None
    assert "not there any more" in result.error.message


def test_source_that_is_removed_while_it_is_read_was_read_whole(
    source: Path, plan: QuantizePlan, tmp_path: Path
) -> None:
    own = copied(plan, source, tmp_path)

    def remove(progress: QuantizeProgress) -> None:
        if progress.num_tensors_done == 1:
            own.source.unlink()

    [result] = made_of(own, on_progress=remove)
    assert result.error is None
    assert own.output.stat().st_size == own.output_bytes
    own.output.unlink()


def test_target_that_appears_meanwhile_is_kept(plan: QuantizePlan) -> None:
    def put_there(progress: QuantizeProgress) -> None:
        plan.output.write_bytes(b"mine")

    [result] = made_of(plan, on_progress=put_there)
    assert result.error is not None
    assert "meanwhile" in result.error.message
    assert plan.output.read_bytes() == b"mine"
    plan.output.unlink()
    assert list(plan.output.parent.iterdir()) == []


def test_target_is_replaced_only_at_the_end(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.gguf"
    target.write_bytes(b"old")
    plan = plan_quantize(source, "Q8_0", target, overwrite=True)
    seen: list[bytes] = []
    [result] = made_of(plan, on_progress=lambda progress: seen.append(target.read_bytes()))
    assert result.error is None
    assert set(seen) == {b"old"}
    assert target.stat().st_size == plan.output_bytes


def test_temporary_file_looks_like_no_model(plan: QuantizePlan) -> None:
    names: set[str] = set()
    made_of(plan, on_progress=lambda progress: names.update(path.name for path in plan.output.parent.iterdir()))
    plan.output.unlink()
    assert len(names) == 1
    assert not any(name.endswith(".gguf") or not name.startswith(".") for name in names)


def test_leftovers_of_killed_runs_are_removed_and_nothing_else(tmp_path: Path) -> None:
    gone = 2**22 - random.Random(1).randrange(1000)  # beyond the largest number a process can have
    names = [f".fireside-{gone}-ab.quantising", f".fireside-{os.getpid()}-ab.quantising", ".fireside-x.quantising"]
    for name in [*names, "model.gguf"]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names[1:], "model.gguf"])


def test_room_is_looked_at_before_anything_is_written(plan: QuantizePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 1000, 1000))
    [result] = made_of(plan)
    assert result.error is not None
    assert "no room" in result.error.message


@pytest.mark.allow_log("a listener of quantising failed")
def test_listener_that_fails_costs_no_file(plan: QuantizePlan) -> None:
    def fail(progress: QuantizeProgress) -> None:
        raise RuntimeError("not my day")

    [result] = made_of(plan, on_progress=fail)
    assert result.error is None
    plan.output.unlink()
