"""Which device computes and how many layers it gets, without any device."""

import pytest

from engine.backend_llama.devices import (
    MARGIN_BYTES,
    find_devices,
    layer_bytes_on_device,
    layers_that_fit,
    margin_bytes,
    place,
)
from engine.errors import InvalidParams
from engine.messages import Device
from engine.params import ModelParams

GIB = 1 << 30
CPU = Device(name="CPU", description="a processor", kind="cpu", total_bytes=GIB, free_bytes=None)
LARGE = Device(name="CUDA0", description="a large card", kind="gpu", total_bytes=24 * GIB, free_bytes=20 * GIB)
SECOND = Device(name="CUDA1", description="a small card", kind="gpu", total_bytes=8 * GIB, free_bytes=6 * GIB)
TWIN = Device(name="Vulkan0", description="a large card", kind="gpu", total_bytes=24 * GIB, free_bytes=20 * GIB)
BUILT_IN = Device(
    name="Vulkan1", description="part of the processor", kind="integrated gpu", total_bytes=GIB, free_bytes=4 * GIB
)


@pytest.mark.parametrize(
    ("free", "sizes", "count"),
    [
        ((), (5, 5), 0),
        ((100,), (30, 30, 30), 3),
        ((100,), (30, 30, 40), 3),
        ((100,), (30, 30, 41), 2),
        ((100,), (101,), 0),
        ((0,), (0, 1), 0),
        ((40, 70), (30, 30, 30, 30), 3),
        ((10, 70), (30, 30, 30), 2),
        ((100,), (1, 200, 1), 1),
    ],
)
def test_layers_are_counted_from_the_last_until_one_does_not_fit(
    free: tuple[int, ...], sizes: tuple[int, ...], count: int
) -> None:
    assert layers_that_fit(free, sizes, 0) == count


def test_margin_is_kept_on_each_device() -> None:
    assert layers_that_fit((150, 150), (50, 50, 50, 50), 50) == 4
    assert layers_that_fit((150, 149), (50, 50, 50, 50), 50) == 3
    assert layers_that_fit((MARGIN_BYTES,), (1,)) == 0


@pytest.mark.parametrize(
    ("compute_bytes", "expected"),
    [(0, MARGIN_BYTES), (GIB // 2, MARGIN_BYTES), (GIB // 2 + 1, MARGIN_BYTES + 1), (3 * GIB, 7 * GIB // 2)],
)
def test_margin_grows_with_large_compute_buffers(compute_bytes: int, expected: int) -> None:
    assert margin_bytes(compute_bytes) == expected


def test_large_compute_buffers_leave_room_for_fewer_layers() -> None:
    counts = [place(ModelParams(), [2 * GIB] * 10, [CPU, LARGE], compute_bytes=size).n_gpu_layers for size in (0, GIB)]
    assert counts == [9, 9]
    assert place(ModelParams(), [2 * GIB] * 10, [CPU, LARGE], compute_bytes=3 * GIB).n_gpu_layers == 8


@pytest.mark.parametrize(
    ("experts_on_cpu", "expected"),
    [(0, [110, 110, 110, 50]), (1, [30, 110, 110, 50]), (3, [30, 30, 30, 50]), (99, [30, 30, 30, 50])],
)
def test_experts_that_stay_on_the_processor_take_nothing_of_a_device(experts_on_cpu: int, expected: list[int]) -> None:
    assert layer_bytes_on_device((100, 100, 100, 50), (80, 80, 80, 0), 30, experts_on_cpu) == expected


def test_more_layers_fit_where_experts_stay_on_the_processor() -> None:
    weights, experts = (100,) * 4 + (50,), (80,) * 4 + (0,)
    fitting = [layers_that_fit((200,), layer_bytes_on_device(weights, experts, 0, count), 0) for count in range(5)]
    assert fitting == [2, 2, 2, 4, 5]


@pytest.mark.parametrize(
    ("name", "devices", "places"),
    [
        ("", [CPU], []),
        ("", [CPU, LARGE, SECOND], [1, 2]),
        ("", [TWIN, LARGE], [0]),
        ("", [BUILT_IN, CPU, LARGE], [2]),
        ("", [BUILT_IN, CPU], [0]),
        ("cuda1", [CPU, LARGE, SECOND], [2]),
        ("VULKAN1", [CPU, LARGE, BUILT_IN], [2]),
        ("cpu", [CPU, LARGE], []),
        ("CPU", [], []),
    ],
)
def test_devices_are_found_by_name_or_by_speed(name: str, devices: list[Device], places: list[int]) -> None:
    assert find_devices(name, devices) == places


def test_unknown_device_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidParams, match="no device 'rocm0'") as caught:
        find_devices("rocm0", [CPU, LARGE])
    assert caught.value.hint == "There are: CPU (a processor), CUDA0 (a large card, 20.0 GiB free)."


@pytest.mark.parametrize(
    ("params", "devices", "layer_gib", "count", "device", "notice"),
    [
        (ModelParams(), [CPU], 1, 0, "CPU", None),
        (ModelParams(n_gpu_layers=9), [CPU], 1, 0, "CPU", "no graphics device"),
        (ModelParams(device="CPU"), [CPU, LARGE], 1, 0, "CPU", "CUDA0"),
        (ModelParams(), [CPU, LARGE], 1, 10, "a large card", None),
        (ModelParams(), [CPU, LARGE], 2, 9, "a large card", "9 of 10 layers"),
        (ModelParams(), [CPU, LARGE], 30, 0, "CPU", "no layer"),
        (ModelParams(n_gpu_layers=99), [CPU, LARGE], 30, 10, "a large card", None),
        (ModelParams(n_gpu_layers=0), [CPU, LARGE], 1, 0, "CPU", None),
        (ModelParams(device="Vulkan1"), [CPU, LARGE, BUILT_IN], 0, 10, "part of the processor", "CUDA0"),
        (ModelParams(), [CPU, BUILT_IN], 0, 10, "part of the processor", None),
    ],
)
def test_placement_says_what_is_used_and_where_a_slower_device_won(
    params: ModelParams, devices: list[Device], layer_gib: int, count: int, device: str, notice: str | None
) -> None:
    found = place(params, [layer_gib * GIB] * 10, devices)
    assert (found.n_gpu_layers, found.device) == (count, device)
    assert len(found.notices) == (notice is not None)
    assert notice is None or notice in found.notices[0]


def test_all_layers_go_to_a_device_whose_memory_is_not_told() -> None:
    silent = Device(name="CUDA0", description="a card", kind="gpu", total_bytes=None, free_bytes=None)
    assert place(ModelParams(), [GIB] * 10, [CPU, silent]).n_gpu_layers == 10
