"""A tiny random model of every kind of memory and architecture that behaves differently: all run on llama.cpp.

Their replies depend on everything they were given, and the best next token is mostly well ahead of the second: so a
fault of the cache shows in the text, and rounding does not.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy

from engine import MemoryKind
from tests.support.gguf_files import (
    CHATML,
    bpe_vocabulary,
    edit_gguf,
    finish_file,
    spm_vocabulary,
    tensor_adder,
    write_tiny_model,
    write_vocabulary,
)

WINDOW = 32
_N_EMBD = 64
_HEAD = 16
_N_HEAD = 4
_N_FF = 128
_CONTEXT = 4096  # far beyond what any test holds, so that nothing warns of it


class TinyModel(NamedTuple):
    """How to write a model, and how it keeps its context."""

    write: Callable[[Path], Path]
    memory: MemoryKind


class _Writer:
    """Writes one model: keys first, then tensors; shapes of tensors are in numpy's order, the reverse of GGUF's."""

    def __init__(
        self, path: Path, arch: str, *, n_layer: int, vocab: str = "bpe", embedding_scale: float = 1.0, seed: int = 0
    ) -> None:
        self.path = path
        self.file: Any = gguf.GGUFWriter(path, arch)
        self.arch = arch
        vocabulary = bpe_vocabulary() if vocab == "bpe" else spm_vocabulary()
        ends = ("<|endoftext|>", "<|im_end|>") if vocab == "bpe" else ("<s>", "</s>")
        self.file.add_name(f"tiny {arch}")
        self.file.add_file_type(gguf.LlamaFileType.ALL_F32)
        self.file.add_context_length(_CONTEXT)
        self.file.add_embedding_length(_N_EMBD)
        self.file.add_block_count(n_layer)
        self.file.add_layer_norm_rms_eps(1e-5)
        write_vocabulary(self.file, vocabulary, pre="gpt-2", add_bos=False, bos=ends[0], eos=ends[1])
        self.file.add_chat_template(CHATML)
        self.add = tensor_adder(self.file, seed)
        self._random = numpy.random.default_rng(seed + 1)
        # Tied to the input, the output would repeat the last token.
        self.add("token_embd.weight", len(vocabulary.tokens), _N_EMBD, scale=embedding_scale)
        self.add("output.weight", len(vocabulary.tokens), _N_EMBD, scale=1.0)

    def norms(self, layer: int, *names: str, width: int = _N_EMBD) -> None:
        """Add norms of a layer that change nothing."""
        for name in names:
            self.add(f"blk.{layer}.{name}.weight", width, ones=True)

    def matrices(self, layer: int, /, **shapes: tuple[int, ...]) -> None:
        """Add weights of a layer by name, each with its output first."""
        for name, shape in shapes.items():
            self.add(f"blk.{layer}.{name}.weight", *shape)

    def attention(self, layer: int, *, n_head: int = _N_HEAD, n_head_kv: int = 2, norm: bool = False) -> None:
        """Add the projections of an attention layer, with norms of queries and keys if asked."""
        rows = {"attn_q": n_head, "attn_k": n_head_kv, "attn_v": n_head_kv}
        self.matrices(layer, **{name: (n * _HEAD, _N_EMBD) for name, n in rows.items()})
        self.matrices(layer, attn_output=(_N_EMBD, n_head * _HEAD))
        if norm:
            self.norms(layer, "attn_q_norm", "attn_k_norm", width=_HEAD)

    def feed_forward(self, layer: int, n_ff: int = _N_FF, suffix: str = "") -> None:
        """Add a gated feed-forward network."""
        gated = {f"ffn_gate{suffix}": (n_ff, _N_EMBD), f"ffn_up{suffix}": (n_ff, _N_EMBD)}
        self.matrices(layer, **gated, **{f"ffn_down{suffix}": (_N_EMBD, n_ff)})

    def experts(self, layer: int, *, n_expert: int, n_ff: int) -> None:
        """Add a router and its experts."""
        self.matrices(
            layer,
            ffn_gate_inp=(n_expert, _N_EMBD),
            ffn_gate_exps=(n_expert, n_ff, _N_EMBD),
            ffn_up_exps=(n_expert, n_ff, _N_EMBD),
            ffn_down_exps=(n_expert, _N_EMBD, n_ff),
        )

    def state_space(self, *, n_rank: int, n_group: int | None = None) -> None:
        """Add the keys of Mamba layers, of the second version where groups are given."""
        self.file.add_ssm_conv_kernel(4)
        self.file.add_ssm_inner_size(2 * _N_EMBD)
        self.file.add_ssm_state_size(8)
        self.file.add_ssm_time_step_rank(n_rank)
        if n_group is not None:
            self.file.add_ssm_group_count(n_group)

    def decay(self, name: str, *shape: int) -> None:
        """Add rates at which states fade: from almost not to within a few tokens."""
        self.file.add_tensor(name, -numpy.exp(self._random.uniform(-6.0, 0.0, shape)).astype(numpy.float32))

    def mamba(self, layer: int, *, n_rank: int, norm: bool = False) -> None:
        """Add a Mamba layer."""
        n_inner, n_state, block = 2 * _N_EMBD, 8, f"blk.{layer}."
        self.matrices(
            layer,
            ssm_in=(2 * n_inner, _N_EMBD),
            ssm_conv1d=(n_inner, 4),
            ssm_x=(n_rank + 2 * n_state, n_inner),
            ssm_dt=(n_inner, n_rank),
            ssm_out=(_N_EMBD, n_inner),
        )
        self.add(f"{block}ssm_conv1d.bias", n_inner)
        self.add(f"{block}ssm_dt.bias", n_inner)
        self.decay(f"{block}ssm_a", n_inner, n_state)
        self.add(f"{block}ssm_d", n_inner, ones=True)
        if norm:
            self.norms(layer, "ssm_dt_norm", width=n_rank)
            self.norms(layer, "ssm_b_norm", "ssm_c_norm", width=n_state)

    def mamba2(self, layer: int, *, n_rank: int) -> None:
        """Add a layer of Mamba's second version, with one group."""
        n_inner, n_state, block = 2 * _N_EMBD, 8, f"blk.{layer}."
        width = n_inner + 2 * n_state
        self.matrices(
            layer,
            ssm_in=(n_inner + width + n_rank, _N_EMBD),
            ssm_conv1d=(width, 4),
            ssm_out=(_N_EMBD, n_inner),
        )
        self.add(f"{block}ssm_conv1d.bias", width)
        self.add(f"{block}ssm_dt.bias", n_rank)
        self.decay(f"{block}ssm_a", n_rank, 1)
        self.add(f"{block}ssm_d", n_rank, 1, ones=True)
        self.add(f"{block}ssm_norm.weight", 1, n_inner, ones=True)

    def finish(self, *, norm: str = "output_norm") -> Path:
        """Write the file and return its path."""
        self.add(f"{norm}.weight", _N_EMBD, ones=True)
        finish_file(self.file)
        return self.path


