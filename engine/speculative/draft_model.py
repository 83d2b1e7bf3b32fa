"""A smaller model that drafts: what its context holds of each chat, and the tokens it proposes.

The target's tokens are the truth. Whatever came between - a refused draft, another request, a step of the draft model
that failed - its own sequence is cut back to what both have and reads what is missing. Nothing here fails a reply.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from engine.backend import Backend, BatchPart, DecodeStatus, DraftSampler, Proposal, Vocabulary
from engine.errors import CannotTrim, DecodeFailed, DraftMismatch
from engine.messages import MemoryKind
from engine.params import SamplingParams
from engine.speculative.step_times import DraftTimes
from engine.threads import StepThreads

_LOG = logging.getLogger(__name__)
_MAX_SIZE_DIFFERENCE = 128  # of vocabularies that are padded to another length
_NUM_LOOKED_AT = 16  # tokens before the new ones that are compared again, should nobody have told of another request
_MIN_SHARED = 32  # tokens that are worth giving up what a sequence holds
_SHOWN_CHARACTERS = 32
_BLOCK = 256
_MEASURED_READS = (1, 1, 1, 33, 33)  # tokens; the first step also makes buffers


class DraftRequest(NamedTuple):
    """What is to be drafted for one sequence.

    Attributes:
        tokens: of the target, ending with the one sampled last.
        max_tokens: most to draft, at least one.
        goes_on: asked before each token is drawn, with its number from 0 and the largest probability; the draft ends
            where it says no. It may look at nothing else: to drop a token because of what it is would change what the
            reply is drawn from.
        steps_on: asked before the step for each token but the first, with its number; the same holds for it.
    """

    seq_id: int
    tokens: Sequence[int]
    max_tokens: int
    goes_on: Callable[[int, float], bool]
    sampler: DraftSampler
    steps_on: Callable[[int], bool] = lambda place: True


class _Held:
    """What the draft context holds of a sequence.

    Attributes:
        tokens: in its cells.
        num_same: how many of them are known to be the target's, too; those are not compared again.
        last_used: a clock.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.num_same = 0
        self.last_used = 0


