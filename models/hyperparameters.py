"""The sizes of a model as its header gives them, checked against what ends llama.cpp with an abort.

Source of the limits: llama.cpp, src/llama-hparams.h and the assertions of load_hparams() in src/llama-model.cpp.
"""

import dataclasses
from collections.abc import Mapping
from typing import NoReturn

from models.errors import CorruptGGUF
from models.gguf_values import ArrayValue, Value

MAX_LAYERS = 512
MAX_EXPERTS = 1024
MAX_CONTEXT = 2**28  # tokens; twenty times the longest trained one
MAX_WIDTH = 2**20
_DENSE_WITH_ONE_EXPERT = ("hunyuan_vl", "hunyuan-dense")
ROPE_SCALING_TYPES = ("none", "linear", "yarn", "longrope")


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """Sizes of a model; 0 where the header does not tell and the architecture may do without.

    Attributes:
        head_counts, head_counts_kv: one number for each layer; 0 is a layer without attention.
        sliding_window: tokens a windowed layer looks back, 0 where no layer is windowed.
        feed_forward_length: of the widest layer, the experts a token uses taken together.
        state_width: numbers that a layer with a state computes with, 0 where no layer has one.
        num_vocabulary, num_merges: entries of the vocabulary, and of the list of its joined pairs.
        num_prediction_layers: layers that only predict further tokens (MTP), counted in `block_count`.
    """

    n_ctx_train: int
    block_count: int
    embedding_length: int
    head_counts: tuple[int, ...]
    head_counts_kv: tuple[int, ...]
    expert_count: int
    expert_used_count: int
    sliding_window: int
    feed_forward_length: int = 0
    state_width: int = 0
    num_vocabulary: int = 0
    num_merges: int = 0
    num_prediction_layers: int = 0

    @property
    def expert_share(self) -> float:
        """The share of a layer's experts that a token uses."""
        return self.expert_used_count / self.expert_count if self.expert_count else 1.0


def read_hyperparameters(values: Mapping[str, Value], architecture: str, file_name: str) -> Hyperparameters:
    """Return the sizes that the header of a text model holds.

    Raises:
        CorruptGGUF: one is missing, of a wrong type, or impossible.
    """
    return _Reader(values, architecture, file_name).read()