# --- plain attention ---


def _grouped(path: Path) -> Path:
    return write_tiny_model(path, n_head=_N_HEAD, n_head_kv=2, n_ctx_train=_CONTEXT)


def _sentence_piece(path: Path) -> Path:
    return write_tiny_model(path, vocab="spm", n_ctx_train=_CONTEXT, seed=3)


def _sections(path: Path) -> Path:
    """Write a model whose positions have several parts, as those of models that see images."""
    plain = write_tiny_model(path.with_suffix(".plain"), arch="qwen2vl", n_head=_N_HEAD, n_ctx_train=_CONTEXT, seed=5)
    edit_gguf(plain, path, set={"qwen2vl.rope.dimension_sections": [2, 3, 3, 0]})
    plain.unlink()
    return path


def _uneven(path: Path) -> Path:
    """Write a model whose layers have different numbers of heads, one none at all."""
    heads, heads_kv, widths = (4, 4, 0, 4), (2, 1, 0, 4), (128, 64, 96, 128)
    made = _Writer(path, "deci", n_layer=len(heads))
    made.file.add_head_count(list(heads))
    made.file.add_head_count_kv(list(heads_kv))
    made.file.add_feed_forward_length(list(widths))
    made.file.add_rope_dimension_count(_HEAD)
    for layer, (n_head, n_head_kv, n_ff) in enumerate(zip(heads, heads_kv, widths, strict=True)):
        if n_head:
            made.norms(layer, "attn_norm")
            made.attention(layer, n_head=n_head, n_head_kv=n_head_kv)
        made.norms(layer, "ffn_norm")
        made.feed_forward(layer, n_ff)
    return made.finish()


def _experts(path: Path) -> Path:
    made = _Writer(path, "olmoe", n_layer=2)
    _add_heads(made, _N_HEAD)
    made.file.add_feed_forward_length(_HEAD)
    made.file.add_expert_count(8)
    made.file.add_expert_used_count(2)
    for layer in range(2):
        made.norms(layer, "attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm")
        made.attention(layer, n_head_kv=_N_HEAD)
        made.experts(layer, n_expert=8, n_ff=_HEAD)
    return made.finish()


