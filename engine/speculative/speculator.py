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
from engine.sampled_rows import Sampled
from engine.scheduler import PlannedPart
from engine.sequence import Sequence
from engine.speculative.acceptance import AcceptanceMemory
from engine.speculative.account import ARMS_OF, Arm
from engine.speculative.agreement import Agreement
from engine.speculative.calibration import Calibration
from engine.speculative.chat_tokens import ChatTokens
from engine.speculative.draft_model import ModelDrafter
from engine.speculative.drafting import Drafting
from engine.speculative.ngram import NgramIndex
from engine.speculative.referee import Choice, Referee
from engine.speculative.shared_draft import Asked, draft_together
from engine.speculative.step_times import STRICT_THREADS, DraftTimes, StepTimes
from engine.speculative.strict import NUM_CELLS, strict_max
from engine.speculative.told_steps import ToldSteps
from engine.threads import StepThreads

_LOG = logging.getLogger(__name__)
# Chats whose index is kept for their next message, and tokens of all of these: about 10 MB.
_MAX_INDEXES, _MAX_INDEXED_TOKENS = 8, 65_536
_FIRST_USUAL_TOKENS = 200  # of a reply, before one has ended
_FEWEST_LEFT = 32
_RESTING_STEPS = 16
_FRESH_TOKENS = 32  # the latest, where reading all of a chat would not pay; more is dear to try

