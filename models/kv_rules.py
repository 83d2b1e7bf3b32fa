"""Which layer of a model keeps what: the rules of llama.cpp for each architecture, applied to the header of a file.

Sources: llama.cpp, load_hparams() and create_memory() in src/llama-model.cpp, n_embd_r() and n_embd_s() in
src/llama-hparams.cpp, and load_arch_hparams() in src/models/. What those rules do not tell here becomes a doubt.
"""

from collections.abc import Mapping
from typing import NamedTuple

from models.gguf_values import ArrayValue, Value
from models.hyperparameters import MAX_CONTEXT, MAX_WIDTH, Hyperparameters
from models.kv_layout import KVLayout, LayerCache

_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
# Layers without key and value heads have a state instead.
_HYBRID = frozenset(
    {
        *("jamba", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe"),
        *("kimi-linear", "bailingmoe3"),
    }
)
# Every n-th layer has attention, the others a state, unless the header has a list.
_HYBRID_INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "minimax-01": 8}
_BOTH_IN_EACH_LAYER = "falcon-h1"
# Their memories have parts beside keys, values and states, or layers that the header does not count.
_OTHER_MEMORY = frozenset(
    {
        *("minimax-m3", "glm-dsa", "deepseek32", "glm5-next", "hy_v4", "dots3note", "deepseek4", "qwen4exp", "kimi-k3"),
        *("graniteswitch", "nanbeige", "hrm_text", "gemma4-assistant", "dflash", "eagle3"),
    }
)
_ATTENTION_PLAIN_FEED_FORWARD = ("nemotron_h", "nemotron_h_moe")  # layers with neither heads nor a state are these
_GEMMA3N_OWN_CACHES = 20  # later layers share the caches of these
_EXAONE4_WITH_WINDOWS = 64


class _Windows(NamedTuple):
    """Which layers of an architecture look back over a window only.

    Attributes:
        period: of so many layers, all but one have a window; 0 where only a list in the header tells.
        is_dense_first: whether that one comes first, not last.
        default: tokens of a window where the header does not say; 0 is no window.
        fixed: tokens of a window where there is one, whatever the header says.
    """

    period: int
    is_dense_first: bool = False
    default: int = 0
    fixed: int = 0


_WINDOWS = {
    "gemma2": _Windows(2, default=4096),
    "gemma3": _Windows(6),
    "gemma3n": _Windows(5),
    "gemma4": _Windows(0),
    "gpt-oss": _Windows(2),
    "cohere2": _Windows(4),
    "cohere2moe": _Windows(4, is_dense_first=True),
    "exaone4": _Windows(4, default=4096),
    "exaone-moe": _Windows(4, default=128),
    "olmo2": _Windows(4),
    "plamo3": _Windows(8),
    "llama4": _Windows(4, default=8192, fixed=8192),
    "muse-glimmer": _Windows(4),
    "afmoe": _Windows(4),
    "laguna": _Windows(4, is_dense_first=True),
    "mellum": _Windows(4),
    "smallthinker": _Windows(4, is_dense_first=True, fixed=4096),
    "step35": _Windows(0),
    "spark2_5": _Windows(0),
    "granite_swa": _Windows(0),
    "mimo2": _Windows(0),
    "maple": _Windows(0),
}
_PLAIN_DESPITE_WINDOW = frozenset({"phi3", "llama", "mistral3", "qwen2", "qwen3", "starcoder2"})


class _Unreadable(Exception):
    """A key holds what cannot be; the text says what."""


def read_kv_layout(values: Mapping[str, Value], architecture: str, sizes: Hyperparameters) -> KVLayout:
    """Return what the layers of a text model keep; no layers, and a doubt, where the header makes no sense."""
    try:
        return _Reader(values, architecture, sizes).read()
    except _Unreadable as fault:
        return KVLayout((), doubts=(str(fault),))


