"""Whether there is room for a draft model: where it is computed itself, and beside a model that is loaded already."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from app.draft_models import DraftCheck, check_draft
from app.room import wish_of
from engine import ModelParams
from models import Fit, Room, Verdict, fit, read_gguf_info
from tests.support.gguf_files import write_tiny_model
from tests.unit.engine.fake_engine import make_backend

_GIB = 1 << 30
_PARAMS = ModelParams(n_ctx=512, n_gpu_layers=0)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Return a model and a smaller one."""
    target = write_tiny_model(tmp_path / "target.gguf", n_layer=8, n_embd=128)
    return target, write_tiny_model(tmp_path / "small.gguf", n_layer=1, n_embd=32)


def fit_of(check: DraftCheck) -> Fit:
    assert check.fit is not None
    return check.fit


@pytest.mark.parametrize(
    ("params", "layers", "expected"),
    [
        (_PARAMS, None, 0),
        (_PARAMS, 99, 2),
        (ModelParams(n_ctx=512), None, 2),
        (ModelParams(n_ctx=512), 0, 0),
        (ModelParams(n_ctx=512, device="CPU"), None, 0),
        (ModelParams(n_ctx=512, device="CPU"), 99, 2),
    ],
    ids=["as model", "own", "as model there", "own here", "as model on CPU", "own beside CPU"],
)
def test_a_draft_is_reckoned_where_it_is_computed(
    pair: tuple[Path, Path], params: ModelParams, layers: int | None, expected: int
) -> None:
    room = Room(1 << 50, device_free_bytes=(100 * _GIB,))
    found = fit_of(check_draft(*pair, params=params, room=room, n_gpu_layers=layers))
    assert found.draft_gpu_layers == expected
    alone = fit(read_gguf_info(pair[0]), wish_of(params), room)
    assert (found.device_needed_bytes > alone.device_needed_bytes) == bool(expected)


def test_a_draft_that_the_graphics_processor_has_no_room_for_is_noted(pair: tuple[Path, Path]) -> None:
    room = Room(1 << 50, device_free_bytes=(1000,))
    check = check_draft(*pair, params=_PARAMS, room=room, n_gpu_layers=99)
    assert check.is_usable
    assert check.notes[-1].startswith("On the graphics processor, model and draft together need")
    assert not check.may_pay


def test_a_draft_on_the_graphics_processor_is_no_matter_of_the_machines_memory(pair: tuple[Path, Path]) -> None:
    needed = fit(read_gguf_info(pair[0]), wish_of(_PARAMS), Room(1 << 50)).needed_bytes
    small = fit_of(check_draft(*pair, params=_PARAMS, room=Room(1 << 50))).draft_bytes
    room = Room(needed + small - 1000, device_free_bytes=(10 * _GIB,))
    verdicts = [fit_of(check_draft(*pair, params=_PARAMS, room=room, n_gpu_layers=n)).verdict for n in (0, 99)]
    assert verdicts[0] is Verdict.DOES_NOT_FIT
    assert verdicts[1] is not Verdict.DOES_NOT_FIT


@pytest.mark.parametrize("num_layers", [0, 9], ids=["processor", "graphics"])
def test_what_a_loaded_model_has_taken_is_not_asked_for_twice(pair: tuple[Path, Path], num_layers: int) -> None:
    free = Room(1 << 40, device_free_bytes=(10 * _GIB,))
    params = ModelParams(n_ctx=512, n_gpu_layers=num_layers)
    before = fit_of(check_draft(*pair, params=params, room=free, n_gpu_layers=99))
    target = fit(read_gguf_info(pair[0]), wish_of(params), free)
    loaded = msgspec.structs.replace(
        make_backend(n_ctx=512).description,
        n_gpu_layers=num_layers,
        cache_bytes=target.cache.total,
        compute_bytes=target.compute_bytes,
    )
    left = dataclasses.replace(
        free,
        free_bytes=free.free_bytes - (0 if num_layers else loaded.cache_bytes + loaded.compute_bytes),
        device_free_bytes=(10 * _GIB - target.device_needed_bytes,),
    )
    after = fit_of(check_draft(*pair, params=params, room=left, n_gpu_layers=99, loaded=loaded))
    assert (after.free_bytes, after.device_free_bytes) == (before.free_bytes, before.device_free_bytes)
    assert (after.needed_bytes, after.device_needed_bytes) == (before.needed_bytes, before.device_needed_bytes)
    assert after.draft_gpu_layers == before.draft_gpu_layers == 2
