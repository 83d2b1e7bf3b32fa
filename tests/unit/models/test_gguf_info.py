"""What a file is: hostile ones are refused with a sentence, every kind is told apart by its content."""

import os
import shutil
import time
from pathlib import Path

import pytest

from models import (
    CorruptGGUF,
    GGUFError,
    MissingParts,
    ModelKind,
    NotAChatModel,
    NotGGUF,
    TruncatedGGUF,
    UnsupportedGGUF,
    check_is_chat_model,
    missing_parts,
    read_gguf_info,
)
from tests.support.gguf_files import edit_gguf, write_other_kinds, write_tiny_mamba, write_tiny_model
from tests.support.hostile_gguf import FOREIGN_FILES, IMPOSSIBLE_FILES, VERSION_FILES

_MAX_CPU_S = 0.5  # five times what is promised


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny.gguf")


def test_everything_that_matters_is_read(tiny: Path) -> None:
    edited = edit_gguf(tiny, tiny.with_name("named.gguf"), set={"general.license": "apache-2.0"})
    info = read_gguf_info(edited)
    assert info.path == edited
    assert info.file_bytes == edited.stat().st_size
    assert (info.version, info.kind, info.architecture) == (3, ModelKind.TEXT, "llama")
    assert (info.name, info.type_name, info.licence) == ("tiny llama", "F32", "apache-2.0")
    assert (info.n_ctx_train, info.block_count, info.has_chat_template) == (512, 2, True)
    assert info.weight_bytes == 4 * info.num_parameters
    assert (info.split_no, info.split_count) == (0, 1)
    check_is_chat_model(info)


def test_starter_is_read_fast_and_can_chat(starter_path: Path) -> None:
    before = time.thread_time()
    info = read_gguf_info(starter_path)
    assert time.thread_time() - before < _MAX_CPU_S
    assert (info.architecture, info.type_name, info.licence, info.n_ctx_train) == ("llama", "Q4_1", "apache-2.0", 8192)
    assert info.num_parameters == 134_515_008
    assert info.hyperparameters is not None
    assert (info.hyperparameters.head_counts, info.hyperparameters.head_counts_kv) == ((9,) * 30, (3,) * 30)
    check_is_chat_model(info)


@pytest.mark.parametrize("name", IMPOSSIBLE_FILES)
def test_impossible_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bad file ä.gguf"
    path.write_bytes(IMPOSSIBLE_FILES[name])
    before = time.thread_time()
    with pytest.raises(GGUFError) as caught:
        read_gguf_info(path)
    assert time.thread_time() - before < _MAX_CPU_S
    assert type(caught.value) in (TruncatedGGUF, CorruptGGUF, UnsupportedGGUF)
    assert caught.value.message.startswith("bad file ä.gguf ")
    assert caught.value.hint


@pytest.mark.parametrize("name", ["dimension 0", "dimensions 2^40", "nine dimensions", "tensor type 999"])
def test_message_names_the_tensor(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(IMPOSSIBLE_FILES[name])
    with pytest.raises(GGUFError, match=r"t\.weight"):
        read_gguf_info(path)


@pytest.mark.parametrize("name", FOREIGN_FILES)
def test_foreign_file_is_called_what_it_is(tmp_path: Path, name: str) -> None:
    word, data = FOREIGN_FILES[name]
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with pytest.raises(NotGGUF) as caught:
        read_gguf_info(path)
    assert word in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", VERSION_FILES)
def test_other_version_or_byte_order_is_named(tmp_path: Path, name: str) -> None:
    word, data = VERSION_FILES[name]
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with pytest.raises(UnsupportedGGUF, match=word):
        read_gguf_info(path)


def test_version_2_is_read_like_version_3(tiny: Path) -> None:
    data = bytearray(tiny.read_bytes())
    data[4] = 2
    older = tiny.with_name("older.gguf")
    older.write_bytes(data)
    ours, theirs = read_gguf_info(older), read_gguf_info(tiny)
    assert (ours.version, theirs.version) == (2, 3)
    assert (ours.hyperparameters, ours.weight_bytes, ours.name) == (
        theirs.hyperparameters,
        theirs.weight_bytes,
        theirs.name,
    )


def test_every_other_kind_is_told_and_refused_for_chat(tmp_path: Path) -> None:
    for word, path in write_other_kinds(tmp_path).items():
        info = read_gguf_info(path)
        with pytest.raises(NotAChatModel) as caught:
            check_is_chat_model(info)
        assert word.removeprefix("an ").removeprefix("a ") in caught.value.message
        assert path.name in caught.value.message
        assert caught.value.hint


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"llama.pooling_type": 3}, ModelKind.EMBEDDING),
        ({"llama.pooling_type": 0}, ModelKind.TEXT),
        ({"adapter.type": "lora"}, ModelKind.ADAPTER),
        ({"general.type": "Model"}, ModelKind.TEXT),
        ({"general.type": "imatrix"}, ModelKind.IMPORTANCE_MATRIX),
        ({"general.architecture": "controlvector"}, ModelKind.CONTROL_VECTOR),
        ({"general.architecture": "eagle3"}, ModelKind.DRAFT),
        ({"general.architecture": "wavtokenizer-dec"}, ModelKind.SPEECH),
    ],
    ids=str,
)
def test_kind_follows_the_content(tiny: Path, changes: dict[str, object], kind: ModelKind) -> None:
    assert read_gguf_info(edit_gguf(tiny, tiny.with_name("x.gguf"), set=changes)).kind is kind


