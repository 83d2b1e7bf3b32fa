"""The fake backend is strict about what llama.cpp would punish, and its tokens depend on everything before them."""

import threading

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.backend_fake import FakeBackend, FakeLoader
from engine.errors import DecodeFailed, ModelFileMissing
from engine.params import ModelParams, SamplingParams
from tests.unit.engine.fake_engine import chat_text, make_backend, tokens_of

PROMPT = tokens_of(chat_text("hello there"))


def put(backend: FakeBackend, seq_id: int, tokens: list[int], *, start: int = 0, wants_logits: bool = True):
    """Compute one part."""
    return backend.decode([BatchPart(seq_id, start, tokens, wants_logits=wants_logits)])


def next_token(tokens: list[int]) -> int:
    """Return what follows tokens in a fresh backend."""
    backend = make_backend()
    put(backend, 0, tokens)
    return backend.new_sampler(SamplingParams(), 0, tokens).sample(0)


def generate(tokens: list[int], count: int) -> list[int]:
    """Return the next tokens, each computed from nothing."""
    made: list[int] = []
    for _ in range(count):
        made.append(next_token([*tokens, *made]))
    return made


def test_reply_changes_when_any_token_before_it_does():
    reply = generate(PROMPT, 30)
    for position in range(len(PROMPT)):
        if PROMPT[position] < 256 and chr(PROMPT[position]).isalpha():
            changed = [*PROMPT]
            changed[position] = ord("Z")
            assert generate(changed, 30) != reply, f"token {position} does not matter"
    assert generate([*PROMPT, reply[0]], 29) == reply[1:]


def test_control_token_counts_otherwise_than_its_text_when_it_is_in_the_prompt():
    spelled = [*PROMPT[:8], *b"<|im_end|>", *PROMPT[8:]]
    control = [*PROMPT[:8], 257, *PROMPT[8:]]
    assert generate(spelled, 30) != generate(control, 30)


def test_reply_is_the_same_when_its_prompt_is_computed_in_parts_or_shared_or_restored():
    expected = generate(PROMPT, 1)
    backend = make_backend(n_ubatch=4)
    put(backend, 0, PROMPT[:5], wants_logits=False)
    put(backend, 0, PROMPT[5:], start=5)
    assert backend.next_token(0) == expected[0]
    backend.seq_cp(0, 1, 7)
    put(backend, 1, PROMPT[7:], start=7)
    assert backend.next_token(0) == expected[0]
    assert backend.set_seq_state(2, backend.seq_state(1))
    assert backend.seq_rm(2, 7)
    put(backend, 2, PROMPT[7:], start=7)
    assert backend.next_token(0) == expected[0]


def test_rows_belong_to_their_parts_when_a_step_has_several():
    other = tokens_of(chat_text("another"))
    backend = make_backend()
    parts = [BatchPart(0, 0, PROMPT, True), BatchPart(1, 0, [256, 10], False), BatchPart(2, 0, other, True)]
    assert backend.decode(parts) is DecodeStatus.DONE
    assert [backend.next_token(0), backend.next_token(1)] == [next_token(PROMPT), next_token(other)]
    with pytest.raises(AssertionError, match="no logits"):
        backend.next_token(2)


def test_every_draft_has_a_row_when_drafts_are_checked():
    backend = make_backend()
    drafted = [*PROMPT, 97, 98]
    parts = [BatchPart(0, 0, drafted, True, num_drafted=2), BatchPart(1, 0, PROMPT, True)]
    assert backend.decode(parts) is DecodeStatus.DONE
    expected = [next_token(drafted[:-2]), next_token(drafted[:-1]), next_token(drafted), next_token(PROMPT)]
    assert [backend.next_token(row) for row in range(4)] == expected


@pytest.mark.parametrize(
    "part",
    [BatchPart(0, 1, [97], True), BatchPart(0, 0, [97] * 9, True), BatchPart(0, 0, [], True)],
    ids=["gap", "over the batch", "nothing"],
)
def test_step_is_a_fault_when_native_code_would_punish_it(part: BatchPart):
    with pytest.raises(AssertionError):
        make_backend(n_batch=8).decode([part])


