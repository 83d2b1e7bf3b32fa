"""Speculative decoding of one engine: begins it for each reply, asks the drafters before a step, learns after it."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items

from engine.backend import AdapterKey, Backend, BatchPart, Proposal, StateKeys
from engine.errors import CannotTrim
from engine.kv_cache import KVCache
from engine.messages import MemoryKind
from engine.params import MAX_DRAFT, DraftMode
from engine.scheduler import PlannedPart
from engine.sequence import Prompt, Sequence
from engine.speculative.acceptance import AcceptanceMemory
from engine.speculative.account import Arm
from engine.speculative.agreement import Agreement
from engine.speculative.calibration import Calibration
from engine.speculative.draft_model import ModelDrafter
from engine.speculative.drafting import Drafting
from engine.speculative.ngram import NgramIndex
from engine.speculative.referee import Referee
from engine.speculative.step_times import DraftTimes, StepTimes
from engine.speculative.strict import NUM_CELLS, strict_max
from engine.threads import StepThreads

_LOG = logging.getLogger(__name__)
_MAX_INDEXES = 8  # chats whose index is kept for their next message; about 1.3 MB for 8,000 tokens each
_FIRST_USUAL_TOKENS = 200  # of a reply, before one has ended
_FEWEST_LEFT = 32
_READ_S = 0.05  # of the draft model in a step, for all replies together: it holds them up
_FIRST_READ_TOKENS = 64
_RESTING_STEPS = 16
_STRICT_THREADS = 0  # by which times of strict replies are known: their steps with drafts take more than plain ones
_FRESH_TOKENS = 32  # the latest, where reading all of a chat would not pay; more is dear to try

_ARMS = {
    DraftMode.NGRAM: frozenset({Arm.NGRAM}),
    DraftMode.MODEL: frozenset({Arm.MODEL}),
    DraftMode.BOTH: frozenset({Arm.NGRAM, Arm.MODEL}),
    DraftMode.AUTO: frozenset({Arm.NGRAM, Arm.MODEL}),
}
_NO_MODEL = "There is no draft model beside this model."
_NO_WAY_BACK = "This model's memory cannot take refused drafts back, so nothing is drafted."
_REPRODUCIBLE = "A reproducible reply is computed token by token."
_ROUNDED = "This model rounds several tokens at once otherwise than one by one, so strict drafting cannot draft."


class Speculator:
    """What drafts for the sequences of one engine.

    Args:
        backend: of the target model.
        cache: its slots.
        threads: of its steps.

    Attributes:
        calibration: of what its steps take.
        referee: makes what decides for one reply.
    """

    def __init__(self, backend: Backend, cache: KVCache, threads: StepThreads) -> None:
        self.referee: Callable[..., Referee] = Referee
        self._backend = backend
        self._cache = cache
        self._threads = threads
        self._times = StepTimes()
        self.calibration = Calibration(backend, cache, self._times, threads)
        self._draft_times = DraftTimes()
        self._memory = AcceptanceMemory()
        self._model: ModelDrafter | None = None
        self._indexes: OrderedDict[str, NgramIndex] = OrderedDict()
        self._strict_most: dict[AdapterKey, int] = {}
        self._with_model: set[Drafting] = set()  # of running replies, those that the draft model drafts for
        self._is_strict = False  # the step that is computed
        self._num_resting = 0
        self._num_rows = 0  # of the step that is computed, where it tells something
        self._began_at = 0.0
        self._num_drafting = 1
        self._usual_tokens = _FIRST_USUAL_TOKENS
        kind = backend.description.memory
        self._reason = "" if kind in (MemoryKind.PLAIN, MemoryKind.WINDOW) else _NO_WAY_BACK

    def check(self) -> None:
        """Refuse a draft model where nothing can be drafted.

        Raises:
            CannotTrim: this model's memory is of such a kind.
        """
        if self._reason:
            raise CannotTrim(self._reason, "Choose another model, or leave drafting off.")

    def set_model(self, model: ModelDrafter | None) -> None:
        """Let a draft model draft from now on, or none; the one before is freed, and running replies go on without."""
        for drafting in self._with_model:
            drafting.close()
        self._with_model.clear()
        if self._model is not None:
            self._model.close()
        self._model = model
        self._draft_times = DraftTimes() if model is None else model.measured_times()
        self._memory = AcceptanceMemory()
        self.calibration.agreement = None if model is None else Agreement(self._backend, model, self._memory)

    def begin(self, sequence: Sequence) -> None:
        """Begin drafting for a reply, where that was asked for; its prompt is in the cache's terms by now."""
        params = sequence.prompt.speculative
        if params.mode is DraftMode.OFF:
            return
        if not self._reason:
            self.calibration.want()
        arms = _ARMS[params.mode] - (frozenset() if self._model else {Arm.MODEL})
        most = params.draft_max or MAX_DRAFT
        if params.strict:
            most = min(most, self._strict_most.get(sequence.adapters, 1) - 1)
        reason = self._reason or (_REPRODUCIBLE if sequence.is_reproducible else "")
        reason = reason or ("" if arms else _NO_MODEL) or ("" if most else _ROUNDED)
        if reason:
            sequence.drafting = Drafting(reason=reason)
            return
        sampling = sequence.prompt.sampling
        self.resume(sequence)
        sequence.drafting = Drafting(
            referee=self.referee(
                self._times,
                self._draft_times if Arm.MODEL in arms else None,
                self._memory.of_chat(sequence.prompt.chat_id, temperature=sampling.temperature),
                allowed=arms,
                draft_max=min(most, 16),
                ngram_max=most,
            ),
            index=self._index(sequence) if Arm.NGRAM in arms else None,
            sampler=self._model.new_sampler(sampling, sequence.prompt.seed)
            if self._model and Arm.MODEL in arms
            else None,
            most=most,
        )
        if sequence.drafting.sampler is not None:
            self._with_model.add(sequence.drafting)

    def resume(self, sequence: Sequence) -> None:
        """Note that a reply has a slot that others may have had before."""
        if self._model is not None and sequence.slot is not None:
            self._model.begin(sequence.slot.seq_id)

    def may_draw(self, sequence: Sequence) -> bool:
        """Whether drafts for a reply may be drawn with chance, so that its sampler has to take that into account."""
        return sequence.drafting is not None and sequence.drafting.sampler is not None

    def drawn_by(self, prompt: Prompt) -> StateKeys | None:
        """Return the draft model that may draw drafts with chance for a request, which then has another text from the
        same seed; None where the text is that without drafting."""
        may_draft = Arm.MODEL in _ARMS.get(prompt.speculative.mode, frozenset()) and not self._reason
        if self._model is None or not may_draft or prompt.sampling.temperature == 0.0 or prompt.sampling.reproducible:
            return None
        return self._model.backend.state_keys

    def propose(self, running: Items[Sequence], *, num_threads: int) -> None:
        """Draft for the next step: fills the proposals of running sequences, or leaves them empty.

        Nothing is drafted while a prompt is read, nor where replies take turns: the time is not the reply's own.
        """
        self._is_strict = any(item.is_strict for item in running)
        for sequence in running:
            sequence.proposals = []
            if sequence.drafting is not None:  # who is not asked does a plain step
                sequence.drafting.begin_step(sequence.generated)
        if self._num_resting:
            self._num_resting -= 1
            return
        drafting = [item for item in running if item.drafting is not None and item.drafting.referee is not None]
        self._num_drafting = len(drafting)
        if not drafting or not all(item.is_decoding for item in running):
            return
        if any(item.adapters != running[0].adapters for item in running):
            return
        num_cells = self._cache.n_ctx - self._cache.num_used_cells - len(running)
        num_free = min(num_cells, self._backend.max_step_logits - len(running))
        num_free = min(num_free, self._backend.max_step_tokens - len(running))
        num_rows = len(running)
        for sequence in drafting:
            self._propose(sequence, num_free, num_threads, num_other_rows=num_rows - 1)
            num_free -= len(sequence.proposals)
            num_rows += len(sequence.proposals)

    def begin_step(self, planned: Items[PlannedPart]) -> None:
        """Note that a step begins, and whether it tells what steps of its kind take."""
        self._num_rows = 0
        if any(sequence.drafting for sequence, _ in planned):
            is_prefill = any(len(part.tokens) != 1 + part.num_drafted for _, part in planned)
            self._num_rows = 0 if is_prefill else sum(1 + part.num_drafted for _, part in planned)
            self._began_at = time.perf_counter()

    def note_sampled(self, sequence: Sequence, part: BatchPart, *, num_accepted: int) -> None:
        """Learn from the rows of one reply, before it may end.

        Args:
            num_accepted: drafted tokens that it took.
        """
        drafting = sequence.drafting
        if drafting is None or drafting.referee is None or not self._num_rows:
            return
        drafting.count(part.num_drafted, num_accepted)
        drafting.referee.note(
            drafting.choice,
            sequence.generated[drafting.num_generated :],
            step_s=time.perf_counter() - self._began_at,
            draft_s=drafting.draft_s,
            num_drafted=part.num_drafted,
            num_accepted=num_accepted,
            confidences=drafting.confidences[: part.num_drafted],
            num_draft_read=drafting.num_read,
        )

    def end_step(self, *, num_threads: int) -> None:
        """Learn what the step took, now that all of its rows were sampled."""
        if self._num_rows:
            seconds = time.perf_counter() - self._began_at
            self._times.observe(self._num_rows, seconds, num_threads=self._known_by(num_threads))

    def rest(self) -> None:
        """Draft nothing for some steps: the memory had no room for one with drafts."""
        self._num_resting = _RESTING_STEPS

    def end(self, sequence: Sequence) -> None:
        """Free what drafted for a reply; its account stays."""
        sequence.proposals = []
        drafting = sequence.drafting
        if drafting is None:
            return
        drafting.close()
        self._with_model.discard(drafting)
        self._usual_tokens += (len(sequence.generated) - self._usual_tokens) // 4
        if drafting.index is not None and sequence.prompt.chat_id is not None and not sequence.is_private:
            drafting.begin_step(sequence.generated)
            self._indexes[sequence.prompt.chat_id] = drafting.index
            self._indexes.move_to_end(sequence.prompt.chat_id)
            while len(self._indexes) > _MAX_INDEXES:
                self._indexes.popitem(last=False)

    def forget(self, chat_ids: Iterable[str] | None) -> None:
        """Drop what is known of some chats, or of all; the slots are without them by now."""
        if chat_ids is None:
            self._indexes.clear()
            self._memory.forget(None)
        for chat_id in chat_ids or ():
            self._indexes.pop(chat_id, None)
            self._memory.forget(chat_id)
        if self._model is not None:
            for slot in self._cache.slots:
                self._model.keep_common(slot.seq_id, slot.tokens)

    def close(self) -> None:
        """Free the draft model."""
        self.set_model(None)

    def _propose(self, sequence: Sequence, num_free: int, num_threads: int, *, num_other_rows: int) -> None:
        drafting, slot = sequence.drafting, sequence.slot
        assert drafting is not None
        assert drafting.referee is not None
        assert slot is not None
        num_left = sequence.num_left
        expected = self._usual_tokens if num_left is None else min(num_left, 4 * self._usual_tokens)
        # The last token of a reply comes from the row behind the draft.
        room = min(drafting.most, num_free, self._cache.n_ctx - len(slot.tokens) - 1)
        room = room if num_left is None else min(room, num_left - 1)
        ngram = drafting.index.propose(room) if drafting.index is not None and room > 0 else None
        behind = fresh = None
        tokens: list[int] = []
        if drafting.sampler is not None and self._model is not None and room > 0:
            tokens = self._tokens_to_read(sequence)
            behind = 1 + self._model.num_behind(slot.seq_id, tokens)
            fresh = min(_FRESH_TOKENS, len(tokens))
        drafting.choice = drafting.referee.choose(
            num_threads=self._known_by(num_threads),
            ngram=ngram,
            num_draft_behind=behind,
            num_draft_fresh=fresh,
            num_expected_tokens=max(expected - len(sequence.generated), _FEWEST_LEFT),
            num_room=max(room, 0),
            num_other_rows=num_other_rows,
            num_other_tokens=num_other_rows,
        )
        if drafting.choice.arm is Arm.NGRAM and ngram is not None:
            sequence.proposals = [Proposal(token) for token in ngram.tokens[: drafting.choice.num_tokens]]
        elif drafting.choice.arm is Arm.MODEL and self._model is not None:
            self._draft(self._model, sequence, tokens, num_threads)

    def _draft(self, model: ModelDrafter, sequence: Sequence, tokens: list[int], num_threads: int) -> None:
        """Have the draft model read what it is behind, a stretch at a time, and draft when it has."""
        slot, drafting = sequence.slot, sequence.drafting
        assert slot is not None
        assert drafting is not None
        referee, sampler = drafting.referee, drafting.sampler
        assert referee is not None
        assert sampler is not None
        if drafting.choice.is_fresh:
            drafting.first = max(sequence.num_tokens - _FRESH_TOKENS, 0)
            tokens = self._tokens_to_read(sequence)
        began = time.perf_counter()
        count = self._backend.description.n_threads if sequence.is_strict else num_threads
        model.backend.set_threads(count, count)
        read_s = self._draft_times.read_s
        fitting = _FIRST_READ_TOKENS if read_s is None else max(int(_READ_S / read_s), _FIRST_READ_TOKENS)
        most = max(fitting // self._num_drafting, 1)
        behind = model.num_behind(slot.seq_id, tokens)
        missing = model.catch_up(slot.seq_id, tokens, max_tokens=most)
        drafting.num_read = 1 + behind - missing

        def goes_on(place: int, confidence: float) -> bool:
            if not referee.goes_on(place, confidence):
                return False
            drafting.confidences.append(confidence)
            return True

        if not missing:
            sequence.proposals = model.draft(
                slot.seq_id,
                tokens,
                max_tokens=drafting.choice.num_tokens,
                goes_on=goes_on,
                sampler=sampler,
                steps_on=referee.steps_on,
            )
        drafting.draft_s = time.perf_counter() - began

    def _known_by(self, num_threads: int) -> int:
        return _STRICT_THREADS if self._is_strict else num_threads

    def _tokens_to_read(self, sequence: Sequence) -> list[int]:
        """Return the tokens of a reply that the draft model goes by."""
        assert sequence.slot is not None
        assert sequence.drafting is not None
        tokens = sequence.slot.tokens[sequence.drafting.first :]
        tokens.append(sequence.generated[-1])
        return tokens

    def _index(self, sequence: Sequence) -> NgramIndex:
        """Return an index of the prompt: the one that the chat's last message left, where its tokens are the same."""
        chat_id = sequence.prompt.chat_id
        index = self._indexes.pop(chat_id, None) if chat_id is not None else None
        if index is None or not index.begins(sequence.prompt_tokens):
            return NgramIndex(sequence.prompt_tokens)
        index.extend(sequence.prompt_tokens[len(index) :])
        return index

    def prepare(self, sequence: Sequence) -> None:
        """Find out, once for its adapters, how many tokens a step may have that computes each as if it were alone.

        To be called before a reply that needs to know is given its slot.

        Raises:
            AdapterMismatch: an adapter's file is another one now.
        """
        if not sequence.is_strict or self._reason or sequence.adapters in self._strict_most:
            return
        slot, cache = self._cache.take_empty("strict"), self._cache
        try:
            while cache.num_used_cells + NUM_CELLS > cache.n_ctx and cache.evict_idle():
                pass
            self._backend.use_adapters(sequence.adapters)
            self._backend.clear_abort()  # one that came too late for its request
            most = strict_max(self._backend, seq_id=slot.seq_id, n_threads=self._threads.count)
            self._strict_most[sequence.adapters] = most
        finally:
            cache.clear(slot)
            cache.release(slot)
