"""Which file can draft for which: known pairs, each refusal's one sentence, damaged and hostile headers."""

import dataclasses
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models import (
    DraftFile,
    GGUFError,
    Kinship,
    draft_notes,
    draft_reason,
    entry_reason,
    kinship,
    read_draft_file,
    target_notes,
    target_reason,
)
from models.gguf_header import HeaderReader
from models.vocabulary import MAX_TEXTS_BYTES
from tests.support.adapters import write_adapter
from tests.support.gguf_files import bpe_vocabulary, edit_gguf, write_other_kinds, write_tiny_mamba, write_tiny_model
from tests.support.hostile_gguf import ARRAY, STRING, header_bytes, key_bytes, tensor_bytes
from tests.support.planned_models import PLANNED_MODELS
from tests.support.small_models import library_of, number_key, text_key, texts_key, write_small, write_split
from tests.support.split_models import split_model
from tests.support.tiny_models import TINY_MODELS

_TOKENS = [token.decode() for token in bpe_vocabulary().tokens]
_TOKENS_KEY = "tokenizer.ggml.tokens"
_HEAD = ("block_count", 1), ("context_length", 512), ("embedding_length", 8)
_MAX_CPU_S = 5 * 0.060  # five times what two vocabularies of 49,152 tokens take


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny.gguf")


def reason(target: Path, draft: Path) -> str:
    """Return why a file cannot draft for another; each refusal is one sentence with a hint."""
    refusal = draft_reason(read_draft_file(target), read_draft_file(draft))
    if refusal is None:
        return ""
    for sentence in refusal:
        assert sentence.isprintable()
        assert sentence.endswith(".")
        assert 10 < len(sentence) < 300
    assert "\n" not in refusal.reason
    return refusal.reason


def with_tokens(source: Path, name: str, tokens: list[str], **keys: Any) -> Path:
    """Return a copy with other tokens; the merges stay, which nobody here looks at."""
    return edit_gguf(source, source.with_name(name), set={_TOKENS_KEY: tokens, **keys})


# --- pairs that can ---


def test_level_and_smaller_model_with_the_same_tokens_can_draft(tiny: Path, tmp_path: Path) -> None:
    smaller = write_tiny_model(tmp_path / "smaller.gguf", n_layer=1, n_embd=32, seed=4, chat_template=None)
    assert reason(tiny, smaller) == reason(smaller, tiny) == ""


