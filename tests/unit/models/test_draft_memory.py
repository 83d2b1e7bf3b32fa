"""What a draft model takes of graphics devices and of the machine: its place is its own, not its target's."""

import dataclasses

import pytest

from models import Room, Verdict, Wish, draft_bytes, fit
from models.device_layers import DEVICE_MARGIN_BYTES
from models.gguf_info import GGUFInfo
from models.kv_layout import CacheSettings
from models.weight_sums import WeightSums
from tests.unit.models.test_memory import model

GIB = 1 << 30
HOST = 1 << 50


def weighing(layers: int, layer_bytes: int) -> GGUFInfo:
    """Return a model of so many layers."""
    weights = WeightSums(
        layer_bytes=(layer_bytes,) * layers, expert_bytes=(0,) * layers, input_bytes=100, other_bytes=50
    )
    info = model(layers=layers)
    return dataclasses.replace(info, weights=weights, weight_bytes=weights.total_bytes)


TARGET, DRAFT = weighing(8, GIB), weighing(2, GIB // 4)


@pytest.mark.parametrize(
    ("layers", "draft_layers", "on_device"),
    [(0, 0, (0, 0)), (0, 9, (0, 3)), (9, 0, (9, 0)), (9, 9, (9, 3)), (0, None, (0, 3)), (9, None, (9, 3))],
    ids=["both here", "draft there", "model there", "both there", "draft as fits", "draft as fits beside"],
)
def test_each_of_both_takes_memory_where_it_is_computed(
    layers: int, draft_layers: int | None, on_device: tuple[int, int]
) -> None:
    room = Room(HOST, device_free_bytes=(100 * GIB,))
    wish = Wish(n_ctx=512, n_gpu_layers=layers)
    alone = fit(TARGET, wish, room)
    both = fit(TARGET, dataclasses.replace(wish, draft=DRAFT, draft_gpu_layers=draft_layers), room)
    assert (both.n_gpu_layers, both.draft_gpu_layers) == on_device
    here, there = both.needed_bytes - alone.needed_bytes, both.device_needed_bytes - alone.device_needed_bytes
    assert here + there >= both.draft_bytes == draft_bytes(DRAFT, 512, CacheSettings())
    if on_device[1]:
        assert there > DRAFT.weight_bytes > here
    else:
        assert (here, there) == (both.draft_bytes, 0)


def test_a_draft_that_is_to_fit_takes_what_its_model_leaves_of_the_device() -> None:
    alone = fit(TARGET, Wish(n_ctx=512), Room(HOST, device_free_bytes=(100 * GIB,)))
    assert alone.n_gpu_layers == 9
    wish = Wish(n_ctx=512, n_gpu_layers=9, draft=DRAFT)
    left = DEVICE_MARGIN_BYTES + GIB // 2  # for one layer and the output
    found = fit(TARGET, wish, Room(HOST, device_free_bytes=(alone.device_needed_bytes + left,)))
    assert 1 <= found.draft_gpu_layers < 3
    full = fit(TARGET, wish, Room(HOST, device_free_bytes=(alone.device_needed_bytes,)))
    assert (full.draft_gpu_layers, full.verdict) == (0, Verdict.FITS)


def test_a_draft_on_a_device_that_is_too_small_does_not_fit_whatever_the_machine_has() -> None:
    wish = Wish(n_ctx=512, n_gpu_layers=0, draft=DRAFT, draft_gpu_layers=3)
    assert fit(TARGET, wish, Room(HOST, device_free_bytes=(GIB // 8,))).verdict is Verdict.DOES_NOT_FIT


def test_a_draft_on_a_device_needs_no_room_beside_a_model_that_fills_the_memory() -> None:
    wish = Wish(n_ctx=512, n_gpu_layers=0)
    needed = fit(TARGET, wish, Room(HOST)).needed_bytes
    room = Room(needed + GIB // 4, device_free_bytes=(4 * GIB,))
    verdicts = [
        fit(TARGET, dataclasses.replace(wish, draft=DRAFT, draft_gpu_layers=layers), room).verdict for layers in (0, 3)
    ]
    assert verdicts[0] is Verdict.DOES_NOT_FIT
    assert verdicts[1] is not Verdict.DOES_NOT_FIT


def test_memory_that_is_shared_with_the_device_is_counted_once() -> None:
    wish = Wish(n_ctx=512, n_gpu_layers=0, draft=DRAFT)
    room = Room(HOST, device_free_bytes=(100 * GIB,), is_unified=True)
    here, there = (fit(TARGET, dataclasses.replace(wish, draft_gpu_layers=layers), room) for layers in (0, 3))
    tied = DRAFT.weights.input_bytes  # its table stays, and the output is a copy of it
    assert there.needed_bytes == here.needed_bytes + tied
