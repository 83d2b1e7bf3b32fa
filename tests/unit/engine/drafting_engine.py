"""An engine without weights that drafts whatever it costs, so that every path of a draft is walked."""

import itertools
from collections.abc import Iterator
from typing import Any

from engine.backend_fake import FakeBackend
from engine.core import Engine
from engine.params import DraftMode, SpeculativeParams
from engine.sequence import Prompt
from engine.speculative.account import Arm
from engine.speculative.draft_model import ModelDrafter
from engine.speculative.ngram import NgramProposal
from engine.speculative.referee import PLAIN, Choice, Referee
from tests.unit.engine.fake_engine import make_backend

EAGER = SpeculativeParams(mode=DraftMode.AUTO)


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


def drafting_engine(
    settings: str = "",
    *,
    draft: str | None = "draft_right=0.7",
    referee: type[Referee] = EagerReferee,
    backend: FakeBackend | None = None,
    **params: Any,
) -> Engine:
    """Return an engine with a draft model, or without where `draft` is None.

    Args:
        draft: settings of the draft model's backend, as in a `fake:` path.
    """
    target = backend or make_backend(settings, **params)
    engine = Engine(target)
    engine.speculator.referee = referee
    if draft is not None:
        described = target.description
        drafting = make_backend(draft, n_ctx=described.n_ctx, n_seq_max=described.n_seq_max)
        engine.speculator.set_model(ModelDrafter(drafting, vocabulary_size=described.n_vocab))
    return engine


def drafted(prompt: Prompt, mode: DraftMode = DraftMode.AUTO, **options: Any) -> Prompt:
    """Return a request for which tokens are drafted."""
    return prompt._replace(speculative=SpeculativeParams(mode=mode, **options))
