"""Requests on a tiny real model that drafts for itself, stopped at random points beside others.

A model that drafts for itself is right about every token. So a draft that is refused tells that one of the two caches
holds something else than the reply, and each token's logits are compared with those of a cold context besides.
"""

import random
from typing import Any

import numpy as np

from engine.backend import Proposal
from engine.messages import Finished, FinishReason
from engine.params import DraftMode, ModelParams, SamplingParams, SpeculativeParams
from engine.sequence import Prompt
from engine.speculative.draft_model import ModelDrafter
from tests.support.cold_check import EXACT, Bench, load_llama
from tests.support.eager_referee import EagerReferee
from tests.support.memory_matrix import Matrix

_NUM_CHATS = 3


class _LikeliestButEnds:
    """Drafts what the recording sampler of the target takes: the likeliest token that does not end the reply."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._end_ids = list(backend.vocabulary.end_ids)
        self._token = 0

    def look(self, row: int) -> float:
        """See DraftSampler."""
        logits = self._backend.logits(row).copy()
        logits[self._end_ids] = -np.inf
        self._token = int(logits.argmax())
        return 1.0

    def draw(self) -> Proposal:
        """See DraftSampler."""
        return Proposal(self._token)

    def close(self) -> None:
        """See DraftSampler."""


class _SelfDrafter(ModelDrafter):
    def new_sampler(self, params: SamplingParams, seed: int) -> Any:
        return _LikeliestButEnds(self.backend)


class DraftedLife:
    """Some chats of one engine, of which most have tokens drafted.

    Args:
        matrix: of the model, which drafts for itself.
        seed: of everything that happens.
    """

    def __init__(self, matrix: Matrix, seed: int, *, n_ctx: int = 512) -> None:
        self._random = random.Random(seed)
        self._bench: Bench = matrix.bench(n_ctx=n_ctx, n_seq_max=_NUM_CHATS)
        self._texts = matrix.texts
        engine = self._bench.engine
        engine.speculator.referee = EagerReferee
        draft = load_llama(
            matrix.path, ModelParams(n_ctx=n_ctx, n_seq_max=_NUM_CHATS, n_batch=64, n_ubatch=64, **EXACT)
        )
        engine.speculator.set_model(_SelfDrafter(draft, vocabulary_size=len(draft.vocabulary.pieces)))
        # Their rows would be recorded among those of a request.
        engine.speculator.calibration.want = lambda: None
        engine.speculator.calibration.agreement = None
        self._open: list[int] = []
        self._modes: dict[int, DraftMode] = {}
        self.num_aborted = 0

    def live(self, num_aborts: int) -> None:
        """Ask, step and stop until so many requests were stopped, then let the rest end and check all of them."""
        while self.num_aborted < num_aborts:
            while len(self._open) < self._random.randint(1, _NUM_CHATS):
                self._ask()
            for _ in range(self._random.randint(0, 12)):
                self._bench.step()
            self._open = [number for number in self._open if not self._bench.has_ended(number)]
            if self._open:
                self._bench.abort(self._open.pop(self._random.randrange(len(self._open))))
                self.num_aborted += 1
        self._bench.run()
        for number in self._modes:
            self._check(number)

    def close(self) -> None:
        """Free the models."""
        self._bench.close()

    def _ask(self) -> None:
        chat = self._random.randrange(4)  # more than there are slots
        tokens = [*self._texts.words("user", self._random.randint(3, 20), seed=chat), *self._texts.ask()]
        mode = self._random.choice([DraftMode.OFF, DraftMode.NGRAM, DraftMode.MODEL, DraftMode.AUTO])
        sampling = SamplingParams(temperature=0, max_tokens=self._random.choice([1, 7, 24, 60]))
        prompt = Prompt("", tokens, sampling, 0, 0.0, str(chat), speculative=SpeculativeParams(mode=mode))
        number = self._bench.send_prompt(prompt)
        self._open.append(number)
        self._modes[number] = mode

    def _check(self, number: int) -> None:
        finished: Finished = self._bench.checked(number).finished
        assert finished.finish_reason in (FinishReason.LENGTH, FinishReason.ABORT)
        if self._modes[number] is DraftMode.MODEL:
            stats = finished.speculative
            if stats is None:  # it was stopped before it began
                assert not finished.token_ids
                return
            assert stats.num_accepted_tokens == stats.num_drafted_tokens, f"a draft of request {number} was refused"
