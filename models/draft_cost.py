"""Whether drafting may pay, before anything was measured: arithmetic with priors that are meant to be too low.

What a pair really gains depends on the text, the machine and the threads, and is measured while it runs. These numbers
only decide which file is suggested.
"""

from collections.abc import Sequence
from typing import NamedTuple

from models.draft_match import Kinship
from models.gguf_info import GGUFInfo
from models.quant_types import TensorType

LEAST_GAIN = 1.1  # a draft that is expected to gain less is not suggested

# Steps of 1 to 8 tokens by the time of one, for the type of most weights: SmolLM2-135M on two cores, interpolated at 5
# and 7. Levels that were not measured are taken to be as slow as the slowest.
_STEP_COSTS: dict[TensorType, tuple[float, ...]] = {
    TensorType.F16: (1.0, 1.4, 1.7, 1.8, 2.0, 2.2, 2.65, 3.1),
    TensorType.Q4_0: (1.0, 1.6, 1.9, 2.0, 2.6, 3.2, 3.2, 3.2),
    TensorType.Q4_K: (1.0, 1.6, 2.9, 2.9, 2.9, 3.0, 3.05, 3.1),
    TensorType.Q8_0: (1.0, 2.3, 3.3, 3.6, 4.05, 4.5, 4.5, 4.5),
}
_SLOWEST = _STEP_COSTS[TensorType.Q8_0]
_ON_GRAPHICS = (1.0, *(1.1,) * 7)  # weights are read once for all tokens, and arithmetic is plenty

# Share of proposed tokens that the target accepts.
# LEVEL: eight levels of SmolLM2-135M for its F16, eight prompts: on average 0.71 (Q2_K) to 0.97 (Q8_0) at temperature
# 0, and 0.72 to 0.97 at 0.8; larger models lose less by quantisation. FAMILY and OTHER are guesses
# below that; not measured here.
ACCEPTANCE_PRIOR = {Kinship.SAME_FILE: 1.0, Kinship.LEVEL: 0.7, Kinship.FAMILY: 0.65, Kinship.OTHER: 0.5}


class DraftGain(NamedTuple):
    """What drafting is expected to gain.

    Attributes:
        speed_up: tokens in the time of one step without drafts.
        num_drafted: tokens to draft for it.
    """

    speed_up: float
    num_drafted: int


def usual_step_costs(target: GGUFInfo, *, is_on_graphics: bool = False) -> tuple[float, ...]:
    """Return what steps of 1, 2, ... tokens usually cost, by the cost of one token."""
    if is_on_graphics:
        return _ON_GRAPHICS
    matrices = target.weights.matrix_bytes
    most = max(matrices, key=lambda item: item[1])[0] if matrices else None
    return _STEP_COSTS.get(most, _SLOWEST) if most is not None else _SLOWEST


def cost_ratio(target: GGUFInfo, draft: GGUFInfo) -> float:
    """Return the bytes that a token of the draft reads, by those that one of the target does."""
    return draft.active_bytes / max(target.active_bytes, 1)


def expected_gain(acceptance: float, ratio: float, step_costs: Sequence[float]) -> DraftGain:
    """Return the most that drafting gains, over all numbers of tokens to draft.

    With k drafted tokens, a step writes 1 + a + a^2 + ... + a^k of them on average, and takes the time of k + 1 tokens
    in the target and of k steps of the draft.

    Args:
        acceptance: a, of each token if all before it were accepted.
        ratio: time of a step of the draft by that of one of the target.
        step_costs: times of steps of 1, 2, ... tokens of the target, in any unit.
    """
    best, expected = DraftGain(0.0, 0), 1.0
    for drafted in range(1, len(step_costs)):
        expected += acceptance**drafted
        speed_up = expected / (step_costs[drafted] / step_costs[0] + drafted * ratio)
        best = max(best, DraftGain(speed_up, drafted))
    return best
