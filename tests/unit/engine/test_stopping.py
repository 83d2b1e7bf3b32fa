"""Stop strings in a stream: found across borders, and never shown in part."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.stopping import StopMatcher


def feed(stop, chunks) -> tuple[list[str], str | None]:
    """Return what was shown by each push and at the end, and the stop string that was met."""
    matcher, shown = StopMatcher(stop), []
    for chunk in chunks:
        shown.append(matcher.push(chunk))
        if matcher.matched is not None:
            return shown, matcher.matched
    shown.append(matcher.flush())
    return shown, None


def cut(text: str, places: list[int]) -> list[str]:
    """Cut a text at some places."""
    borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in itertools.pairwise(borders)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize(
    ("text", "stop", "shown"),
    [
        ("alpha beta gamma delta", "ta ga", "alpha be"),
        ("alpha beta gamma delta", "gamma", "alpha beta "),
        ("alpha beta gamma delta", "mma de", "alpha beta ga"),
        ("aa é日本 bb", "日本", "aa é"),
        ("aaaab", "aab", "aa"),
        ("abababac", "ababac", "ab"),
        ("\nhello", "\n", ""),
        ("a b", " ", "a"),
    ],
    ids=["over a border", "a word", "between words", "not ASCII", "restarts", "overlaps itself", "at once", "a blank"],
)
def test_text_ends_before_the_stop_string_when_it_straddles_pieces(text: str, stop: str, shown: str, size: int):
    chunks = [text[i : i + size] for i in range(0, len(text), size)]
    parts, matched = feed([stop], chunks)
    assert "".join(parts) == shown
    assert matched == stop


def test_held_text_is_shown_when_it_turns_out_to_be_no_stop_string():
    matcher = StopMatcher(["STOP"])
    assert [matcher.push(text) for text in ("x", "S", "T", "O", "x")] == ["x", "", "", "", "STOx"]


def test_no_more_is_held_than_could_become_a_stop_string_when_text_comes():
    matcher = StopMatcher(["<end>", "ed!"])
    assert matcher.push("waited <e") == "waited "
    assert matcher.push("a") == "<ea"
    assert matcher.push("bcd") == "bcd"
    assert matcher.push("e") == ""
    assert matcher.flush() == "e"


def test_everything_is_shown_at_once_when_there_is_no_stop_string():
    matcher = StopMatcher([])
    assert matcher.push("any <text>") == "any <text>"
    assert matcher.flush() == ""
    assert matcher.matched is None


def test_longest_is_named_when_several_end_at_one_place():
    parts, matched = feed(["bc", "abc", "c"], ["xa", "bc", "d"])
    assert "".join(parts) == "x"
    assert matched == "abc"


@pytest.mark.parametrize("chunks", [["abcd"], ["a", "b", "c", "d"], ["ab", "cd"]], ids="-".join)
def test_first_complete_one_ends_the_text_when_a_longer_one_is_under_way(chunks: list[str]):
    parts, matched = feed(["abcd", "bc"], chunks)
    assert ("".join(parts), matched) == ("a", "bc")


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[str], list[str]]:
    """Draw a text, stop strings that mostly are in it and overlap, and the text in pieces."""
    text = draw(st.text("abcé", max_size=12))
    inside = st.tuples(st.integers(0, 10), st.integers(1, 6)).map(lambda place: text[place[0] : sum(place)] or "b")
    stop = draw(st.lists(inside | st.text("abcé", min_size=1, max_size=5), max_size=3, unique=True))
    return text, stop, cut(text, draw(st.lists(st.integers(0, 12), max_size=5)))


@settings(max_examples=250)
@given(stream=streams())
def test_shown_text_ends_where_the_first_stop_string_begins_when_cut_anyhow(stream):
    text, stop, chunks = stream
    parts, matched = feed(stop, chunks)
    shown = "".join(parts)
    assert text.startswith(shown)
    assert not any(found in shown for found in stop)
    if any(found in text for found in stop):
        assert matched in stop
        assert text.startswith(matched, len(shown))
    else:
        assert matched is None
        assert shown == text


@settings(max_examples=250)
@given(stream=streams())
def test_shown_text_is_the_same_when_it_is_cut_anyhow_or_comes_letter_by_letter(stream):
    text, stop, chunks = stream
    assert "".join(feed(stop, chunks)[0]) == "".join(feed(stop, list(text))[0])


@settings(max_examples=250)
@given(stream=streams())
def test_no_beginning_of_a_stop_string_is_shown_when_it_may_still_be_completed(stream):
    _, stop, chunks = stream
    matcher, shown, seen = StopMatcher(stop), "", ""
    for chunk in chunks:
        seen += chunk
        shown += matcher.push(chunk)
        if matcher.matched is not None:
            return
        waiting = max((n for found in stop for n in range(1, len(found)) if seen.endswith(found[:n])), default=0)
        assert shown == seen[: len(seen) - waiting]
