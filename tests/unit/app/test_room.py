"""What a machine has for a model: its devices, its bandwidth, and settings of a load as a wish."""

import sys

import pytest

from app.room import bandwidth_of, room_of, wish_of
from engine import Device, EngineDescription, FlashAttention, ModelParams
from models import CacheSettings, Wish

GIB = 1 << 30


def engine(*devices: tuple[str, int | None], features: str = "") -> EngineDescription:
    return EngineDescription(
        binding="1",
        library="2",
        features=features,
        devices=tuple(
            Device(name=f"D{number}", description="", kind=kind, total_bytes=None, free_bytes=free)
            for number, (kind, free) in enumerate(devices)
        ),
        default_threads=2,
    )


def test_room_without_an_engine_has_memory_and_no_devices() -> None:
    room = room_of(None, read_bandwidth={}, offset_bytes=5, released_bytes=7)
    assert room.free_bytes > 0
    assert (room.device_free_bytes, room.offset_bytes, room.released_bytes, room.read_bandwidth) == ((), 5, 7, 0.0)


def test_discrete_devices_come_before_integrated_ones() -> None:
    found = engine(("cpu", None), ("integrated gpu", 2 * GIB), ("gpu", 8 * GIB), ("gpu", None))
    room = room_of(found, read_bandwidth={})
    assert (room.device_free_bytes, room.is_unified) == ((8 * GIB, 0), sys.platform == "darwin")


def test_integrated_device_takes_of_the_memory_of_the_machine() -> None:
    room = room_of(engine(("cpu", None), ("integrated gpu", 2 * GIB)), read_bandwidth={})
    assert (room.device_free_bytes, room.is_unified) == ((2 * GIB,), True)


def test_devices_are_left_out_where_they_are_not_wanted() -> None:
    room = room_of(engine(("gpu", GIB)), read_bandwidth={}, wants_graphics=False)
    assert room.device_free_bytes == ()


@pytest.mark.parametrize(
    ("features", "names"),
    [
        ("CPU : AVX2 = 1 | AVX512 = 1 | REPACK = 1 | ", {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4", "Q2_K"}),
        ("CPU : AVX2 = 1 | REPACK = 1 | ", {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}),
        ("CPU : NEON = 1 | DOTPROD = 1 | REPACK = 1 | ", {"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4"}),
        ("CPU : AVX2 = 1 | ", set()),
        ("none of this can be read", set()),
    ],
    ids=["avx512", "avx2", "neon", "built without", "other text"],
)
def test_processor_decides_which_weights_are_copied(features: str, names: set[str]) -> None:
    room = room_of(engine(features=features), read_bandwidth={})
    assert {kind.name for kind in room.repacked_types} == names


@pytest.mark.parametrize(
    ("measured", "n_threads", "bandwidth"),
    [
        ({"1": 1e10, "2": 2e10}, 1, 1e10),
        ({"1": 1e10, "2": 2e10}, 8, 2e10),
        ({"1": "fast", "2": float("nan"), "3": -1, "4": True, "5": 3e9}, 1, 3e9),
        ({}, 1, 0.0),
    ],
    ids=["by threads", "else the best", "sound ones only", "none"],
)
def test_bandwidth_is_the_one_of_the_threads(measured: dict[str, object], n_threads: int, bandwidth: float) -> None:
    assert bandwidth_of(measured, n_threads) == bandwidth


def test_settings_of_a_load_become_a_wish() -> None:
    params = ModelParams(n_ctx=512, type_k="q8_0", n_seq_max=2, n_ubatch=64, n_gpu_layers=3, experts_on_cpu=4)
    assert wish_of(params, adapter_bytes=9) == Wish(
        n_ctx=512,
        cache=CacheSettings(type_k="q8_0", n_seq_max=2, n_ubatch=64),
        n_gpu_layers=3,
        experts_on_cpu=4,
        adapter_bytes=9,
    )
    assert wish_of(ModelParams()) == Wish()
    assert not wish_of(ModelParams(flash_attn=FlashAttention.OFF)).cache.has_flash