class ModelDrafter:
    """Drafts with a model of its own.

    Args:
        backend: owned from now on; its sequences have the numbers of the target's.
        vocabulary_size: of the target: other tokens are never proposed.
        n_threads: of its steps; 0 takes as many as the target's have.

    Raises:
        CannotTrim: its memory cannot take refused drafts back.
    """

    def __init__(self, backend: Backend, *, vocabulary_size: int, n_threads: int = 0) -> None:
        if backend.description.memory not in (MemoryKind.PLAIN, MemoryKind.WINDOW):
            raise CannotTrim(
                f"{backend.description.name} cannot draft: its memory cannot take back tokens that were refused.",
                "Choose a draft model without recurrent layers.",
            )
        self.backend = backend
        self._n_threads = n_threads
        self._num_own_ids = len(backend.vocabulary.pieces)
        self._num_ids = min(vocabulary_size, self._num_own_ids)
        self._is_short = self._num_own_ids < vocabulary_size
        self._end_ids = backend.vocabulary.end_ids
        self._n_ctx = backend.description.n_ctx
        self._max_step = backend.max_step_tokens
        # A processor takes longer for two tokens in one step than for two steps, a graphics device much shorter.
        self._joins_last = backend.description.n_gpu_layers != 0
        self._held: dict[int, _Held] = {}
        self._clock = 0  # steps
        self._has_warned = False

    def measured_times(self) -> DraftTimes:
        """Return what reading and drafting take, measured now in a few steps of its empty context."""
        times = DraftTimes()
        sampler = self.new_sampler(SamplingParams(temperature=0.0), 0)
        token = self.backend.vocabulary.bos_id or 0
        try:
            for num_read in _MEASURED_READS:
                self._held[0] = _Held()
                began = time.perf_counter()
                is_read = num_read == 1 or self._read(0, [token] * num_read, num_read - 1, {0})
                if not (is_read and self._decode({0: [token]}, {0})):
                    break
                sampler.look(0)
                times.observe(num_read, 1, time.perf_counter() - began)
                self.forget(0)
        except DecodeFailed as error:
            self._warn(error)
        finally:
            sampler.close()
            self.forget(0)
        return times

    def set_threads(self, threads: StepThreads, *, is_strict: bool = False) -> None:
        """Compute the next steps with the threads that are left to it; see StepThreads."""
        count = threads.of_draft(self._n_threads, is_strict=is_strict)
        self.backend.set_threads(count, count)

    def new_sampler(self, params: SamplingParams, seed: int) -> DraftSampler:
        """Return what draws the drafts of a request."""
        return self.backend.new_draft_sampler(params, seed, num_ids=self._num_ids)

    def can_hold(self, num_tokens: int) -> bool:
        """Whether a chat of so many tokens fits the draft context."""
        return num_tokens <= self._n_ctx

    def begin(self, seq_id: int) -> None:
        """Note that another request has the sequence: all of its tokens are compared again."""
        if seq_id in self._held:
            self._held[seq_id].num_same = 0

    def num_behind(self, seq_id: int, tokens: Sequence[int]) -> int:
        """Return how many tokens are still to be read before the last one, which the draft itself begins with."""
        return len(tokens) - 1 - self._keep(seq_id, tokens)

    def catch_up(self, seq_id: int, tokens: Sequence[int], *, max_tokens: int) -> int:
        """Read at most so many of the tokens before the last; return how many are still missing."""
        return self.catch_up_many([(seq_id, tokens)], max_tokens=max_tokens)[0]

    def catch_up_many(self, chats: Sequence[tuple[int, Sequence[int]]], *, max_tokens: int) -> list[int]:
        """Read in common steps for different sequences; return how many tokens each still misses before its draft.

        Args:
            max_tokens: of each sequence.
        """
        together, unread = {seq_id for seq_id, _ in chats}, {}
        for seq_id, tokens in chats:
            missing = self.num_behind(seq_id, tokens)
            if missing > self._joins_last and self.can_hold(len(tokens)):
                start = len(self._held[seq_id].tokens)
                unread[seq_id] = tokens[start : start + min(missing, max_tokens)]
        while unread:
            step, room = {}, self._max_step
            for seq_id, piece in unread.items():
                step[seq_id] = piece[:room]
                room -= len(step[seq_id])
            step = {seq_id: piece for seq_id, piece in step.items() if piece}
            if not self._decode(step, together, wants_logits=False):
                break
            rest = {seq_id: piece[len(step.get(seq_id, ())) :] for seq_id, piece in unread.items()}
            unread = {seq_id: piece for seq_id, piece in rest.items() if piece}
        missing_now = [len(tokens) - 1 - len(self._held[seq_id].tokens) for seq_id, tokens in chats]
        return [0 if number <= self._joins_last else number for number in missing_now]

    def draft(
        self,
        seq_id: int,
        tokens: Sequence[int],
        *,
        max_tokens: int,
        goes_on: Callable[[int, float], bool],
        sampler: DraftSampler,
        steps_on: Callable[[int], bool] = lambda place: True,
    ) -> list[Proposal]:
        """Return what may follow the tokens; see DraftRequest."""
        return self.draft_many([DraftRequest(seq_id, tokens, max_tokens, goes_on, sampler, steps_on)])[0]

    def draft_many(self, requests: Sequence[DraftRequest]) -> list[list[Proposal]]:
        """Return drafts for different sequences, which share the steps; none where one could not be made."""
        drafts: list[list[Proposal]] = [[] for _ in requests]
        joins_last = self._joins_last and 2 * len(requests) <= self._max_step
        unread: dict[int, Sequence[int]] = {}
        together = {request.seq_id for request in requests}
        for at, request in enumerate(requests):
            if request.max_tokens > 0 and self.can_hold(len(request.tokens)):
                num_behind = self.num_behind(request.seq_id, request.tokens)
                if (joins_last and num_behind == 1) or self._read_all(request, together):
                    unread[at] = request.tokens[len(self._held[request.seq_id].tokens) :]
        while unread and self._decode({requests[at].seq_id: piece for at, piece in unread.items()}, together):
            drawn = {at: self._next(requests[at], row, drafts[at]) for row, at in enumerate(unread)}
            unread = {at: [token] for at, token in drawn.items() if token is not None}
        return drafts

    def forget(self, seq_id: int) -> None:
        """Drop what is held of a sequence."""
        if self._held.pop(seq_id, None) is not None:
            self.backend.seq_rm(seq_id, 0)

    def keep_common(self, seq_id: int, tokens: Sequence[int]) -> None:
        """Drop what is held of a sequence beyond what it has in common with the target's tokens."""
        if (held := self._held.get(seq_id)) is not None:
            held.num_same = _num_same(held.tokens, tokens, 0, len(tokens))
            self._cut(seq_id, held)

    def close(self) -> None:
        """Free the draft model."""
        self._held.clear()
        self.backend.close()

    def _next(self, request: DraftRequest, row: int, draft: list[Proposal]) -> int | None:
        """Add a token to a draft; return it where another is to follow."""
        try:
            confidence = request.sampler.look(row)
        except DecodeFailed as error:
            self._warn(error)
            return None
        if not request.goes_on(len(draft), confidence):
            return None
        draft.append(request.sampler.draw())
        token = draft[-1].token
        num_tokens = len(self._held[request.seq_id].tokens) + 1
        is_last = len(draft) >= request.max_tokens or token in self._end_ids or not self.can_hold(num_tokens)
        return None if is_last or not request.steps_on(len(draft)) else token

    def _keep(self, seq_id: int, tokens: Sequence[int]) -> int:
        """Cut a sequence to what it shares with the target's tokens before the last; return how many that is."""
        held = self._held.setdefault(seq_id, _Held())
        limit = len(tokens) - 1
        looked_at = max(held.num_same - _NUM_LOOKED_AT, 0)
        if held.num_same > limit or not _is_same(held.tokens, tokens, looked_at, held.num_same):
            held.num_same = 0
        if held.num_same == 0:
            self._share(seq_id, held, tokens)
        held.num_same = _num_same(held.tokens, tokens, held.num_same, limit)
        self._cut(seq_id, held)
        return len(held.tokens)

    def _cut(self, seq_id: int, held: _Held) -> None:
        """Drop what is not known to be the target's; all, where the memory cannot go back."""
        if held.num_same < len(held.tokens):
            can_cut = self.backend.can_go_on(seq_id, held.num_same)
            if can_cut and self.backend.seq_rm(seq_id, held.num_same):
                del held.tokens[held.num_same :]
            else:
                self._clear(seq_id)

    def _share(self, seq_id: int, held: _Held, tokens: Sequence[int]) -> None:
        """Take over the cells of another sequence that has more of the tokens: chats often begin alike."""
        if not self.backend.shares_cells_only:
            return
        limit = len(tokens) - 1
        counts = {other: _num_same(item.tokens, tokens, 0, limit) for other, item in self._held.items()}
        source = max(counts, key=lambda other: counts[other])
        if counts[source] >= counts[seq_id] + _MIN_SHARED:
            self.backend.seq_rm(seq_id, 0)
            self.backend.seq_cp(source, seq_id, counts[source])
            held.tokens = self._held[source].tokens[: counts[source]]

    def _read_all(self, request: DraftRequest, kept: Collection[int]) -> bool:
        return self._read(request.seq_id, request.tokens, len(request.tokens) - 1, kept)

    def _read(self, seq_id: int, tokens: Sequence[int], end: int, kept: Collection[int]) -> bool:
        """Read the rest of a sequence's tokens before `end`, which need no logits; False where that failed."""
        held = self._held[seq_id]
        while (start := len(held.tokens)) < end:
            piece = tokens[start : min(start + self._max_step, end)]
            if not self._decode({seq_id: piece}, kept, wants_logits=False):
                return False
        return True

    def _decode(self, wanted: dict[int, Sequence[int]], kept: Collection[int], *, wants_logits: bool = True) -> bool:
        """Compute a step; False where it could not be.

        Args:
            kept: sequences that are not dropped where there is no room.
        """
        status = self._try(wanted, wants_logits)
        while status is DecodeStatus.NO_ROOM and self._drop_oldest(kept):
            status = self._try(wanted, wants_logits)
        self._clock += 1
        for seq_id, tokens in wanted.items():
            if status is DecodeStatus.DONE:
                self._held[seq_id].tokens += tokens
                self._held[seq_id].last_used = self._clock
            elif status is not DecodeStatus.NO_ROOM:  # which changes nothing
                self._clear(seq_id)
        return status is DecodeStatus.DONE

    def _try(self, wanted: dict[int, Sequence[int]], wants_logits: bool) -> DecodeStatus | None:
        parts = []
        for seq_id, tokens in wanted.items():
            known = [token if token < self._num_own_ids else 0 for token in tokens] if self._is_short else tokens
            parts.append(BatchPart(seq_id, len(self._held[seq_id].tokens), known, wants_logits))
        try:
            status = self.backend.decode(parts)
        except DecodeFailed as error:
            self._warn(error)
            return None
        if status is DecodeStatus.ABORTED:
            self.backend.clear_abort()
        return status

    def _drop_oldest(self, kept: Collection[int]) -> bool:
        others = [seq_id for seq_id, held in self._held.items() if held.tokens and seq_id not in kept]
        if others:
            self._clear(min(others, key=lambda seq_id: self._held[seq_id].last_used))
        return bool(others)

    def _warn(self, error: DecodeFailed) -> None:
        if not self._has_warned:
            _LOG.warning("the draft model failed: %s", error)
        self._has_warned = True

    def _clear(self, seq_id: int) -> None:
        self.backend.seq_rm(seq_id, 0)
        self._held[seq_id].tokens.clear()
        self._held[seq_id].num_same = 0


