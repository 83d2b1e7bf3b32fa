"""Random schedules of requests, aborts and steps, and what must hold after each of them."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from engine.messages import Adapter, Delta, Event, Failed, Finished, FinishReason
from engine.reasoning import PLAIN_THINKING, ThinkingStart
from engine.sequence import Prompt
from tests.unit.engine.drafting_engine import drafted, drafting_engine
from tests.unit.engine.fake_engine import alone, failed, finished, make_engine, make_prompt, run, tokens_of


def check_protocol(events: Sequence[Any], request_ids: set[str]) -> None:
    """Exactly one end for each request, nothing after it, and deltas that add up to the text."""
    texts: defaultdict[str, str] = defaultdict(str)
    ended: set[str] = set()
    for event in events:
        assert event.request_id not in ended, f"{event} came after the end"
        if isinstance(event, Delta):
            assert event.text or event.thinking or event.was_thinking
            known = "" if event.was_thinking else texts[event.request_id]
            texts[event.request_id] = known + event.text
        elif isinstance(event, Finished):
            assert texts[event.request_id] == event.text
            ended.add(event.request_id)
        elif isinstance(event, Failed):
            ended.add(event.request_id)
    assert ended == request_ids


ACTIONS = st.one_of(
    st.tuples(
        st.just("add"),
        st.integers(0, 5),
        st.sampled_from([None, 1, 5, 12, 60]),
        st.sampled_from([(), (" a",), ("\n",)]),
        st.sampled_from([None, *itertools.product((None, 0, 1, 6), ("", " holds the", " w</thi"))]),
    ),
    st.tuples(st.just("abort"), st.integers(0, 12)),
    st.tuples(st.just("step"), st.integers(1, 25)),
)
SHAPES = st.fixed_dictionaries(
    {"n_ctx": st.sampled_from([96, 160, 4096]), "n_seq_max": st.integers(1, 4), "n_ubatch": st.sampled_from([4, 512])}
)
MEMORIES = st.sampled_from(["", "can_trim=0", "window=8"])
_ADAPTERS = ((), (Adapter(path="a"),), (Adapter(path="a", scale=0.5), Adapter(path="b")))


def _thinking(prompt: Prompt, budget: int | None, begun: str) -> Prompt:
    """Return a request whose reply goes on inside a block of thinking."""
    closing = tuple(tokens_of(PLAIN_THINKING.closing_text))
    return prompt._replace(
        tokens=[*prompt.tokens, *tokens_of(begun)],
        sampling=msgspec.structs.replace(prompt.sampling, thinking_budget=budget),
        thinking=ThinkingStart(PLAIN_THINKING, True, closing, frozenset()),
    )


def _asked(
    request_id: str,
    number: int,
    max_tokens: int | None,
    stop: Sequence[str],
    thinks: tuple[int | None, str] | None,
    *,
    is_drafted: bool,
) -> Prompt:
    """Return one of the requests that schedules are made of."""
    turns = ("say it", "so", "again")[: 1 + 2 * (number % 2)]
    text = "the cache holds " * (number // 2)
    prompt = make_prompt(request_id, text + turns[0], *turns[1:], max_tokens=max_tokens, stop=stop, chat_id=f"{number}")
    system, settled = min(20, len(prompt.tokens)), len(prompt.tokens) * (number % 2) // 2
    prompt = prompt._replace(num_system_tokens=system, num_settled_tokens=settled)
    prompt = prompt._replace(adapters=_ADAPTERS[number % 3])
    if thinks is not None:
        prompt = _thinking(prompt, *thinks)
    return drafted(prompt) if is_drafted and number % 3 else prompt


def check_schedule(
    actions: Sequence[tuple],
    shape: dict[str, Any],
    known: dict[tuple, Finished],
    memory: str = "",
    draft: str | None = None,
) -> None:
    """Play a schedule and compare every whole reply with that of a lone engine of plain memory.

    Args:
        draft: settings of a draft model; with one, two requests of three have tokens drafted.
    """
    settings = f"n_words=6,{memory}"
    engine = make_engine(settings, **shape) if draft is None else drafting_engine(settings, draft=draft, **shape)
    events: list[Event] = []
    prompts: list[Prompt] = []
    for action in actions:
        match action:
            case ("add", *what):
                prompts.append(_asked(f"r{len(prompts)}", *what, is_drafted=draft is not None))
                events += engine.add(prompts[-1])
            case ("abort", number):
                engine.request_abort(f"r{number}")
            case ("step", count):
                for _ in range(count):
                    events += engine.step()
    events += run(engine)
    check_protocol(events, {prompt.request_id for prompt in prompts})
    for prompt in prompts:
        if prompt.request_id in failed(events):
            assert failed(events)[prompt.request_id].error.error == "ContextOverflow"
            assert len(prompt.tokens) > shape["n_ctx"]
            continue
        key = (tuple(prompt.tokens), prompt.adapters, prompt.sampling, prompt.thinking, shape["n_ctx"])
        if key not in known:
            known[key] = alone(prompt, "n_words=6", n_ctx=shape["n_ctx"])
        got, expected = finished(events)[prompt.request_id], known[key]
        if got.finish_reason is FinishReason.ABORT:
            # What was held back as the possible beginning of a stop string is shown when it stays unknown.
            for whole, part in ((expected.text, got.text), (expected.thinking, got.thinking)):
                assert (whole + (expected.stop_string or "")).startswith(part.removesuffix("\ufffd"))
        else:
            assert (got.text, got.thinking, got.token_ids) == (expected.text, expected.thinking, expected.token_ids)
            assert len(got.token_ids) <= (prompt.sampling.max_tokens or shape["n_ctx"])
            assert (got.finish_reason, got.stop_string) == (expected.finish_reason, expected.stop_string)
