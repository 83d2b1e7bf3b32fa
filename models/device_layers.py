"""Which layers of a model go to graphics devices, and what these take there."""

from collections.abc import Sequence

from models.weight_sums import WeightSums

DEVICE_MARGIN_BYTES = 1 << 30  # stays free on each graphics device, for its driver and what it shows


def layer_sizes(weights: WeightSums, cache_bytes: Sequence[int], *, experts_on_cpu: int = 0) -> list[int]:
    """Return what each layer would take of a graphics device, the output last.

    Args:
        cache_bytes: of each layer.
        experts_on_cpu: layers, from the first, whose experts stay with the processor.
    """
    sizes = []
    for layer, cache in enumerate(cache_bytes):
        has_weights = layer < len(weights.layer_bytes)
        size = weights.layer_bytes[layer] if has_weights else 0
        kept = weights.expert_bytes[layer] if has_weights and layer < experts_on_cpu else 0
        sizes.append(size - kept + cache)
    return [*sizes, weights.other_bytes + (0 if weights.has_output else weights.input_bytes)]


def num_on_devices(sizes: Sequence[int], compute_bytes: int, *, wanted: int | None, free: Sequence[int]) -> int:
    """Return how many layers, counted from the last, go to graphics devices.

    Args:
        sizes: of each layer, the output last.
        compute_bytes: buffers for the results of a step.
        wanted: layers that are to go there; None takes as many as fit.
        free: bytes of each device; none without one.
    """
    if not free:
        return 0
    if wanted is not None:
        return min(max(wanted, 0), len(sizes))
    left = [max(size - max(DEVICE_MARGIN_BYTES, DEVICE_MARGIN_BYTES // 2 + compute_bytes), 0) for size in free]
    count, at = 0, 0
    for size in reversed(sizes):
        while at < len(left) and left[at] < size:
            at += 1
        if at == len(left):
            break
        left[at] -= size
        count += 1
    return count


def moved_bytes(sizes: Sequence[int], count: int) -> int:
    """Return what the last `count` layers take."""
    return sum(sizes[len(sizes) - count :]) if count else 0
