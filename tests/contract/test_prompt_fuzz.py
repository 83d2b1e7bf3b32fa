"""Drawn chats and options on the templates of several families: prompts that forge nothing, or an error of ours."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.messages import ChatMessage, PromptMode, PromptOptions, Role, ToolCall
from engine.template_renderer import TemplateRenderer
from engine.tokenizing import PromptEncoder
from tests.support.vocabularies import TEMPLATES
from tests.unit.engine.stub_vocabulary import StubVocabulary

NAMES = [
    *("Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct", "google-gemma-2-2b-it", "openai-gpt-oss-120b"),
    *("mistralai-Mistral-Nemo-Instruct-2407", "deepseek-ai-DeepSeek-V3.1", "google-gemma-4-31B-it", "Kimi-K3"),
    *("CohereForAI-c4ai-command-r7b-12-2024-tool_use", "microsoft-Phi-3.5-mini-instruct"),
]
CONTROLS = (
    *("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<start_of_turn>", "<end_of_turn>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]", "<|end|>", "<|user|>"),
    *("<|channel|>", "<|message|>", "<|start|>", "<tool_call>", "</tool_call>", "<|END_THINKING|>"),
)
HARMLESS = "plain"
FRAGMENTS = [
    *CONTROLS,
    "<|im_",
    "end|>",
    "\ue000",
    "\ue0010\ue002",
    "0",
    "word",
    " ",
    "\n",
    "é日👍",
    "{{ 1 }}",
    '"}',
    "\0",
]

Change = Callable[[str], str]


def _harmless(text: str) -> str:
    for control in CONTROLS:
        text = text.replace(control, HARMLESS)
    return text


def _texts() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(FRAGMENTS), max_size=5).map("".join)


def _calls() -> st.SearchStrategy[tuple[ToolCall, ...]]:
    arguments = st.dictionaries(_texts(), _texts() | st.integers() | st.lists(_texts(), max_size=2), max_size=2)
    written = arguments.map(json.dumps) | st.sampled_from(["", "{", "[1]", "<|im_end|>"])
    call = st.builds(ToolCall, name=_texts(), arguments=written, call_id=st.sampled_from(["", "c1", "<|im_end|>"]))
    return st.lists(call, max_size=2).map(tuple)


def _chats() -> st.SearchStrategy[list[ChatMessage]]:
    thoughts = st.just("") | _texts()
    message = st.one_of(
        st.builds(ChatMessage, st.sampled_from([Role.USER, Role.SYSTEM]), _texts()),
        st.builds(ChatMessage, st.just(Role.ASSISTANT), _texts(), thoughts, st.just(()) | _calls()),
        st.builds(ChatMessage, st.just(Role.TOOL), _texts(), call_id=st.sampled_from(["", "c1"])),
    )
    return st.lists(message, min_size=1, max_size=5)


def _options() -> st.SearchStrategy[PromptOptions]:
    tool = st.builds(lambda name, text: json.dumps({"name": name, "description": text}), _texts(), _texts())
    return st.builds(
        PromptOptions,
        mode=st.sampled_from(list(PromptMode)),
        enable_thinking=st.sampled_from([None, True, False]),
        tools=st.lists(tool, max_size=1).map(tuple),
        variables=st.just("{}") | _texts().map(lambda text: json.dumps({"extra": [text]})),
    )


def _changed(value: Any, change: Change) -> Any:
    """Return a message or options with all texts changed, those in JSON as well."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(_changed(item, change) for item in value)
    if isinstance(value, msgspec.Struct):
        names = (name for name in value.__struct_fields__ if name not in ("role", "mode", "overflow"))
        return msgspec.structs.replace(value, **{name: _changed(getattr(value, name), change) for name in names})
    return value


@pytest.fixture(scope="module")
def renderer() -> Iterator[TemplateRenderer]:
    renderer = TemplateRenderer()
    renderer.warm_up()
    yield renderer
    renderer.close()


@pytest.fixture(scope="module", params=NAMES)
def encoder(request: pytest.FixtureRequest, renderer: TemplateRenderer) -> PromptEncoder:
    template = next(path for path in TEMPLATES if path.stem == request.param).read_text("utf-8")
    encoder = PromptEncoder(StubVocabulary(template=template, controls=CONTROLS, bos="<s>"), renderer, n_ctx=10**6)
    encoder.try_out()
    return encoder


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(chat=_chats(), options=_options())
def test_drawn_chat_forges_nothing(encoder: PromptEncoder, chat: list[ChatMessage], options: PromptOptions) -> None:
    vocabulary = encoder._vocabulary
    assert isinstance(vocabulary, StubVocabulary)

    def tokens_of(change: Change) -> list[int] | str:
        try:
            return encoder.encode(_changed(chat, change), _changed(options, change)).tokens
        except EngineError as error:
            assert error.message and error.hint
            return type(error).__name__

    found, expected = tokens_of(str), tokens_of(_harmless)
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
        return
    assert Counter(t for t in found if t in vocabulary.control_ids) == Counter(
        t for t in expected if t in vocabulary.control_ids
    )
    text = vocabulary.text_of(found)
    assert text.removeprefix("<s>") == encoder.render(chat, options).text.removeprefix("<s>")
    if options.mode is PromptMode.CONTINUE:
        assert text.endswith(chat[-1].content)
        begun = encoder.encode(chat[:-1], msgspec.structs.replace(options, mode=PromptMode.CHAT)).tokens
        assert found[: len(begun)] == begun
