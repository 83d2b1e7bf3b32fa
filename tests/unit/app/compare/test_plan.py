"""What a comparison is to do, and in which order."""

import pytest

from app.compare.plan import (
    MAX_SAMPLES,
    Place,
    chat_at,
    context_for,
    follow_up,
    left_of,
    new_comparison,
    sampling_at,
    stages,
)
from app.compare.results import Cell, Mode, PromptItem
from app.errors import UsageError
from engine import ChatMessage, ModelParams, Role, SamplingParams
from tests.unit.app.compare.runs import column, plan, prompts


def test_fair_loads_each_model_once_a_repeat_and_rotates_who_is_first() -> None:
    order = [stage.columns for stage in stages(plan(column(), column(), column(), repeats=3))]
    assert order == [(name,) for name in ("c1", "c2", "c3", "c2", "c3", "c1", "c3", "c1", "c2")]


def test_fair_asks_every_prompt_alone() -> None:
    stage = next(iter(stages(plan(column(), column(), num_prompts=3))))
    assert stage.rounds == tuple((Place("c1", f"p{number}", 0),) for number in (1, 2, 3))


def test_race_asks_all_columns_at_once_with_all_loaded() -> None:
    (stage,) = stages(plan(column(), column(), num_prompts=2, repeats=2, mode=Mode.RACE))
    assert stage.columns == ("c1", "c2")
    assert stage.rounds[0] == (Place("c1", "p1", 0), Place("c2", "p1", 0))
    assert len(stage.rounds) == 4


def test_samples_are_asked_in_one_batch() -> None:
    (stage,) = stages(plan(column(), num_prompts=1, repeats=5, mode=Mode.SAMPLES))
    assert stage.rounds == (tuple(Place("c1", "p1", number) for number in range(5)),)


def test_what_is_done_or_has_failed_is_left_out() -> None:
    (stage,) = stages(plan(column(), column(), mode=Mode.RACE))
    left = left_of(stage, {Place("c1", "p1", 0)}, {"c2"})
    assert left is not None
    assert (left.columns, left.rounds) == (("c1",), ((Place("c1", "p2", 0),),))
    assert left_of(stage, {Place("c1", "p1", 0), Place("c1", "p2", 0)}, {"c2"}) is None


def test_samples_differ_in_their_seed_and_may_be_computed_together() -> None:
    drawn = column(sampling=SamplingParams(seed=7, reproducible=True))
    seeds = [sampling_at(drawn, Place("c1", "p1", number), Mode.SAMPLES) for number in range(3)]
    assert [sampling.seed for sampling in seeds] == [7, 8, 9]
    assert not any(sampling.reproducible for sampling in seeds)
    assert sampling_at(drawn, Place("c1", "p1", 1), Mode.FAIR) == drawn.sampling


def test_same_model_twice_is_two_columns_and_said() -> None:
    one = column(fingerprint="f", label="small")
    made = new_comparison([one, one, column(fingerprint="g", label="small")], prompts())
    assert [each.label for each in made.columns] == ["small", "small (2)", "small (3)"]
    assert [each.id for each in made.columns] == ["c1", "c2", "c3"]
    assert made.notes == ("small (2) is the same model as small: what differs between them is noise.",)


def test_largest_file_is_what_the_others_are_held_against() -> None:
    sizes = (10.0, 30.0, 20.0)
    made = plan(*(column(values={"file_bytes": size}) for size in sizes))
    assert made.reference == "c2"
    assert plan(column()).reference == ""


@pytest.mark.parametrize(
    ("columns", "asked", "mode", "repeats", "message"),
    [
        (0, 1, Mode.FAIR, 1, "No model is named"),
        (1, 0, Mode.FAIR, 1, "There is no prompt"),
        (65, 1, Mode.FAIR, 1, "There are 65 models"),
        (1, 1, Mode.FAIR, 0, "--repeats is 0"),
        (1, 1, Mode.SAMPLES, MAX_SAMPLES + 1, "--samples is 65"),
        (2, 1, Mode.SAMPLES, 2, "Samples are of one model"),
        (64, 1000, Mode.FAIR, 1000, "That makes 64,000,000 replies"),
    ],
    ids=["no model", "no prompt", "many models", "no repeat", "many samples", "samples of two", "many replies"],
)
def test_impossible_comparison_is_refused(columns: int, asked: int, mode: Mode, repeats: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        new_comparison([column()] * columns, prompts(asked), mode=mode, repeats=repeats)


def test_context_holds_the_longest_prompt_and_is_the_same_for_all() -> None:
    short = prompts(1)
    long = PromptItem(id="long", messages=(ChatMessage(Role.USER, "word " * 10_000),))
    assert context_for(short, 100) == 2048
    assert context_for([*short, long], 100) >= 12_500
    assert context_for(short, 1000, num_at_once=8) >= 8000
    assert context_for(short, 1000, num_turns=4) >= 4000


def test_next_message_goes_on_behind_the_reply_of_each_column() -> None:
    made = plan(column(), column(), num_prompts=1)
    after = follow_up(made, "p1", "And then?")
    asked = {prompt.id: prompt for prompt in (*made.prompts, after)}
    cells = {Place(name, "p1", 0): Cell(column=name, prompt="p1", text=f"from {name}") for name in ("c1", "c2")}
    chats = {name: chat_at(Place(name, after.id, 0), asked, cells) for name in ("c1", "c2")}
    for name, chat in chats.items():
        assert chat is not None
        assert [message.content for message in chat[1:]] == [f"from {name}", "And then?"]
    failed = {Place("c1", "p1", 0): Cell(column="c1", prompt="p1", error="It failed.")}
    assert chat_at(Place("c1", after.id, 0), asked, failed) is None


@pytest.mark.parametrize(("prompt", "text"), [("p9", "And?"), ("p1", " ")], ids=["no such prompt", "blank"])
def test_nothing_to_go_on_with_is_refused(prompt: str, text: str) -> None:
    with pytest.raises(UsageError, match="nothing to go on with"):
        follow_up(plan(column()), prompt, text)


def test_load_settings_are_kept_with_the_column() -> None:
    made = plan(column(params=ModelParams(type_k="q8_0")), column())
    assert [each.params.type_k for each in made.columns] == ["q8_0", "f16"]
