"""The arithmetic of drafting measured beside plain replies, the order of replies, and the engine without a model."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.speculation import main, measure
from benchmarks.speculation_cells import (
    BOTH,
    CONTROL,
    KINDS,
    NGRAM,
    OFF,
    CellFigures,
    Drafted,
    Key,
    Pair,
    Pairs,
    Prompt,
    StepCosts,
    Whole,
    cell_figures,
    cell_rows,
    ideal_s,
    is_loop,
    load_prompts,
    median_speedup,
    plain_s,
    speedup,
)
from benchmarks.speculation_engine import DraftingEngine
from benchmarks.speculation_record import Record
from benchmarks.speculation_summary import DEEP, F16, OF_SERVER, kind_rows, never_loses, server_rows, summary, worst
from benchmarks.step_costs import step_costs
from engine import InprocClient
from engine.backend_llama.library import library
from tests.support.gguf_files import write_tiny_model

KEY = Key("letter", "copy", 0.0, F16, NGRAM)
PLAIN = Whole(ttft_s=1.0, wall_s=3.0, num_tokens=21)  # 0.1 s a token
COSTS = StepCosts({1: 0.02, 2: 0.03, 4: 0.05}, draft_s=0.005)


def drafted(wall_s: float, num_tokens: int = 21, **changes: object) -> Whole:
    return Whole(ttft_s=1.0, wall_s=wall_s, num_tokens=num_tokens)._replace(**changes)  # type: ignore[arg-type]


# --- prompts ---


def test_there_are_twenty_prompts_of_many_kinds_with_names_of_their_own() -> None:
    prompts = load_prompts()
    assert len({prompt.name for prompt in prompts}) == len(prompts) == 20
    kinds = [prompt.kind for prompt in prompts]
    assert set(kinds) == set(KINDS)
    assert kinds.count("copy") >= 4
    assert kinds.count("code") >= 3
    for prompt in prompts:
        assert prompt.messages[-1][0] == "user"
        assert all(text == text.strip() and text for _, text in prompt.messages)
        assert 32 <= prompt.tokens <= 200


def test_no_text_to_be_told_again_repeats_itself() -> None:
    for prompt in load_prompts():
        words = prompt.messages[-1][1].split()
        assert not is_loop([hash(word) for word in words]), prompt.name


@pytest.mark.parametrize(
    ("token_ids", "expected"),
    [
        (list(range(60)), False),
        ([*range(50), *range(10)], False),
        ([*range(20), *range(20), *range(20)], True),
        ([7] * 30, True),
        ([], False),
        ([1, 2, 1, 2], False),
    ],
    ids=["none", "one sentence", "three times", "one token", "empty", "short"],
)
def test_reply_that_repeats_itself_is_a_loop(token_ids: list[int], expected: bool) -> None:
    assert is_loop(token_ids) is expected


# --- pairs ---


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (drafted(1.5), 2.0),
        (drafted(3.0), 1.0),
        (drafted(2.0, num_tokens=11), 1.0),  # half as long, in as many seconds a token
        (drafted(2.5, num_tokens=41), 2.0),
        (drafted(1.0, num_tokens=1), None),
    ],
    ids=["twice as fast", "the same", "shorter", "longer", "too short"],
)
def test_speedup_is_against_a_plain_reply_of_the_same_length(other: Whole, expected: float | None) -> None:
    found = speedup(Pair(PLAIN, other))
    assert found == (None if expected is None else pytest.approx(expected))


def test_plain_reply_of_one_token_tells_nothing() -> None:
    assert plain_s(Whole(1.0, 1.0, 1), 20) is None
    assert speedup(Pair(Whole(1.0, 1.0, 1), PLAIN)) is None
    assert ideal_s(Pair(Whole(1.0, 1.0, 1), PLAIN), COSTS) is None


def test_median_is_over_the_pairs_that_tell() -> None:
    pairs = [Pair(PLAIN, drafted(wall)) for wall in (1.5, 3.0, 6.0)]
    assert median_speedup([*pairs, Pair(PLAIN, drafted(1.0, num_tokens=1))]) == pytest.approx(1.0)
    assert median_speedup([]) is None


# --- the ideal ---


@pytest.mark.parametrize(("num_tokens", "expected"), [(1, 1.0), (2, 1.5), (3, 2.0), (4, 2.5), (9, 2.5), (1.5, 1.25)])
def test_costs_between_measured_ones_lie_on_a_line(num_tokens: float, expected: float) -> None:
    assert COSTS.relative(num_tokens) == pytest.approx(expected)


def test_ideal_of_nothing_drafted_is_the_plain_reply() -> None:
    assert ideal_s(Pair(PLAIN, drafted(9.0)), COSTS) == pytest.approx(3.0)


def test_ideal_counts_checks_and_plain_steps() -> None:
    # 20 tokens after the first: four checks of three drafted tokens brought 4 + 8 of them, eight were plain steps.
    other = drafted(2.5, drafted=(Drafted("ngram", 4, 12, 8),))
    assert ideal_s(Pair(PLAIN, other), COSTS) == pytest.approx(1.0 + 0.1 * (4 * 2.5 + 8))


def test_ideal_counts_the_steps_of_the_draft_model() -> None:
    other = drafted(2.5, drafted=(Drafted("model", 4, 12, 8),))
    assert ideal_s(Pair(PLAIN, other), COSTS) == pytest.approx(1.0 + 0.1 * (4 * 2.5 + 8 + 12 / 4))


# --- cells ---


def test_cell_has_the_figures_of_its_pairs() -> None:
    other = drafted(2.0, drafted=(Drafted("ngram", 4, 16, 12),), net_speedup=1.6, state="on")
    cell = cell_figures(KEY, [Pair(PLAIN, other), Pair(PLAIN, other._replace(net_speedup=1.8))], COSTS)
    ideal = 1.0 + 0.1 * (4 * COSTS.relative(5) + 4)
    assert cell.speedup == pytest.approx(1.5)
    assert cell.ideal == pytest.approx(3.0 / ideal)
    assert cell.share == pytest.approx(ideal / 2.0)
    assert cell.decode == pytest.approx(2.0)
    assert cell.ideal_decode == pytest.approx(20 / (4 * COSTS.relative(5) + 4))
    assert (cell.acceptance, cell.length) == (0.75, 4.0)
    assert cell.net_speedup == pytest.approx(1.7)
    assert cell.states == ("on",)


def test_cell_without_drafts_has_no_acceptance_and_no_ideal() -> None:
    cell = cell_figures(KEY, [Pair(PLAIN, PLAIN)], COSTS)
    assert (cell.speedup, cell.ideal, cell.share, cell.acceptance, cell.length) == (1.0, None, None, None, None)
    assert (cell.decode, cell.ideal_decode) == (1.0, None)


def test_reply_in_one_piece_has_no_speed_behind_its_first_text() -> None:
    cell = cell_figures(KEY, [Pair(PLAIN, Whole(ttft_s=1.2, wall_s=1.2, num_tokens=3))], COSTS)
    assert (cell.speedup, cell.decode) == (pytest.approx(1.0), None)


def test_cell_is_a_loop_when_most_replies_are() -> None:
    loop, other = drafted(2.0, token_ids=(5,) * 40), drafted(2.0, token_ids=tuple(range(40)))
    assert cell_figures(KEY, [Pair(PLAIN, loop), Pair(PLAIN, loop), Pair(PLAIN, other)], None).is_loop
    assert not cell_figures(KEY, [Pair(PLAIN, loop), Pair(PLAIN, other)], None).is_loop


def figures(value: float | None, *, mode: str = NGRAM, target: str = F16, kind: str = "copy") -> CellFigures:
    key = Key("p", kind, 0.0, target, mode)
    return CellFigures(key, value, 2.0, 0.95, 2.5, 3.0, 0.5, 2.0, 1.1, False, ("on",))


@pytest.mark.parametrize(
    ("cells", "control", "expected"),
    [
        ([1.2, 0.97], [0.98, 1.0], True),
        ([1.2, 0.95], [0.98, 1.0], False),
        ([0.99, None], [1.0], True),
        ([], [1.0], None),
    ],
    ids=["within", "loses", "one not measured", "nothing"],
)
def test_never_loses_is_held_against_the_worst_of_the_control(
    cells: Sequence[float | None], control: Sequence[float], expected: bool | None
) -> None:
    assert never_loses([figures(value) for value in cells], [figures(value) for value in control]) is expected


def test_worst_cell_is_the_slowest_that_was_measured() -> None:
    low = figures(0.9)
    assert worst([figures(1.0), low, figures(None)]) is low


def test_table_has_as_many_fields_in_each_line() -> None:
    loop = figures(1.0)._replace(is_loop=True)
    lines = cell_rows([figures(None), loop])
    assert len({line.count("|") for line in lines}) == 1
    assert "p (loop)" in lines[-1]


def test_summary_names_worst_cell_control_and_wins_without_loops() -> None:
    cells = [
        *(figures(value) for value in (2.6, 3.0, 2.8)),
        figures(9.0)._replace(is_loop=True),
        figures(0.99, kind="prose"),
        figures(1.4, mode=BOTH, target=DEEP, kind="code"),
        figures(1.0, mode=CONTROL),
    ]
    text = "\n".join(summary(cells))
    assert "Worst of 5 cells, ngram: 0.99" in text
    assert "Worst of 1 cells, both: 1.40" in text
    assert "Worst of 1 cells, control, plain beside plain: 1.00" in text
    assert "Never loses, within 0.02 of the control: yes." in text
    assert "speed-up 2.80 (2.60 to 3.00)" in text
    assert "speed-up 1.40 (1.40 to 1.40)" in text
    assert summary([]) == []


def test_kinds_have_medians_without_loops() -> None:
    cells = [*(figures(value) for value in (1.0, 2.0, 4.0)), figures(9.0)._replace(is_loop=True)]
    *_, row = kind_rows([*cells, figures(None, kind="prose")._replace(ideal=None, share=None)])[:-1]
    assert row == "| F16 | ngram | copy | 0 | 4 | 1 | 2.00 | 2.00 | 0.95 | 2.50 | 3.00 | 1.00 |"


def test_server_is_shown_beside_ours_where_both_were_measured() -> None:
    slow = drafted(4.2)
    pairs = {KEY: [Pair(PLAIN, drafted(2.1))], KEY._replace(mode=CONTROL): [Pair(PLAIN, PLAIN)]}
    assert server_rows(pairs) == []
    server = KEY._replace(target=f"{F16}{OF_SERVER}", mode="server n-gram")
    *_, row = server_rows({**pairs, server: [Pair(slow, slow._replace(wall_s=8.4))]})
    assert row == "| F16 | letter | 0 | off 142.9, ngram 100.0 | server off 200.0, server n-gram 400.0 | 0.50 |"


def test_record_is_read_as_it_was_written_and_nothing_is_read_where_there_is_none(tmp_path: Path) -> None:
    written, path = Record(tmp_path / "folder" / "run.json", "a machine"), tmp_path / "folder" / "run.json"
    other = drafted(1.5, token_ids=(4, 5), drafted=(Drafted("ngram", 4, 16, 12),), net_speedup=1.6, state="on")
    written.pairs[KEY] = [Pair(PLAIN, other)]
    written.costs[F16] = COSTS
    written.read()
    written.write()
    found = Record(path, "another machine")
    found.read()
    assert (found.machine, found.pairs, found.costs) == ("a machine", written.pairs, written.costs)
    assert [each.name for each in path.parent.iterdir()] == ["run.json"]


# --- the run ---


@pytest.mark.parametrize("words", [["--prompts", "nothing"], ["--targets", "q9"]], ids=" ".join)
def test_unknown_name_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--model", "/no/such.gguf"])
    assert "there is no such prompt or target" in capsys.readouterr().err


class Noted:
    """Gives replies at once and notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float, str, int]] = []

    def ask(self, prompt: Prompt, temperature: float, mode: str, seed: int) -> Whole:
        self.asked.append((prompt.name, temperature, mode, seed))
        return PLAIN


