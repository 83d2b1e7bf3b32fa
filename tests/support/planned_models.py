"""Files of architectures that no test runs: headers that llama.cpp plans contexts for, and holes for the weights."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy

_WIDTH, _HEADS, _HEADS_KV, _HEAD, _FEED_FORWARD, _VOCABULARY = 128, 4, 2, 32, 256, 64
_STATE, _GROUPS, _RANK, _KERNEL = 16, 2, 8, 4

Tensors = list[tuple[str, tuple[int, ...]]]
"""Names and shapes, the row first."""


class PlannedModel(NamedTuple):
    """How to write a file.

    Attributes:
        keys: without the name of the architecture.
        tensors: of a layer, by its number.
        num_tokens: of the vocabulary.
    """

    architecture: str
    num_layers: int
    keys: dict[str, int | float | list[int]]
    tensors: Callable[[int], Tensors]
    has_output: bool = True
    num_tokens: int = _VOCABULARY

    def write(self, path: Path) -> Path:
        """Write the file; its tensors are holes."""
        file: Any = gguf.GGUFWriter(path, self.architecture)
        file.add_context_length(131_072)
        file.add_embedding_length(_WIDTH)
        file.add_block_count(self.num_layers)
        file.add_layer_norm_rms_eps(1e-5)
        file.add_layer_norm_eps(1e-5)
        file.add_head_count(_HEADS)
        file.add_head_count_kv(_HEADS_KV)
        file.add_key_length(_HEAD)
        file.add_value_length(_HEAD)
        file.add_rope_dimension_count(_HEAD)
        file.add_feed_forward_length(_FEED_FORWARD)
        for name, value in self.keys.items():
            add = {int: file.add_uint32, float: file.add_float32, list: file.add_array}[type(value)]
            add(f"{self.architecture}.{name}", value)
        file.add_tokenizer_model("llama")
        file.add_token_list([f"t{number}" for number in range(self.num_tokens)])
        file.add_token_scores([0.0] * self.num_tokens)
        file.add_token_types([1] * self.num_tokens)
        file.add_bos_token_id(1)
        file.add_eos_token_id(2)
        tensors: Tensors = [("token_embd.weight", (_WIDTH, self.num_tokens)), ("output_norm.weight", (_WIDTH,))]
        tensors += [("output.weight", (_WIDTH, self.num_tokens))] if self.has_output else []
        for layer in range(self.num_layers):
            tensors += [(f"blk.{layer}.{name}", shape) for name, shape in self.tensors(layer)]
        data_bytes = sum(_add(file, name, shape) for name, shape in tensors)
        file.write_header_to_file()
        file.write_kv_data_to_file()
        file.write_ti_data_to_file()
        file.close()
        os.truncate(path, _aligned(path.stat().st_size) + data_bytes)
        return path


def _add(file: Any, name: str, shape: tuple[int, ...]) -> int:
    kind = numpy.dtype(numpy.float32 if len(shape) == 1 else numpy.float16)
    num_bytes = int(numpy.prod(shape)) * kind.itemsize
    file.add_tensor_info(name, tuple(reversed(shape)), kind, num_bytes)
    return _aligned(num_bytes)


def _aligned(num_bytes: int) -> int:
    return (num_bytes + 31) // 32 * 32


def _attention(query: int = _HEADS * _HEAD) -> Tensors:
    return [
        ("attn_q.weight", (_WIDTH, query)),
        ("attn_k.weight", (_WIDTH, _HEADS_KV * _HEAD)),
        ("attn_v.weight", (_WIDTH, _HEADS_KV * _HEAD)),
        ("attn_output.weight", (_HEADS * _HEAD, _WIDTH)),
    ]


def _norms(*names: str, width: int = _WIDTH) -> Tensors:
    return [(f"{name}.weight", (width,)) for name in names]


_HEAD_NORMS = _norms("attn_q_norm", "attn_k_norm", width=_HEAD)
_POST_NORMS = _norms("post_attention_norm", "post_ffw_norm")
_GATED = [
    ("ffn_gate.weight", (_WIDTH, _FEED_FORWARD)),
    ("ffn_up.weight", (_WIDTH, _FEED_FORWARD)),
    ("ffn_down.weight", (_FEED_FORWARD, _WIDTH)),
]
_OLMO = [*_attention(), *_norms("attn_q_norm"), *_norms("attn_k_norm", width=_HEADS_KV * _HEAD), *_POST_NORMS, *_GATED]
_EXAONE = [*_attention(), *_HEAD_NORMS, *_POST_NORMS, *_GATED]


def _delta_net(layer: int, num_own: int) -> Tensors:
    """Return a layer of Qwen 3.5: every fourth has attention, those beyond the own ones draft tokens."""
    keys, values = _STATE * _GROUPS, _STATE * _RANK
    begin = [*_norms("attn_norm", "post_attention_norm"), *_GATED]
    if layer >= num_own or (layer + 1) % 4 == 0:
        draft = [("nextn.eh_proj.weight", (2 * _WIDTH, _WIDTH)), *_norms("nextn.enorm", "nextn.hnorm")]
        own = [*begin, *_attention(2 * _HEADS * _HEAD), *_HEAD_NORMS]
        return own + (draft if layer >= num_own else [])
    return [
        *begin,
        ("attn_qkv.weight", (_WIDTH, 2 * keys + values)),
        ("attn_gate.weight", (_WIDTH, values)),
        ("ssm_conv1d.weight", (_KERNEL, 2 * keys + values)),
        ("ssm_dt.bias", (_RANK,)),
        ("ssm_a", (_RANK,)),
        ("ssm_beta.weight", (_WIDTH, _RANK)),
        ("ssm_alpha.weight", (_WIDTH, _RANK)),
        *_norms("ssm_norm", width=_STATE),
        ("ssm_out.weight", (values, _WIDTH)),
    ]


def _both(layer: int) -> Tensors:
    """Return a layer of Falcon H1, which has attention and a state."""
    inner = _STATE * _RANK
    width = inner + 2 * _GROUPS * _STATE
    return [
        *(*_norms("attn_norm"), *_attention(), *_GATED, ("ffn_norm", (_WIDTH,))),
        ("ssm_in.weight", (_WIDTH, inner + width + _RANK)),
        ("ssm_conv1d.weight", (_KERNEL, width)),
        ("ssm_conv1d.bias", (width,)),
        ("ssm_dt.bias", (_RANK,)),
        ("ssm_a", (1, _RANK)),
        ("ssm_d", (1, _RANK)),
        ("ssm_out.weight", (inner, _WIDTH)),
    ]


_STATES: dict[str, int | float | list[int]] = {
    "ssm.conv_kernel": _KERNEL,
    "ssm.inner_size": _STATE * _RANK,
    "ssm.state_size": _STATE,
    "ssm.time_step_rank": _RANK,
    "ssm.group_count": _GROUPS,
}
_DELTA_NET = {**_STATES, "rope.dimension_sections": [8, 8, 0, 0]}

PLANNED_MODELS = {
    "gemma2": PlannedModel(
        "gemma2", 6, {}, lambda layer: [*_norms("attn_norm", "ffn_norm"), *_attention(), *_GATED, *_POST_NORMS], False
    ),
    "cohere2": PlannedModel(
        "cohere2",
        8,
        {"attention.sliding_window": 300, "logit_scale": 0.5},
        lambda layer: [*_norms("attn_norm"), *_attention(), *_GATED],
        False,
    ),
    "olmo2": PlannedModel("olmo2", 8, {}, lambda layer: _OLMO),
    "olmo2-window": PlannedModel("olmo2", 8, {"attention.sliding_window": 300}, lambda layer: _OLMO),
    "exaone4": PlannedModel("exaone4", 8, {"attention.sliding_window": 512}, lambda layer: _EXAONE),
    "exaone4-window": PlannedModel("exaone4", 64, {"attention.sliding_window": 512}, lambda layer: _EXAONE),
    "qwen35": PlannedModel("qwen35", 8, _DELTA_NET, lambda layer: _delta_net(layer, 8)),
    "qwen35-draft": PlannedModel(
        "qwen35", 9, {**_DELTA_NET, "nextn_predict_layers": 1}, lambda layer: _delta_net(layer, 8)
    ),
    "falcon-h1": PlannedModel("falcon-h1", 4, _STATES, _both),
}
"""By name; what their memories hold differs from that of the tiny models."""