def test_recurrent_model_is_a_text_model(tmp_path: Path) -> None:
    info = read_gguf_info(write_tiny_mamba(tmp_path / "mamba.gguf"))
    assert (info.kind, info.architecture) == (ModelKind.TEXT, "mamba")


def test_missing_template_is_seen(tiny: Path) -> None:
    info = read_gguf_info(edit_gguf(tiny, tiny.with_name("x.gguf"), remove={"tokenizer.chat_template"}))
    assert not info.has_chat_template


def test_missing_architecture_is_refused(tiny: Path) -> None:
    with pytest.raises(CorruptGGUF, match="architecture"):
        read_gguf_info(edit_gguf(tiny, tiny.with_name("x.gguf"), remove={"general.architecture"}))


def test_text_in_the_file_cannot_steer_a_terminal(tiny: Path) -> None:
    name = "evil\x1b[2J\u202e" + "x" * 5000
    info = read_gguf_info(edit_gguf(tiny, tiny.with_name("x.gguf"), set={"general.name": name}))
    assert info.name.isprintable()
    assert len(info.name) <= 200


def _split(tiny: Path, number: int, count: int, name: str) -> Path:
    return edit_gguf(tiny, tiny.with_name(name), set={"split.no": number, "split.count": count})


def test_first_part_with_all_others_beside_it_can_chat(tiny: Path) -> None:
    paths = [_split(tiny, number, 2, f"m-0000{number + 1}-of-00002.gguf") for number in range(2)]
    info = read_gguf_info(paths[0])
    assert missing_parts(info) == ()
    check_is_chat_model(info)


def test_missing_part_is_named(tiny: Path) -> None:
    _split(tiny, 2, 3, "m-00003-of-00003.gguf")
    info = read_gguf_info(_split(tiny, 0, 3, "m-00001-of-00003.gguf"))
    with pytest.raises(MissingParts, match=r"m-00002-of-00003\.gguf\.$"):
        check_is_chat_model(info)


def test_later_part_names_the_first(tiny: Path) -> None:
    info = read_gguf_info(_split(tiny, 1, 3, "m-00002-of-00003.gguf"))
    assert info.kind is ModelKind.SPLIT_PART
    with pytest.raises(NotAChatModel, match="part 2 of 3") as caught:
        check_is_chat_model(info)
    assert "m-00001-of-00003.gguf" in caught.value.hint


def test_renamed_part_misses_all(tiny: Path) -> None:
    with pytest.raises(MissingParts, match=r"big-00001-of-09999\.gguf.* and 9995 more"):
        check_is_chat_model(read_gguf_info(_split(tiny, 0, 9999, "big.gguf")))


@pytest.mark.parametrize(("number", "count"), [(3, 3), (-1, 2), (0, 2**31)])
def test_impossible_part_is_refused(tiny: Path, number: int, count: int) -> None:
    with pytest.raises(CorruptGGUF, match="part"):
        read_gguf_info(_split(tiny, number, count, "x.gguf"))


def test_odd_path_is_no_trouble(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dir ä日 #?%20&'\""
    folder.mkdir()
    path = folder / "a b.gguf"
    shutil.copy(tiny, path)
    assert read_gguf_info(path).path == path


def test_folder_and_missing_file_are_the_systems_errors(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_gguf_info(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_gguf_info(tmp_path / "none.gguf")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(NotGGUF, match="regular file"):
        read_gguf_info(tmp_path / "pipe.gguf")
