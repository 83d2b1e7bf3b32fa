"""The tensor types of ggml and the file types of llama.cpp: names, and bytes a block takes.

Ids and layouts are those of ggml.h and llama.h; ids that are missing here were removed from the format.
"""

import dataclasses
import enum


class TensorType(enum.IntEnum):
    """Id of a tensor type in a GGUF file."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42


@dataclasses.dataclass(frozen=True)
class BlockSize:
    """How a tensor type is stored.

    Attributes:
        num_elements: elements in one block; a row is a whole number of blocks.
        num_bytes: bytes of one block.
    """

    num_elements: int
    num_bytes: int


BLOCK_SIZES: dict[TensorType, BlockSize] = {
    TensorType.F32: BlockSize(1, 4),
    TensorType.F16: BlockSize(1, 2),
    TensorType.BF16: BlockSize(1, 2),
    TensorType.F64: BlockSize(1, 8),
    TensorType.I8: BlockSize(1, 1),
    TensorType.I16: BlockSize(1, 2),
    TensorType.I32: BlockSize(1, 4),
    TensorType.I64: BlockSize(1, 8),
    TensorType.Q4_0: BlockSize(32, 18),
    TensorType.Q4_1: BlockSize(32, 20),
    TensorType.Q5_0: BlockSize(32, 22),
    TensorType.Q5_1: BlockSize(32, 24),
    TensorType.Q8_0: BlockSize(32, 34),
    TensorType.Q8_1: BlockSize(32, 36),
    TensorType.IQ4_NL: BlockSize(32, 18),
    TensorType.MXFP4: BlockSize(32, 17),
    TensorType.NVFP4: BlockSize(64, 36),
    TensorType.Q1_0: BlockSize(128, 18),
    TensorType.Q2_0: BlockSize(64, 18),
    TensorType.Q2_K: BlockSize(256, 84),
    TensorType.Q3_K: BlockSize(256, 110),
    TensorType.Q4_K: BlockSize(256, 144),
    TensorType.Q5_K: BlockSize(256, 176),
    TensorType.Q6_K: BlockSize(256, 210),
    TensorType.Q8_K: BlockSize(256, 292),
    TensorType.IQ1_S: BlockSize(256, 50),
    TensorType.IQ1_M: BlockSize(256, 56),
    TensorType.IQ2_XXS: BlockSize(256, 66),
    TensorType.IQ2_XS: BlockSize(256, 74),
    TensorType.IQ2_S: BlockSize(256, 82),
    TensorType.IQ3_XXS: BlockSize(256, 98),
    TensorType.IQ3_S: BlockSize(256, 110),
    TensorType.IQ4_XS: BlockSize(256, 136),
    TensorType.TQ1_0: BlockSize(256, 54),
    TensorType.TQ2_0: BlockSize(256, 66),
}

# `general.file_type`: the recipe a whole file was made by.
FILE_TYPE_NAMES: dict[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
