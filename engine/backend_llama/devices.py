"""Which device computes, and how many layers go to it."""

from collections.abc import Sequence
from typing import NamedTuple

from engine.backend_llama import library as native
from engine.errors import InvalidParams
from engine.messages import Device
from engine.params import ModelParams

MARGIN_BYTES = 1 << 30  # on each graphics device, at least: compute buffers, and what its driver takes
_DRIVER_BYTES = 1 << 29
_GIB = 1 << 30
_GRAPHICS = ("gpu", "integrated gpu")


class Placement(NamedTuple):
    """Where a model goes.

    Attributes:
        device: what a person calls the device that has most of it.
        handles: of the devices to name to llama.cpp; empty leaves the choice to it.
        n_gpu_layers: layers on graphics devices, the output counted as one.
        free_bytes: of each graphics device in use.
        notices: what a person should know about the choice.
    """

    device: str
    handles: tuple[int, ...]
    n_gpu_layers: int
    free_bytes: tuple[int, ...] = ()
    notices: tuple[str, ...] = ()


def find_devices(name: str, devices: Sequence[Device]) -> list[int]:
    """Return the places in `devices` of the graphics devices to use, none for the processor.

    Args:
        name: as the user wrote it; empty takes all discrete graphics devices, else all integrated ones.

    Raises:
        InvalidParams: no device has that name.
    """
    wanted = name.strip().casefold()
    if wanted == "cpu":
        return []
    if wanted:
        for place, device in enumerate(devices):
            if device.name.casefold() == wanted and device.kind != "accelerator":
                return [place] if device.kind in _GRAPHICS else []
        known = ", ".join(_shown(device) for device in devices if device.kind != "accelerator") or "CPU"
        raise InvalidParams(f"There is no device {name!r}.", f"There are: {known}.")
    for kind in _GRAPHICS:
        places = [place for place, device in enumerate(devices) if device.kind == kind]
        # Two drivers may list the same hardware: only those of the first are taken.
        if driver := devices[places[0]].name.rstrip("0123456789") if places else None:
            return [place for place in places if devices[place].name.startswith(driver)]
    return []


def _shown(device: Device) -> str:
    free = f", {device.free_bytes / _GIB:.1f} GiB free" if device.free_bytes is not None else ""
    return f"{device.name} ({device.description}{free})"


def layers_that_fit(free_bytes: Sequence[int], layer_bytes: Sequence[int], margin: int = MARGIN_BYTES) -> int:
    """Return how many layers, counted from the last, fit the graphics devices together.

    Args:
        free_bytes: of each device.
        layer_bytes: of each layer in the order of the model, weights and cache; the output is the last.
        margin: bytes kept free on each device.
    """
    room = [max(free - margin, 0) for free in free_bytes]
    count, at = 0, 0
    for size in reversed(layer_bytes):
        while at < len(room) and room[at] < size:
            at += 1
        if at == len(room):
            break
        room[at] -= size
        count += 1
    return count


def layer_bytes_on_device(
    layer_bytes: Sequence[int], expert_bytes: Sequence[int], cache_bytes: int, experts_on_cpu: int
) -> list[int]:
    """Return what each layer takes of a graphics device.

    Args:
        layer_bytes: of the weights of each layer, the output last.
        expert_bytes: the part of it that is experts.
        cache_bytes: of all layers together.
        experts_on_cpu: layers, from the first, whose experts do not go there.
    """
    cache = cache_bytes // max(len(layer_bytes) - 1, 1)
    sizes = []
    for layer, (size, experts) in enumerate(zip(layer_bytes, expert_bytes, strict=True)):
        is_output = layer == len(layer_bytes) - 1
        sizes.append(size - (experts if layer < experts_on_cpu else 0) + (0 if is_output else cache))
    return sizes


def margin_bytes(compute_bytes: int) -> int:
    """Return what stays free on each device, given the buffers of a step."""
    return max(MARGIN_BYTES, _DRIVER_BYTES + compute_bytes)


def place(
    params: ModelParams,
    layer_bytes: Sequence[int],
    devices: Sequence[Device] | None = None,
    *,
    compute_bytes: int = 0,
) -> Placement:
    """Return where a model goes.

    Args:
        layer_bytes: of each layer, the output last.
        devices: stand in for those of the library.
        compute_bytes: buffers for the results of a step, of which each device may need its own.

    Raises:
        InvalidParams: the device that was asked for is not there.
    """
    found = native.devices() if devices is None else devices
    chosen = [(index, found[index]) for index in find_devices(params.device, found)]
    free = tuple(device.free_bytes or 0 for _, device in chosen)
    if not chosen:
        notices = _unused(params, found)
        return Placement("CPU", (), 0, (), notices)
    if params.n_gpu_layers is not None:
        count = min(params.n_gpu_layers, len(layer_bytes))
    elif any(device.free_bytes is None for _, device in chosen):
        count = len(layer_bytes)  # its driver does not tell what is free
    else:
        count = layers_that_fit(free, layer_bytes, margin_bytes(compute_bytes))
    handles = tuple(native.device_handle(index) for index, _ in chosen) if devices is None else ()
    fastest = chosen[0][1]
    if count == 0:
        text = f"{_shown(fastest)} is not used: no layer of the model fits it." if params.n_gpu_layers is None else ""
        return Placement("CPU", handles, 0, free, (text,) if text else ())
    return Placement(
        fastest.description, handles, count, free, _slower(params, fastest, count, found, len(layer_bytes))
    )


def _unused(params: ModelParams, devices: Sequence[Device]) -> tuple[str, ...]:
    if params.n_gpu_layers:
        return (f"{params.n_gpu_layers} GPU layers were asked for, but there is no graphics device: the CPU computes.",)
    faster = next((device for device in devices if device.kind in _GRAPHICS), None)
    if faster is not None and params.n_gpu_layers is None:
        return (f"The CPU computes, as was asked for; {_shown(faster)} would be faster.",)
    return ()


def _slower(
    params: ModelParams, chosen: Device, num_layers: int, devices: Sequence[Device], num_all: int
) -> tuple[str, ...]:
    notices = []
    discrete = next((device for device in devices if device.kind == "gpu"), None)
    if chosen.kind == "integrated gpu" and discrete is not None:
        notices.append(f"{chosen.description} computes, as was asked for; {_shown(discrete)} would be faster.")
    if num_layers < num_all and params.n_gpu_layers is None:
        notices.append(f"{num_layers} of {num_all} layers fit {chosen.description}; the CPU computes the others.")
    return tuple(notices)
