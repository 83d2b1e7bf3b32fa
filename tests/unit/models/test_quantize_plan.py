"""Plans of quantising: exact sizes, warnings, and everything that is refused before anything is written."""

import os
from pathlib import Path

import pytest

from models import (
    CorruptGGUF,
    GGUFError,
    MissingParts,
    NotQuantizable,
    QuantizeError,
    QuantizePlan,
    QuantizeRefused,
    default_output,
    plan_ladder,
    plan_quantize,
)
from models.quantize_plan import _without_type
from tests.support.gguf_files import write_other_kinds, write_tiny_model
from tests.support.hostile_gguf import header_bytes


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model whose rows every type divides."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny-F32.gguf", n_embd=256)


@pytest.fixture(scope="module")
def ladder(source: Path) -> dict[str, QuantizePlan | QuantizeError]:
    """Plan some types in one go."""
    outputs = {name: source.with_name(f"{name}.gguf") for name in ("F16", "Q8_0", "Q4_K_M", "IQ2_XXS", "F32")}
    return dict(zip(outputs, plan_ladder(source, outputs), strict=True))


def test_smaller_types_make_smaller_files(ladder: dict[str, QuantizePlan]) -> None:
    sizes = [ladder[name].output_bytes for name in ("F32", "F16", "Q8_0", "Q4_K_M")]
    assert sizes == sorted(sizes, reverse=True)
    assert ladder["Q8_0"].type_counts["Q8_0"] == 16
    assert 8.4 < ladder["Q8_0"].bits_per_weight < 8.8


def test_type_that_needs_an_importance_matrix_says_so_and_costs_the_others_nothing(
    ladder: dict[str, QuantizePlan | QuantizeError],
) -> None:
    missing = ladder["IQ2_XXS"]
    assert isinstance(missing, QuantizeRefused)
    assert "importance matrix" in missing.message
    assert all(isinstance(ladder[name], QuantizePlan) for name in ("F16", "Q8_0", "Q4_K_M", "F32"))


def test_copy_of_the_same_type_is_told(ladder: dict[str, QuantizePlan]) -> None:
    assert any("no smaller" in warning for warning in ladder["F32"].warnings)
    assert ladder["F16"].warnings == ()


def test_planning_writes_nothing(source: Path, ladder: dict[str, QuantizePlan]) -> None:
    assert [path.name for path in source.parent.iterdir()] == [source.name]


def test_plan_holds_what_is_needed_and_what_is_free(source: Path, ladder: dict[str, QuantizePlan]) -> None:
    plan = ladder["Q8_0"]
    assert plan.source_bytes == source.stat().st_size
    assert plan.free_bytes > plan.output_bytes
    assert plan.num_parameters == sum(tensor.num_elements for tensor in plan.tensors)
    plan.check_room()
    with pytest.raises(QuantizeError, match=r"no room .* takes .* are free\.$"):
        plan.check_room(reserved_bytes=plan.free_bytes)


def test_quantised_source_is_warned_of(starter_path: Path, tmp_path: Path) -> None:
    plan = plan_quantize(starter_path, "Q4_K_M", tmp_path / "x.gguf")
    assert any("already quantised (Q4_1)" in warning for warning in plan.warnings)
    assert any("do not divide" in warning for warning in plan.warnings)
    assert plan.num_fallback > 100


@pytest.mark.parametrize("how", ["same path", "dotted path", "hard link", "symbolic link"])
@pytest.mark.parametrize("overwrite", [False, True], ids=["careful", "overwriting"])
def test_source_is_never_the_target(source: Path, tmp_path: Path, how: str, overwrite: bool) -> None:
    target = source
    if how == "dotted path":
        target = source.parent / "." / ".." / source.parent.name / source.name
    elif how == "hard link":
        target = tmp_path / "hard.gguf"
        os.link(source, target)
    elif how == "symbolic link":
        target = tmp_path / "soft.gguf"
        target.symlink_to(source)
    before = source.read_bytes()
    with pytest.raises(QuantizeRefused, match="would be destroyed"):
        plan_quantize(source, "Q8_0", target, overwrite=overwrite)
    assert source.read_bytes() == before


