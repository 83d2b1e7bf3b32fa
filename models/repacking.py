"""Which weights a processor multiplies faster in another layout, into which llama.cpp copies them when it loads them.

Source: llama.cpp, ggml_repack_get_optimal_repack_type() in ggml/src/ggml-cpu/repack.cpp.
"""

import re

from models.quant_types import TensorType

_WITH = {
    "AVX2": {TensorType.Q4_0, TensorType.Q4_K, TensorType.IQ4_NL, TensorType.MXFP4},
    "AVX512": {TensorType.Q2_K},
    "DOTPROD": {
        *(TensorType.Q4_0, TensorType.Q4_K, TensorType.Q5_K, TensorType.Q6_K, TensorType.Q8_0),
        *(TensorType.IQ4_NL, TensorType.MXFP4),
    },
}


def repacked_types(features: str) -> frozenset[TensorType]:
    """Return the types of weights that are copied.

    Args:
        features: what llama.cpp says of the processor, for example "CPU : AVX2 = 1 | REPACK = 1 | "; other texts name
            none.
    """
    known = dict(re.findall(r"(\w+) = (\d+)", features))
    if known.get("REPACK") != "1":
        return frozenset()
    return frozenset().union(*(types for name, types in _WITH.items() if known.get(name, "0") != "0"))