def _latent(path: Path) -> Path:
    """Write a model with latent attention: a cell holds one narrow row for all heads, and no values."""
    n_rank, n_rope, n_nope, n_value = 32, 8, 8, 16
    made = _Writer(path, "deepseek2", n_layer=2)
    made.file.add_head_count(_N_HEAD)
    made.file.add_head_count_kv(1)
    made.file.add_rope_dimension_count(n_rope)
    made.file.add_q_lora_rank(n_rank)
    made.file.add_kv_lora_rank(n_rank)
    made.file.add_key_length(n_rank + n_rope)
    made.file.add_value_length(n_rank)
    made.file.add_key_length_mla(n_nope + n_rope)
    made.file.add_value_length_mla(n_value)
    made.file.add_feed_forward_length(_N_FF)
    made.file.add_leading_dense_block_count(1)
    made.file.add_expert_count(4)
    made.file.add_expert_used_count(2)
    made.file.add_expert_shared_count(1)
    made.file.add_expert_feed_forward_length(_HEAD)
    for layer in range(2):
        made.norms(layer, "attn_norm", "ffn_norm")
        made.norms(layer, "attn_q_a_norm", "attn_kv_a_norm", width=n_rank)
        made.matrices(
            layer,
            attn_q_a=(n_rank, _N_EMBD),
            attn_q_b=(_N_HEAD * (n_nope + n_rope), n_rank),
            attn_kv_a_mqa=(n_rank + n_rope, _N_EMBD),
            attn_k_b=(_N_HEAD, n_rank, n_nope),
            attn_v_b=(_N_HEAD, n_value, n_rank),
            attn_output=(_N_EMBD, _N_HEAD * n_value),
        )
        if layer == 0:
            made.feed_forward(layer)
        else:
            made.experts(layer, n_expert=4, n_ff=_HEAD)
            made.feed_forward(layer, _HEAD, "_shexp")
    return made.finish()


# --- sliding windows ---


