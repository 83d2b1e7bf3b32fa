"""Reading ahead with real models: a follow-up starts behind the closed turn, and says what a cold context would."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from engine import ChatMessage, EngineDescribed, Generate, ModelParams, ProcessClient, Role, SamplingParams
from engine.messages import DescribeEngine
from engine.sequence import Prompt
from tests.support.cold_check import Bench, RecordingBackend, Reply
from tests.support.engine_driver import EngineDriver
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

    def sample(self, row: int) -> int:
        self._num_sampled += 1
        return int(self._sampler.sample(row))

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


def test_more_of_a_follow_up_is_cached_when_the_turn_was_read_ahead(starter_path: Path) -> None:
    driver = EngineDriver(ProcessClient())
    try:
        driver.load(str(starter_path), ModelParams(n_ctx=2048, n_threads=1))
        cached = {}
        for reads_ahead in (False, True):
            question = ChatMessage(Role.USER, f"Say hello. {reads_ahead}")
            answer = _ask(driver, question, reads_ahead=reads_ahead)
            assert answer.finish_reason.value == "stop"
            after = (question, ChatMessage(Role.ASSISTANT, answer.text), ChatMessage(Role.USER, "Go on."))
            second = _ask(driver, *after, reads_ahead=False)
            cached[reads_ahead] = second.metrics.num_prompt_tokens - second.metrics.num_cached_tokens
        assert cached[True] == cached[False] - 5, "both marks of the change, two line breaks and the role"
    finally:
        driver.client.close()


def _ask(driver: EngineDriver, *messages: ChatMessage, reads_ahead: bool) -> Any:
    request_id = driver.new_id()
    sampling = SamplingParams(temperature=0, max_tokens=60)
    driver.client.send(Generate(request_id=request_id, messages=messages, sampling=sampling, read_ahead=reads_ahead))
    answer = driver.wait_finished(request_id)
    # Answered by the loop: by the second time it has made the step that was due.
    for _ in range(2):
        number = driver.new_id()
        driver.client.send(DescribeEngine(request_id=number))
        driver.wait_type(EngineDescribed, number)
    return answer
