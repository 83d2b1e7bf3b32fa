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

from engine.chat_template import ChatTemplate
from engine.errors import ChatTemplateError
from engine.messages import ChatMessage, Role
from engine.template_renderer import TemplateRenderer
from tests.unit.engine.stub_vocabulary import CHATML, StubVocabulary

GOOD = "{{ messages | length }} messages"
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


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
    if number == "SIGKILL":  # found dead before it is asked: nobody notices
        child.join(10)
    else:
        with pytest.raises(ChatTemplateError):
            own_renderer.render(GOOD, _variables())
    assert own_renderer.render(GOOD, _variables()) == "1 messages"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_child_ends_when_its_parent_is_killed_while_a_template_runs_on():
    program = f"""
import multiprocessing
import engine.template_renderer as module
if __name__ == "__main__":
    renderer = module.TemplateRenderer()
    renderer.render("x", {{}})
    print(multiprocessing.active_children()[0].pid, flush=True)
    module.RENDER_LIMIT_S = 60  # it must still be at it when this process is killed
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


# --- chats that a template refuses ---

PRINTS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
NO_SYSTEM = (
    "{% if messages | selectattr('role', 'equalto', 'system') | list %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
)
TURNS = (
    "{% for m in messages | rejectattr('role', 'equalto', 'system') %}"
    "{% if m.role != loop.cycle('user', 'assistant') %}{{ raise_exception('Roles must alternate') }}{% endif %}"
    "{% endfor %}"
)


def _chat(form: str) -> list[ChatMessage]:
    """Return a chat from `s:text u:text a:text`."""
    roles = {"s": Role.SYSTEM, "u": Role.USER, "a": Role.ASSISTANT}
    return [ChatMessage(roles[part[0]], part[2:]) for part in form.split()]


@pytest.mark.parametrize(
    ("refusal", "chat", "expected"),
    [
        ("", "u:1 u:2", "[user]1[user]2"),
        ("", "a:1 u:2", "[assistant]1[user]2"),
        ("", "s:1 s:2 u:3 s:4", "[system]1[system]2[user]3[system]4"),
        (NO_SYSTEM, "s:1 u:2 a:3 u:4", "[user]1\n\n2[assistant]3[user]4"),
        (NO_SYSTEM, "u:1 u:2", "[user]1[user]2"),
        (NO_SYSTEM, "u:1 a:2 s:3 u:4", "[user]1[assistant]2[user]3\n\n4"),
        (NO_SYSTEM, "s: u:2", "[user]2"),
        (NO_SYSTEM, "s:1", "[user]1"),
        (TURNS, "u:1 u:2 a:3 a:4 u:5", "[user]1\n\n2[assistant]3\n\n4[user]5"),
        (TURNS, "s:1 u:2 u:3", "[system]1[user]2\n\n3"),
        (TURNS, "a:1 u:2", "[user]2"),
        (TURNS, "a:1 a:2 u:3 u:4", "[user]3\n\n4"),
        (TURNS, "s:1 a:2 u:3", "[user]1[assistant]2[user]3"),
        (NO_SYSTEM + TURNS, "s:1 u:2 u:3 a:4 u:5", "[user]1\n\n2\n\n3[assistant]4[user]5"),
        (NO_SYSTEM + TURNS, "a:1 u:2", "[user]2"),
    ],
)
@pytest.mark.parametrize("is_tried_out", [False, True], ids=["first chat", "tried out"])
def test_chat_takes_the_form_that_the_template_accepts_when_it_refuses(
    refusal: str, chat: str, expected: str, is_tried_out: bool, renderer: TemplateRenderer
):
    template = ChatTemplate(renderer, StubVocabulary(template=refusal + PRINTS))
    if is_tried_out:
        template.try_out()
        assert [notice for notice in template.notices if "system prompt" in notice] == template.notices
        assert len(template.notices) == (NO_SYSTEM in refusal)
    assert template.render(_chat(chat)).text == expected


def test_first_error_is_shown_when_every_form_is_refused(renderer: TemplateRenderer):
    template = "{{ raise_exception(messages | map(attribute='content') | join(',')) }}"
    with pytest.raises(ChatTemplateError, match=r"failed: TemplateError: 1,2,3,4$"):
        _render(renderer, template, *_chat("a:1 s:2 u:3 u:4"))
    with pytest.raises(ChatTemplateError, match="alternate"):
        _render(renderer, TURNS + PRINTS, *_chat("a:1"))


@pytest.fixture
def limits(renderer: TemplateRenderer, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time limits of all renders."""
    noted: list[float] = []
    render = renderer.render

    def noting_render(template: str, variables: dict[str, Any], limit_s: float) -> str:
        noted.append(limit_s)
        return render(template, variables, limit_s)

    monkeypatch.setattr(renderer, "render", noting_render)
    return noted


