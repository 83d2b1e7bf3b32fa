"""Reading ahead with real models: a follow-up starts behind the closed turn, and says what a cold context would."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import ChatMessage, Finished, FinishReason, ModelParams, Role, SamplingParams
from engine.backend import Proposal
from engine.core import Engine
from engine.sequence import Prompt
from engine.template_renderer import TemplateRenderer
from engine.tokenizing import PromptEncoder
from tests.support.cold_check import Bench, RecordingBackend, Reply, load_llama
from tests.support.memory_matrix import Chat, Matrix
from tests.support.tiny_models import TINY_MODELS

_REPLY_TOKENS = 9


class _Ending:
    """Ends a reply by itself after some tokens, as a model's end token or a grammar does."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._num_sampled = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        self._num_sampled += 1
        return int(self._sampler.sample(row, proposal))

    @property
    def is_complete(self) -> bool:
        return self._num_sampled == _REPLY_TOKENS


class _EndingBackend(RecordingBackend):
    """Ends every reply as a model would."""

    def new_sampler(self, *arguments: Any, **more: Any) -> Any:
        return _Ending(super().new_sampler(*arguments, **more))


class _Chats:
    """Asks a bench with what the next turn begins with."""

    def __init__(self, matrix: Matrix, bench: Bench) -> None:
        self._matrix = matrix
        self._bench = bench
        tokenize = matrix.cold.vocabulary.tokenize
        self._next_turn = tuple(tokenize("<|im_end|>\n<|im_start|>user\n", parse_special=True))
        add = bench.engine.add
        bench.engine.add = lambda prompt: add(self._ahead(prompt))

    def reply(self, chat: Chat, user: list[int]) -> Reply:
        return self._bench.reply(**self._matrix.prompt(chat, user), max_tokens=40)

    def _ahead(self, prompt: Prompt) -> Prompt:
        return prompt._replace(next_turn_tokens=self._next_turn)


@pytest.mark.parametrize("name", list(TINY_MODELS))
def test_replies_are_those_of_a_cold_context_when_turns_are_read_ahead(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    matrix = Matrix(name, tmp_path_factory.mktemp("tiny"))
    with contextlib.closing(matrix), contextlib.closing(matrix.bench(wrap=_EndingBackend)) as bench:
        chats, texts = _Chats(matrix, bench), matrix.texts
        first = texts.words("user", 20, 1)
        chat = Chat(texts.words("system", 8), ())
        chat = chat.answered(first, chats.reply(chat, first))
        for turn in (2, 3):
            user = texts.words("user", 12, turn)
            reply = chats.reply(chat, user)
            assert reply.num_evaluated < len(user) + len(texts.ask())  # nothing of the turn's change is left
            chat = chat.answered(user, reply)
        user = texts.words("user", 7, 4)
        chats.reply(chat, user)
        last_user, last_reply = chat.turns[-1]
        edited = chat._replace(turns=(*chat.turns[:-1], (last_user, last_reply[:-3])))
        chats.reply(edited, user)
        chats.reply(chat, user)


@pytest.fixture
def renderer() -> Iterator[TemplateRenderer]:
    renderer = TemplateRenderer()
    yield renderer
    renderer.close()


def test_more_of_a_follow_up_is_cached_when_the_turn_was_read_ahead(
    starter_path: Path, renderer: TemplateRenderer
) -> None:
    backend = load_llama(starter_path, ModelParams(n_ctx=2048, n_threads=1))
    encoder = PromptEncoder(backend.vocabulary, renderer, n_ctx=2048)
    encoder.try_out()
    num_evaluated = {}
    with contextlib.closing(Engine(backend)) as engine:
        for reads_ahead in (False, True):
            question = ChatMessage(Role.USER, f"Say hello. {reads_ahead}")
            answer = _reply(engine, encoder, question, reads_ahead=reads_ahead)
            assert answer.finish_reason is FinishReason.STOP
            after = (question, ChatMessage(Role.ASSISTANT, answer.text), ChatMessage(Role.USER, "Go on."))
            metrics = _reply(engine, encoder, *after, reads_ahead=False).metrics
            num_evaluated[reads_ahead] = metrics.num_prompt_tokens - metrics.num_cached_tokens
    assert num_evaluated[True] == num_evaluated[False] - 5, "two marks, two line breaks and the role"


def _reply(engine: Engine, encoder: PromptEncoder, *messages: ChatMessage, reads_ahead: bool) -> Finished:
    encoded = encoder.encode(messages)
    prompt = Prompt("r", encoded.tokens, SamplingParams(temperature=0, max_tokens=60), 0, 0.0)
    events = engine.add(prompt._replace(next_turn_tokens=encoded.next_turn_tokens if reads_ahead else ()))
    while engine.has_work:
        events += engine.step()
    (finished,) = (event for event in events if isinstance(event, Finished))
    return finished
