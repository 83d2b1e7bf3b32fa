"""A draft model follows its target through anything, proposes what it would say, and never fails a reply."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engine.backend import BatchPart, DecodeStatus, Proposal
from engine.backend_fake import FakeBackend
from engine.errors import CannotTrim, DecodeFailed, DraftMismatch
from engine.params import SamplingParams
from engine.speculative.draft_model import DraftRequest, ModelDrafter, check_vocabulary
from tests.unit.engine.fake_engine import VOCABULARY, chat_text, make_backend, tokens_of

GREEDY = SamplingParams(temperature=0)
PROMPT = tokens_of(chat_text("tell me about the cache"))
OTHER = tokens_of(chat_text("something else"))


def follow(tokens: Sequence[int], count: int) -> list[int]:
    """Return the next tokens of the target."""
    backend = make_backend("n_words=200")
    made: list[int] = []
    backend.decode([BatchPart(0, 0, list(tokens), wants_logits=True)])
    for _ in range(count):
        made.append(backend.next_token(0))
        backend.decode([BatchPart(0, len(tokens) + len(made) - 1, made[-1:], wants_logits=True)])
    return made


def make_drafter(settings: str = "", **params: Any) -> ModelDrafter:
    return ModelDrafter(make_backend(settings, **params), vocabulary_size=len(VOCABULARY.pieces))


def draft(
    drafter: ModelDrafter,
    seq_id: int,
    tokens: Sequence[int],
    *,
    max_tokens: int = 4,
    goes_on: Callable[[int, float], bool] = lambda position, confidence: True,
    params: SamplingParams = GREEDY,
) -> list[int]:
    sampler = drafter.new_sampler(params, 1)
    proposals = drafter.draft(seq_id, tokens, max_tokens=max_tokens, goes_on=goes_on, sampler=sampler)
    assert all((proposal.source is None) is (params.temperature == 0) for proposal in proposals)
    return [proposal.token for proposal in proposals]


class Breaking(FakeBackend):
    """A draft model whose steps end as told."""

    outcomes: list[DecodeStatus | None]

    def decode(self, parts: Sequence[BatchPart]) -> DecodeStatus:
        """See Backend."""
        outcome = self.outcomes.pop(0) if self.outcomes else DecodeStatus.DONE
        if outcome is None:
            raise DecodeFailed("The draft is broken.")
        if outcome is DecodeStatus.ABORTED:
            self.raise_abort()
        return outcome if outcome is DecodeStatus.NO_ROOM else super().decode(parts)


def make_breaking(*outcomes: DecodeStatus | None) -> ModelDrafter:
    backend = make_backend()
    backend.__class__ = Breaking
    assert isinstance(backend, Breaking)
    backend.outcomes = list(outcomes)
    return ModelDrafter(backend, vocabulary_size=len(VOCABULARY.pieces))


@pytest.mark.parametrize("params", [GREEDY, SamplingParams()], ids=["greedy", "drawn"])
def test_draft_is_what_the_target_says_when_it_is_its_own_draft(params: SamplingParams):
    assert draft(make_drafter(), 0, PROMPT, max_tokens=8, params=params) == follow(PROMPT, 8)


@pytest.mark.parametrize("right", [0.0, 0.3, 0.7, 1.0])
def test_share_of_right_tokens_is_the_one_that_is_set(right: float):
    drafter, tokens = make_drafter(f"draft_right={right},n_words=200"), [*PROMPT]
    truth, hits = follow(tokens, 400), 0
    assert VOCABULARY.pieces[truth[-1]] != b"<|im_end|>" or right
    for token in truth:
        hits += draft(drafter, 0, tokens, max_tokens=1) == [token]
        tokens.append(token)
    assert hits / len(truth) == pytest.approx(right, abs=0.0 if right in (0.0, 1.0) else 0.08)


def test_refused_tokens_are_taken_back_and_only_new_ones_read_when_a_reply_goes_on():
    drafter, tokens = make_drafter("draft_right=0.5,n_words=200"), [*PROMPT]
    drafter.catch_up(0, tokens, max_tokens=1000)
    for _ in range(60):
        assert drafter.num_behind(0, tokens) <= 1
        proposed, truth = draft(drafter, 0, tokens, max_tokens=3), follow(tokens, 4)
        accepted = next((i for i, token in enumerate(proposed) if token != truth[i]), len(proposed))
        tokens += truth[: accepted + 1]
        fresh = make_drafter("draft_right=0.5,n_words=200")
        assert draft(drafter, 0, tokens) == draft(fresh, 0, tokens)


def test_prompt_is_read_in_pieces_when_it_is_caught_up_with():
    drafter = make_drafter()
    left = len(PROMPT) - 1
    assert drafter.num_behind(0, PROMPT) == left
    while left:
        expected = max(left - 5, 0)
        left = drafter.catch_up(0, PROMPT, max_tokens=5)
        assert left == expected == drafter.num_behind(0, PROMPT)
    assert drafter.backend.seq_len(0) == len(PROMPT) - 1
    assert draft(drafter, 0, PROMPT) == follow(PROMPT, 4)


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "not told"])
def test_sequence_is_read_anew_when_another_request_has_it(is_told: bool):
    drafter = make_drafter()
    draft(drafter, 0, PROMPT)
    if is_told:
        drafter.begin(0)
    longer = [*OTHER, *follow(OTHER, 40)]
    assert draft(drafter, 0, longer) == follow(longer, 4)
    assert draft(drafter, 0, PROMPT) == follow(PROMPT, 4)


def test_early_change_is_seen_when_another_request_is_told():
    drafter, changed = make_drafter(), [*PROMPT]
    changed[4] = ord("Z")
    draft(drafter, 0, PROMPT)
    drafter.begin(0)
    assert drafter.num_behind(0, changed) == len(PROMPT) - 1 - 4
    assert draft(drafter, 0, changed) == follow(changed, 4)


def test_beginning_is_shared_when_another_sequence_has_it():
    drafter = make_drafter()
    longer = [*PROMPT, *follow(PROMPT, 60)]
    draft(drafter, 0, longer)
    assert drafter.num_behind(1, [*longer[:50], *OTHER]) == len(OTHER) - 1
    assert draft(drafter, 1, [*longer[:50], *OTHER]) == follow([*longer[:50], *OTHER], 4)


def test_draft_ends_before_a_token_is_drawn_when_the_rule_says_so():
    seen: list[tuple[int, float]] = []

    def goes_on(position: int, confidence: float) -> bool:
        seen.append((position, confidence))
        return position < 2

    assert draft(make_drafter("draft_right=0.9"), 0, PROMPT, max_tokens=9, goes_on=goes_on).__len__() == 2
    assert seen == [(0, 0.9), (1, 0.9), (2, 0.9)]


def test_draft_ends_with_the_end_token_when_one_is_drawn():
    drafter = make_drafter("n_words=1")
    drafted = draft(drafter, 0, PROMPT, max_tokens=30)
    assert drafted[-1] in VOCABULARY.end_ids
    assert not VOCABULARY.end_ids.intersection(drafted[:-1])


@pytest.mark.parametrize("room", [0, 1, 3])
def test_draft_ends_when_the_context_is_full(room: int):
    drafter = make_drafter(n_ctx=len(PROMPT) + room)
    assert draft(drafter, 0, PROMPT, max_tokens=9) == follow(PROMPT, room + 1)
    assert draft(drafter, 0, [*PROMPT, *follow(PROMPT, room + 1)]) == []
    assert drafter.catch_up(0, [*PROMPT, *follow(PROMPT, room + 1)], max_tokens=100) >= 0


def test_sequences_drafted_longest_ago_go_when_the_pool_is_full():
    chats = [tokens_of(chat_text(text)) for text in ("first", "second", "third")]
    drafter = make_drafter(n_ctx=sum(map(len, chats[1:])) + 8, n_seq_max=3)
    for seq_id, chat in enumerate(chats):
        assert draft(drafter, seq_id, chat) == follow(chat, 4)
    assert [drafter.backend.seq_len(seq_id) > 0 for seq_id in range(3)] == [False, True, True]
    assert draft(drafter, 0, chats[0]) == follow(chats[0], 4)


@pytest.mark.allow_log("the draft model failed")
@pytest.mark.parametrize("outcome", [None, DecodeStatus.ABORTED, DecodeStatus.NO_ROOM], ids=str)
@pytest.mark.parametrize("num_before", [0, 1, 2])
def test_draft_heals_when_a_step_goes_wrong(outcome: DecodeStatus | None, num_before: int, caplog):
    drafter = make_breaking(*[DecodeStatus.DONE] * num_before, outcome)
    # A step reads the prompt, and each later one gives a token.
    assert draft(drafter, 0, PROMPT) == follow(PROMPT, max(num_before - 1, 0))
    assert draft(drafter, 0, PROMPT) == follow(PROMPT, 4)
    if outcome is None:
        assert [record.message for record in caplog.records] == ["the draft model failed: The draft is broken."]


@pytest.mark.allow_log("the draft model failed")
def test_draft_is_empty_when_its_logits_are_no_numbers(caplog):
    drafter = make_drafter()

    class Blind:
        def look(self, row: int) -> float:
            raise DecodeFailed("no numbers")

        def draw(self) -> Proposal:
            raise AssertionError

        def close(self) -> None:
            pass

    for _ in range(2):
        assert drafter.draft(0, PROMPT, max_tokens=3, goes_on=lambda *_: True, sampler=Blind()) == []
    assert len(caplog.records) == 1  # not each time


def test_drafts_are_those_of_each_alone_when_sequences_share_steps():
    settings = "draft_right=0.8"
    chats = [tokens_of(chat_text(text)) for text in ("one", "another one", "a third chat")]
    together, sampler = make_drafter(settings), make_drafter(settings)
    num_steps, decode = 0, together.backend.decode

    def counted(parts: Sequence[BatchPart]) -> DecodeStatus:
        nonlocal num_steps
        num_steps += 1
        return decode(parts)

    together.backend.decode = counted
    for seq_id, chat in enumerate(chats):
        together.catch_up(seq_id, chat, max_tokens=1000)
    num_steps = 0
    requests = [
        DraftRequest(seq_id, chat, seq_id + 2, lambda *_: True, together.new_sampler(GREEDY, 1))
        for seq_id, chat in enumerate(chats)
    ]
    found = [[proposal.token for proposal in drafted] for drafted in together.draft_many(requests)]
    assert found == [draft(sampler, seq_id, chat, max_tokens=seq_id + 2) for seq_id, chat in enumerate(chats)]
    assert num_steps == 4, "the longest draft alone takes as many"


def test_sequence_is_gone_when_it_is_forgotten():
    drafter = make_drafter()
    draft(drafter, 2, PROMPT)
    drafter.forget(2)
    drafter.forget(1)
    assert drafter.backend.seq_len(2) == 0
    assert draft(drafter, 2, PROMPT) == follow(PROMPT, 4)


def test_window_is_read_anew_when_it_cannot_be_cut_back():
    drafter = make_drafter("window=8", n_ubatch=8)
    longer = [*PROMPT, *follow(PROMPT, 60)]
    assert draft(drafter, 0, longer) == follow(longer, 4)
    assert draft(drafter, 0, longer[:-2]) == follow(longer[:-2], 4)
    assert draft(drafter, 0, PROMPT) == follow(PROMPT, 4)


def test_memory_that_cannot_trim_is_refused():
    with pytest.raises(CannotTrim, match="cannot draft"):
        make_drafter("can_trim=0")


@pytest.mark.parametrize("seed", range(20))
def test_draft_is_that_of_a_fresh_one_after_anything(seed: int):
    rng = random.Random(seed)
    settings = rng.choice(["draft_right=0.6,n_words=99", "draft_right=0.6,n_words=99,window=8"])
    drafter = make_drafter(settings, n_ctx=rng.choice([120, 400]), n_seq_max=3, n_batch=16, n_ubatch=8)
    chats = [tokens_of(chat_text(text)) for text in ("one", "another one", "a third chat")]
    for _ in range(40):
        seq_id = rng.randrange(3)
        match rng.randrange(6):
            case 0:
                drafter.forget(seq_id)
            case 1:
                chats[seq_id] = tokens_of(chat_text(rng.choice(["one", "two", "three and four"])))
                drafter.begin(seq_id)
            case 2:
                drafter.catch_up(seq_id, chats[seq_id], max_tokens=rng.randrange(1, 20))
            case 3:
                drafter.backend.raise_abort()
                draft(drafter, seq_id, chats[seq_id])
                drafter.backend.clear_abort()
            case _:
                wanted = rng.randrange(1, 6)
                found = draft(drafter, seq_id, chats[seq_id], max_tokens=wanted)
                if len(chats[seq_id]) < 60:
                    fresh = make_drafter(settings, n_ctx=400, n_seq_max=3, n_batch=16, n_ubatch=8)
                    assert found == draft(fresh, seq_id, chats[seq_id], max_tokens=wanted)
                    chats[seq_id] = [*chats[seq_id], *(found[: rng.randrange(6)] or [97])]


class Changed:
    """A vocabulary that differs from the fake one."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        return self._changes.get(name, getattr(VOCABULARY, name))