def test_replies_take_turns_and_every_cell_has_its_pairs() -> None:
    engine, pairs = Noted(), Pairs()
    prompts = load_prompts()[:2]
    texts = list(measure(dict.fromkeys((OFF, NGRAM, BOTH), engine), prompts, "t", 2, pairs))
    assert len(texts) == 2 * 2
    assert [mode for _, _, mode, _ in engine.asked[:4]] == [OFF, NGRAM, OFF, BOTH]
    assert [mode for _, _, mode, _ in engine.asked[-4:]] == [BOTH, OFF, NGRAM, OFF]
    assert {key.mode for key in pairs} == {NGRAM, BOTH, CONTROL}
    assert len(pairs) == 2 * 2 * 3
    assert all(len(each) == 2 for each in pairs.values())
    assert {seed for *_, seed in engine.asked} == {0, 1}


def test_cells_that_are_there_are_not_asked_again() -> None:
    engine, pairs, prompts = Noted(), Pairs(), load_prompts()[:2]
    engines = dict.fromkeys((OFF, NGRAM), engine)
    next(measure(engines, prompts, "t", 2, pairs))
    assert not engine.asked
    list(measure(engines, prompts[:1], "t", 2, pairs))
    engine.asked.clear()
    list(measure(engines, prompts, "t", 2, pairs))
    assert {name for name, *_ in engine.asked} == {prompts[1].name}
    list(measure(engines, prompts[:1], "t", 3, pairs))
    assert all(len(pairs[key]) == (3 if key.prompt == prompts[0].name else 2) for key in pairs)


