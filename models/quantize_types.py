"""The types a model can be quantised to: names, what a weight takes in each, and what each is good for.

Numbers are those of `llama_ftype` in llama.h. A type is a recipe: it says which tensor type each tensor of a file gets.
"""

import dataclasses
import difflib
from types import MappingProxyType

from models.errors import QuantizeRefused

_MOST_NEAR_NAMES = 3
_LIKENESS = 0.5


@dataclasses.dataclass(frozen=True)
class QuantizeType:
    """One recipe.

    Attributes:
        name: as files and commands call it, for example "Q4_K_M".
        file_type: llama.cpp's number of it.
        bits_per_weight: of a whole file, from a dry run with the shapes of a Llama of eight billion weights; others
            differ a little. MXFP4_MOE has that of its experts.
        needs_imatrix: whether it usually cannot be made without an importance matrix; a plan says it for one file.
        help: who it is for, one sentence.
    """

    name: str
    file_type: int
    bits_per_weight: float
    needs_imatrix: bool
    help: str

    @property
    def label(self) -> str:
        """Name and size, as a list shows it."""
        return f"{self.name} ({self.bits_per_weight:.3g} bits a weight)"


_TABLE: tuple[tuple[str, int, float, bool, str], ...] = (
    ("F32", 0, 32.0, False, "Full precision: twice the size of what models are published in, and no better."),
    ("F16", 1, 16.0, False, "Half precision: as good as published, and the usual source of all others."),
    ("BF16", 32, 16.0, False, "Half precision with the range of full: exact where a model is published in it."),
    ("Q8_0", 7, 8.5, False, "Cannot be told from the original."),
    ("Q6_K", 18, 6.56, False, "Hardly a loss."),
    ("Q5_K_M", 17, 5.7, False, "Very small loss."),
    ("Q5_K_S", 16, 5.57, False, "Very small loss, a little smaller than Q5_K_M."),
    ("Q5_1", 9, 6.04, False, "An older kind of five bits; Q5_K_M is better at its size."),
    ("Q5_0", 8, 5.57, False, "An older kind of five bits; Q5_K_S is better at its size."),
    ("Q4_K_M", 15, 4.89, False, "Small loss: the usual choice."),
    ("Q4_K_S", 14, 4.67, False, "Small loss, a little smaller than Q4_K_M."),
    ("Q4_1", 3, 5.1, False, "An older kind of four bits, quick on processors; Q4_K_M is better at its size."),
    ("Q4_0", 2, 4.64, False, "An older kind of four bits: the quickest on most processors."),
    ("IQ4_NL", 25, 4.68, False, "Four bits on a curve; for rows that no other four-bit type divides."),
    ("IQ4_XS", 30, 4.46, False, "The smallest with a small loss; slower than Q4_K_S on processors."),
    ("Q3_K_L", 13, 4.3, False, "Noticeable loss."),
    ("Q3_K_M", 12, 4.0, False, "Noticeable loss: for a model that would not fit otherwise."),
    ("Q3_K_S", 11, 3.64, False, "Large loss for its size; IQ3_M is better."),
    ("IQ3_M", 27, 3.76, False, "Noticeable loss, better than Q3_K_S."),
    ("IQ3_S", 26, 3.66, False, "Noticeable loss."),
    ("IQ3_XS", 22, 3.5, True, "Noticeable loss."),
    ("IQ3_XXS", 23, 3.25, True, "Large loss, the smallest of three bits."),
    ("Q2_K", 10, 3.16, False, "Very large loss."),
    ("Q2_K_S", 21, 2.97, True, "Very large loss."),
    ("IQ2_M", 29, 2.93, True, "Very large loss: for large models only."),
    ("IQ2_S", 28, 2.74, True, "Very large loss: for large models only."),
    ("IQ2_XS", 20, 2.59, True, "Very large loss: for large models only."),
    ("IQ2_XXS", 19, 2.38, True, "Very large loss: for large models only."),
    ("IQ1_M", 31, 2.15, True, "For trying out how little is left of a very large model."),
    ("IQ1_S", 24, 2.0, True, "For trying out how little is left of a very large model."),
    ("TQ2_0", 37, 2.52, False, "Three values a weight: for models that were trained so, noise for all others."),
    ("TQ1_0", 36, 2.19, False, "Three values a weight, packed closer: for models that were trained so."),
    ("MXFP4_MOE", 38, 4.25, False, "Four-bit numbers for experts, eight bits for the rest: for models trained so."),
    ("Q2_0", 41, 2.68, False, "Four values a weight: for models that were trained so."),
    ("Q1_0", 40, 1.48, False, "Two values a weight: for models that were trained so, noise for all others."),
)

QUANTIZE_TYPES = MappingProxyType({row[0]: QuantizeType(*row) for row in _TABLE})
"""By name, from the largest of each family to the smallest, in the order in which they are shown."""


def find_quantize_type(name: str) -> QuantizeType:
    """Return the type that a name means, whatever its case; a hyphen stands for an underscore.

    Raises:
        QuantizeRefused: there is none; the hint names near ones.
    """
    wanted = name.strip().upper().replace("-", "_")
    found = QUANTIZE_TYPES.get(wanted)
    if found is not None:
        return found
    near = difflib.get_close_matches(wanted[:40], QUANTIZE_TYPES, _MOST_NEAR_NAMES, _LIKENESS)
    hint = f"Near it are {', '.join(near)}." if near else f"There are {', '.join(QUANTIZE_TYPES)}."
    raise QuantizeRefused(f"There is no type {name[:40]!r} to quantise to.", hint)
