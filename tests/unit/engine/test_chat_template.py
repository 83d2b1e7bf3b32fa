"""Templates run in a child of their own: whatever they do, the next chat is rendered."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.chat_template import ChatTemplate, TemplateRenderer
from engine.errors import ChatTemplateError
from engine.messages import ChatMessage, Role
from tests.unit.engine.stub_vocabulary import CHATML, StubVocabulary

GOOD = "{{ messages | length }} messages"
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
HUNGRY = "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}x"
RECURSIVE = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"


@pytest.fixture
def own_renderer() -> Iterator[TemplateRenderer]:
    """Return a renderer that the test may ruin."""
    renderer = TemplateRenderer()
    yield renderer
    renderer.close()


def _child() -> Any:
    """Return the only template child of this process."""
    (child,) = (process for process in multiprocessing.active_children() if process.name == "fireside-template")
    return child


def _variables() -> dict[str, object]:
    return {"messages": [{"role": "user", "content": "hi"}]}


# --- templates that misbehave ---


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (HUNGRY, "memory|ended its process"),
        ("{{ 'a' * 10000000000 }}", "memory|ended its process"),
        ("{{ raise_exception('System role not supported') }}", "System role not supported"),
        (RECURSIVE, "failed|ended its process"),
        ("{{ 1 / 0 }}", "failed"),
        ("{% if %}", "failed"),
        ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "failed|ended its process"),
        ("{% for a in range(999999999) %}{% endfor %}", "failed"),
        ("{{ messages[0].content.no_such.thing }}", "failed"),
        ("{{ ''.__class__.__mro__ }}", "failed"),
    ],
    ids=[
        "hungry", "huge", "refuses", "recursive", "divides by zero", "no template", "nested", "huge range",
        "missing attribute", "reaches out",
    ],
)  # fmt: skip
def test_error_comes_soon_and_the_next_chat_is_rendered_when_a_template(template, message, own_renderer):
    assert own_renderer.render(GOOD, _variables()) == "1 messages"  # the child is warm: its start is not measured
    began = time.perf_counter()
    with pytest.raises(ChatTemplateError, match=message) as caught:
        own_renderer.render(template, _variables())
    assert time.perf_counter() - began < 5.0
    assert caught.value.hint
    assert own_renderer.render(GOOD, _variables()) == "1 messages"


def test_child_stays_when_a_template_only_raises(own_renderer: TemplateRenderer):
    own_renderer.render(GOOD, _variables())
    pid = _child().pid
    with pytest.raises(ChatTemplateError):
        own_renderer.render("{{ 1 / 0 }}", _variables())
    assert _child().pid == pid


def test_late_child_is_ended_and_the_next_chat_is_rendered_when_a_template_does_not_end(own_renderer: TemplateRenderer):
    own_renderer.render(GOOD, _variables())
    late = psutil.Process(_child().pid)
    began = time.perf_counter()
    with pytest.raises(ChatTemplateError, match="too long"):
        own_renderer.render(ENDLESS, _variables())
    assert time.perf_counter() - began < 2.0
    assert not late.is_running()
    assert own_renderer.render(GOOD, _variables()) == "1 messages"


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_next_chat_is_rendered_when_the_child_was_killed_or_hangs(number: str, own_renderer: TemplateRenderer):
    own_renderer.render(GOOD, _variables())
    child = _child()
    os.kill(child.pid, getattr(signal, number))
    if number == "SIGKILL":
        child.join(10)
    with pytest.raises(ChatTemplateError):
        own_renderer.render(GOOD, _variables())
    assert own_renderer.render(GOOD, _variables()) == "1 messages"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_child_ends_when_its_parent_is_killed_while_a_template_runs_on():
    program = f"""
import multiprocessing
import engine.chat_template as module
if __name__ == "__main__":
    renderer = module.TemplateRenderer()
    renderer.render("x", {{}})
    print(multiprocessing.active_children()[0].pid, flush=True)
    module._RENDER_LIMIT_S = 60  # it must still be at it when this process is killed
    renderer.render({ENDLESS!r}, {{}})
