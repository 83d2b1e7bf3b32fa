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
    ModelDescription,
    ModelLoaded,
    ModelParams,
    ProcessClient,
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


@pytest.fixture
def driver() -> Iterator[EngineDriver]:
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


def test_system_prompt_is_folded_in_once_when_the_template_refuses_it(
    driver: EngineDriver, starter_path: Path, tmp_path: Path
) -> None:
    description = _load(driver, edit_gguf(starter_path, tmp_path / "a.gguf", set={_KEY: _NO_SYSTEM + CHATML}))
    assert [notice for notice in description.notices if "system prompt" in notice] == [
        "This model's template takes no system prompt: it is put in front of the first message."
    ]
    expected = "<|im_start|>user\nBe brief.\n\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert _prompt(driver, _SYSTEM, _HI) == expected
    assert driver.reply(_SYSTEM, _HI, sampling=_GREEDY).text


def test_chat_out_of_turn_is_answered_when_the_template_insists_on_turns(
    driver: EngineDriver, starter_path: Path, tmp_path: Path
) -> None:
    _load(driver, edit_gguf(starter_path, tmp_path / "a.gguf", set={_KEY: _TURNS + CHATML}))
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


def test_known_format_answers_when_the_file_has_no_template(
    driver: EngineDriver, starter_path: Path, tmp_path: Path
) -> None:
    description = _load(driver, edit_gguf(starter_path, tmp_path / "a.gguf", remove={_KEY}))
    assert not description.has_chat_template
    assert [notice for notice in description.notices if "the ChatML format is used" in notice]
    reply = driver.reply(_SYSTEM, _HI, sampling=_GREEDY)
    assert reply.text
    assert "<|" not in reply.text


def test_prompt_is_as_long_as_with_the_template_when_the_known_format_is_the_same(
    driver: EngineDriver, starter_path: Path, tmp_path: Path
) -> None:
    given = edit_gguf(starter_path, tmp_path / "given.gguf", set={_KEY: CHATML})
    missing = edit_gguf(starter_path, tmp_path / "missing.gguf", remove={_KEY})
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
    driver: EngineDriver, tmp_path: Path
) -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    _load(driver, write_tiny_model(tmp_path / "a.gguf", chat_template=endless))
    began = time.monotonic()
    assert driver.wait_failed(driver.generate(_SYSTEM, _HI, _HI)).error.error == "ChatTemplateError"
    assert time.monotonic() - began < 6
    _load(driver, write_tiny_model(tmp_path / "b.gguf", chat_template=PLAIN_TEMPLATE))
    driver.reply(_HI, sampling=_GREEDY)


def test_empty_chat_is_refused_and_the_next_is_answered(driver: EngineDriver, starter_path: Path) -> None:
    _load(driver, starter_path)
    assert driver.wait_failed(driver.generate()).error.error == "RequestError"
    assert driver.reply(_HI, sampling=_GREEDY).text