class _Reader:
    def __init__(self, values: Mapping[str, Value], architecture: str, file_name: str) -> None:
        self._values = values
        self._architecture = architecture
        self._file_name = file_name

    def read(self) -> Hyperparameters:
        block_count = self._whole("block_count", minimum=1, maximum=MAX_LAYERS)
        n_ctx_train = self._whole("context_length", minimum=1, maximum=MAX_CONTEXT)
        embedding_length = self._whole("embedding_length", minimum=1, maximum=MAX_WIDTH)
        num_prediction_layers = self._whole("nextn_predict_layers", default=0, maximum=block_count)
        head_counts = self._per_layer("attention.head_count", block_count, (0,) * block_count)
        head_counts_kv = self._per_layer("attention.head_count_kv", block_count, head_counts)
        self._check_heads(head_counts, head_counts_kv)
        expert_count, expert_used_count = self._experts(block_count)
        self._check_rope()
        self._check_epsilons()
        return Hyperparameters(
            n_ctx_train=n_ctx_train,
            block_count=block_count,
            embedding_length=embedding_length,
            head_counts=head_counts,
            head_counts_kv=head_counts_kv,
            expert_count=expert_count,
            expert_used_count=expert_used_count,
            sliding_window=self._sliding_window(),
            feed_forward_length=max(
                self._largest("feed_forward_length"), self._largest("expert_feed_forward_length") * expert_used_count
            ),
            state_width=self._largest("ssm.inner_size"),
            num_vocabulary=self._array_length("tokenizer.ggml.tokens"),
            num_merges=self._array_length("tokenizer.ggml.merges"),
            num_prediction_layers=num_prediction_layers,
        )

    def _corrupt(self, what: str) -> NoReturn:
        raise CorruptGGUF(f"{self._file_name} is damaged: {what}.", "Download or copy the file again.")

    def _key(self, name: str) -> str:
        return f"{self._architecture}.{name}"

    def _whole(self, name: str, *, maximum: int, minimum: int = 0, default: int | None = None) -> int:
        value = self._values.get(self._key(name), default)
        if value is None:
            self._corrupt(f"it does not say its {name}")
        if not isinstance(value, int) or isinstance(value, bool):
            self._corrupt(f"its {name} is no whole number")
        if not minimum <= value <= maximum:
            self._corrupt(f"its {name} is {value:,}, outside {minimum:,} to {maximum:,}")
        return value

    def _per_layer(self, name: str, block_count: int, default: tuple[int, ...]) -> tuple[int, ...]:
        value = self._values.get(self._key(name))
        if value is None:
            return default
        if isinstance(value, ArrayValue):
            numbers = value.numbers()
            if numbers is None or len(numbers) < block_count or any(not isinstance(n, int) for n in numbers):
                self._corrupt(f"its {name} does not hold a whole number for each of {block_count} layers")
            counts = tuple(int(n) for n in numbers[:block_count])
            if any(not 0 <= n <= MAX_WIDTH for n in counts):
                self._corrupt(f"its {name} holds {max(counts, key=abs):,}")
            return counts
        return (self._whole(name, maximum=MAX_WIDTH),) * block_count

    def _check_heads(self, head_counts: tuple[int, ...], head_counts_kv: tuple[int, ...]) -> None:
        for heads, heads_kv in zip(head_counts, head_counts_kv, strict=True):
            if heads_kv and heads % heads_kv:
                self._corrupt(f"it has {heads} attention heads on {heads_kv} key and value heads in one layer")

    def _experts(self, block_count: int) -> tuple[int, int]:
        count = self._whole("expert_count", default=0, maximum=MAX_EXPERTS)
        used = max(self._per_layer("expert_used_count", block_count, (0,)))
        if count <= 1 and self._architecture in _DENSE_WITH_ONE_EXPERT:
            return 0, 0
        if used > count or (count and not used):
            self._corrupt(f"it uses {used} of {count} experts")
        groups = self._whole("expert_group_count", default=0, maximum=MAX_EXPERTS)
        used_groups = self._whole("expert_group_used_count", default=0, maximum=MAX_EXPERTS)
        if groups and groups >= count:
            self._corrupt(f"it has {count} experts in {groups} groups")
        if groups > 1 and (count % groups or not 0 < used_groups < groups):
            self._corrupt(f"it uses {used_groups} of {groups} groups of its {count} experts")
        return count, used

    def _check_rope(self) -> None:
        scaling = self._values.get(self._key("rope.scaling.type"), "linear")
        if scaling not in ROPE_SCALING_TYPES:
            shown = repr(scaling[:40]) if isinstance(scaling, str) else "no text"
            self._corrupt(f"its rope.scaling.type is {shown}, which does not exist")

    def _check_epsilons(self) -> None:
        for name in ("layer_norm_rms_epsilon", "layer_norm_epsilon", "group_norm_epsilon"):
            value = self._values.get(self._key(f"attention.{name}"), 0.0)
            if not isinstance(value, float | int) or not 0 <= value < 1:  # refuses NaN as well
                self._corrupt(f"its attention.{name} is {value!r}")

    def _sliding_window(self) -> int:
        value = self._values.get(self._key("attention.sliding_window"), 0)
        return value if isinstance(value, int) and value > 0 else 0

    def _largest(self, name: str) -> int:
        """Return the largest of the values of all layers, 0 where there is none that is possible."""
        value = self._values.get(self._key(name), 0)
        numbers = value.numbers() or () if isinstance(value, ArrayValue) else (value,)
        return max((n for n in numbers if isinstance(n, int) and 0 <= n <= MAX_WIDTH), default=0)

    def _array_length(self, key: str) -> int:
        value = self._values.get(key)
        return value.num_elements if isinstance(value, ArrayValue) else 0