_NO_MODEL = "There is no draft model beside this model."
_NOT_YET = "The draft model is still being loaded."
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
        clock: seconds.
        awaits_model: whether a draft model is being loaded.
        model_keys: of the draft model, None where there is none.
    """

    def __init__(self, backend: Backend, cache: KVCache, threads: StepThreads) -> None:
        self.referee: Callable[..., Referee] = Referee
        self.clock: Callable[[], float] = time.perf_counter
        self._backend = backend
        self._cache = cache
        self._threads = threads
        self._times = StepTimes()
        self.calibration = Calibration(backend, cache, self._times, threads)
        self._draft_times = DraftTimes()
        self._memory = AcceptanceMemory()
        self._model: ModelDrafter | None = None
        self.awaits_model = False
        self.model_keys: StateKeys | None = None
        self._indexes: OrderedDict[str, NgramIndex] = OrderedDict()
        self._strict_most: dict[AdapterKey, int] = {}
        self._with_model: set[Drafting] = set()  # of running replies, those that the draft model drafts for
        self._is_strict = False  # the step that is computed
        self._num_resting = 0
        self._steps = ToldSteps(self._times, lambda: self.clock())
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

    def set_model(self, model: ModelDrafter | None, *, is_idle: bool = True) -> None:
        """Let a draft model draft from now on, or none; the one before is freed, and running replies go on without.

        Args:
            is_idle: whether there is time to measure what it takes; otherwise its first drafts tell.
        """
        for drafting in self._with_model:
            drafting.close()
        self._with_model.clear()
        if self._model is not None:
            self._model.close()
        self._model, self.awaits_model = model, False
        self.model_keys = None if model is None else model.backend.state_keys
        if model is not None:
            model.set_threads(self._threads)
        self._draft_times = DraftTimes() if model is None or not is_idle else model.measured_times()
        self._memory = AcceptanceMemory()
        self.calibration.agreement = None if model is None else Agreement(self._backend, model, self._memory)

    def begin(self, sequence: Sequence) -> None:
        """Begin drafting for a reply, where that was asked for; its prompt is in the cache's terms by now."""
        params = sequence.prompt.speculative
        if params.mode is DraftMode.OFF:
            return
        if not self._reason:
            self.calibration.want()
        arms = ARMS_OF[params.mode] - (frozenset() if self._model else {Arm.MODEL})
        most = params.draft_max or MAX_DRAFT
        if params.strict:
            most = min(most, self._strict_most.get(sequence.adapters, 1) - 1)
        reason = self._reason or (_REPRODUCIBLE if sequence.is_reproducible else "")
        no_model = _NOT_YET if self.awaits_model else _NO_MODEL
        reason = reason or ("" if arms else no_model) or ("" if most else _ROUNDED)
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
        takes_turns = any(item.adapters != running[0].adapters for item in running)
        if not drafting or takes_turns or not all(item.is_decoding for item in running):
            self._steps.drafting_s = 0.0  # for a step that was not done
            return
        began = self.clock()
        self._draft(drafting, len(running), num_threads)
        self._steps.drafting_s += self.clock() - began

    def begin_step(self, planned: Items[PlannedPart]) -> None:
        """Note that a step begins, and whether it tells what steps of its kind take."""
        self._steps.begin(planned)

    def note_sampled(self, sequence: Sequence, part: BatchPart, sampled: Sampled) -> None:
        """Take what came of the rows of one reply; it is told to its referee with the step, or when the reply ends."""
        self._steps.note_sampled(sequence, part, sampled)

    def end_step(self, *, num_threads: int) -> None:
        """Learn what the step took, now that all of its rows were sampled."""
        self._steps.end(num_threads=self._known_by(num_threads))

    def rest(self) -> None:
        """Draft nothing for some steps: the memory had no room for one with drafts."""
        self._num_resting = _RESTING_STEPS

    def end(self, sequence: Sequence) -> None:
        """Free what drafted for a reply; its account stays."""
        sequence.proposals = []
        drafting = sequence.drafting
        if drafting is None:
            return
        self._steps.end_reply(sequence, num_threads=self._known_by(self._threads.count))
        drafting.close()
        self._with_model.discard(drafting)
        if sequence.generated:  # one that failed or was given up before says nothing
            self._usual_tokens += (len(sequence.generated) - self._usual_tokens) // 4
        if drafting.index is not None and sequence.prompt.chat_id is not None and not sequence.is_private:
            drafting.begin_step(sequence.generated)
            self._indexes[sequence.prompt.chat_id] = drafting.index
            self._indexes.move_to_end(sequence.prompt.chat_id)
            while len(self._indexes) > 1 and self._keeps_too_much:
                self._indexes.popitem(last=False)

    @property
    def _keeps_too_much(self) -> bool:
        num_tokens = sum(len(index) for index in self._indexes.values())
        return len(self._indexes) > _MAX_INDEXES or num_tokens > _MAX_INDEXED_TOKENS

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

    def _draft(self, drafting: Items[Sequence], num_running: int, num_threads: int) -> None:
        """Ask the referees of the replies that may have drafts, and have these drafted."""
        num_cells = self._cache.n_ctx - self._cache.num_used_cells - num_running
        num_free = min(num_cells, self._backend.max_step_logits - num_running)
        num_free = min(num_free, self._backend.max_step_tokens - num_running)
        num_expected = 0
        asked: list[Asked] = []
        for sequence in drafting:
            num_other_rows = num_running + num_expected - 1
            item = self._choose(sequence, num_free, num_threads, num_other_rows=num_other_rows, num_replies=num_running)
            choice = item.drafting.choice
            if choice.is_baseline:
                self._draft_nothing(drafting)
                return
            if choice.arm is Arm.MODEL:
                asked.append(item)
                num_expected += item.drafting.usual_length(choice.num_tokens)
            num_free -= choice.num_tokens
            num_expected += len(sequence.proposals)
        if asked and self._model is not None:
            self._model.set_threads(self._threads, is_strict=asked[0].sequence.is_strict)
            draft_together(self._model, asked, read_s=self._draft_times.read_s, clock=self.clock)

    def _draft_nothing(self, sequences: Items[Sequence]) -> None:
        for sequence in sequences:
            sequence.proposals = []
            if sequence.drafting is not None:
                sequence.drafting.choice = Choice(Arm.PLAIN)

    def _choose(
        self, sequence: Sequence, num_free: int, num_threads: int, *, num_other_rows: int, num_replies: int
    ) -> Asked:
        """Have a referee choose, and propose what the chat foretells where that is chosen."""
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
        tokens: Items[int] = ()
        if drafting.sampler is not None and self._model is not None and room > 0:
            tokens = self._tokens_to_read(sequence)
            behind = 1 + self._model.num_behind(slot.seq_id, tokens)
            fresh = min(_FRESH_TOKENS, len(tokens))
        choice = drafting.choice = drafting.referee.choose(
            num_threads=self._known_by(num_threads),
            ngram=ngram,
            num_draft_behind=behind,
            num_draft_fresh=fresh,
            num_expected_tokens=max(expected - len(sequence.generated), _FEWEST_LEFT),
            num_room=max(room, 0),
            num_other_rows=num_other_rows,
            num_other_tokens=num_other_rows,
            num_replies=num_replies,
        )
        if choice.arm is Arm.NGRAM and ngram is not None:
            sequence.proposals = [Proposal(token) for token in ngram.tokens[: choice.num_tokens]]
        elif choice.is_fresh:
            drafting.first = max(sequence.num_tokens - _FRESH_TOKENS, 0)
            tokens = self._tokens_to_read(sequence)
        return Asked(sequence, drafting, tokens)

    def _known_by(self, num_threads: int) -> int:
        return STRICT_THREADS if self._is_strict else num_threads

    def _tokens_to_read(self, sequence: Sequence) -> ChatTokens:
        """Return the tokens of a reply that the draft model goes by."""
        assert sequence.slot is not None
        assert sequence.drafting is not None
        return ChatTokens(sequence.slot.tokens, sequence.generated[-1], first=sequence.drafting.first)

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
