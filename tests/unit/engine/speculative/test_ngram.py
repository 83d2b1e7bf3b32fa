"""The index of a chat's own tokens, beside a search that looks everywhere."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speculative.ngram import (
    LONG_MATCH,
    MAX_MATCH,
    MIN_MATCH,
    NUM_CANDIDATES,
    SLICE_TOKENS,
    NgramIndex,
    NgramProposal,
)

_FEW_TOKENS = st.lists(st.integers(0, 2), max_size=80)


def _length_at(tokens: list[int], end: int) -> int:
    """Return how many tokens up to `end` equal the last ones."""
    length = 0
    while length < min(MAX_MATCH, end + 1) and tokens[end - length] == tokens[len(tokens) - 1 - length]:
        length += 1
    return length


def _ends(tokens: list[int]) -> list[int]:
    """Return the ends of every earlier match, the most recent first."""
    return [end for end in range(len(tokens) - 2, 1, -1) if _length_at(tokens, end) >= MIN_MATCH]


def _index(tokens: list[int]) -> NgramIndex:
    index = NgramIndex(tokens)
    while index.num_unindexed:
        index.catch_up()
    return index


def test_continuation_of_the_longest_match_is_proposed_when_shorter_ones_are_more_recent() -> None:
    tokens = [1, 2, 3, 4, 5, 60, 61, 9, 3, 4, 5, 70, 71, 9, 1, 2, 3, 4, 5]

    assert NgramIndex(tokens).propose(2) == NgramProposal((60, 61), 5)


def test_most_recent_of_equal_matches_is_proposed() -> None:
    assert NgramIndex([1, 2, 3, 40, 1, 2, 3, 50, 1, 2, 3]).propose(1) == NgramProposal((50,), 3)


def test_usual_continuation_is_proposed_when_short_matches_disagree() -> None:
    tokens = [1, 2, 3, 40, 8, 1, 2, 3, 40, 7, 1, 2, 3, 50, 6, 1, 2, 3]

    assert NgramIndex(tokens).propose(2) == NgramProposal((40, 7), 3)


@pytest.mark.parametrize(
    "tokens",
    [[], [1, 2], [1, 2, 3], [1, 2, 3, 4, 5, 6], [1, 2, 9, 1, 2]],
    ids=["empty", "two", "only itself", "nothing repeats", "two repeat"],
)
def test_nothing_is_proposed_when_three_tokens_do_not_repeat(tokens: list[int]) -> None:
    assert NgramIndex(tokens).propose(8) is None


def test_nothing_is_proposed_when_there_is_no_room() -> None:
    assert NgramIndex([1, 2, 3, 1, 2, 3]).propose(0) is None


def test_continuation_goes_on_with_its_period_when_it_reaches_the_end() -> None:
    assert NgramIndex([5, 6, 5, 6, 5, 6]).propose(5) == NgramProposal((5, 6, 5, 6, 5), 4)
    assert NgramIndex([1, 7, 7, 7, 7]).propose(3) == NgramProposal((7, 7, 7), 3)


def test_long_match_is_found_when_many_short_ones_are_more_recent() -> None:
    text = list(range(100, 100 + LONG_MATCH))
    noise = [token for number in range(5 * NUM_CANDIDATES) for token in (number, *text[-3:])]

    assert NgramIndex([*text, 77, *noise, 0, *text]).propose(1) == NgramProposal((77,), LONG_MATCH)


def test_proposal_is_the_same_when_tokens_came_one_by_one() -> None:
    tokens = [number * number % 17 for number in range(300)]
    index = NgramIndex()
    for token in tokens:
        index.extend([token])

    assert index.propose(8) == _index(tokens).propose(8)
    assert len(index) == 300


def test_ids_beyond_what_a_key_holds_do_not_match_others() -> None:
    high = 1 << 21  # folded into the key, these three look like 1, 2, 3

    assert NgramIndex([1, 2, 3, 9, high + 1, high + 2, high + 3]).propose(1) is None


@settings(max_examples=300)
@given(_FEW_TOKENS, st.integers(1, 12))
def test_proposal_follows_a_longest_match_among_the_recent_ones(tokens: list[int], number: int) -> None:
    proposal = _index(tokens).propose(number)
    recent = _ends(tokens)[:NUM_CANDIDATES]

    if not recent:
        assert proposal is None
        return
    assert proposal is not None
    longest = max(_length_at(tokens, end) for end in recent)
    everywhere = max(_length_at(tokens, end) for end in _ends(tokens))
    assert longest <= proposal.match_length <= everywhere
    assert proposal.match_length >= min(everywhere, LONG_MATCH)
    ends = [end for end in _ends(tokens) if _length_at(tokens, end) == proposal.match_length]
    continuations = []
    for end in ends:
        extended = list(tokens)
        for _ in range(number):
            extended.append(extended[end + 1 + len(extended) - len(tokens)])
        continuations.append(tuple(extended[len(tokens) :]))
    assert proposal.tokens in continuations


@settings(max_examples=100)
@given(st.lists(_FEW_TOKENS, max_size=6))
def test_growing_index_equals_one_built_at_once(parts: list[list[int]]) -> None:
    index = NgramIndex()
    for part in parts:
        index.extend(part)

    assert index.propose(6) == NgramIndex([token for part in parts for token in part]).propose(6)


def test_long_prompt_is_taken_in_by_slices_so_that_no_call_is_long() -> None:
    tokens = [number * 7919 % 4001 for number in range(8000)]
    spent = []
    began = time.thread_time()
    index = NgramIndex(tokens)
    spent.append(time.thread_time() - began)

    assert index.num_unindexed == 8000 - 1 - SLICE_TOKENS
    while index.num_unindexed:
        began = time.thread_time()
        index.catch_up()
        spent.append(time.thread_time() - began)
    assert sum(spent) < 0.1
    assert len(spent) == 4