def test_control_is_there_with_one_way_of_drafting() -> None:
    engine, pairs = Noted(), Pairs()
    list(measure(dict.fromkeys((OFF, NGRAM), engine), load_prompts()[:1], "t", 1, pairs))
    assert [mode for _, _, mode, _ in engine.asked[:3]] == [OFF, NGRAM, OFF]
    assert {key.mode for key in pairs} == {NGRAM, CONTROL}


def test_reply_of_the_engine_is_timed_whole_and_read_anew() -> None:
    engine = DraftingEngine(InprocClient(fake=True), "fake:n_words=12", None)
    try:
        replies = [engine.ask(load_prompts()[0], 0.0, mode, 3) for mode in (OFF, NGRAM, OFF)]
    finally:
        engine.close()
    for reply in replies:
        assert 0 < reply.ttft_s <= reply.wall_s
        assert reply.num_tokens >= len(reply.token_ids) > 1
    assert replies[0].token_ids == replies[1].token_ids == replies[2].token_ids
    assert (replies[0].state, replies[0].drafted) == ("", ())
    assert replies[1].state


def test_draft_model_that_cannot_be_used_is_told() -> None:
    engine = DraftingEngine(InprocClient(fake=True), "fake:can_trim=0", "fake:")  # it cannot take drafts back
    try:
        assert engine.refusal
        assert engine.ask(load_prompts()[0], 0.0, OFF, 0).num_tokens
    finally:
        engine.close()


def test_steps_of_every_asked_size_are_timed(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    costs = step_costs(library(), path, n_threads=1, counts=(1, 4), tries=2)
    assert set(costs) == {1, 4}
    assert min(costs.values()) > 0
