"""Templates that write earlier replies anew: only what follows the first changed token is read again, whatever the
memory; on tiny models of every kind, with templates that leave out what was thought."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from engine.messages import ChatMessage, Generate, Role
from engine.metrics import CacheMissCause
from engine.params import SamplingParams
from engine.prompt_making import prompt_of
from engine.sequence import Prompt
from engine.template_renderer import TemplateRenderer
from engine.tokenizing import PromptEncoder
from tests.support.cold_check import Bench, Reply
from tests.support.memory_matrix import Matrix

THINKING = """
{%- set ns = namespace(last=-1) -%}
{%- for m in messages if m.role == 'user' -%}{%- set ns.last = loop.length -%}{%- endfor -%}
{%- set seen = namespace(users=0) -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}{%- set seen.users = seen.users + 1 -%}{%- endif -%}
{{- '<|im_start|>' + m.role + '\\n' -}}
{%- if m.role == 'assistant' and seen.users >= ns.last and m.reasoning_content -%}
{{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' -}}
{%- endif -%}
{{- m.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}TAIL{%- endif -%}
"""
# The system prompt stands in the last message of the user, as some families have it: each turn moves it.
MOVING = """
{%- set ns = namespace(system='', users=0) -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{%- set ns.system = m.content + '\\n\\n' -%}{%- endif -%}
{%- if m.role == 'user' -%}{%- set ns.users = ns.users + 1 -%}{%- endif -%}
{%- endfor -%}
{%- set seen = namespace(users=0) -%}
{%- for m in messages if m.role != 'system' -%}
{%- if m.role == 'user' -%}{%- set seen.users = seen.users + 1 -%}{%- endif -%}
{{- '<|im_start|>' + m.role + '\\n' -}}
{%- if m.role == 'user' and seen.users == ns.users -%}{{- ns.system -}}{%- endif -%}
{{- m.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
TAILS = {
    "closed": "",
    "opened": "{{- '<think>\\n' -}}",
    "skipped": "{{- '<think>\\n\\n</think>\\n\\n' -}}",
}
QUESTIONS = (
    "Tell me of the sea and the sky over it, and of whoever stands on the shore and looks out over both of them.",
    "And what of the ships that come over the end of it in the evening, with lamps that nobody has lit before?",
    "And the harbour?",
)
ANSWERS = ("The sea is wide.", "They come home.", "It is small.")
# Where nothing was thought, another answer than the model gave is an edit.
EXPECTED = {
    "closed": {CacheMissCause.EDITED, CacheMissCause.UNSUPPORTED_BY_MODEL},
    "opened": {CacheMissCause.TEMPLATE_CHANGED},
    "skipped": {CacheMissCause.TEMPLATE_CHANGED},
}
MARGIN = 4  # tokens that a join may cost


class Asked(NamedTuple):
    """A reply, and what the encoder knew of its prompt."""

    prompt: Prompt
    reply: Reply

    @property
    def num_evaluated(self) -> int:
        """Prompt tokens that were not cached."""
        return self.reply.num_evaluated

    @property
    def cause(self) -> CacheMissCause | None:
        """Why some were not."""
        return self.reply.finished.metrics.cache_miss_cause


class Desk:
    """A chat with one tiny model through a template."""

    def __init__(self, bench: Bench, encoder: PromptEncoder, tail: str) -> None:
        self.bench = bench
        self.tail = tail
        self.encoder = encoder

    def ask(self, *texts: str, chat_id: str = "a") -> Asked:
        """Ask for a reply to a chat, which begins with a system prompt; each earlier reply was thought about."""
        messages = [ChatMessage(Role.SYSTEM, "Be brief, and say what you see.")]
        for number, text in enumerate(texts):
            is_reply = number % 2 == 1
            thinking = "I have to think about that for a while." if is_reply else ""
            messages.append(ChatMessage(Role.ASSISTANT if is_reply else Role.USER, text, thinking))
        command = Generate(
            request_id="named by the bench",
            messages=tuple(messages),
            sampling=SamplingParams(temperature=0, max_tokens=40),
            chat_id=chat_id,
        )
        prompt = prompt_of(self.encoder, command, 0.0)
        assert isinstance(prompt, Prompt)
        number = self.bench.send_prompt(prompt)
        self.bench.run()
        return Asked(prompt, self.bench.checked(number))

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""
        return len(self.encoder._vocabulary.tokenize(text, parse_special=True))


@pytest.fixture(scope="module")
def renderer() -> Iterator[TemplateRenderer]:
    renderer = TemplateRenderer()
    renderer.warm_up()
    yield renderer
    renderer.close()


@pytest.fixture(scope="module", params=["llama", "gemma3", "mamba", "jamba"])
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    with contextlib.closing(Matrix(request.param, tmp_path_factory.mktemp("models"))) as matrix:
        yield matrix


@contextlib.contextmanager
def desk_with(matrix: Matrix, renderer: TemplateRenderer, template: str, tail: str = "") -> Iterator[Desk]:
    """Open a desk whose model has another template."""
    with contextlib.closing(matrix.bench()) as bench:
        vocabulary = bench.backend.vocabulary
        vocabulary.chat_template = template
        encoder = PromptEncoder(vocabulary, renderer, n_ctx=bench.n_ctx)
        assert encoder.try_out() == []
        yield Desk(bench, encoder, tail)


@pytest.fixture(params=TAILS)
def desk(request: pytest.FixtureRequest, matrix: Matrix, renderer: TemplateRenderer) -> Iterator[Desk]:
    with desk_with(matrix, renderer, THINKING.replace("TAIL", TAILS[request.param]), request.param) as desk:
        assert desk.encoder.can_think
        yield desk


def turn(number: int) -> str:
    """Return an earlier answer and the question after it, as the template writes them."""
    question = f"<|im_start|>user\n{QUESTIONS[number + 1]}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    return f"<|im_end|>\n<|im_start|>assistant\n{ANSWERS[number]}<|im_end|>\n{question}"


def test_only_what_follows_the_first_changed_token_is_read_when_a_chat_goes_on_or_is_edited(desk: Desk) -> None:
    texts = [QUESTIONS[0]]
    desk.ask(*texts)
    for number in range(2):
        texts += [ANSWERS[number], QUESTIONS[number + 1]]
        asked = desk.ask(*texts)
        assert asked.num_evaluated <= desk.count(turn(number)) + MARGIN, "it goes on"
        assert asked.cause in EXPECTED[desk.tail]
    again = desk.ask(*texts)
    assert again.num_evaluated <= desk.count("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n") + MARGIN
    edited = desk.ask(*texts[:-1], "Is it far?")
    assert edited.num_evaluated <= desk.count(turn(1)) + MARGIN


def test_rewritten_chat_goes_on_when_another_one_came_between(desk: Desk) -> None:
    desk.ask(QUESTIONS[0])
    desk.ask("Something else altogether, and of some length, so that it takes a place of its own.", chat_id="b")
    asked = desk.ask(QUESTIONS[0], ANSWERS[0], QUESTIONS[1])
    assert asked.num_evaluated <= desk.count(turn(0)) + MARGIN
    edited = desk.ask("Tell me of the land instead.", ANSWERS[0], QUESTIONS[1])
    assert edited.cause in (CacheMissCause.EDITED, CacheMissCause.UNSUPPORTED_BY_MODEL)


def test_rewrite_costs_one_turn_when_the_template_moves_the_system_prompt(
    matrix: Matrix, renderer: TemplateRenderer
) -> None:
    with desk_with(matrix, renderer, MOVING) as desk:
        texts = [QUESTIONS[0]]
        asked = desk.ask(*texts)
        for number in range(2):
            texts += [ANSWERS[number], QUESTIONS[number + 1]]
            before, asked = asked, desk.ask(*texts)
            settled = before.prompt.num_settled_tokens
            assert asked.num_evaluated <= len(asked.prompt.tokens) - settled + MARGIN
            assert number == 0 or settled > desk.count(QUESTIONS[0])
            assert asked.cause is CacheMissCause.TEMPLATE_CHANGED
        edited = desk.ask(*texts[:-1], "Is it far?")
        assert edited.cause in (CacheMissCause.EDITED, CacheMissCause.UNSUPPORTED_BY_MODEL)