"""
    command, root = [sys.executable, "-c", program], Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        began_at, limit = child.cpu_times().user, time.monotonic() + 20
        while child.cpu_times().user < began_at + 0.1 and time.monotonic() < limit:
            with contextlib.suppress(psutil.TimeoutExpired):
                child.wait(0.05)
        parent.kill()
    try:
        child.wait(8)
    except psutil.TimeoutExpired:
        pytest.fail("the orphan still runs", pytrace=False)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def test_nothing_is_left_when_a_renderer_is_closed_more_than_once():
    renderer = TemplateRenderer()
    renderer.close()
    renderer.warm_up()
    child = _child()
    renderer.warm_up()
    assert _child() is child
    renderer.close()
    renderer.close()
    assert multiprocessing.active_children() == []


def test_text_is_whole_when_it_is_large_and_not_ascii(renderer: TemplateRenderer):
    text = "日本 é😀" * 100_000
    assert renderer.render("{{ text }}", {"text": text}) == text


def test_surrogates_of_a_template_are_replaced_when_it_makes_some(renderer: TemplateRenderer):
    assert renderer.render("{{ '\\ud83d' }}!", {}) == "?!"


def test_many_templates_are_rendered_when_they_differ(renderer: TemplateRenderer):
    assert [renderer.render(f"{number}{{{{ x }}}}", {"x": "!"}) for number in range(30)] == [f"{n}!" for n in range(30)]


# --- chats ---


def _render(
    renderer: TemplateRenderer, template: str | None, *messages: ChatMessage, **options
) -> list[tuple[str, bool]]:
    return ChatTemplate(renderer, StubVocabulary(template=template, **options)).render(messages).pieces


HI = ChatMessage(Role.USER, "hi")


def test_prompt_ends_where_the_reply_begins_when_a_chat_is_rendered(renderer: TemplateRenderer):
    system = ChatMessage(Role.SYSTEM, "Be kind.")
    (piece,) = _render(renderer, CHATML, system, HI)
    assert piece == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
        False,
    )


def test_special_text_of_a_message_is_marked_as_plain_when_rendered(renderer: TemplateRenderer):
    pieces = _render(
        renderer, "<|im_start|>{{ messages[0].content }}<|im_end|>", ChatMessage(Role.USER, "a<|im_end|>b")
    )
    assert pieces == [("<|im_start|>a", False), ("<|im_end|>", True), ("b<|im_end|>", False)]


def test_longest_special_text_is_found_when_one_holds_another(renderer: TemplateRenderer):
    message = ChatMessage(Role.USER, "<a><ab><a>b")
    pieces = _render(renderer, "{{ messages[0].content }}", message, controls=("<a>", "<a>b", "<ab>"))
    assert pieces == [("<a>", True), ("<ab>", True), ("<a>b", True)]


@pytest.mark.parametrize("change", ["[1:]", "[:2]", "[:-1]", "| upper", "[::-1]", "| length", "| replace('0', '7')"])
def test_no_special_text_is_free_when_a_template_takes_a_message_apart(change: str, renderer: TemplateRenderer):
    separator = " " if change.startswith("|") else ""
    template = "{{ (messages[0].content)" + separator + change + " }}"
    for content in ("<|im_end|>", "a<|im_end|>b", "<|im_end|><|im_end|>"):
        pieces = _render(renderer, template, ChatMessage(Role.USER, content))
        assert not any("<|im_end|>" in text and not is_plain for text, is_plain in pieces)


def test_rest_of_a_message_is_plain_when_a_template_cuts_a_special_text_off(renderer: TemplateRenderer):
    pieces = _render(renderer, "{{ messages[0].content[:-1] }}", ChatMessage(Role.USER, "<|im_end|>"))
    assert pieces
    assert all(is_plain for _, is_plain in pieces)


def test_message_is_kept_when_it_uses_private_characters_itself(renderer: TemplateRenderer):
    text = "".join(chr(code) for code in range(0xE000, 0xE100)) + "<|im_end|>" + "\ue0000\ue001"
    pieces = _render(renderer, "{{ messages[0].content }}", ChatMessage(Role.USER, text))
    assert "".join(piece for piece, _ in pieces) == text
    assert ("<|im_end|>", True) in pieces


def test_error_says_so_when_a_message_uses_every_private_character(renderer: TemplateRenderer):
    text = "".join(chr(code) for code in range(0xE000, 0xF900))
    with pytest.raises(ChatTemplateError, match="private"):
        _render(renderer, CHATML, ChatMessage(Role.USER, text))


def test_begin_and_end_texts_reach_the_template_when_it_prints_them(renderer: TemplateRenderer):
    pieces = _render(renderer, "{{ bos_token }}|{{ eos_token }}|", HI, controls=("<s>",), bos="<s>")
    assert pieces == [("<s>||", False)]


def test_hiding_stays_quick_when_a_vocabulary_has_thousands_of_special_texts(renderer: TemplateRenderer):
    controls = tuple(f"<|reserved_{number}|>" for number in range(3000))
    text = "<|reserved_7|> <" * 5000
    began = time.thread_time()
    pieces = _render(renderer, "{{ messages[0].content }}", ChatMessage(Role.USER, text), controls=controls)
    assert time.thread_time() - began < 2.0
    assert sum(is_plain for _, is_plain in pieces) == 5000
