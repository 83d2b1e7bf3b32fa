"""Real models whose templates refuse a chat, ask for more than usual, or are missing: the chat works all the same."""

import datetime
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import (
    ChatMessage,
    Counted,
    CountTokens,
    Finished,
    Generate,
    ModelDescription,
    ModelLoaded,
    ModelParams,
    ProcessClient,
    PromptMode,
    PromptOptions,
    Rendered,
    RenderPrompt,
    Role,
    SamplingParams,
)
from tests.support.engine_driver import EngineDriver
from tests.support.gguf_files import CHATML, PLAIN_TEMPLATE, edit_gguf, write_tiny_model

_KEY = "tokenizer.chat_template"
_GREEDY = SamplingParams(temperature=0, max_tokens=12)
_SYSTEM = ChatMessage(Role.SYSTEM, "Be brief.")
_HI = ChatMessage(Role.USER, "hi")
_NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
_TURNS = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}"
)
_DATED = (
    "{% if strftime_now is defined %}{{ strftime_now('%Y-%m-%d') }}{% endif %}: {% for m in messages %}"
    "{% generation %}{{ m.content }}{% endgeneration %}{% break %}{% endfor %}"
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineDriver]:
    """Return an engine, to load a model of one's own into."""
    driver = EngineDriver(ProcessClient())
    _load(driver, write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf"))
    driver.reply(_HI, sampling=_GREEDY)  # starts all its processes before the first test
    yield driver
    driver.close()


@pytest.fixture
def own_driver() -> Iterator[EngineDriver]:
    """Return an engine whose template process may be ended."""
    driver = EngineDriver(ProcessClient())
    yield driver
    driver.close()


def _load(driver: EngineDriver, path: Path) -> ModelDescription:
    loaded = driver.load(str(path), ModelParams(n_ctx=512, n_threads=1))
    assert isinstance(loaded, ModelLoaded), loaded
    return loaded.description


def _prompt(driver: EngineDriver, *messages: ChatMessage) -> str:
    request_id = driver.new_id()
    driver.client.send(RenderPrompt(request_id=request_id, messages=messages))
    rendered = driver.wait_final(request_id)
    assert isinstance(rendered, Rendered), rendered
    return rendered.text


def test_system_prompt_is_folded_in_once_when_the_template_refuses_it(driver: EngineDriver, tmp_path: Path) -> None:
    description = _load(driver, write_tiny_model(tmp_path / "a.gguf", chat_template=_NO_SYSTEM + CHATML))
    assert [notice for notice in description.notices if "system prompt" in notice] == [
        "This model's template takes no system prompt: it is put in front of the first message."
    ]
    expected = "<|im_start|>user\nBe brief.\n\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert _prompt(driver, _SYSTEM, _HI) == expected
    assert driver.reply(_SYSTEM, _HI, sampling=_GREEDY).text


def test_chat_out_of_turn_is_answered_when_the_template_insists_on_turns(driver: EngineDriver, tmp_path: Path) -> None:
    _load(driver, write_tiny_model(tmp_path / "a.gguf", chat_template=_TURNS + CHATML))
    greeting = ChatMessage(Role.ASSISTANT, "Welcome!")
    assert _prompt(driver, greeting, _HI, _HI) == "<|im_start|>user\nhi\n\nhi<|im_end|>\n<|im_start|>assistant\n"
    for chat in ((_HI, _HI), (greeting, _HI), (_SYSTEM, greeting, _HI), (_SYSTEM, _HI, _HI)):
        assert driver.reply(*chat, sampling=_GREEDY).text


def test_date_is_printed_and_later_turns_work_when_the_template_asks_for_it(
    driver: EngineDriver, tmp_path: Path
) -> None:
    _load(driver, write_tiny_model(tmp_path / "a.gguf", chat_template=_DATED))
    before = datetime.datetime.now().astimezone().date()
    prompt = _prompt(driver, _HI)
    days = {before, datetime.datetime.now().astimezone().date()}
    assert prompt in {f"{day.isoformat()}: hi" for day in days}
    for _ in range(2):
        driver.reply(_HI, sampling=_GREEDY)


def test_known_format_answers_when_the_file_has_no_template(driver: EngineDriver, tmp_path: Path) -> None:
    description = _load(driver, write_tiny_model(tmp_path / "a.gguf", chat_template=None))
    assert not description.has_chat_template
    assert [notice for notice in description.notices if "the ChatML format is used" in notice]
    reply = driver.reply(_SYSTEM, _HI, sampling=_GREEDY)
    assert reply.text
    assert "<|" not in reply.text


def test_prompt_is_as_long_as_with_the_template_when_the_known_format_is_the_same(
    driver: EngineDriver, tmp_path: Path
) -> None:
    given = write_tiny_model(tmp_path / "given.gguf")
    missing = write_tiny_model(tmp_path / "missing.gguf", chat_template=None)
    counts = []
    for path in (given, missing):
        _load(driver, path)
        request_id = driver.new_id()
        driver.client.send(CountTokens(request_id=request_id, messages=(_SYSTEM, _HI)))
        counted = driver.wait_final(request_id)
        assert isinstance(counted, Counted)
        counts.append(counted.num_tokens)
    assert counts[0] == counts[1]


def test_slow_template_costs_a_second_and_not_one_for_each_form_of_the_chat(
    own_driver: EngineDriver, tmp_path: Path
) -> None:
    driver = own_driver
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    _load(driver, write_tiny_model(tmp_path / "a.gguf", chat_template=endless))
    began = time.monotonic()
    assert driver.wait_failed(driver.generate(_SYSTEM, _HI, _HI)).error.error == "ChatTemplateError"
    assert time.monotonic() - began < 6
    _load(driver, write_tiny_model(tmp_path / "b.gguf", chat_template=PLAIN_TEMPLATE))
    driver.reply(_HI, sampling=_GREEDY)


def test_empty_chat_is_refused_and_the_next_is_answered(driver: EngineDriver, tmp_path: Path) -> None:
    _load(driver, write_tiny_model(tmp_path / "a.gguf"))
    assert driver.wait_failed(driver.generate()).error.error == "RequestError"
    assert driver.reply(_HI, sampling=_GREEDY).text


def _rendered(driver: EngineDriver, messages: tuple[ChatMessage, ...], options: PromptOptions) -> str:
    request_id = driver.new_id()
    driver.client.send(RenderPrompt(request_id=request_id, messages=messages, options=options))
    rendered = driver.wait_final(request_id)
    assert isinstance(rendered, Rendered), rendered
    return rendered.text


def _reply(driver: EngineDriver, messages: tuple[ChatMessage, ...], options: PromptOptions, **sampling) -> Finished:
    request_id = driver.new_id()
    params = SamplingParams(**{"temperature": 0, "max_tokens": 12, **sampling})
    driver.client.send(Generate(request_id=request_id, messages=messages, sampling=params, options=options))
    return driver.wait_finished(request_id)


def test_reply_goes_on_where_it_was_stopped(driver: EngineDriver, starter_path: Path) -> None:
    _load(driver, starter_path)
    question = ChatMessage(Role.USER, "What is the capital of France?")
    half = ChatMessage(Role.ASSISTANT, "The capital of France is")
    options = PromptOptions(mode=PromptMode.CONTINUE)
    assert _rendered(driver, (question, half), options).endswith("assistant\nThe capital of France is")
    reply = _reply(driver, (question, half), options)
    assert reply.text.startswith(" Paris")
    assert driver.wait_failed(_send(driver, (question,), options)).error.error == "RequestError"


def _send(driver: EngineDriver, messages: tuple[ChatMessage, ...], options: PromptOptions) -> str:
    request_id = driver.new_id()
    driver.client.send(Generate(request_id=request_id, messages=messages, sampling=_GREEDY, options=options))
    return request_id


def test_text_is_completed_when_the_format_says_so(driver: EngineDriver, starter_path: Path) -> None:
    description = _load(driver, starter_path)
    assert description.chat_format == "file"
    assert description.chat_formats == ("file", "ChatML", "completion")
    assert not description.can_think
    text = ChatMessage(Role.USER, "The sun rises in the east and sets in the")
    completion = PromptOptions(chat_format="completion")
    assert _rendered(driver, (text,), completion) == text.content
    assert _reply(driver, (text,), completion, max_tokens=3).text.startswith(" west")


def test_base_model_says_what_can_be_chosen_and_completes(driver: EngineDriver, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "a.gguf", chat_template=None)
    path.write_bytes(path.read_bytes().replace(b"<|im_start|>", b"<|no_marker>"))
    description = _load(driver, path)
    assert (description.chat_format, description.chat_formats) == (None, ("completion",))
    failed = driver.wait_failed(_send(driver, (_HI,), PromptOptions()))
    assert failed.error.error == "ChatTemplateError"
    assert "completion" in failed.error.hint
    assert _reply(driver, (_HI,), PromptOptions(chat_format="completion")).token_ids


def test_broken_template_gives_way_to_a_known_format(driver: EngineDriver, tmp_path: Path) -> None:
    description = _load(driver, write_tiny_model(tmp_path / "a.gguf", chat_template="{% for %}"))
    assert description.chat_format == "ChatML"
    assert [notice for notice in description.notices if "ChatML format is used instead" in notice]
    assert _reply(driver, (_HI,), PromptOptions()).text


@pytest.mark.parametrize("budget", [0, 4])
def test_answer_comes_when_the_budget_of_thinking_is_used_up(
    driver: EngineDriver, starter_path: Path, tmp_path: Path, budget: int
) -> None:
    opens = (
        CHATML.replace("assistant\\n' }}", "assistant\\n<think>\\n' }}") + "{{ '' if true else '\\n</think>\\n\\n' }}"
    )
    description = _load(driver, edit_gguf(starter_path, tmp_path / "a.gguf", set={_KEY: opens}))
    assert description.can_think
    thinks = _reply(driver, (_HI,), PromptOptions())
    assert thinks.thinking
    assert thinks.text == ""
    reply = _reply(driver, (_HI,), PromptOptions(), thinking_budget=budget, max_tokens=24)
    assert "</think>" not in reply.text + reply.thinking
    assert reply.text
    assert reply.metrics.num_thinking_tokens >= budget
