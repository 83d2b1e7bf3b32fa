"""What a worker tells of itself and of the machine: versions, devices, and what was measured between requests."""

import msgspec


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device the engine can compute on; bytes are None where the driver does not tell."""

    name: str
    description: str
    kind: str
    total_bytes: int | None
    free_bytes: int | None


class EngineDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Versions and devices of an engine.

    Attributes:
        binding: version of the Python binding.
        library: version llama.cpp gives of itself.
        features: what the library was built with, as it says itself.
        default_threads: threads a model gets by default here.
    """

    binding: str
    library: str
    features: str
    devices: tuple[Device, ...]
    default_threads: int


class EngineDescribed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to DescribeEngine."""

    request_id: str
    description: EngineDescription


class CacheTypeRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a pair of cache types costs and brings with the loaded model.

    Attributes:
        bytes_per_token: of the cache, on average over the context.
        total_bytes: of the cache at the model's context size.
        prefill_rate, decode_rate: tokens a second, measured in a small context; None where it was not measured.
        reason: why not, mostly that this model cannot use the pair; empty where it was measured.
    """

    type_k: str
    type_v: str
    bytes_per_token: int
    total_bytes: int
    prefill_rate: float | None
    decode_rate: float | None
    reason: str = ""


class CacheTypesMeasured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to MeasureCacheTypes."""

    request_id: str
    rows: tuple[CacheTypeRow, ...]


class MachineSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """What the processor can do, by the number of threads a model gets.

    Attributes:
        read_bandwidth: bytes a second out of memory: the fastest pass over a buffer that no cache holds.
        buffer_bytes: of that buffer.
        cache_bytes: of the last-level cache, 0 where the system does not tell.
        matmul_rate: floating-point operations a second in a product of F16 matrices; None where it was not measured.
    """

    n_threads: int
    read_bandwidth: float
    buffer_bytes: int
    cache_bytes: int
    matmul_rate: float | None


class MachineMeasured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to MeasureMachine."""

    request_id: str
    speed: MachineSpeed


class BareLoopRun(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to RunBareLoop.

    Attributes:
        prefill_s: seconds to read the prompts.
        step_s: seconds of each step after that, the choice of the tokens included.
    """

    request_id: str
    n_threads: int
    prefill_s: float
    step_s: tuple[float, ...]