def test_one_render_is_refused_a_load_when_the_template_takes_no_system_message(limits, renderer: TemplateRenderer):
    template = ChatTemplate(renderer, StubVocabulary(template=NO_SYSTEM + PRINTS))
    template.try_out()
    for chat in ("s:1 u:2", "u:1", "s:1 u:2 a:3 u:4"):
        template.render(_chat(chat))
    assert len(limits) == 2 + 3


def test_chat_is_rendered_once_when_the_template_takes_it_as_it_is(limits, renderer: TemplateRenderer):
    template = ChatTemplate(renderer, StubVocabulary())
    template.try_out()
    template.render(_chat("s:1 u:2 u:3"))
    assert len(limits) == 2
    assert template.notices == []


def test_forms_share_one_limit_when_a_template_refuses_them_all(limits, renderer: TemplateRenderer):
    with pytest.raises(ChatTemplateError):
        _render(renderer, "{{ raise_exception('no') }}", *_chat("a:1 s:2 u:3 u:4"))
    assert (len(limits), limits[0]) == (4, 1.0)
    assert limits == sorted(set(limits), reverse=True)


def test_late_template_gets_no_second_try_when_there_are_other_forms(own_renderer: TemplateRenderer):
    own_renderer.render(GOOD, _variables())
    began = time.perf_counter()
    with pytest.raises(ChatTemplateError, match="too long"):
        _render(own_renderer, ENDLESS, *_chat("s:1 u:2 u:3"))
    assert time.perf_counter() - began < 1.9


# --- files without a template ---

FORMATS = {
    "ChatML": (
        ("<|im_start|>", "<|im_end|>"),
        "<|im_start|>system\n1<|im_end|>\n<|im_start|>user\n2<|im_end|>\n<|im_start|>assistant\n3<|im_end|>\n"
        "<|im_start|>user\n4<|im_end|>\n<|im_start|>assistant\n",
    ),
    "Llama 3": (
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "<|start_header_id|>system<|end_header_id|>\n\n1<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n2<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n3<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n4<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "Gemma": (
        ("<start_of_turn>", "<end_of_turn>"),
        "<start_of_turn>user\n1\n\n2<end_of_turn>\n<start_of_turn>model\n3<end_of_turn>\n"
        "<start_of_turn>user\n4<end_of_turn>\n<start_of_turn>model\n",
    ),
    "Phi": (
        ("<|user|>", "<|assistant|>", "<|end|>"),
        "<|user|>\n1\n\n2<|end|>\n<|assistant|>\n3<|end|>\n<|user|>\n4<|end|>\n<|assistant|>\n",
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_known_format_is_used_and_named_when_the_vocabulary_has_its_markers(name: str, renderer: TemplateRenderer):
    markers, expected = FORMATS[name]
    template = ChatTemplate(renderer, StubVocabulary(template=None, controls=markers))
    template.try_out()
    assert template.render(_chat("s:1 u:2 a:3 u:4")).text == expected
    assert template.notices[0] == (
        f"This file has no chat template; the {name} format is used, because its markers are in the vocabulary."
    )
    assert len(template.notices) == (2 if name in ("Gemma", "Phi") else 1)


@pytest.mark.parametrize(
    ("name", "missing"), [(name, marker) for name, (markers, _) in FORMATS.items() for marker in markers]
)
def test_no_format_is_guessed_when_one_of_its_markers_is_plain_text(name: str, missing: str, renderer):
    markers = tuple(marker for marker in FORMATS[name][0] if marker != missing)
    template = ChatTemplate(renderer, StubVocabulary(template=None, controls=markers))
    with pytest.raises(ChatTemplateError, match="no chat template"):
        template.try_out()


# --- special texts in messages ---


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
