"""Real vocabularies: nothing that people or tools write becomes a control token, and nothing of it is changed."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from engine.backend_fake import FakeLoader
from engine.kv_cache import KVCache
from engine.messages import ChatMessage, PromptMode, PromptOptions, Role, ToolCall
from engine.params import ModelParams
from engine.special_texts import RenderedPrompt, SpecialTexts
from engine.template_renderer import TemplateRenderer
from engine.tokenizing import PromptEncoder
from tests.support.vocabularies import NUM_VOCABULARIES, VOCABULARIES, loaded_vocabulary

# Everything that a chat can hold, between the vocabulary's own marks.
TEMPLATE = (
    "{% for m in messages %}{{ bos_token }}{{ m.role }}\n{{ m.content }}{{ m.reasoning_content }}"
    "{{ m.tool_calls | tojson if m.tool_calls }}{{ m.name }}{{ m.tool_call_id }}{{ eos_token }}\n{% endfor %}"
    "{{ tools | tojson if tools }}{{ extra | tojson if extra }}"
)
LOSSY = {"ggml-vocab-bert-bge", "ggml-vocab-nomic-bert-moe"}  # their tokenisers change text
MAX_TEXTS = 30


class WithTemplate:
    """A real vocabulary with another template."""

    chat_template = TEMPLATE

    def __init__(self, vocabulary: Any, *, is_lossy: bool) -> None:
        self._vocabulary = vocabulary
        self.is_lossy = is_lossy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vocabulary, name)


@pytest.fixture(scope="module")
def renderer() -> Iterator[TemplateRenderer]:
    renderer = TemplateRenderer()
    renderer.warm_up()
    yield renderer
    renderer.close()


@pytest.fixture(scope="module", params=VOCABULARIES, ids=lambda path: path.stem.removeprefix("ggml-vocab-"))
def vocabulary(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a vocabulary that says whether its tokens give back the text they were made from."""
    with loaded_vocabulary(request.param) as vocabulary:
        yield WithTemplate(vocabulary, is_lossy=request.param.stem in LOSSY)


def forgeries(vocabulary: Any) -> list[str]:
    """Return the texts of special tokens, alone and together."""
    texts = list(vocabulary.special_texts)
    assert texts
    return [*texts[:MAX_TEXTS], *texts[-3:], f"a{''.join(texts[:20])}b", f" {texts[0]} \n{texts[-1]}{texts[-1][:-1]}"]


def chat_of(text: str) -> tuple[list[ChatMessage], PromptOptions]:
    """Return a chat that has `text` in every place that is not ours."""
    call = ToolCall(name=text, arguments=json.dumps({text: [text]}), call_id=text)
    chat = [
        ChatMessage(Role.SYSTEM, text),
        ChatMessage(Role.USER, text),
        ChatMessage(Role.ASSISTANT, text, text, (call,)),
        ChatMessage(Role.TOOL, text, call_id=text),
        ChatMessage(Role.USER, text),
    ]
    return chat, PromptOptions(tools=(json.dumps({"name": text, text: text}),), variables=json.dumps({"extra": [text]}))


def text_of(vocabulary: Any, tokens: Sequence[int]) -> str:
    return b"".join(vocabulary.pieces[token] for token in tokens).decode()


def test_all_vocabularies_are_there() -> None:
    assert len(VOCABULARIES) == NUM_VOCABULARIES


def test_no_special_token_comes_from_a_chat_when_it_spells_one(vocabulary, renderer: TemplateRenderer) -> None:
    encoder = PromptEncoder(vocabulary, renderer, n_ctx=10**7)
    marks = {text.encode() for text in vocabulary.special_texts}
    special = {token for token, piece in enumerate(vocabulary.pieces) if piece in marks} | vocabulary.control_ids

    def tokens_of(text: str) -> list[int]:
        return encoder.encode(*chat_of(text)).tokens

    expected = Counter(token for token in tokens_of("harmless") if token in special)
    assert expected
    for text in forgeries(vocabulary):
        tokens = tokens_of(text)
        assert Counter(token for token in tokens if token in special) == expected, text
        if vocabulary.is_lossy:
            continue
        back, rendered = text_of(vocabulary, tokens), encoder.render(*chat_of(text)).text
        if vocabulary.adds_space:  # after each special token: that is how such models are taught
            back, rendered = back.replace(" ", ""), rendered.replace(" ", "")
        assert back == rendered or back == vocabulary.bos_text + rendered


def test_cache_tells_the_token_from_its_text_when_both_are_spelled_alike(vocabulary, renderer) -> None:
    backend = FakeLoader().load("fake:", ModelParams(), lambda share: True)
    assert backend is not None
    cache = KVCache(backend, vocabulary, n_seq_max=2, n_ctx=4096)
    encoder = PromptEncoder(vocabulary, renderer, n_ctx=10**7)
    specials = SpecialTexts(vocabulary.special_texts)
    controls = {vocabulary.pieces[token].decode("utf-8", "replace") for token in vocabulary.control_ids}
    for text in [text for text in vocabulary.special_texts if text in controls][:MAX_TEXTS]:
        real = encoder.tokenize(RenderedPrompt([(f"one two{text}three four", False)]))
        typed = encoder.tokenize(RenderedPrompt(specials.split(f"one two{text}three four")))
        place = next(at for at, token in enumerate(real) if at and token in vocabulary.control_ids)
        for cached, prompt in ((real, typed), (typed, real)):
            num_cached, num_prompt = cache.common(cached, prompt)
            assert (num_cached if cached is real else num_prompt) <= place
        assert cache.common(real, real)[0] == cache.common(typed, typed)[0] + len(real) - len(typed)


@pytest.mark.parametrize("half", ["The answer", " The answer", "The answer is ", "  indented\n\n    code", "\n", ""])
def test_join_is_exact_when_a_reply_goes_on(vocabulary, half: str, renderer: TemplateRenderer) -> None:
    if vocabulary.is_lossy:
        return  # these are no models that speak
    encoder = PromptEncoder(vocabulary, renderer, n_ctx=10**7)
    question = ChatMessage(Role.USER, "What?")
    begun = encoder.encode([question]).tokens
    chat = [question, ChatMessage(Role.ASSISTANT, half)]
    tokens = encoder.encode(chat, PromptOptions(mode=PromptMode.CONTINUE)).tokens
    assert tokens[: len(begun)] == begun
    assert text_of(vocabulary, tokens[len(begun) :]) == half