def check_vocabulary(target: Vocabulary, draft: Vocabulary) -> None:
    """Make sure that a token means the same in both; some more or fewer at the end do no harm.

    Which tokens end a reply or are no text does not matter: drafts are token numbers, and the target judges them.

    Raises:
        DraftMismatch: it does not; the text names the first difference.
    """
    if (difference := _difference(target, draft)) is not None:
        raise DraftMismatch(
            f"The draft model has another vocabulary: {difference}.",
            "Choose a smaller model of the same family, or a lower level of the same model.",
        )


def _difference(target: Vocabulary, draft: Vocabulary) -> str | None:
    num_target, num_draft = len(target.pieces), len(draft.pieces)
    if abs(num_target - num_draft) > _MAX_SIZE_DIFFERENCE:
        return f"it has {num_draft:,} tokens, the model has {num_target:,}"
    num_shared = min(num_target, num_draft)
    num_same = _num_same(target.pieces, draft.pieces, 0, num_shared)
    if num_same < num_shared:
        theirs, ours = (_shown(vocabulary.pieces[num_same]) for vocabulary in (draft, target))
        return f"its token {num_same} is {theirs}, the model's is {ours}"
    begins, theirs_begins = (vocabulary.bos_id if vocabulary.adds_bos else None for vocabulary in (target, draft))
    if begins == theirs_begins:
        return None
    if begins is None or theirs_begins is None:
        which, other = ("it", "the model") if begins is None else ("the model", "it")
        return f"{which} begins every text with a token of its own, {other} does not"
    return f"it begins every text with token {theirs_begins:,}, the model with {begins:,}"


def _shown(piece: bytes) -> str:
    text = piece.decode("utf-8", "replace")
    return f"\N{LEFT DOUBLE QUOTATION MARK}{text[:_SHOWN_CHARACTERS]}\N{RIGHT DOUBLE QUOTATION MARK}"


def _is_same(left: Sequence[object], right: Sequence[object], start: int, end: int) -> bool:
    return list(left[start:end]) == list(right[start:end])


def _num_same(left: Sequence[object], right: Sequence[object], start: int, limit: int) -> int:
    """Return how many items are equal from the first on, below `limit`; those before `start` are known to be.

    Compares blocks, so that long beginnings cost little.
    """
    end, at = min(len(left), len(right), limit), start
    while at + _BLOCK <= end and _is_same(left, right, at, at + _BLOCK):
        at += _BLOCK
    while at < end and left[at] == right[at]:
        at += 1
    return at