def test_target_that_exists_is_refused_unless_it_may_be_replaced(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "there.gguf"
    target.write_bytes(b"mine")
    with pytest.raises(QuantizeRefused, match="is there already"):
        plan_quantize(source, "Q8_0", target)
    assert plan_quantize(source, "Q8_0", target, overwrite=True).overwrites
    assert target.read_bytes() == b"mine"


@pytest.mark.parametrize("dangling", [False, True], ids=["folder", "link to nowhere"])
def test_target_that_is_no_file_is_refused(source: Path, tmp_path: Path, dangling: bool) -> None:
    target = tmp_path / "x.gguf"
    target.symlink_to(tmp_path / "nowhere") if dangling else target.mkdir()
    with pytest.raises(QuantizeRefused, match="there already" if dangling else "is a folder"):
        plan_quantize(source, "Q8_0", target)


def test_pipe_and_device_are_no_targets(source: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(QuantizeRefused, match="no regular file"):
            plan_quantize(source, "Q8_0", target, overwrite=True)


def test_folder_must_be_there(source: Path, tmp_path: Path) -> None:
    with pytest.raises(QuantizeRefused, match="There is no folder"):
        plan_quantize(source, "Q8_0", tmp_path / "no" / "x.gguf")


def test_folder_must_be_writable(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(QuantizeRefused, match="cannot be written to"):
        plan_quantize(source, "Q8_0", tmp_path / "x.gguf")


def test_name_must_fit(source: Path, tmp_path: Path) -> None:
    with pytest.raises(QuantizeRefused, match="too long"):
        plan_quantize(source, "Q8_0", tmp_path / ("x" * 251 + ".gguf"))


def test_one_target_for_two_types_is_refused_for_the_second(source: Path, tmp_path: Path) -> None:
    first, second = plan_ladder(source, {"Q8_0": tmp_path / "x.gguf", "Q6_K": tmp_path / "." / "x.gguf"})
    assert isinstance(first, QuantizePlan)
    assert isinstance(second, QuantizeRefused)


def test_other_kinds_are_refused_with_what_they_are(tmp_path: Path) -> None:
    for word, path in write_other_kinds(tmp_path).items():
        if "embedding" in word:
            continue
        with pytest.raises(NotQuantizable, match=word.removeprefix("a ")):
            plan_quantize(path, "Q8_0", tmp_path / "x.gguf")


def test_missing_part_is_named(source: Path, tmp_path: Path) -> None:
    from tests.support.gguf_files import edit_gguf

    path = tmp_path / "m-00001-of-00003.gguf"
    edit_gguf(source, path, set={"split.no": 0, "split.count": 3, "split.tensors.count": 1})
    with pytest.raises(MissingParts, match="00002"):
        plan_quantize(path, "Q8_0", tmp_path / "x.gguf")


@pytest.mark.parametrize(
    "data", [b"", b"GGUF", b"<!DOCTYPE html><p>no", header_bytes([], [])[:20]], ids=["empty", "magic", "page", "cut"]
)
def test_source_that_is_no_model_is_a_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with pytest.raises(GGUFError):
        plan_quantize(path, "Q8_0", tmp_path / "y.gguf")


def test_corrupt_sizes_are_refused_before_the_library_sees_them(source: Path, tmp_path: Path) -> None:
    from tests.support.gguf_files import edit_gguf

    path = edit_gguf(source, tmp_path / "x.gguf", set={"llama.block_count": 0})
    with pytest.raises(CorruptGGUF):
        plan_quantize(path, "Q8_0", tmp_path / "y.gguf")


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("SmolLM2-135M-Instruct.Q4_1", "SmolLM2-135M-Instruct"),
        ("model-f16", "model"),
        ("a.b-Q4_K_M", "a.b"),
        ("plain", "plain"),
        ("F16", "F16"),
        (".gguf", ".gguf"),
    ],
)
def test_default_name_drops_the_old_type(stem: str, expected: str) -> None:
    assert _without_type(stem) == expected


def test_default_name_drops_the_number_of_a_part() -> None:
    made = default_output(Path("a/big-F16-00001-of-00003.gguf"), "q4_k_m", Path("out"))
    assert made == Path("out/big.Q4_K_M.gguf")
