"""A deterministic backend without weights, for tests of logic and for pictures.

Its next token is a function of all bytes in the sequence's cells, so that any fault of the cache above it changes
the text. Settings come in the path: `fake:step_s=0.01,token_s=0.001,load_s=1,can_trim=0`; any other path takes the
defaults.
"""

import hashlib
import math
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from engine.backend import (
    AdapterKey,
    Backend,
    BatchPart,
    DecodeStatus,
    DraftSampler,
    OnProgress,
    StateBytes,
    StateKeys,
    TensorImportance,
)
from engine.backend_fake_measures import fake_bare_loop, fake_cache_types, fake_importance, fake_machine_speed
from engine.backend_fake_samplers import FakeDraftSampler, FakeSampler
from engine.backend_fake_settings import FakeSettings, settings_of
from engine.backend_fake_vocabulary import END, WORDS, FakeVocabulary
from engine.errors import AdapterMismatch, DecodeFailed, ModelFileMissing
from engine.grammar import Matcher
from engine.messages import (
    Adapter,
    BareLoopRun,
    CacheTypeRow,
    EngineDescription,
    MachineSpeed,
    MemoryKind,
    ModelDescription,
    RunBareLoop,
)
from engine.params import MAX_DRAFT, ModelParams, SamplingParams

_MARK = 4096  # a cell holds its token, plus this times a number for the adapters it was computed with
_THREAD_MARK = 200_000  # beyond the numbers of adapters
_LOAD_STEP_S = 0.05