def test_file_can_draft_for_itself_and_is_told_to_be_the_same(tiny: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(tiny)
    for path in (tiny, link):
        target, draft = read_draft_file(tiny), read_draft_file(path)
        assert draft_reason(target, draft) is None
        assert kinship(target, draft) is Kinship.SAME_FILE
        assert draft_notes(target, draft) == (
            "It is the model itself: every draft would be accepted, and none would save time.",
        )


def test_sliding_window_can_draft_and_be_drafted_for(tmp_path: Path) -> None:
    window = TINY_MODELS["gemma3"].write(tmp_path / "window.gguf")
    other = TINY_MODELS["gpt-oss"].write(tmp_path / "other.gguf")
    assert target_reason(read_draft_file(window).info) is None
    assert reason(window, other) == reason(other, window) == ""


@pytest.mark.parametrize("difference", [0, 1, 128])
def test_longer_vocabulary_within_the_allowance_is_noted(tiny: Path, difference: int) -> None:
    longer = with_tokens(tiny, "longer.gguf", [*_TOKENS, *(f"[PAD{n}]" for n in range(difference))])
    assert reason(tiny, longer) == reason(longer, tiny) == ""
    one, other = read_draft_file(tiny), read_draft_file(longer)
    assert [n for n in draft_notes(one, other) if "never proposed" in n] == (
        [f"It has {difference} more tokens than the model, which are never proposed."] if difference else []
    )
    assert [n for n in draft_notes(other, one) if "propose" in n] == (
        [f"The model has {difference} more tokens, which it cannot propose."] if difference else []
    )


def test_split_model_counts_as_a_whole(tiny: Path, tmp_path: Path) -> None:
    parts = split_model(tiny, tmp_path / "parts", "split", 3)
    whole = read_draft_file(tiny)
    for part in parts:  # by whichever file
        split = read_draft_file(part)
        assert split.info.path == parts[0]
        assert draft_reason(whole, split) is None
        assert split.info.weight_bytes == whole.info.weight_bytes
        assert split.info.active_bytes == whole.info.active_bytes
        assert kinship(whole, split) is Kinship.LEVEL


# --- pairs that cannot ---


def test_other_tokeniser_is_refused_by_its_kind(tiny: Path, tmp_path: Path) -> None:
    spm = write_tiny_model(tmp_path / "spm.gguf", vocab="spm")
    assert reason(tiny, spm) == (
        "spm.gguf has another vocabulary: it is of the kind “llama”, that of the model “gpt2”."
    )


def test_starter_refuses_a_model_with_another_vocabulary(starter_path: Path, tiny: Path) -> None:
    assert reason(starter_path, tiny) == "tiny.gguf has another vocabulary: it has 274 tokens, the model 49,152."
    assert reason(starter_path, starter_path) == ""


def test_size_beyond_the_allowance_is_refused(tiny: Path) -> None:
    longer = with_tokens(tiny, "longer.gguf", [*_TOKENS, *(f"[PAD{n}]" for n in range(129))])
    assert reason(tiny, longer) == "longer.gguf has another vocabulary: it has 403 tokens, the model 274."
    assert "it has 274 tokens, the model 403" in reason(longer, tiny)


@pytest.mark.parametrize("number", [0, 4, 5, 100, len(_TOKENS) - 1])
def test_one_token_of_equally_many_is_found_wherever_it_is(tiny: Path, number: int) -> None:
    tokens = list(_TOKENS)
    tokens[number] = "x" * len(tokens[number])  # as many bytes
    other = with_tokens(tiny, "other.gguf", tokens)
    assert reason(tiny, other) == (
        f"other.gguf has another vocabulary: token {number:,} is “{tokens[number]}” there and “{_TOKENS[number]}” "
        "in the model."
    )


def test_shift_of_all_tokens_names_the_first_one(tiny: Path) -> None:
    moved = with_tokens(tiny, "moved.gguf", [*_TOKENS[:40], "new", *_TOKENS[40:]])
    assert f"token 40 is “new” there and “{_TOKENS[40]}” in the model" in reason(tiny, moved)


def test_shown_tokens_are_short_and_steer_no_terminal(tiny: Path) -> None:
    hostile = with_tokens(tiny, "hostile.gguf", ["\x1b[2J\u202e" + "x" * 10_000, *_TOKENS[1:]])
    assert "token 0 is “\ufffd[2J\ufffdxxxxxxxxxxxxxxxxxxx…”" in reason(tiny, hostile)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokenizer.ggml.add_bos_token": True}, "it begins every text with a token of its own, the model does not"),
        ({"tokenizer.ggml.add_eos_token": True}, "it ends every text with a token of its own, the model does not"),
    ],
    ids=["begins", "ends"],
)
def test_what_is_put_around_a_text_must_be_the_same(tiny: Path, change: dict[str, Any], words: str) -> None:
    other = edit_gguf(tiny, tiny.with_name("other.gguf"), set=change)
    assert words in reason(tiny, other)
    assert words.replace("it ", "the model ").replace(", the model does", ", it does") in reason(other, tiny)
    name = "bos" if "begins" in words else "eos"
    third = edit_gguf(other, tiny.with_name("third.gguf"), set={f"tokenizer.ggml.{name}_token_id": 7})
    assert "every text with token 7, the model with" in reason(other, third)


def test_begin_that_nothing_is_begun_with_may_differ(tiny: Path) -> None:
    other = edit_gguf(tiny, tiny.with_name("o.gguf"), set={"tokenizer.ggml.bos_token_id": 5, _eos(): 6})
    assert reason(tiny, other) == ""


def _eos() -> str:
    return "tokenizer.ggml.eos_token_id"


@pytest.mark.parametrize(
    "name", [name for name, model in TINY_MODELS.items() if model.memory.value in ("recurrent", "hybrid")]
)
def test_memory_that_cannot_be_rewound_is_refused_on_both_sides(name: str, tiny: Path, tmp_path: Path) -> None:
    path = TINY_MODELS[name].write(tmp_path / "state.gguf")
    words = "its memory cannot be rewound, so a draft that is refused could not be taken back."
    assert reason(tiny, path) == f"state.gguf cannot draft: {words}"
    refusal = target_reason(read_draft_file(path).info)
    assert refusal is not None
    assert refusal.reason == f"Nothing can be drafted for state.gguf: {words}"
    assert target_reason(read_draft_file(tiny).info) is None


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("projector", "is a projector, which lets a text model see pictures or hear sound, so it cannot draft"),
        ("embedding", "is an embedding model, which turns text into numbers for search, so it cannot draft"),
        ("vocabulary", "is a vocabulary without weights, so it cannot draft"),
        ("adapter", "is an adapter (LoRA), a small change to a base model, so it cannot draft"),
        ("importance matrix", "is an importance matrix, which is used to quantise a model, so it cannot draft"),
        ("image", "is an image-generating model, so it cannot draft"),
    ],
)
def test_other_kinds_say_what_they_are(tiny: Path, tmp_path: Path, key: str, words: str) -> None:
    assert words in reason(tiny, write_other_kinds(tmp_path)[key])


