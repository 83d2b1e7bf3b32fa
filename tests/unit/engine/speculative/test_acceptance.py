"""What is believed of drafts after some were judged."""

import pytest

from engine.speculative.acceptance import Acceptance, AcceptanceMemory


def _fresh() -> Acceptance:
    return AcceptanceMemory().of_chat(None, temperature=0.0)


def test_longer_matches_are_believed_more_before_any_was_judged() -> None:
    acceptance = _fresh()

    chances = [acceptance.after_match(length, 1)[0] for length in (3, 5, 8, 12, 20, 40)]

    assert chances == sorted(chances)
    assert chances[0] < 0.4 < 0.75 < chances[-1]


def test_draft_is_believed_like_a_longer_match_the_further_it_has_come() -> None:
    chances = _fresh().after_match(3, 30)

    assert chances[0] == _fresh().after_match(3, 1)[0]
    assert chances[-1] == _fresh().after_match(32, 1)[0]


@pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
def test_chance_after_a_match_goes_where_the_reply_goes(is_right: bool) -> None:
    acceptance = _fresh()
    for _ in range(40):
        assert acceptance.note_match(8, [7], [7 if is_right else 8]) == int(is_right)

    chance = acceptance.after_match(8, 1)[0]
    assert chance > 0.85 if is_right else chance < 0.15
    assert acceptance.after_match(40, 1) == _fresh().after_match(40, 1)


def test_tokens_beyond_the_first_wrong_one_tell_nothing() -> None:
    acceptance, other = _fresh(), _fresh()
    acceptance.note_match(3, [1, 2, 9, 4, 5], [1, 2, 3, 4, 5])
    other.note_match(3, [1, 2, 9], [1, 2, 3])

    assert acceptance.after_match(3, 30) == other.after_match(3, 30)

    acceptance.note_draft(5, 2, [0.9, 0.9, 0.1, 0.1, 0.1])
    other.note_draft(3, 2, [0.9, 0.9, 0.1])
    assert acceptance.of_draft(6) == other.of_draft(6)
    assert acceptance.of_confidence(0.1) == other.of_confidence(0.1)


def test_confident_drafts_are_believed_more() -> None:
    acceptance = _fresh()
    before = [acceptance.of_confidence(confidence) for confidence in (0.1, 0.3, 0.45, 0.6, 0.75, 0.85, 0.95, 1.0)]
    for _ in range(50):
        acceptance.note_draft(2, 1, [0.95, 0.4])

    assert before == sorted(before)
    assert acceptance.of_confidence(0.95) > 0.9
    assert acceptance.of_confidence(0.4) < 0.2


def test_draft_that_turns_bad_is_no_longer_believed() -> None:
    acceptance = _fresh()
    for _ in range(200):
        acceptance.note_draft(1, 1)
    for _ in range(80):
        acceptance.note_draft(1, 0)

    assert acceptance.of_draft(1)[0] < 0.3


def test_new_chat_begins_with_what_others_have_shown_and_then_goes_its_own_way() -> None:
    memory = AcceptanceMemory()
    first = memory.of_chat("first", temperature=0.0)
    for _ in range(100):
        first.note_draft(1, 1)

    second = memory.of_chat("second", temperature=0.0)
    assert second.of_draft(1)[0] > 0.9
    for _ in range(100):
        second.note_draft(1, 0)
    assert second.of_draft(1)[0] < 0.3
    assert first.of_draft(1)[0] > 0.9


def test_temperatures_above_zero_are_judged_by_themselves() -> None:
    memory = AcceptanceMemory()
    cold = memory.of_chat("chat", temperature=0.0)
    for _ in range(100):
        cold.note_draft(1, 0)

    assert memory.of_chat("chat", temperature=0.8).of_draft(1)[0] == pytest.approx(0.6)
    assert memory.of_chat("chat", temperature=0.0) is cold


def test_agreement_on_a_text_is_believed_before_the_first_draft() -> None:
    memory = AcceptanceMemory()
    assert not memory.of_chat("chat", temperature=0.0).knows_draft

    memory.note_agreement([number % 10 > 0 for number in range(100)], [0.5] * 100)

    for temperature in (0.0, 1.0):
        acceptance = memory.of_chat("chat", temperature=temperature)
        assert acceptance.of_draft(3) == pytest.approx([0.89] * 3, abs=0.01)
        assert acceptance.of_confidence(0.5) == pytest.approx(0.9, abs=0.03)
        assert acceptance.knows_draft
        assert not acceptance.has_drafted


def test_chats_are_forgotten_when_asked_to_and_when_there_are_many() -> None:
    memory = AcceptanceMemory()
    first, second = (memory.of_chat(name, temperature=0.0) for name in ("first", "second"))
    memory.forget("second")
    assert memory.of_chat("second", temperature=0.0) is not second
    for number in range(64):
        memory.of_chat(str(number), temperature=0.0)

    assert memory.of_chat("first", temperature=0.0) is not first


def test_drafts_that_end_before_their_first_token_are_counted() -> None:
    acceptance = _fresh()
    assert acceptance.empty_share == 0.0
    for _ in range(40):
        acceptance.note_draft(0, 0)
    assert acceptance.empty_share > 0.65
    for _ in range(40):
        acceptance.note_draft(3, 1)

    assert acceptance.empty_share < 0.02


def test_replies_that_clearly_lost_in_a_row_are_counted() -> None:
    memory = AcceptanceMemory()
    acceptance = memory.of_chat("chat", temperature=0.0)
    counts = []
    for worth, spent in ((1.0, 2.0), (1.0, 2.0), (0.0, 0.0), (2.0, 1.0)):
        acceptance.worth += worth
        acceptance.spent += spent
        memory.of_chat("chat", temperature=0.0)
        counts.append(acceptance.num_losses)

    assert counts == [1, 2, 2, 0]


def test_measured_speed_of_drafts_replaces_the_expected_one() -> None:
    acceptance = _fresh()
    assert acceptance.model_speed(2.0, 1.0) == pytest.approx(2.0)
    for _ in range(100):
        acceptance.note_model_step(2.0, 2.5)

    assert acceptance.has_drafted
    assert acceptance.model_speed(2.0, 1.0) == pytest.approx(0.9, abs=0.1)
