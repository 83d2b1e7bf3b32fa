"""An engine without weights that drafts."""

from typing import Any

from engine.backend_fake import FakeBackend
from engine.core import Engine
from engine.params import DraftMode, SpeculativeParams
from engine.sequence import Prompt
from engine.speculative.draft_model import ModelDrafter
from engine.speculative.referee import Referee
from tests.support.eager_referee import EagerReferee
from tests.unit.engine.fake_engine import make_backend

EAGER = SpeculativeParams(mode=DraftMode.AUTO)


def drafting_engine(
    settings: str = "",
    *,
    draft: str | None = "draft_right=0.7",
    referee: type[Referee] = EagerReferee,
    backend: FakeBackend | None = None,
    draft_backend: FakeBackend | None = None,
    **params: Any,
) -> Engine:
    """Return an engine with a draft model, or without where `draft` is None.

    Args:
        draft: settings of the draft model's backend, as in a `fake:` path, where `draft_backend` is not given.
    """
    target = backend or make_backend(settings, **params)
    engine = Engine(target)
    engine.speculator.referee = referee
    if draft is not None:
        described = target.description
        drafting = draft_backend or make_backend(draft, n_ctx=described.n_ctx, n_seq_max=described.n_seq_max)
        engine.speculator.set_model(ModelDrafter(drafting, vocabulary_size=described.n_vocab))
    return engine


def drafted(prompt: Prompt, mode: DraftMode = DraftMode.AUTO, **options: Any) -> Prompt:
    """Return a request for which tokens are drafted."""
    return prompt._replace(speculative=SpeculativeParams(mode=mode, **options))
