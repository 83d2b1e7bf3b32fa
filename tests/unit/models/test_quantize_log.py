"""What is read from llama.cpp's log of a dry run."""

import pytest

from models.quantize_log import DryRunLog, begun, needs_imatrix, padded
from models.quantize_messages import PlannedTensor

BEGIN = "[  12/ 272] blk.3.ffn_down.weight               - [  1536,    576,      1,      1], type =    f16, "


def tensor(name: str, type_name: str) -> PlannedTensor:
    """Return a planned tensor."""
    return PlannedTensor(name=name, source_type="F16", type_name=type_name, num_elements=256, num_bytes=1)


def test_tensor_is_read_with_its_size_in_the_new_type() -> None:
    log = DryRunLog()
    for piece in (BEGIN, "size =     1.69 MiB ->     0.90 MiB (q4_K)\n"):
        log.hear(piece)
    [planned] = log.tensors
    assert (planned.name, planned.source_type, planned.type_name) == ("blk.3.ffn_down.weight", "F16", "Q4_K")
    assert planned.num_bytes == 1536 * 576 // 256 * 144
    assert log.shapes == {"blk.3.ffn_down.weight": (1536, 576, 1, 1)}


def test_tensor_that_stays_keeps_its_type() -> None:
    log = DryRunLog()
    for piece in (BEGIN, "size =    1.688 MiB\n", "some other line\n"):
        log.hear(piece)
    assert [planned.type_name for planned in log.tensors] == ["F16"]


def test_fallbacks_are_counted() -> None:
    log = DryRunLog()
    for piece in ("warning: x - ncols 576 not divisible by 256 (required for type q4_K) ", "-> falling back to q5_0\n"):
        log.hear(piece)
    assert log.num_fallback == 1


def test_unknown_type_is_no_guess() -> None:
    log = DryRunLog()
    log.hear(BEGIN)
    with pytest.raises(KeyError):
        log.hear("size =     1.69 MiB ->     0.90 MiB (q9_Z)\n")


@pytest.mark.parametrize("text", ["", "[1/2] x", "llama_model_loader: - tensor 1", BEGIN.replace("type", "kind")])
def test_other_lines_begin_no_tensor(text: str) -> None:
    assert begun(text) is None


@pytest.mark.parametrize(
    ("name", "type_name", "file_type", "expected"),
    [
        ("blk.0.attn_q.weight", "IQ2_XS", 20, True),
        ("token_embd.weight", "IQ2_XS", 20, False),
        ("output.weight", "IQ3_XXS", 23, False),
        ("blk.0.attn_q.weight", "Q2_K", 10, False),
        ("blk.0.attn_q.weight", "Q2_K", 21, True),
        ("blk.0.attn_q.weight", "IQ3_S", 26, False),
    ],
)
def test_tensors_that_need_an_importance_matrix(name: str, type_name: str, file_type: int, expected: bool) -> None:
    assert needs_imatrix(tensor(name, type_name), file_type) is expected


def test_sizes_are_padded() -> None:
    assert [padded(size) for size in (0, 1, 32, 33)] == [0, 32, 32, 64]
