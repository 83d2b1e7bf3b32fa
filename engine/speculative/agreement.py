"""How often a draft model says what its target says: tried on pieces of a text before the first reply.

Without it a draft model would have to be tried on the user's time, and only where trying costs next to nothing.
"""

from collections.abc import Callable

from engine.backend import Backend, BatchPart, DecodeStatus
from engine.importance import bundled_text
from engine.params import SamplingParams
from engine.speculative.acceptance import AcceptanceMemory
from engine.speculative.draft_model import ModelDrafter

PIECE_TOKENS, _SHORT_PIECE_TOKENS = 96, 48
_NUM_PIECES = 3
# A third of a piece is judged; with little text before it two models agree less often than in a chat.
_JUDGED_SHARE = 3
_LONG_S = 1.5  # of the target for a step of as many rows as a piece has judged tokens; slower ones read short pieces


class Agreement:
    """Pieces of the bundled text that a target and a draft model still have to read.

    Args:
        backend: of the target.
        memory: learns from it.

    Attributes:
        model: the draft model.
    """

    def __init__(self, backend: Backend, model: ModelDrafter, memory: AcceptanceMemory) -> None:
        self._backend = backend
        self.model = model
        self._memory = memory
        tokens = backend.vocabulary.tokenize(bundled_text(), parse_special=False)
        spacing = max(len(tokens) // _NUM_PIECES, 1)
        self._pieces = [tokens[start : start + PIECE_TOKENS] for start in range(0, len(tokens), spacing)][:_NUM_PIECES]

    @property
    def is_due(self) -> bool:
        """Whether a piece is left."""
        return bool(self._pieces)

    def drop(self) -> None:
        """Leave the rest unread."""
        self._pieces.clear()

    def step(
        self, seq_id: int, expected_s: Callable[[int], float | None], *, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Have both models read a piece; where the target was broken off, it stays the next one.

        Args:
            seq_id: empty in both models.
            expected_s: what a step of so many rows takes.
            is_wanted: asked before each step of the draft model; where it says no, the rest of the piece is left out.
        """
        piece = self._pieces[0]
        if (expected_s(PIECE_TOKENS // _JUDGED_SHARE) or 0.0) > _LONG_S:
            piece = piece[:_SHORT_PIECE_TOKENS]
        piece = piece[: self._backend.max_step_tokens]
        num_judged = min(max(len(piece) // _JUDGED_SHARE, 1), self._backend.max_step_logits)
        part = BatchPart(seq_id, 0, piece, wants_logits=True, num_drafted=num_judged - 1)
        status = self._backend.decode([part])
        if status is DecodeStatus.NO_ROOM:  # nor will there be when it is tried again
            self.drop()
        if status is not DecodeStatus.DONE:
            return
        sampler = self._backend.new_sampler(SamplingParams(temperature=0.0), 0, ())
        try:
            said = [sampler.sample(row) for row in range(num_judged)]
        finally:
            sampler.close()
        is_right, confidences = self._judged(seq_id, piece, said, is_wanted)
        self._pieces.pop(0)
        self._memory.note_agreement(is_right, confidences)

    def _judged(
        self, seq_id: int, piece: list[int], said: list[int], is_wanted: Callable[[], bool]
    ) -> tuple[list[bool], list[float]]:
        """Return for each of the last tokens whether the draft model says what the target said, and how sure it was."""
        is_right: list[bool] = []
        confidences: list[float] = []

        def goes_on(place: int, confidence: float) -> bool:
            confidences.append(confidence)
            return True

        sampler = self.model.new_sampler(SamplingParams(temperature=0.0), 0)
        try:
            for number, token in enumerate(said):
                if not is_wanted():
                    break
                tokens = piece[: len(piece) - len(said) + number + 1]
                draft = self.model.draft(seq_id, tokens, max_tokens=1, goes_on=goes_on, sampler=sampler)
                if not draft or len(confidences) != len(is_right) + 1:
                    break
                is_right.append(draft[0].token == token)
        finally:
            sampler.close()
            self.model.forget(seq_id)
        return is_right, confidences[: len(is_right)]
