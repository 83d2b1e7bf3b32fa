"""Model files that benchmarks are run on, made from the starter: other levels of it."""

from pathlib import Path

from engine.backend_llama.library import library

MOSTLY_F16, MOSTLY_Q4_0 = 1, 2  # llama_ftype


def write_level(source: Path, target: Path, level: int = MOSTLY_F16) -> Path:
    """Write a model at another level, whatever level it has, and return the path.

    Args:
        level: a llama_ftype; F16 made from fewer bits is as fast as any F16, and has other values.
    """
    llama = library()
    params = llama.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize = level, True
    if llama.llama_model_quantize(str(source).encode(), str(target).encode(), params):
        raise RuntimeError(f"{target.name} could not be written")
    return target