def test_retrained_decoder_draft_head_and_adapter_are_told_too(tiny: Path, tmp_path: Path) -> None:
    pooled = edit_gguf(tiny, tmp_path / "pooled.gguf", set={"llama.pooling_type": 1})
    assert "is an embedding model" in reason(tiny, pooled)
    assert "is an adapter (LoRA)" in reason(tiny, write_adapter(tmp_path / "lora.gguf"))
    head = write_small(tmp_path / "head.gguf", arch="eagle3")
    assert "is a draft head, which only speeds up another model, so it cannot draft" in reason(tiny, head)


def test_missing_and_later_parts_are_told(tiny: Path, tmp_path: Path) -> None:
    parts = split_model(tiny, tmp_path / "parts", "split", 3)
    parts[1].unlink()
    assert "is split into 3 files and these are missing: split-00002-of-00003.gguf" in reason(tiny, parts[0])
    parts[0].unlink()
    assert reason(tiny, parts[2]) == "split-00003-of-00003.gguf is a later part of a split model, so it cannot draft."


@pytest.mark.parametrize("kept", [0, 3, 30, 2000])
def test_cut_file_has_the_sentence_of_its_reader(tiny: Path, tmp_path: Path, kept: int) -> None:
    (tmp_path / "cut.gguf").write_bytes(tiny.read_bytes()[:kept])
    with pytest.raises(GGUFError) as caught:
        read_draft_file(tmp_path / "cut.gguf")
    assert caught.value.message.startswith("cut.gguf is ")
    assert caught.value.hint


@pytest.mark.parametrize("whose", ["target", "draft"])
def test_file_without_a_vocabulary_is_refused(tiny: Path, tmp_path: Path, whose: str) -> None:
    bare = edit_gguf(tiny, tmp_path / "bare.gguf", remove=[_TOKENS_KEY])
    pair = (bare, tiny) if whose == "target" else (tiny, bare)
    assert reason(*pair) == "bare.gguf holds no vocabulary, so it is not known what its token numbers mean."


# --- notes ---


def test_larger_draft_is_noted_and_not_refused(tiny: Path, tmp_path: Path) -> None:
    larger = write_tiny_model(tmp_path / "larger.gguf", n_layer=4, n_embd=128)
    target, draft = read_draft_file(tiny), read_draft_file(larger)
    assert draft_reason(target, draft) is None
    [note] = draft_notes(target, draft)
    assert note == "It reads 2.5 MB for each token, the model 0.4 MB: drafting would be slower than the model itself."
    assert draft_notes(draft, target) == ()


def test_shorter_training_is_noted(tiny: Path, tmp_path: Path) -> None:
    short = write_tiny_model(tmp_path / "short.gguf", n_ctx_train=256, n_layer=1)
    [note] = draft_notes(read_draft_file(tiny), read_draft_file(short))
    assert note == "It was trained for 256 tokens: in a longer chat most of its drafts will be refused."


def test_layers_that_predict_further_tokens_are_noted(tmp_path: Path) -> None:
    with_heads, without = (
        read_draft_file(PLANNED_MODELS[name].write(tmp_path / f"{name}.gguf")).info
        for name in ("qwen35-draft", "qwen35")
    )
    assert target_notes(with_heads) == (
        "It has layers that predict further tokens (MTP), which Fireside does not use yet.",
    )
    assert target_notes(without) == ()


def test_memory_that_is_not_known_is_noted(tiny: Path, tmp_path: Path) -> None:
    unknown = write_tiny_model(tmp_path / "unknown.gguf", arch="deepseek4")
    note = "Whether its memory can be rewound is only known once it is loaded."
    assert target_reason(read_draft_file(unknown).info) is None
    assert target_notes(read_draft_file(unknown).info) == (note,)
    assert note in draft_notes(read_draft_file(tiny), read_draft_file(unknown))


