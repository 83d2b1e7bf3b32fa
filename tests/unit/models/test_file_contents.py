"""What a person sees of a file: metadata and tensors, as the oracle has them."""

from pathlib import Path

import gguf

from models import read_contents, read_gguf_info
from tests.support.gguf_files import CHATML, edit_gguf, write_tiny_model
from tests.support.small_models import text_key, write_small


def test_contents_agree_with_the_oracle(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", vocab="spm")
    contents, oracle = read_contents(path), gguf.GGUFReader(path)
    ours = [(row.name, row.shape, row.type_name, row.num_bytes, row.position) for row in contents.tensors]
    theirs = [
        (t.name, tuple(int(n) for n in t.shape), t.tensor_type.name, int(t.n_bytes), int(t.data_offset))
        for t in oracle.tensors
    ]
    assert ours == theirs
    assert [row.key for row in contents.metadata] == [name for name in oracle.fields if not name.startswith("GGUF.")]
    assert sum(total.num_bytes for total in contents.types) == contents.info.weight_bytes
    assert contents.chat_template == CHATML


def test_long_arrays_show_their_beginning(tmp_path: Path) -> None:
    contents = read_contents(write_tiny_model(tmp_path / "tiny.gguf"))
    rows = {row.key: row for row in contents.metadata}
    tokens, types = rows["tokenizer.ggml.tokens"], rows["tokenizer.ggml.token_type"]
    assert tokens.type_name == "array of string"
    assert tokens.text.startswith("'<|endoftext|>', '<|im_start|>', '<|im_end|>', 'Ā'")
    assert tokens.text.endswith("…")
    assert tokens.is_cut
    assert tokens.num_elements > 250
    assert types.text.startswith("3, 3, 3, 1")


def test_texts_in_the_file_cannot_steer_a_terminal(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    edited = edit_gguf(path, tmp_path / "x.gguf", set={"evil\x1b[2J": "a\x1b]0;b", "list": ["\x1b[2J" * 500, "\u202e"]})
    for row in read_contents(edited).metadata:
        assert (row.key + row.text).isprintable()
        assert len(row.text) < 2000


def test_experts_count_only_where_they_are_used(tmp_path: Path) -> None:
    # Mixtral 8x7B in small: its layers, and everything else of it, divided by 4,096.
    shapes = {
        "blk.0.ffn_up_exps.weight": (256, 14, 8),
        "blk.0.attn_q.weight": (256, 10),
        "blk.0.ffn_up_shexp.weight": (256, 4),
    }
    path = write_small(tmp_path / "x.gguf", tensors=shapes)
    info = read_gguf_info(
        edit_gguf(path, tmp_path / "y.gguf", set={"llama.expert_count": 8, "llama.expert_used_count": 2})
    )
    assert info.num_expert_parameters == 256 * 14 * 8
    assert info.num_parameters == 256 * (14 * 8 + 14)
    assert info.num_active_parameters == 256 * (14 * 2 + 14)


def test_mixtral_holds_47_billion_and_reads_13(tmp_path: Path) -> None:
    # Known answer: 32 layers, 8 experts of which 2 are used, and the rest of the model, by the sizes in its header.
    from models.gguf_info import active_parameters

    experts = 32 * 8 * 3 * 4096 * 14336
    attention = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
    rest = 2 * 32000 * 4096 + 32 * 8 * 4096
    total = experts + attention + rest
    assert round(total / 1e9) == 47
    assert round(active_parameters(total, experts, 2, 8) / 1e9) == 13


def test_licence_without_a_short_form_is_told_by_its_name(tmp_path: Path) -> None:
    path = write_small(tmp_path / "x.gguf", keys=[text_key("general.license.name", "Gemma Terms")])
    assert read_gguf_info(path).licence == "mit"
    edited = edit_gguf(path, tmp_path / "y.gguf", set={"general.license": "other"})
    assert read_gguf_info(edited).licence == "Gemma Terms"


def test_level_is_told_from_the_tensors_where_the_header_is_silent(tmp_path: Path) -> None:
    path = edit_gguf(write_small(tmp_path / "x.gguf"), tmp_path / "y.gguf", remove={"general.file_type"})
    info = read_gguf_info(path)
    assert (info.type_name, info.bits_per_weight) == ("Q4_K", 4.5)
    assert info.bytes_of_type == (("Q4_K", 288),)
    assert info.tokenizer == "gpt2//4"
