"""All the engine asks of llama.cpp, as protocols: a vocabulary, a sampler, and a context that computes batches."""

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from engine.grammar import Matcher
from engine.messages import (
    Adapter,
    BareLoopRun,
    CacheTypeRow,
    EngineDescription,
    MachineSpeed,
    ModelDescription,
    RunBareLoop,
)
from engine.params import ModelParams, SamplingParams

OnProgress = Callable[[float], bool]
"""Told the share of the load that is done, 0 to 1; returns False to give the load up."""


StateBytes = bytes | bytearray | memoryview
"""What a sequence remembers, outside the context."""


class DecodeStatus(enum.Enum):
    """How a step ended when it did not fail."""

    DONE = "done"
    NO_ROOM = "no_room"  # the pool is full; nothing changed
    ABORTED = "aborted"  # finished micro-batches stay in the cache; there are no logits


class BatchPart(NamedTuple):
    """Contiguous tokens of one sequence in a step.

    Attributes:
        start: position of the first token; one past the sequence's last cached position.
        wants_logits: whether the last token's logits are wanted.
        num_drafted: how many of the last tokens are drafts: the logits of the one before each are wanted, too.
    """

    seq_id: int
    start: int
    tokens: Sequence[int]
    wants_logits: bool
    num_drafted: int = 0


class Distribution(NamedTuple):
    """What a token is drawn from: every token that can be, with its probability.

    Attributes:
        ids: int32, shape (n,).
        probabilities: float64, shape (n,); they add up to 1.
    """

    ids: npt.NDArray[np.int32]
    probabilities: npt.NDArray[np.float64]


class Proposal(NamedTuple):
    """A drafted token.

    Attributes:
        source: what it was drawn from; None where it was not drawn: the drafter is certain of it.
    """

    token: int
    source: Distribution | None = None


class Vocabulary(Protocol):
    """Tokens of a model; every member is safe from any thread."""

    @property
    def pieces(self) -> Sequence[bytes]:
        """Bytes of each token, control tokens included."""

    @property
    def control_ids(self) -> frozenset[int]:
        """Tokens that are no text: the same bytes typed by a user are not them."""

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end a reply."""

    @property
    def special_texts(self) -> Sequence[str]:
        """Texts that the tokeniser would turn into one special token, longest first."""

    @property
    def bos_id(self) -> int | None:
        """Begin-of-text token, None where there is none."""

    @property
    def bos_text(self) -> str:
        """The begin token as a template prints it."""

    @property
    def eos_text(self) -> str:
        """The end token as a template prints it."""

    @property
    def adds_bos(self) -> bool:
        """Whether a prompt has to begin with `bos_id`."""

    @property
    def adds_space(self) -> bool:
        """Whether tokenising puts a space in front of text."""

    @property
    def chat_template(self) -> str | None:
        """The model's own template, None where it has none."""

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Return the tokens of `text`, without begin or end tokens of the tokeniser's own."""


class Sampler(Protocol):
    """Chooses the tokens of one request; holds the request's random state and penalties."""

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        """Return the next token from row `row` of the logits that the last step was asked for, and remember it.

        It has the distribution of this sampler, whatever was proposed, and is the proposed token as often as that
        allows. The rows of a draft are sampled in their order, up to the first that gives another token.

        Args:
            proposal: what a drafter expects here, which the step has evaluated as the next row's token.

        Raises:
            DecodeFailed: the logits are not numbers.
        """

    @property
    def is_complete(self) -> bool:
        """Whether the answer can hold nothing more: its grammar has come to its end."""

    def end_thinking(self) -> None:
        """Note that the answer begins: from here on a grammar applies."""

    def close(self) -> None:
        """Free native memory."""


class DraftSampler(Protocol):
    """Draws the tokens of a draft."""

    def look(self, row: int) -> float:
        """Take in a row of the last step's logits; return the probability of its likeliest token."""

    def draw(self) -> Proposal:
        """Return a token from the row that was looked at last."""

    def close(self) -> None:
        """Free native memory."""


class SequenceMemory(Protocol):
    """What a context remembers, by sequence. Positions are token indices within a sequence.

    A plain memory has a cell for every token and can be cut anywhere. Others keep the latest tokens only (sliding
    window) or one state that every token changes (recurrent); these go back by checkpoints.
    """

    @property
    def shares_cells_only(self) -> bool:
        """Whether `seq_cp` alone gives a beginning away, without a checkpoint."""

    @property
    def survives_abort(self) -> bool:
        """Whether a step that is broken off leaves each sequence at the end of a finished micro-batch."""

    def can_go_on(self, seq_id: int, num_tokens: int) -> bool:
        """Whether the sequence, cut to its first `num_tokens`, still holds all that the next token looks at."""

    def checkpoint(self, seq_id: int) -> StateBytes:
        """Return what, beside the cells, is needed to go on from here; empty where the cells are all."""

    def set_checkpoint(self, seq_id: int, state: StateBytes) -> bool:
        """Go back to a checkpoint of this sequence or of one it shares its beginning with; the cells after it are
        still to be dropped. False leaves the sequence unusable."""

    def seq_rm(self, seq_id: int, start: int) -> bool:
        """Drop positions from `start` on; False where this memory cannot, and nothing changed."""

    def seq_cp(self, source: int, target: int, end: int) -> None:
        """Let `target` share the cells of `source` below position `end`; `target` must be empty."""

    def seq_len(self, seq_id: int) -> int:
        """Return how many positions the sequence holds."""

    def seq_state(self, seq_id: int) -> StateBytes:
        """Return a snapshot of the sequence, empty where none can be made."""

    def set_seq_state(self, seq_id: int, state: StateBytes) -> bool:
        """Restore a snapshot into an empty sequence; False leaves it empty."""


