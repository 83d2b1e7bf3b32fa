"""Any text may be searched for: halves of characters, private and combining ones, and what a query language obeys."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.store import ChatStore, find_places
from tests.unit.app.store.conftest import OpenStore
from tests.unit.app.store.samples import add_chat

_HELD = "cafe\u0301 İstanbul ẞtraße 🏋️\u200d♂️ \ue041x\ue07f ΟΔΟΣ ﬁn a\u0000b \u202eabc 'x'; DROP TABLE nodes --"


@pytest.fixture
def held(open_store: OpenStore) -> ChatStore:
    store = open_store()
    add_chat(store, _HELD, title="tîtle: 100% \\_/ *")
    return store


@pytest.mark.parametrize(
    "sought",
    [
        "cafe\u0301", "\u0301", "İ", "istanbul"[1:], "ẞ", "ß", "🏋️\u200d♂️", "\u200d", "\ue041", "\ue041x\ue07f", "οδος",
        "οδοσ", "ﬁ", "\u0000b", "\u202eabc", "'x'; DROP TABLE", "--", "100%", "\\_/", "*", "tîtle:", "🏋",
    ],
)  # fmt: skip
def test_text_is_found_when_its_characters_are_odd(held: ChatStore, sought: str) -> None:
    assert {hit.chat_id for hit in held.search(sought)} == {hit.chat_id for hit in held.search("tîtle")}


@pytest.mark.parametrize("sought", ["\ud83d", "a\udcffb", "\ue042", "caf\u00e9", "fin", "}", "\ufffd", "ss"])
def test_nothing_is_found_when_only_something_like_it_is_there(held: ChatStore, sought: str) -> None:
    assert held.search(sought) == []


@settings(max_examples=60)
@given(text=st.text(max_size=40), sought=st.text(min_size=1, max_size=4))
def test_places_are_where_the_text_stands_when_both_are_anything(text: str, sought: str) -> None:
    for start, length in find_places(text + sought + text, sought):
        assert length == len(sought)
        assert (text + sought + text)[start : start + length].lower().replace("ς", "σ") == sought.lower().replace(
            "ς", "σ"
        )
