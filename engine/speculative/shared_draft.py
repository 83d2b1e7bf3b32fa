"""The draft model's part of a step: it reads for each reply what it has missed, and drafts for all in shared steps."""

import time
from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import NamedTuple

from engine.sequence import Sequence
from engine.speculative.draft_model import DraftRequest, ModelDrafter
from engine.speculative.drafting import Drafting

_READ_S = 0.05  # of the draft model in a step, for all replies together: it holds them up
_FIRST_READ_TOKENS = 64


class Asked(NamedTuple):
    """A reply that the draft model is to draft for.

    Attributes:
        tokens: that it goes by, ending with the one sampled last.
    """

    sequence: Sequence
    drafting: Drafting
    tokens: Items[int]

    @property
    def seq_id(self) -> int:
        """Of its slot."""
        assert self.sequence.slot is not None
        return self.sequence.slot.seq_id


def draft_together(
    model: ModelDrafter, asked: Items[Asked], *, read_s: float | None, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Read for each reply a stretch of what is missing, and draft for those of which nothing is; fills proposals.

    Their time is divided among the replies by the tokens that were read, and by the steps that were done, for each.

    Args:
        read_s: seconds that the draft model takes for a token it reads, None where that is not known.
    """
    fitting = _FIRST_READ_TOKENS if read_s is None else max(int(_READ_S / read_s), _FIRST_READ_TOKENS)
    began = clock()
    behind = [model.num_behind(item.seq_id, item.tokens) for item in asked]
    missing = model.catch_up_many(
        [(item.seq_id, item.tokens) for item in asked], max_tokens=max(fitting // len(asked), 1)
    )
    _charge(asked, [number - rest for number, rest in zip(behind, missing, strict=True)], clock() - began)
    for item, number, rest in zip(asked, behind, missing, strict=True):
        item.drafting.num_read = 1 + number - rest
    ready = [item for item, rest in zip(asked, missing, strict=True) if not rest]
    began = clock()
    drafts = model.draft_many([_request(item) for item in ready])
    for item, draft in zip(ready, drafts, strict=True):
        item.sequence.proposals = draft
    _charge(ready, [item.drafting.num_looks for item in ready], clock() - began)


def _charge(items: Items[Asked], parts: Items[int], seconds: float) -> None:
    """Divide a time among replies by the parts they had in it."""
    total = sum(parts)
    for item, part in zip(items, parts, strict=True):
        item.drafting.draft_s += seconds * (part / total if total else 1 / len(items))


def _request(item: Asked) -> DraftRequest:
    drafting = item.drafting
    referee, sampler = drafting.referee, drafting.sampler
    assert referee is not None
    assert sampler is not None

    def goes_on(place: int, confidence: float) -> bool:
        drafting.num_looks += 1
        if not referee.goes_on(place, confidence):
            return False
        drafting.confidences.append(confidence)
        return True

    return DraftRequest(
        item.seq_id, item.tokens, drafting.choice.num_tokens, goes_on, sampler, steps_on=referee.steps_on
    )