def test_kinship_is_told_by_what_headers_say(tiny: Path, tmp_path: Path) -> None:
    target = read_draft_file(tiny)
    level = read_draft_file(edit_gguf(tiny, tmp_path / "level.gguf", set={"general.file_type": 7}))
    smaller = read_draft_file(write_tiny_model(tmp_path / "smaller.gguf", n_layer=1))
    renamed = read_draft_file(edit_gguf(tiny, tmp_path / "tuned.gguf", set={"general.name": "a fine-tune"}))
    other = read_draft_file(write_tiny_model(tmp_path / "other.gguf", arch="qwen2"))
    assert [kinship(target, draft) for draft in (level, smaller, renamed, other)] == [
        *(Kinship.LEVEL, Kinship.FAMILY, Kinship.FAMILY, Kinship.OTHER),
    ]


# --- what the library knows ---


def test_library_refuses_without_opening_files(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    write_other_kinds(ours)
    (ours / "broken.gguf").write_bytes(b"GGUF\x03")
    write_split(ours, "split", 3)[1].unlink()
    write_tiny_model(ours / "spm.gguf", vocab="spm")
    write_small(ours / "many.gguf", num_tokens=5_000)
    write_tiny_model(ours / "fits.gguf", seed=8)
    target, entries = read_draft_file(tiny), library_of(tmp_path).scan().entries

    def refuse(self: HeaderReader) -> None:
        raise AssertionError("a header was read")

    monkeypatch.setattr(HeaderReader, "read", refuse)
    reasons = {entry.path.name: entry_reason(target, entry) for entry in entries if entry.path.name != "starter"}
    assert [name for name, refusal in reasons.items() if refusal is None] == ["fits.gguf"]
    assert all(refusal.reason.endswith(".") and refusal.hint for refusal in reasons.values() if refusal)
    many = reasons["many.gguf"]
    assert many is not None
    assert many.reason == "many.gguf has another vocabulary: it has 5,000 tokens, the model 274."


def test_library_and_file_give_the_same_reason(tiny: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    write_other_kinds(ours)
    write_tiny_model(ours / "spm.gguf", vocab="spm")
    target = read_draft_file(tiny)
    compared = 0
    for entry in library_of(tmp_path).scan().entries:
        if (quick := entry_reason(target, entry)) is not None:
            assert quick == draft_reason(target, read_draft_file(entry.path))
            compared += 1
    assert compared > 6


# --- hostile files, and speed ---


def hostile(path: Path, *keys: bytes, data: bytes = b"\0" * 32) -> Path:
    """Write a text model with one tensor and these keys of a vocabulary."""
    head = [text_key("general.architecture", "llama"), *(number_key(f"llama.{key}", value) for key, value in _HEAD)]
    path.write_bytes(header_bytes([*head, *keys], [tensor_bytes("t.weight", (8,))], data=data))
    return path


def token_list(*texts: bytes) -> bytes:
    """Return the key of a list of tokens."""
    body = b"".join(struct.pack("<Q", len(text)) + text for text in texts)
    return key_bytes(_TOKENS_KEY, ARRAY, struct.pack("<IQ", STRING, len(texts)) + body)


def test_token_of_a_gigabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    head = header_bytes([text_key("general.architecture", "llama")], num_keys=2, num_tensors=0)
    start = head + key_bytes(_TOKENS_KEY, ARRAY, struct.pack("<IQ", STRING, 1) + struct.pack("<Q", 2**30))
    path = tmp_path / "huge.gguf"
    path.write_bytes(start)
    os.truncate(path, len(start) + 2**30 + 64)  # a hole: it takes no place on the disk
    began = time.thread_time()
    with pytest.raises(GGUFError) as caught:
        read_draft_file(path)
    assert time.thread_time() - began < 0.5
    assert "its vocabulary takes 1,073,741,832 bytes, more than any model's" in caught.value.message
    assert MAX_TEXTS_BYTES < 2**30


@pytest.mark.parametrize(
    "keys",
    [
        (key_bytes(_TOKENS_KEY, ARRAY, struct.pack("<IQ", STRING, 0)),),
        (key_bytes(_TOKENS_KEY, ARRAY, struct.pack("<IQIII", 4, 3, 1, 2, 3)),),
        (text_key(_TOKENS_KEY, "a"),),
        (),
    ],
    ids=["empty", "numbers", "a text", "none"],
)
def test_tokens_that_are_no_list_of_texts_are_no_vocabulary(tmp_path: Path, keys: tuple[bytes, ...]) -> None:
    assert read_draft_file(hostile(tmp_path / "x.gguf", *keys)).vocabulary is None


def test_flag_that_is_no_flag_is_refused(tmp_path: Path) -> None:
    path = hostile(tmp_path / "x.gguf", token_list(b"a"), number_key("tokenizer.ggml.add_bos_token", 1))
    with pytest.raises(GGUFError, match="its add_bos_token is neither yes nor no"):
        read_draft_file(path)


def _shrink(path: Path) -> None:
    os.truncate(path, 40)


def _replace(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("change", [_shrink, _replace])
def test_file_that_changes_between_two_looks_is_an_error_or_a_reason(
    tiny: Path, change: Callable[[Path], None]
) -> None:
    other = with_tokens(tiny, "other.gguf", [*_TOKENS[:-1], "end"])
    target, draft = read_draft_file(tiny), read_draft_file(other)
    change(other)
    try:
        refusal = draft_reason(target, draft)
    except GGUFError as error:
        assert error.message == "other.gguf has changed while it was read."
    else:
        assert refusal is not None


_TEXTS = st.lists(st.binary(max_size=6), min_size=1, max_size=8)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=_TEXTS, theirs=_TEXTS)
def test_two_vocabularies_are_equal_exactly_where_their_shared_texts_are(
    tmp_path: Path, ours: list[bytes], theirs: list[bytes]
) -> None:
    kind = text_key("tokenizer.ggml.model", "gpt2")
    target = read_draft_file(hostile(tmp_path / "target.gguf", kind, token_list(*ours)))
    draft = read_draft_file(hostile(tmp_path / "draft.gguf", kind, token_list(*theirs)))
    shared = min(len(ours), len(theirs))
    differing = [number for number in range(shared) if ours[number] != theirs[number]]
    refusal = draft_reason(target, draft)
    assert (refusal is None) == (not differing)
    if refusal is not None:
        assert f"token {differing[0]} is" in refusal.reason
        assert refusal.reason.isprintable()


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_headers_end_in_an_error_or_an_answer(tmp_path: Path, data: st.DataObject) -> None:
    sound = hostile(
        *(tmp_path / "sound.gguf", text_key("tokenizer.ggml.model", "gpt2"), texts_key(_TOKENS_KEY, ["a", "b", "c"])),
        key_bytes("tokenizer.ggml.add_bos_token", 7, b"\1"),
        number_key("tokenizer.ggml.bos_token_id", 1),
    )
    damaged = bytearray(sound.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 9))
        damaged[at : at + 8] = data.draw(
            st.sampled_from([bytes(8), b"\xff" * 8, struct.pack("<Q", 2**40), b"abcdefgh"])
        )
    (tmp_path / "damaged.gguf").write_bytes(damaged)
    try:
        draft = read_draft_file(tmp_path / "damaged.gguf")
        answers = [draft_reason(read_draft_file(sound), draft), target_reason(draft.info)]
    except GGUFError as error:
        assert error.message.isprintable()
    else:
        assert all(answer is None or answer.reason.isprintable() for answer in answers)
        assert all(note.isprintable() for note in draft_notes(draft, draft) + target_notes(draft.info))


def test_two_large_vocabularies_are_compared_in_little_time(starter_path: Path, tmp_path: Path) -> None:
    starter = read_draft_file(starter_path)
    assert starter.vocabulary is not None
    other = _with_last_token(starter, tmp_path / "other.gguf", b"something else")
    began = time.thread_time()
    refusal = draft_reason(read_draft_file(starter_path), read_draft_file(other))
    took = time.thread_time() - began
    assert refusal is not None
    assert "token 49,151 is “something else” there and" in refusal.reason
    assert took < _MAX_CPU_S


def _with_last_token(source: DraftFile, path: Path, last: bytes) -> Path:
    """Write a small model with the vocabulary of another, but for its last token."""
    vocabulary = source.vocabulary
    assert vocabulary is not None
    position, size = vocabulary.span
    with source.info.path.open("rb") as file:
        file.seek(position)
        texts, at = file.read(size), 0
    for _ in range(vocabulary.num_tokens - 1):
        at += 8 + int(struct.unpack_from("<Q", texts, at)[0])
    body = texts[:at] + struct.pack("<Q", len(last)) + last
    tokens = key_bytes(_TOKENS_KEY, ARRAY, struct.pack("<IQ", STRING, vocabulary.num_tokens) + body)
    return hostile(path, text_key("tokenizer.ggml.model", "gpt2"), text_key("tokenizer.ggml.pre", "smollm"), tokens)


def test_memories_are_told_apart_by_layers_that_keep_a_state(tmp_path: Path) -> None:
    info = read_draft_file(write_tiny_mamba(tmp_path / "m.gguf")).info
    assert target_reason(info) is not None
    assert target_reason(dataclasses.replace(info, kv_layout=None)) is None