class _Reader:
    def __init__(self, values: Mapping[str, Value], architecture: str, sizes: Hyperparameters) -> None:
        self._values = values
        self._architecture = architecture
        self._sizes = sizes
        self._doubts: list[str] = []

    def read(self) -> KVLayout:
        count = self._sizes.block_count
        num_own = count - self._whole("nextn_predict_layers", maximum=count)
        heads = self._sizes.head_counts[0]
        default = self._sizes.embedding_length // heads if heads else 0
        is_read = bool(heads) or self._architecture == "plamo2"
        key = self._whole("attention.key_length", default=default) if is_read else 0
        value = self._whole("attention.value_length", default=default) if is_read else 0
        key_swa = self._whole("attention.key_length_swa", default=key)
        value_swa = self._whole("attention.value_length_swa", default=value)
        is_latent = bool(self._whole("attention.key_length_mla") and self._whole("attention.value_length_mla"))
        window, is_windowed = self._windows(num_own)
        has_state = self._states(num_own)
        has_cache = self._caches(num_own, has_state)
        state = self._state_numbers() if any(has_state) else 0
        self._doubt_what_is_not_known(window)
        layers = []
        for layer, heads_kv in enumerate(self._sizes.head_counts_kv):
            k, v = (key_swa, value_swa) if is_windowed[layer] else (key, value)
            kept = heads_kv if has_cache[layer] else 0
            layers.append(
                LayerCache(
                    has_cache=has_cache[layer],
                    key_width=self._width(k * kept),
                    value_width=0 if is_latent else self._width(v * kept),
                    is_windowed=is_windowed[layer] and has_cache[layer],
                    state=state if has_state[layer] else 0,
                )
            )
        return KVLayout(
            layers=tuple(layers),
            window=window,
            key_heads=self._written_heads("key", key),
            value_heads=self._written_heads("value", value),
            needs_equal_types=is_latent or self._architecture == "deepseek4",
            doubts=tuple(self._doubts),
        )

    # --- values ---

    def _value(self, name: str) -> Value | None:
        return self._values.get(f"{self._architecture}.{name}")

    def _whole(self, name: str, *, default: int = 0, maximum: int = MAX_WIDTH) -> int:
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
            raise _Unreadable(f"its {name} cannot be used")
        return value

    def _width(self, width: int) -> int:
        if width > MAX_WIDTH * 16:
            raise _Unreadable("its key and value heads are impossibly wide")
        return width

    def _flags(self, name: str) -> list[bool] | None:
        """Return a list of one flag a layer, None where the header has none."""
        value = self._value(name)
        if not isinstance(value, ArrayValue):
            return None
        numbers = value.numbers()
        if numbers is None or len(numbers) < self._sizes.block_count:
            raise _Unreadable(f"its {name} does not have one value for each layer")
        return [bool(number) for number in numbers[: self._sizes.block_count]]

    def _written_heads(self, what: str, size: int) -> tuple[int, ...]:
        """Return the sizes the engine checks against the blocks of a cache type."""
        swa = self._whole(f"attention.{what}_length_swa")
        return tuple(dict.fromkeys(part for part in (size, swa) if part))

    # --- windows ---

    def _windows(self, num_own: int) -> tuple[int, list[bool]]:
        """Return the tokens of a window, and which layers have one."""
        none = [False] * self._sizes.block_count
        written = self._whole("attention.sliding_window", maximum=MAX_CONTEXT)
        is_written = self._value("attention.sliding_window") is not None
        if self._architecture == "lfm2":
            return (written, [heads > 0 for heads in self._sizes.head_counts_kv]) if written else (0, none)
        rule = _WINDOWS.get(self._architecture)
        if rule is None or (self._architecture == "exaone4" and num_own != _EXAONE4_WITH_WINDOWS):
            return 0, none
        window = written if is_written else rule.default
        if not window:
            return 0, none
        flags = self._flags("attention.sliding_window_pattern")
        if flags is None:
            flags = self._pattern(rule, num_own)
        return rule.fixed or window, flags

    def _pattern(self, rule: _Windows, num_own: int) -> list[bool]:
        period = self._whole("attention.sliding_window_pattern", default=rule.period)
        if not period and not rule.period:
            raise _Unreadable("it does not say which layers have a window")
        if not period:
            flags = [True] * num_own
        elif rule.is_dense_first:
            flags = [layer % period != 0 for layer in range(num_own)]
        else:
            flags = [layer % period < period - 1 for layer in range(num_own)]
        return flags + [False] * (self._sizes.block_count - num_own)

    # --- states ---

    def _states(self, num_own: int) -> list[bool]:
        """Return which layers keep a state."""
        count, name = self._sizes.block_count, self._architecture
        own = [layer < num_own for layer in range(count)]
        if name in _RECURRENT or name == _BOTH_IN_EACH_LAYER:
            return own
        if name in _ATTENTION_PLAIN_FEED_FORWARD:
            pairs = zip(self._sizes.head_counts_kv, self._feed_forward(), strict=True)
            return [is_own and not heads and not n_ff for is_own, (heads, n_ff) in zip(own, pairs, strict=True)]
        if name in _HYBRID:
            return [is_own and not heads for is_own, heads in zip(own, self._sizes.head_counts_kv, strict=True)]
        if name in _HYBRID_INTERVALS:
            flags = self._flags("attention.recurrent_layers")
            interval = max(self._whole("full_attention_interval", default=_HYBRID_INTERVALS[name]), 1)
            flags = flags or [(layer + 1) % interval != 0 for layer in range(count)]
            return [is_own and flag for is_own, flag in zip(own, flags, strict=True)]
        return [False] * count

    def _caches(self, num_own: int, has_state: list[bool]) -> list[bool]:
        """Return which layers keep keys and values."""
        count, name = self._sizes.block_count, self._architecture
        own = [layer < num_own for layer in range(count)]
        if name in _RECURRENT:
            return [False] * count
        if name == _BOTH_IN_EACH_LAYER:
            return [True] * count
        if name in _ATTENTION_PLAIN_FEED_FORWARD:
            return [not state and not n_ff for state, n_ff in zip(has_state, self._feed_forward(), strict=True)]
        if name in _HYBRID:
            return [not state for state in has_state]
        if name == "gemma3n":
            return [is_own and layer < _GEMMA3N_OWN_CACHES for layer, is_own in enumerate(own)]
        if name == "gemma4":
            first = count - self._whole("attention.shared_kv_layers", maximum=count)
            return [is_own and layer < first for layer, is_own in enumerate(own)]
        return [is_own and not state for is_own, state in zip(own, has_state, strict=True)]

    def _feed_forward(self) -> list[int]:
        value = self._value("feed_forward_length")
        count = self._sizes.block_count
        if isinstance(value, ArrayValue):
            numbers = value.numbers()
            if numbers is None or len(numbers) < count:
                raise _Unreadable("its feed_forward_length does not have one value for each layer")
            return [int(number) for number in numbers[:count]]
        return [self._whole("feed_forward_length")] * count

    def _state_numbers(self) -> int:
        """Return the numbers of one layer's state, for one sequence."""
        width, heads = self._sizes.embedding_length, self._sizes.head_counts[0]
        kernel = self._whole("ssm.conv_kernel")
        if size := self._whole("wkv.head_size"):
            return self._width(self._whole("token_shift_count", default=2) * width) + width * size
        if size := self._whole("shortconv.l_cache"):
            return width * (size - 1)
        if size := self._whole("kda.head_dim"):
            return 3 * (kernel - 1 if kernel else 3) * heads * size + size * size * heads
        inner, state, groups = (self._whole(f"ssm.{name}") for name in ("inner_size", "state_size", "group_count"))
        if self._architecture == "minimax-01":
            size = self._whole("attention.key_length", default=width // heads if heads else 0)
            return size * size * heads
        if not inner or not state:
            raise _Unreadable("it does not say how large its states are")
        return max(kernel - 1, 0) * (inner + 2 * groups * state) + state * inner

    def _doubt_what_is_not_known(self, window: int) -> None:
        name = self._architecture
        if name in _OTHER_MEMORY:
            self._doubts.append(f"models of the architecture {name} keep more than keys and values")
        has_window = bool(self._whole("attention.sliding_window", maximum=MAX_CONTEXT))
        if has_window and not window and name not in _WINDOWS and name not in _PLAIN_DESPITE_WINDOW:
            self._doubts.append("which of its layers have a sliding window is not known")
        is_known = name in _RECURRENT | _HYBRID | _OTHER_MEMORY or name in (*_HYBRID_INTERVALS, _BOTH_IN_EACH_LAYER)
        has_state = any(self._value(key) is not None for key in ("ssm.state_size", "wkv.head_size", "kda.head_dim"))
        if has_state and not is_known:
            self._doubts.append("which of its layers keep a state is not known")