PIECES = VOCABULARY.pieces


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"pieces": [*PIECES, *[b"more"] * 128]}, None),
        ({"pieces": PIECES[:-20]}, None),
        ({"pieces": [*PIECES, *[b"more"] * 129]}, "it has 425 tokens, the model has 296"),
        ({"pieces": [*PIECES[:65], b"x" * 99, *PIECES[66:]]}, f"its token 65 is “{'x' * 32}”, the model's is “A”"),
        ({"adds_bos": True, "bos_id": 256}, "it begins every text with a token of its own, the model does not"),
        ({"bos_id": 256, "end_ids": frozenset({5}), "control_ids": frozenset()}, None),
    ],
    ids=["same", "longer", "shorter", "much longer", "piece", "begin", "other kinds"],
)
def test_first_difference_of_vocabularies_is_named(changes: dict[str, Any], expected: str | None):
    if expected is None:
        check_vocabulary(VOCABULARY, Changed(**changes))
        return
    with pytest.raises(DraftMismatch) as caught:
        check_vocabulary(VOCABULARY, Changed(**changes))
    assert caught.value.message == f"The draft model has another vocabulary: {expected}."


def test_begin_tokens_are_compared_where_both_put_one_in_front():
    begins = {"adds_bos": True, "bos_id": 256}
    check_vocabulary(Changed(**begins), Changed(**begins))
    for changes, expected in (
        ({"adds_bos": True, "bos_id": 258}, "it begins every text with token 258, the model with 256"),
        ({}, "the model begins every text with a token of its own, it does not"),
    ):
        with pytest.raises(DraftMismatch, match=expected):
            check_vocabulary(Changed(**begins), Changed(**changes))


def test_draft_goes_on_when_the_chat_has_a_token_that_the_draft_model_lacks():
    drafter = ModelDrafter(make_backend(), vocabulary_size=len(PIECES) + 10)
    tokens = [*PROMPT[:5], len(PIECES) + 3, *PROMPT[5:]]
    assert draft(drafter, 0, tokens) == follow([*PROMPT[:5], 0, *PROMPT[5:]], 4)
    assert drafter.num_behind(0, tokens) == 0, "nothing is read again"