class FakeBackend:
    """See Backend; checks what llama.cpp would punish: positions, pool, row and sequence numbers."""

    def __init__(self, path: str, params: ModelParams, settings: FakeSettings) -> None:
        self.vocabulary = FakeVocabulary()
        control_ids = self.vocabulary.control_ids
        self._texts = [b"\0" + piece if t in control_ids else piece for t, piece in enumerate(self.vocabulary.pieces)]
        self._settings = settings
        self._cells: dict[int, list[tuple[int, int]]] = {}  # sequence -> (cell, token)
        self._cell_users: Counter[int] = Counter()
        self._next_cell = 0
        self._rows: list[list[int]] = []
        self._row_shapes: list[bytes] = []
        self._abort = threading.Event()
        self._adapter_number = 0
        self.state_keys = StateKeys(path, f"{params.type_k} {params.type_v} {params.flash_attn.value}")
        self.n_threads = (1, 1)  # of a step of one token, and of several
        self._first_held: dict[int, int] = {}  # by sequence, where a window has forgotten what came before
        self._rewound: dict[int, int] = {}  # by sequence, set back to a checkpoint of so many tokens
        self._broken: set[int] = set()  # sequences whose state is not that of their tokens
        n_ctx = params.n_ctx or 4096
        self.description = ModelDescription(
            path=path,
            name="Fake model",
            architecture="fake",
            type_name="fake",
            n_params=0,
            weight_bytes=0,
            n_ctx=n_ctx,
            n_ctx_requested=params.n_ctx,
            n_ctx_train=4096,
            n_vocab=len(self.vocabulary.pieces),
            n_layer=0,
            n_batch=min(max(params.n_batch, params.n_seq_max), n_ctx),
            n_ubatch=min(params.n_ubatch, n_ctx),
            n_seq_max=params.n_seq_max,
            n_threads=1,
            n_gpu_layers=0,
            device="none",
            type_k=params.type_k,
            type_v=params.type_v,
            kv_bytes_per_token=1024,
            has_chat_template=True,
            load_s=0.0,
            memory=settings.memory,
        )

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        """See Backend."""
        self._rows, self._row_shapes = [], []
        needed = self._check(parts)
        if len(self._cell_users) + needed > self.description.n_ctx:
            return DecodeStatus.NO_ROOM
        self._pause(self._settings.step_s)
        mark = self._mark(needed)
        for part in parts:
            held = self._cells.setdefault(part.seq_id, [])
            if part.seq_id in self._broken or not self.can_go_on(part.seq_id, len(held)):
                raise AssertionError("the sequence has lost what the next token looks at")
            if part.start != len(held) or not part.tokens:
                raise AssertionError(f"position {part.start} does not follow {len(held)}")
            for first in range(0, len(part.tokens), self.description.n_ubatch):
                block = part.tokens[first : first + self.description.n_ubatch]
                self._pause(self._settings.token_s * (len(block) - 1))
                if self._abort.is_set():
                    if not self.survives_abort:
                        self._broken.update(part.seq_id for part in parts)
                    return DecodeStatus.ABORTED
                for token in block:
                    held.append((self._next_cell, token + _MARK * mark))
                    self._cell_users[self._next_cell] += 1
                    self._next_cell += 1
            self._forget_old(part.seq_id, len(held))
            self._note_rows(part, [token for _, token in held])
        return DecodeStatus.DONE

    def _check(self, parts: Sequence[BatchPart]) -> int:
        """Return how many tokens a step has."""
        num_tokens = sum(len(part.tokens) for part in parts)
        if num_tokens > self.description.n_batch:
            raise AssertionError("more tokens than n_batch")
        if sum(part.wants_logits + part.num_drafted for part in parts) > self.max_step_logits:
            raise AssertionError("more rows of logits than the context was made for")
        if self._settings.fail:
            raise DecodeFailed("The fake backend was told to fail.")
        if self._settings.bug:
            raise RuntimeError("the fake backend was told to break")
        return num_tokens

    def _note_rows(self, part: BatchPart, held: list[int]) -> None:
        if part.wants_logits:
            assert part.num_drafted < len(part.tokens), "more drafts than tokens that follow one"
            self._rows += [held[: len(held) - left] for left in range(part.num_drafted, -1, -1)]
            shape = b"" if len(part.tokens) <= self._settings.same_to else b"several"
            self._row_shapes += [shape] * (1 + part.num_drafted)

    def row_digest(self, row: int) -> bytes:
        """See Backend."""
        assert 0 <= row < len(self._rows), "the row has no logits"
        return hashlib.sha256(self._row_shapes[row] + repr(self._rows[row]).encode()).digest()

    def _mark(self, num_tokens: int) -> int:
        n_threads = self.n_threads[0 if num_tokens == 1 else 1]
        return self._adapter_number + (_THREAD_MARK * n_threads if self._settings.tells_threads else 0)

    def next_token(self, row: int) -> int:
        """Return the token that follows the sequence of a row: the next byte of a word chosen by all bytes so far."""
        assert 0 <= row < len(self._rows), "the row has no logits"
        values, pieces, control_ids = self._rows[row], self.vocabulary.pieces, self.vocabulary.control_ids
        is_marked = max(values) >= _MARK  # most are not, and this is most of the time of a test without weights
        tokens = [value % _MARK for value in values] if is_marked else values
        last_control = next((i for i in range(len(tokens) - 1, -1, -1) if tokens[i] in control_ids), -1)
        reply = b"".join([pieces[token] for token in tokens[last_control + 1 :]]).partition(b"\n")[2]
        num_words = reply.count(b" ")
        word_start = len(reply) - len(reply.rpartition(b" ")[2]) if num_words else 0
        # Everything up to the word that is being written decides which word it is.
        before = len(reply) - word_start
        texts: Iterable[bytes] = map(self._texts.__getitem__, tokens)
        if is_marked:
            marks = [value // _MARK for value in values]
            changes = (b"\1%d" % mark if mark != last else b"" for last, mark in zip([0, *marks], marks, strict=False))
            texts = (part for pair in zip(changes, texts, strict=True) for part in pair)
        digest = hashlib.sha256(b"".join(texts)[: -before or None])
        word = WORDS[int.from_bytes(digest.digest()[:4], "big") % len(WORDS)].encode() + b" "
        if num_words >= self._settings.n_words:
            return END
        written = len(reply) - word_start  # more than the word where the reply was made to go on with something else
        return word[min(written, len(word) - 1)]

    def new_sampler(
        self,
        params: SamplingParams,
        seed: int,
        prompt: Sequence[int],
        *,
        matcher: Matcher | None = None,
        is_thinking: bool = False,
        is_drafted: bool = False,
    ) -> FakeSampler:
        """See Backend."""
        return FakeSampler(self)

    def new_draft_sampler(self, params: SamplingParams, seed: int, *, num_ids: int | None = None) -> DraftSampler:
        """See Backend; its vocabulary is always the same."""
        return FakeDraftSampler(self, right=self._settings.draft_right, is_drawn=params.temperature > 0)

    def load_adapters(self, adapters: Sequence[Adapter]) -> AdapterKey:
        """See Backend; a path that begins with `missing` is not there."""
        for adapter in adapters:
            if adapter.path.startswith("missing"):
                raise AdapterMismatch(f"There is no adapter {adapter.path}.", "Choose another file.")
        return tuple(sorted((adapter.path, adapter.scale) for adapter in adapters if adapter.scale))

    def use_adapters(self, key: AdapterKey) -> None:
        """See Backend; a cell holds what it was computed with."""
        self._adapter_number = 1 + zlib.crc32(repr(key).encode()) % 100_000 if key else 0

    def set_threads(self, n_decode: int, n_prefill: int) -> None:
        """See Backend."""
        self.n_threads = (n_decode, n_prefill)

    @property
    def max_step_tokens(self) -> int:
        """See Backend."""
        return self.description.n_batch

    @property
    def max_step_logits(self) -> int:
        """See Backend."""
        return self.description.n_seq_max + MAX_DRAFT

    @property
    def mixes_parts(self) -> bool:
        """See Backend."""
        return True

    @property
    def shares_cells_only(self) -> bool:
        """See SequenceMemory."""
        return self.description.memory is MemoryKind.PLAIN

    @property
    def survives_abort(self) -> bool:
        """See SequenceMemory."""
        return self.description.memory is not MemoryKind.RECURRENT

    def can_go_on(self, seq_id: int, num_tokens: int) -> bool:
        """See SequenceMemory."""
        length = self.seq_len(seq_id)
        match self.description.memory:
            case MemoryKind.RECURRENT:
                return num_tokens == length
            case MemoryKind.WINDOW:
                return self._first_held.get(seq_id, 0) <= max(0, num_tokens - int(self._settings.window))
        return True

    def checkpoint(self, seq_id: int) -> bytes:
        """See SequenceMemory; holds the tokens it was made after, so that a wrong use shows."""
        return b"" if self.shares_cells_only else self.seq_state(seq_id)

    def set_checkpoint(self, seq_id: int, state: StateBytes) -> bool:
        """See SequenceMemory."""
        tokens = [int.from_bytes(state[i : i + 4], "little") for i in range(0, len(state), 4)]
        if [token for _, token in self._cells.get(seq_id, [])[: len(tokens)]] != tokens:
            raise AssertionError("a checkpoint of other tokens")
        self._broken.discard(seq_id)
        self._first_held[seq_id] = max(0, len(tokens) - int(self._settings.window))
        self._rewound[seq_id] = len(tokens)
        return True

    def _forget_old(self, seq_id: int, length: int) -> None:
        if self._settings.window:
            slack = int(self._settings.window) + self.description.n_ubatch
            self._first_held[seq_id] = max(self._first_held.get(seq_id, 0), length - slack)

    def seq_rm(self, seq_id: int, start: int) -> bool:
        """See SequenceMemory."""
        held = self._cells.setdefault(seq_id, [])
        rewound = self._rewound.pop(seq_id, None)
        if 0 < start < len(held) and self.description.memory is MemoryKind.RECURRENT and rewound != start:
            return False
        if start == 0:
            self._first_held.pop(seq_id, None)
            self._broken.discard(seq_id)
        for cell, _ in held[start:]:
            self._cell_users[cell] -= 1
            if not self._cell_users[cell]:
                del self._cell_users[cell]
        del held[start:]
        return True

    def seq_cp(self, source: int, target: int, end: int) -> None:
        """See SequenceMemory."""
        assert not self._cells.get(target), "the target must be empty"
        self._cells[target] = self._cells[source][:end]
        self._first_held[target] = self._first_held.get(source, 0)
        if end < len(self._cells[source]) and self.description.memory is MemoryKind.RECURRENT:
            self._broken.add(target)  # it has the state of the whole
        self._cell_users.update(cell for cell, _ in self._cells[target])

    def seq_len(self, seq_id: int) -> int:
        """See SequenceMemory."""
        return len(self._cells.get(seq_id, []))

    def seq_state(self, seq_id: int) -> bytes:
        """See SequenceMemory."""
        return b"".join(token.to_bytes(4, "little") for _, token in self._cells[seq_id])

    def set_seq_state(self, seq_id: int, state: StateBytes) -> bool:
        """See SequenceMemory."""
        assert not self._cells.get(seq_id), "the sequence must be empty"
        tokens = [int.from_bytes(state[i : i + 4], "little") for i in range(0, len(state), 4)]
        if len(self._cell_users) + len(tokens) > self.description.n_ctx:
            return False
        self._cells[seq_id] = [(self._next_cell + i, token) for i, token in enumerate(tokens)]
        self._first_held[seq_id] = max(0, len(tokens) - int(self._settings.window)) if self._settings.window else 0
        self._cell_users.update(cell for cell, _ in self._cells[seq_id])
        self._next_cell += len(tokens)
        return True

    def raise_abort(self) -> None:
        """See Backend."""
        self._abort.set()

    def clear_abort(self) -> None:
        """See Backend."""
        self._abort.clear()

    def close(self) -> None:
        """See Backend."""

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self._abort.wait(seconds)


class FakeLoader:
    """See Loader."""

    def load(
        self, path: str, params: ModelParams, on_progress: OnProgress, *, is_known: bool = False
    ) -> FakeBackend | None:
        """See Loader; a path that begins with `missing` is not there."""
        if path.startswith("missing"):
            raise ModelFileMissing(f"There is no file {path}.", "Choose another file.")
        settings = settings_of(path)
        num_steps = math.ceil(settings.load_s / _LOAD_STEP_S) or 1
        for step in range(num_steps):
            if not on_progress(step / num_steps):
                return None
            time.sleep(settings.load_s / num_steps)
        return FakeBackend(path, params, settings) if on_progress(1.0) else None

    def measure_cache_types(self, backend: Backend) -> tuple[CacheTypeRow, ...]:
        """See Loader."""
        return fake_cache_types(backend.description)

    def measure_machine(self, n_threads: int) -> MachineSpeed:
        """See Loader."""
        return fake_machine_speed(n_threads)

    def run_bare_loop(self, backend: Backend, request: RunBareLoop) -> BareLoopRun:
        """See Loader."""
        return fake_bare_loop(request)

    def sum_importance(
        self, backend: Backend, chunks: Sequence[Sequence[int]], on_chunk: Callable[[int], bool]
    ) -> dict[str, TensorImportance] | None:
        """See Loader."""
        return fake_importance(chunks, on_chunk)

    def describe(self) -> EngineDescription:
        """See Loader."""
        return EngineDescription(binding="none", library="fake", features="", devices=(), default_threads=1)