def _window(path: Path) -> Path:
    """Write a Gemma-like model: two layers of three look back over a window only."""
    made = _Writer(path, "gemma3", n_layer=3, embedding_scale=_N_EMBD**-0.5)  # the model scales it up again
    _add_heads(made, 2)
    made.file.add_feed_forward_length(_N_FF)
    made.file.add_sliding_window(WINDOW)
    made.file.add_sliding_window_pattern(3)
    for layer in range(3):
        made.norms(layer, "attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
        made.attention(layer, norm=True)
        made.feed_forward(layer)
    return made.finish()


def _window_experts(path: Path) -> Path:
    """Write a model like gpt-oss: every other layer has a window, heads have sinks, experts have biases."""
    made = _Writer(path, "gpt-oss", n_layer=4)
    _add_heads(made, 2)
    made.file.add_feed_forward_length(_HEAD)
    made.file.add_expert_feed_forward_length(_HEAD)
    made.file.add_expert_count(4)
    made.file.add_expert_used_count(2)
    made.file.add_sliding_window(WINDOW)
    for layer in range(4):
        block = f"blk.{layer}."
        made.norms(layer, "attn_norm", "post_attention_norm")
        made.attention(layer)
        made.add(f"{block}attn_output.bias", _N_EMBD)
        made.add(f"{block}attn_sinks.weight", _N_HEAD)
        made.experts(layer, n_expert=4, n_ff=_HEAD)
        made.add(f"{block}ffn_gate_inp.bias", 4)
        made.add(f"{block}ffn_gate_exps.bias", 4, _HEAD)
        made.add(f"{block}ffn_up_exps.bias", 4, _HEAD)
        made.add(f"{block}ffn_down_exps.bias", 4, _N_EMBD)
    return made.finish()


# --- recurrent states ---


def _mamba(path: Path) -> Path:
    made = _Writer(path, "mamba", n_layer=2)
    _add_no_attention(made)
    made.state_space(n_rank=4)
    for layer in range(2):
        made.norms(layer, "attn_norm")
        made.mamba(layer, n_rank=4)
    return made.finish()


def _mamba2(path: Path) -> Path:
    made = _Writer(path, "mamba2", n_layer=2)
    _add_no_attention(made)
    made.state_space(n_rank=8, n_group=1)
    for layer in range(2):
        made.norms(layer, "attn_norm")
        made.mamba2(layer, n_rank=8)
    return made.finish()


# --- attention and states ---


def _jamba(path: Path) -> Path:
    """Write a model of Mamba and attention layers in turn, one of them with experts."""
    made = _Writer(path, "jamba", n_layer=4)
    heads_kv = _add_hybrid_heads(made)
    made.state_space(n_rank=4)
    made.file.add_expert_count(4)
    made.file.add_expert_used_count(2)
    for layer, n_head_kv in enumerate(heads_kv):
        made.norms(layer, "attn_norm", "ffn_norm")
        made.attention(layer, n_head_kv=n_head_kv) if n_head_kv else made.mamba(layer, n_rank=4, norm=True)
        made.experts(layer, n_expert=4, n_ff=_N_FF) if layer == 1 else made.feed_forward(layer)
    return made.finish()


def _granite(path: Path) -> Path:
    """Write a model of layers of Mamba's second version and attention in turn."""
    made = _Writer(path, "granitehybrid", n_layer=4)
    heads_kv = _add_hybrid_heads(made)
    made.state_space(n_rank=8, n_group=1)
    for layer, n_head_kv in enumerate(heads_kv):
        made.norms(layer, "attn_norm", "ffn_norm")
        made.attention(layer, n_head_kv=n_head_kv) if n_head_kv else made.mamba2(layer, n_rank=8)
        made.feed_forward(layer)
    return made.finish()


def _convolution(path: Path, *, window: int = 0) -> Path:
    """Write a model of short convolutions and attention in turn, whose attention may have a window."""
    made = _Writer(path, "lfm2", n_layer=4)
    heads_kv = _add_hybrid_heads(made)
    made.file.add_shortconv_l_cache(3)
    if window:
        made.file.add_sliding_window(window)
    for layer, n_head_kv in enumerate(heads_kv):
        made.norms(layer, "attn_norm", "ffn_norm")
        if n_head_kv:
            made.attention(layer, n_head_kv=n_head_kv, norm=True)
        else:
            made.add(f"blk.{layer}.shortconv.conv.weight", _N_EMBD, 3)
            made.add(f"blk.{layer}.shortconv.in_proj.weight", 3 * _N_EMBD, _N_EMBD)
            made.add(f"blk.{layer}.shortconv.out_proj.weight", _N_EMBD, _N_EMBD)
        made.feed_forward(layer)
    return made.finish(norm="token_embd_norm")


def _convolution_window(path: Path) -> Path:
    return _convolution(path, window=WINDOW)


def _add_heads(made: _Writer, n_head_kv: int | Sequence[int]) -> None:
    made.file.add_head_count(_N_HEAD)
    made.file.add_head_count_kv(n_head_kv)
    made.file.add_key_length(_HEAD)
    made.file.add_value_length(_HEAD)
    made.file.add_rope_dimension_count(_HEAD)


def _add_no_attention(made: _Writer) -> None:
    made.file.add_head_count(0)
    made.file.add_feed_forward_length(0)


def _add_hybrid_heads(made: _Writer) -> list[int]:
    heads_kv = [0, 2, 0, 2]
    _add_heads(made, heads_kv)
    made.file.add_feed_forward_length(_N_FF)
    return heads_kv


TINY_MODELS = {
    "llama": TinyModel(_grouped, MemoryKind.PLAIN),
    "llama-spm": TinyModel(_sentence_piece, MemoryKind.PLAIN),
    "qwen2vl": TinyModel(_sections, MemoryKind.PLAIN),
    "deci": TinyModel(_uneven, MemoryKind.PLAIN),
    "olmoe": TinyModel(_experts, MemoryKind.PLAIN),
    "deepseek2": TinyModel(_latent, MemoryKind.PLAIN),
    "gemma3": TinyModel(_window, MemoryKind.WINDOW),
    "gpt-oss": TinyModel(_window_experts, MemoryKind.WINDOW),
    "mamba": TinyModel(_mamba, MemoryKind.RECURRENT),
    "mamba2": TinyModel(_mamba2, MemoryKind.RECURRENT),
    "jamba": TinyModel(_jamba, MemoryKind.HYBRID),
    "granitehybrid": TinyModel(_granite, MemoryKind.HYBRID),
    "lfm2": TinyModel(_convolution, MemoryKind.HYBRID),
    "lfm2-window": TinyModel(_convolution_window, MemoryKind.HYBRID),
}
"""By name; each differs from the others in what its memory holds."""

TOLERANCE = {"gemma3": 0.02}
"""The largest difference of a logit that rounding makes, where it is not below a thousandth: GELU is looked up in a
table of 16-bit numbers."""
