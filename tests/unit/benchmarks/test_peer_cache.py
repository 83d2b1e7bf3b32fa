"""What is asked of engines with one slot, and what is noted of it: on engines that only take notes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bare_loop import BareLoop, BareRun
from benchmarks.peer_cache import BARE, CacheRun, CacheSizes, cache_scenarios
from benchmarks.peer_chats import document, go_on
from benchmarks.peer_engines import Chat, Reply, longest_gap
from benchmarks.peer_table import Figures, table
from engine.backend_llama.library import library
from tests.support.gguf_files import write_tiny_model

SIZES = CacheSizes(128, (256, 512))


class Noted:
    """An engine that answers at once and keeps what it held, a word a token."""

    def __init__(self, name: str, *, source: str | None = None, restart_s: float = 0.0) -> None:
        self.name = name
        self._source = source
        self._restart_s = restart_s
        self.events: list[Chat | str] = []

    def ask(self, chat: Chat, num_tokens: int) -> Reply:
        self.events.append(chat)
        return Reply(
            f"reply {len(self.events)}", 0.5, 100.0, num_tokens, True, 99, num_evaluated=7, source=self._source
        )

    def restart(self, chat: Chat) -> float:
        self.events.append("restart")
        return self._restart_s

    def kept_bytes(self) -> int | None:
        return 3_000_000 if self._source else None

    def render(self, chat: Chat) -> str:
        return "\n".join(text for _, text in chat)


class Words:
    """A bare loop whose tokens are words."""

    def __init__(self) -> None:
        self.behind: list[tuple[int, int]] = []

    def tokenize(self, text: str) -> list[str]:
        return text.split()

    def run(self, prompt: Sequence[str], num_tokens: int) -> BareRun:
        return BareRun(2.0, [])

    def read_behind(self, tokens: Sequence[str], num_known: int) -> float:
        self.behind.append((len(tokens), num_known))
        return 0.25


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a run that was repeated twice, with what it is made of."""
    monkeypatch.setattr("benchmarks.peer_cache._PAUSE_S", 0.0)
    monkeypatch.setattr("benchmarks.peer_cache._WRITE_LIMIT_S", 0.0)
    own, peer, bare, figures = Noted("own", source="ram"), Noted("peer", restart_s=1.0), Words(), Figures()
    make: Any = CacheRun
    run = make(own, [peer], bare, figures, sizes=SIZES, folder=tmp_path)
    for number in range(2):
        run.repeat(number)
    return {"run": run, "own": own, "peer": peer, "bare": bare, "figures": figures}


def test_every_line_has_a_value_of_both_but_of_what_only_ours_does(made: dict[str, Any]) -> None:
    figures: Figures = made["figures"]
    ours = {"snapshot", "write_gap", "quiet_gap", "quiet_step"}
    for scenario in cache_scenarios(SIZES):
        values = figures.values.get(scenario.name, {})
        if scenario.name in ("write_gap", "quiet_gap"):
            assert values == {}, "replies in one piece have no gap"
        else:
            assert set(values) - {BARE} == ({"own"} if scenario.name in ours else {"own", "peer"})
            assert all(len(each) == 2 for each in values.values())
    assert len(table(figures, cache_scenarios(SIZES), ours="own", peers=["peer"], beside=[BARE])) == 2 + 9


def test_opening_after_a_restart_counts(made: dict[str, Any]) -> None:
    values = made["figures"].values["restart_ttft"]
    assert values == {"own": [0.5, 0.5], "peer": [1.5, 1.5]}


def test_both_are_asked_the_same_and_go_back_to_the_chat_after_the_other(made: dict[str, Any]) -> None:
    asked = made["peer"].events[:7]
    first, follow, edited, other, back, again, restart = asked
    assert follow[:-1] == edited[:-1]
    assert follow[-1] != edited[-1]
    assert other[0] != first[0]
    assert back[:1] == again[:1] == first[:1]
    assert restart == "restart"
    assert made["own"].events[0] == first


def test_bare_loop_reads_what_ours_had_to(made: dict[str, Any]) -> None:
    assert made["bare"].behind
    assert all(length - known == 7 for length, known in made["bare"].behind)


def test_chat_grows_to_each_depth(made: dict[str, Any]) -> None:
    grown = [length for length, _ in made["bare"].behind[2:4]]
    for depth, length in zip(SIZES.growth, grown, strict=True):
        assert depth - 96 < length <= depth + 8


def test_sources_are_told(made: dict[str, Any]) -> None:
    assert any("switch_ram_ttft: what Fireside reused came from ram 2." in note for note in made["run"].notes())


def test_document_has_at_most_so_many_tokens_and_a_beginning_of_its_own() -> None:
    def count(chat: Chat) -> int:
        return sum(len(text.split()) for _, text in chat)

    chats = [document(number, 300, "Why?", count) for number in (1, 2)]
    assert all(250 < count(chat) <= 300 for chat in chats)
    assert all(chat[-1][1].endswith("Why?") for chat in chats)
    assert chats[0][0] != chats[1][0]
    assert go_on(chats[0], "a", "b")[-2:] == (("assistant", "a"), ("user", "b"))


@pytest.mark.parametrize(("times", "gap"), [((1.0, 3.0, 4.0), 2.0), ((1.0,), None), ((), None)])
def test_longest_gap_is_that_between_two_moments(times: tuple[float, ...], gap: float | None) -> None:
    assert longest_gap(times) == gap


def test_bare_loop_keeps_what_both_calls_begin_with(tmp_path: Path) -> None:
    llama = library()
    bare = BareLoop(llama, str(write_tiny_model(tmp_path / "tiny.gguf")), n_ctx=256, n_threads=1)
    read: list[tuple[int, int]] = []
    original = bare._read

    def noted(tokens: list[int], first: int) -> int:
        read.append((first, len(tokens)))
        return original(tokens, first)

    bare._read = noted
    try:
        bare.read_behind(list(range(10, 40)), 20)
        bare.read_behind([*range(10, 35), *range(100, 115)], 30)
        memory = llama.llama_get_memory(bare._context)
        assert llama.llama_memory_seq_pos_max(memory, 0) == 39
    finally:
        bare.close()
    assert read == [(0, 20), (20, 10), (25, 5), (30, 10)]