def test_nothing_changes_when_a_step_has_no_room():
    backend = make_backend(n_ctx=8)
    put(backend, 0, [97] * 5)
    assert put(backend, 1, [98] * 4) is DecodeStatus.NO_ROOM
    assert (backend.seq_len(0), backend.seq_len(1)) == (5, 0)
    backend.seq_cp(0, 1, 5)  # takes no cells
    assert put(backend, 1, [98] * 3, start=5) is DecodeStatus.DONE
    assert backend.seq_rm(0, 0)
    assert put(backend, 2, [97]) is DecodeStatus.NO_ROOM, "shared cells are still in use"
    assert backend.seq_rm(1, 6)
    assert put(backend, 2, [97, 97]) is DecodeStatus.DONE


def test_snapshot_is_refused_and_leaves_nothing_when_it_has_no_room():
    backend = make_backend(n_ctx=8)
    put(backend, 0, [97] * 5)
    state = backend.seq_state(0)
    assert not backend.set_seq_state(1, state)
    assert backend.seq_len(1) == 0


@pytest.mark.parametrize(("start", "is_done"), [(0, True), (2, False), (5, True), (9, True)])
def test_only_whole_sequences_go_when_the_memory_cannot_trim(start: int, is_done: bool):
    backend = make_backend("can_trim=0")
    put(backend, 0, [97] * 5)
    assert backend.seq_rm(0, start) is is_done
    assert backend.seq_len(0) == (0 if start == 0 else 5)


def test_whole_micro_batches_are_kept_when_a_step_is_aborted_from_another_thread():
    backend = make_backend("token_s=0.05", n_ubatch=4, n_batch=1000)
    done = threading.Event()
    statuses = []

    def compute() -> None:
        statuses.append(put(backend, 0, [97] * 1000))
        done.set()

    thread = threading.Thread(target=compute)
    thread.start()
    while not backend.seq_len(0):
        done.wait(0.01)
    backend.raise_abort()
    thread.join(10)
    assert statuses == [DecodeStatus.ABORTED]
    assert 4 <= backend.seq_len(0) < 1000
    assert backend.seq_len(0) % 4 == 0
    backend.clear_abort()
    assert put(backend, 0, [97], start=backend.seq_len(0)) is DecodeStatus.DONE


def test_step_fails_when_it_is_told_to():
    with pytest.raises(DecodeFailed):
        put(make_backend("fail=1"), 0, [97])


@pytest.mark.parametrize("n_words", [0, 1, 5])
def test_reply_has_as_many_words_as_set_and_ends_when_it_is_generated(n_words: int):
    backend = make_backend(f"n_words={n_words}")
    tokens = [*PROMPT]
    put(backend, 0, tokens)
    while (token := backend.next_token(0)) not in backend.vocabulary.end_ids:
        put(backend, 0, [token], start=len(tokens))
        tokens.append(token)
    assert len(bytes(tokens[len(PROMPT) :]).split()) == n_words


def test_description_tells_what_the_params_asked_for_when_loaded():
    description = make_backend(n_ctx=100, n_seq_max=3, n_batch=50, n_ubatch=20).description
    assert (description.n_ctx, description.n_seq_max, description.n_batch, description.n_ubatch) == (100, 3, 50, 20)
    assert make_backend(n_ctx=64, n_batch=512).description.n_batch == 64
    assert make_backend().description.n_ctx > 0


def test_load_fails_when_the_file_is_missing():
    with pytest.raises(ModelFileMissing):
        FakeLoader().load("missing.gguf", ModelParams(), lambda share: True)


@pytest.mark.parametrize("given_up_at", [0.0, 0.5, 1.0])
def test_load_is_none_when_it_is_given_up(given_up_at: float):
    assert FakeLoader().load("fake:load_s=0.01", ModelParams(), lambda share: share < given_up_at) is None


def test_progress_never_falls_and_ends_at_one_when_a_model_loads():
    shares: list[float] = []
    assert FakeLoader().load("fake:load_s=0.01", ModelParams(), lambda share: shares.append(share) or True)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_tokens_join_to_the_text_and_words_are_single_tokens_when_text_is_tokenised():
    vocabulary = make_backend().vocabulary
    text = "keep every token <|im_end|> 日本\x00"
    for parse_special in (True, False):
        tokens = vocabulary.tokenize(text, parse_special=parse_special)
        assert b"".join(vocabulary.pieces[token] for token in tokens).decode() == text
        assert (257 in tokens) is parse_special
        assert len(tokens) < len(text.encode())