AdapterKey = tuple[tuple[str, float], ...]
"""(identity, scale) of the LoRA adapters in effect, sorted; those of scale 0 left out. Empty is the bare model."""


class TensorImportance(NamedTuple):
    """What one weight was multiplied with while a text was read: float32, little-endian.

    Attributes:
        num_columns: of one matrix; a weight of experts has several.
        sums: of squares, for each column of each matrix.
        counts: rows that were summed, for each matrix or for all.
    """

    num_columns: int
    sums: bytes
    counts: bytes


class StateKeys(NamedTuple):
    """What the bytes of a snapshot depend on, tokens and adapters aside: equal keys, exchangeable snapshots.

    Attributes:
        model: fingerprint of the model file.
        settings: of the context, and of the library that computes.
    """

    model: str
    settings: str


class Backend(SequenceMemory, Protocol):
    """A loaded model with its context. One thread at a time, except `raise_abort`."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""

    @property
    def state_keys(self) -> StateKeys:
        """What a snapshot of its sequences is good for."""

    @property
    def max_step_tokens(self) -> int:
        """Most tokens in a step, at least one for each sequence."""

    @property
    def max_step_logits(self) -> int:
        """Most rows of logits in a step, at least one for each sequence."""

    @property
    def mixes_parts(self) -> bool:
        """Whether the parts of one step may have different lengths."""

    @property
    def description(self) -> ModelDescription:
        """What was found out when it was loaded."""

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        """Compute one step: at most n_batch tokens and one part a sequence.

        Raises:
            DecodeFailed: the step could not be computed; sequences keep what was finished.
        """

    def new_sampler(
        self,
        params: SamplingParams,
        seed: int,
        prompt: Sequence[int],
        *,
        matcher: Matcher | None = None,
        is_thinking: bool = False,
        is_drafted: bool = False,
    ) -> Sampler:
        """Return a sampler for one request.

        Args:
            prompt: feeds the penalties.
            matcher: what the reply has to follow, None where it is free.
            is_thinking: whether the matcher has to wait for `end_thinking`.
            is_drafted: whether tokens that were drawn may be proposed; it then draws in another way, so that the same
                seed gives another text.

        Raises:
            InvalidParams: a setting does not fit this model.
        """

    def new_draft_sampler(self, params: SamplingParams, seed: int, *, num_ids: int | None = None) -> DraftSampler:
        """Return what draws drafts for a request with these settings; penalties and constraints are left out.

        Args:
            num_ids: tokens from this one on are never drawn; the model that is drafted for does not know them.
        """

    def row_digest(self, row: int) -> bytes:
        """Return what tells the logits of a row from all that differ from them in any bit."""

    def load_adapters(self, adapters: Sequence[Adapter]) -> AdapterKey:
        """Make adapters ready for use, loading those that are not yet.

        Raises:
            AdapterMismatch: one cannot be read, is no adapter, or belongs to another model.
            InvalidParams: a scale is out of range, or there are too many.
        """

    def use_adapters(self, key: AdapterKey) -> None:
        """Compute all steps from now on with these; cheap when nothing changes.

        Raises:
            AdapterMismatch: one had to be loaded again, and its file is another one now.
        """

    def set_threads(self, n_decode: int, n_prefill: int) -> None:
        """Compute the next steps with so many threads: one token at a time, and several."""

    def raise_abort(self) -> None:
        """Make the running step, or the next one if none runs, end with ABORTED; safe from any thread."""

    def clear_abort(self) -> None:
        """Take `raise_abort` back."""

    def close(self) -> None:
        """Free the context and the model."""


class Loader(Protocol):
    """Makes backends; one load at a time."""

    def load(
        self, path: str, params: ModelParams, on_progress: OnProgress, *, is_known: bool = False
    ) -> Backend | None:
        """Load a model; None when `on_progress` gave it up.

        Args:
            is_known: whether the file was loaded before, with these settings.

        Raises:
            ModelLoadError: with the reason.
        """

    def measure_cache_types(self, backend: Backend) -> tuple[CacheTypeRow, ...]:
        """Return size and speed of pairs of cache types with the backend that was loaded last.

        Ends early, with rows left unmeasured, when the backend's abort is raised.
        """

    def measure_machine(self, n_threads: int) -> MachineSpeed:
        """Return how fast so many threads read memory and multiply; 0 takes as many as a model would get."""

    def run_bare_loop(self, backend: Backend, request: RunBareLoop) -> BareLoopRun:
        """Run the thinnest loop on the library, with the backend that was loaded last.

        Raises:
            DecodeFailed: it could not be run.
        """

    def sum_importance(
        self, backend: Backend, chunks: Sequence[Sequence[int]], on_chunk: Callable[[int], bool]
    ) -> dict[str, TensorImportance] | None:
        """Return what the weights of the backend that was loaded last were multiplied with; None when it was given up.

        Args:
            chunks: of tokens, all of one length, each read from an empty memory.
            on_chunk: told how many are done; returns False to give up. So does the backend's abort when it is raised.

        Raises:
            DecodeFailed: the chunks could not be read.
        """

    def describe(self) -> EngineDescription:
        """Return versions and devices."""


def new_loader(*, fake: bool) -> Loader:
    """Return a loader; its backend is imported now, since llama.cpp takes a while and a fake one must not need it."""
    if fake:
        from engine.backend_fake import FakeLoader

        return FakeLoader()
    from engine.backend_llama import LlamaLoader

    return LlamaLoader()
