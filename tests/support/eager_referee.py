"""Referees that draft whatever it costs, so that every path of a draft is walked."""

import itertools
from collections.abc import Iterator
from typing import Any

from engine.speculative.account import Arm
from engine.speculative.ngram import NgramProposal
from engine.speculative.referee import PLAIN, Choice, Referee


class EagerReferee(Referee):
    """Drafts at every step, by turns where two can, and as many tokens as may be or fewer by turns."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turns: Iterator[int] = itertools.cycle((7, 1, 4, 2))
        self._is_models_turn = True

    def choose(
        self,
        *,
        num_threads: int,
        ngram: NgramProposal | None = None,
        num_draft_behind: int | None = None,
        num_room: int = 0,
        **circumstances: Any,
    ) -> Choice:
        """See Referee."""
        super().choose(
            num_threads=num_threads, ngram=ngram, num_draft_behind=num_draft_behind, num_room=num_room, **circumstances
        )
        count = min(next(self._turns), num_room)
        arms = [Arm.MODEL] if num_draft_behind is not None else []
        arms += [Arm.NGRAM] if ngram is not None else []
        if not arms or count < 1:
            return PLAIN
        self._is_models_turn = not self._is_models_turn
        return Choice(arms[0 if self._is_models_turn else -1], count)

    def goes_on(self, place: int, confidence: float | None = None) -> bool:
        """See Referee."""
        return True

    def steps_on(self, place: int) -> bool:
        """See Referee."""
        return True


class FullReferee(EagerReferee):
    """Drafts as many tokens as may be, at every step."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turns = itertools.repeat(options["draft_max"])
