"""GGUF files for tests: files of every kind, tiny random models that run, and edited copies."""

import dataclasses
import shutil
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy

from tests.support.hostile_gguf import ARRAY, STRING, U32, header_bytes, key_bytes, tensor_bytes, text_bytes

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)

_FIXED_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_PACKING = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

# --- files of other kinds ---


def write_other_kinds(folder: Path) -> dict[str, Path]:
    """Write sound files that are no chat models; the keys name what a message about each must say."""
    weight = tensor_bytes("t.weight", (8,))

    def write(name: str, texts: Mapping[str, str], tensors: Sequence[bytes] = (weight,)) -> Path:
        keys = [key_bytes(key, STRING, text_bytes(value)) for key, value in texts.items()]
        architecture = texts.get("general.architecture", "")
        numbers = {"block_count": 1, "context_length": 512, "embedding_length": 8}
        keys += [key_bytes(f"{architecture}.{key}", U32, struct.pack("<I", n)) for key, n in numbers.items()]
        path = folder / name
        path.write_bytes(header_bytes(keys, tensors, data=b"\0" * 32 if tensors else b""))
        return path

    clip = {"general.architecture": "clip"}
    return {
        "projector": write("mmproj-x.gguf", clip | {"general.type": "mmproj"}),
        "a projector": write("model.gguf", clip),
        "embedding": write("bert.gguf", {"general.architecture": "bert"}),
        "an embedding": write("nomic.gguf", {"general.architecture": "nomic-bert"}),
        "vocabulary": write("vocab.gguf", {"general.architecture": "llama", "tokenizer.ggml.model": "llama"}, ()),
        "adapter": write(
            "lora.gguf", {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"}
        ),
        "importance matrix": write("imatrix.gguf", {"general.type": "imatrix"}),
        "image": write("flux.gguf", {"general.architecture": "flux"}),
    }


# --- tiny models that run ---

_BPE_MERGES = (
    "Ġ t",
    "h e",
    "Ġt he",
    "i n",
    "e r",
    "Ġ a",
    "o n",
    "Ġ s",
    "l l",
    "o u",
    "Ġ w",
    "e n",
    "Ġ c",
    "a n",
    "Ċ Ċ",
)
_SPM_WORDS = ("▁the", "▁and", "▁you", "▁is", "▁hello", "▁world", "ing", "er", "on")


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Tokens of a file, as GGUF has them."""

    model: str
    tokens: list[bytes]
    types: list[int]
    scores: list[float] | None = None
    merges: tuple[str, ...] = ()

    def id_of(self, token: str) -> int:
        """Return the number of a token."""
        return self.tokens.index(token.encode())


def bpe_vocabulary() -> Vocabulary:
    """Return GPT-2's bytes, some merges and the control tokens of ChatML."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    texts = control + [letters[byte] for byte in range(256)] + [merge.replace(" ", "") for merge in _BPE_MERGES]
    types = [gguf.TokenType.CONTROL] * len(control) + [gguf.TokenType.NORMAL] * (len(texts) - len(control))
    return Vocabulary("gpt2", [text.encode() for text in texts], types, merges=_BPE_MERGES)


def spm_vocabulary() -> Vocabulary:
    """Return letters, byte pieces and some words of a SentencePiece vocabulary."""
    pieces = ["▁", *(chr(c) for c in range(33, 127))]
    for word in _SPM_WORDS:  # every prefix, so that the merges can reach the word
        pieces += [word[:end] for end in range(2, len(word) + 1)]
    pieces = list(dict.fromkeys(pieces))
    special = {"<unk>": gguf.TokenType.UNKNOWN, "<s>": gguf.TokenType.CONTROL, "</s>": gguf.TokenType.CONTROL}
    special |= {"<|im_start|>": gguf.TokenType.CONTROL, "<|im_end|>": gguf.TokenType.CONTROL}
    special |= {f"<0x{byte:02X}>": gguf.TokenType.BYTE for byte in range(256)}
    tokens = [text.encode() for text in (*special, *pieces)]
    types = [*special.values(), *[gguf.TokenType.NORMAL] * len(pieces)]
    scores = [0.0] * len(special) + [-float(len(pieces) - len(p) * 10) if len(p) > 1 else -1e3 for p in pieces]
    return Vocabulary("llama", tokens, types, scores)


def write_vocabulary(
    writer: Any, vocabulary: Vocabulary, *, pre: str, add_bos: bool, bos: str | None, eos: str | None
) -> None:
    """Put a vocabulary into a file; `pre` is the pre-tokeniser of a bpe one."""
    writer.add_tokenizer_model(vocabulary.model)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    if vocabulary.scores is not None:
        writer.add_token_scores(vocabulary.scores)
        writer.add_unk_token_id(0)
        writer.add_add_space_prefix(True)
    else:
        writer.add_tokenizer_pre(pre)
        writer.add_token_merges(list(vocabulary.merges))
    if bos is not None:
        writer.add_bos_token_id(vocabulary.id_of(bos))
    if eos is not None:
        writer.add_eos_token_id(vocabulary.id_of(eos))
    writer.add_add_bos_token(add_bos)


def tensor_adder(writer: Any, seed: int) -> Callable[..., None]:
    """Return a function that adds random tensors to a file."""
    random = numpy.random.default_rng(seed)

    def add(name: str, *shape: int, ones: bool = False, scale: float = 0.2) -> None:
        """Add a tensor; `shape` is in numpy's order, the reverse of GGUF's."""
        values = numpy.ones(shape) if ones else random.normal(0.0, scale, shape)
        writer.add_tensor(name, values.astype(numpy.float32))

    return add


def finish_file(writer: Any) -> None:
    """Write all that was added."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_tiny_model(
    path: Path,
    *,
    arch: str = "llama",
    vocab: str = "bpe",
    pre: str = "gpt-2",
    chat_template: str | None = CHATML,
    n_ctx_train: int = 512,
    n_layer: int = 2,
    n_embd: int = 64,
    n_head: int = 4,
    n_head_kv: int = 2,
    sliding_window: int = 32,
    seed: int = 0,
    add_bos: bool = False,
    bos: str | None = None,
    eos: str | None = None,
) -> Path:
    """Write a random model that llama.cpp loads and decodes, and return its path.

    Args:
        arch: llama, qwen2, or gemma3 (whose layers look back `sliding_window` tokens, but for every sixth).
        vocab: bpe (GPT-2 bytes and some merges) or spm (byte pieces, letters, some words, a blank put in front).
        pre: the name of the pre-tokeniser of a bpe vocabulary.
        bos, eos: texts of these tokens; None takes `<|endoftext|>` and `<|im_end|>`, or `<s>` and `</s>`.
    """
    vocabulary = bpe_vocabulary() if vocab == "bpe" else spm_vocabulary()
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"tiny {arch}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(n_ctx_train)
    writer.add_embedding_length(n_embd)
    writer.add_block_count(n_layer)
    writer.add_feed_forward_length(2 * n_embd)
    writer.add_head_count(n_head)
    writer.add_head_count_kv(n_head_kv)
    writer.add_layer_norm_rms_eps(1e-5)
    head = n_embd // n_head
    if arch == "gemma3":
        writer.add_key_length(head)
        writer.add_value_length(head)
        writer.add_sliding_window(sliding_window)
    elif arch == "llama":
        writer.add_rope_dimension_count(head)
    defaults = ("<|endoftext|>", "<|im_end|>") if vocab == "bpe" else ("<s>", "</s>")
    write_vocabulary(writer, vocabulary, pre=pre, add_bos=add_bos, bos=bos or defaults[0], eos=eos or defaults[1])
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    add = tensor_adder(writer, seed)
    add("token_embd.weight", len(vocabulary.tokens), n_embd, scale=1.0)
    add("output.weight", len(vocabulary.tokens), n_embd, scale=1.0)  # tied to the input, it would repeat the last token
    add("output_norm.weight", n_embd, ones=True)
    for layer in range(n_layer):
        block = f"blk.{layer}."
        for name, rows in (("attn_q", n_embd), ("attn_k", head * n_head_kv), ("attn_v", head * n_head_kv)):
            add(f"{block}{name}.weight", rows, n_embd)
            if arch == "qwen2":
                add(f"{block}{name}.bias", rows)
        add(f"{block}attn_output.weight", n_embd, n_embd)
        norms = ["attn_norm", "ffn_norm", *(["post_attention_norm", "post_ffw_norm"] if arch == "gemma3" else [])]
        for name in norms:
            add(f"{block}{name}.weight", n_embd, ones=True)
        if arch == "gemma3":
            add(f"{block}attn_q_norm.weight", head, ones=True)
            add(f"{block}attn_k_norm.weight", head, ones=True)
        add(f"{block}ffn_gate.weight", 2 * n_embd, n_embd)
        add(f"{block}ffn_up.weight", 2 * n_embd, n_embd)
        add(f"{block}ffn_down.weight", n_embd, 2 * n_embd)
    finish_file(writer)
    return path


def write_tiny_mamba(
    path: Path, *, chat_template: str | None = CHATML, n_layer: int = 2, n_embd: int = 64, seed: int = 0
) -> Path:
    """Write a random recurrent model, whose memory cannot be trimmed, and return its path."""
    vocabulary = bpe_vocabulary()
    n_inner, n_state, n_conv, n_rank = 2 * n_embd, 8, 4, 4
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_name("tiny mamba")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(1024)
    writer.add_embedding_length(n_embd)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(n_layer)
    writer.add_ssm_conv_kernel(n_conv)
    writer.add_ssm_inner_size(n_inner)
    writer.add_ssm_state_size(n_state)
    writer.add_ssm_time_step_rank(n_rank)
    writer.add_layer_norm_rms_eps(1e-5)
    write_vocabulary(writer, vocabulary, pre="gpt-2", add_bos=False, bos="<|endoftext|>", eos="<|im_end|>")
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    add = tensor_adder(writer, seed)
    add("token_embd.weight", len(vocabulary.tokens), n_embd, scale=1.0)
    add("output.weight", len(vocabulary.tokens), n_embd, scale=1.0)  # tied to the input, it would repeat the last token
    add("output_norm.weight", n_embd, ones=True)
    for layer in range(n_layer):
        block = f"blk.{layer}."
        add(f"{block}attn_norm.weight", n_embd, ones=True)
        add(f"{block}ssm_in.weight", 2 * n_inner, n_embd)
        add(f"{block}ssm_conv1d.weight", n_inner, n_conv)
        add(f"{block}ssm_conv1d.bias", n_inner)
        add(f"{block}ssm_x.weight", n_rank + 2 * n_state, n_inner)
        add(f"{block}ssm_dt.weight", n_inner, n_rank)
        add(f"{block}ssm_dt.bias", n_inner)
        writer.add_tensor(f"{block}ssm_a", -numpy.ones((n_inner, n_state), numpy.float32))
        add(f"{block}ssm_d", n_inner, ones=True)
        add(f"{block}ssm_out.weight", n_embd, n_inner)
    finish_file(writer)
    return path


# --- edited copies ---


def edit_gguf(
    source: Path,
    target: Path,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - reads best where it is called
    remove: Collection[str] = (),
) -> Path:
    """Copy a GGUF file with some keys changed, added or removed, and return the path of the copy.

    A changed key keeps its type where the value fits it; a new one gets the type that its Python type suggests.
    """
    changes = dict(set or {})
    with source.open("rb") as file:
        magic, version, num_tensors, num_keys = struct.unpack("<4sIQQ", file.read(24))
        data = file.read(64 << 20)
        keys, position = _split_keys(data, num_keys)
        tensors_end = position
        for _ in range(num_tensors):
            tensors_end += 8 + struct.unpack_from("<Q", data, tensors_end)[0]
            tensors_end += 4 + 8 * struct.unpack_from("<I", data, tensors_end)[0] + 12
        kept = [_changed(name, raw, changes) for name, raw in keys.items() if name not in remove]
        added = [key_bytes(name, *_packed(value, None)) for name, value in changes.items() if name not in keys]
        head = struct.pack("<4sIQQ", magic, version, num_tensors, len(kept) + len(added))
        head += b"".join(kept + added) + data[position:tensors_end]
        with target.open("wb") as copy:
            copy.write(head + b"\0" * (-len(head) % 32))
            file.seek((24 + tensors_end + 31) // 32 * 32)
            shutil.copyfileobj(file, copy, 1 << 22)
    return target


def _split_keys(data: bytes, num_keys: int) -> tuple[dict[str, bytes], int]:
    position, keys = 0, {}
    for _ in range(num_keys):
        start = position
        (length,) = struct.unpack_from("<Q", data, position)
        name = data[position + 8 : position + 8 + length].decode()
        position += 8 + length
        (value_type,) = struct.unpack_from("<I", data, position)
        position = _value_end(data, position + 4, value_type)
        keys[name] = data[start:position]
    return keys, position


def _value_end(data: bytes, position: int, value_type: int) -> int:
    if value_type == STRING:
        return position + 8 + int(struct.unpack_from("<Q", data, position)[0])
    if value_type != ARRAY:
        return position + _FIXED_BYTES[value_type]
    element_type, count = struct.unpack_from("<IQ", data, position)
    position += 12
    if element_type != STRING:
        return position + int(count) * _FIXED_BYTES[element_type]
    for _ in range(count):
        position = _value_end(data, position, STRING)
    return position


def _changed(name: str, raw: bytes, changes: Mapping[str, Any]) -> bytes:
    if name not in changes:
        return raw
    (old_type,) = struct.unpack_from("<I", raw, 8 + len(name.encode()))
    return key_bytes(name, *_packed(changes[name], old_type))


def _packed(value: Any, old_type: int | None) -> tuple[int, bytes]:
    if isinstance(value, list):
        element_type = _packed(value[0], None)[0]
        payload = b"".join(_packed(item, element_type)[1] for item in value)
        return ARRAY, struct.pack("<IQ", element_type, len(value)) + payload
    if isinstance(value, str):
        return STRING, text_bytes(value)
    natural = 7 if isinstance(value, bool) else 6 if isinstance(value, float) else 5 if value < 0 else U32
    fits = old_type in _PACKING and (old_type == 7) == (natural == 7) and (old_type in (6, 12)) == (natural == 6)
    chosen = old_type if fits and old_type is not None else natural
    return chosen, struct.pack("<" + _PACKING[chosen], value)
