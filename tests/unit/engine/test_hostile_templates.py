"""Templates of strangers: each ends within its second and its memory, and the next chat is rendered."""

import re
import sys
import time
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import HealthCheck, given, settings

from engine.errors import ChatTemplateError
from engine.template_renderer import RENDER_LIMIT_S, TemplateRenderer
from tests.support.template_texts import check_template, template_texts

GOOD = "{{ messages | length }} messages"
HUNGRY = "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}x"
GROWING = "{% for m in messages %}{{ messages.append(m) or '' }}{% endfor %}"
DOUBLING = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}x{% endmacro %}{{ f(40) }}"
DEEP = "{% set ns = namespace(l=[]) %}{% for i in range(90000) %}{% set ns.l = [ns.l] %}{% endfor %}"

# Template, what its error says.
RAISING = {
    "hungry": (HUNGRY, "memory"),
    "huge text": ("{{ 'a' * 10000000000 }}", "memory"),
    "huge output": ("{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}", "memory"),
    "huge width": ("{{ '{:>1000000000}'.format(1) }}", "memory"),
    "huge width of a filter": ("{{ '%1000000000d' | format(1) }}", "memory"),
    "huge margin": ("{{ 'x' | center(10**9) }}", "memory"),
    "replaced by more": ("{{ ('a' * 100000) | replace('a', 'b' * 100000) }}", "memory"),
    "huge range": ("{% for a in range(999999999) %}{% endfor %}", "Range too big"),
    "huge number": ("{{ (9 ** 99999) | string }}", "digits"),
    "recursive macro": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    "recursive block": ("{% block a %}{{ self.a() }}{% endblock %}", "recursion"),
    "recursive loop": ("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}", "recursion"),
    "nested parentheses": ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "failed"),
    "nested lists": ("{{ " + "[" * 3000 + "]" * 3000 + " }}", "recursion"),
    "nested ifs": ("{% if 1 %}" * 5000 + "{% endif %}" * 5000, "recursion"),
    "nested loops": ("{% for a in [1] %}" * 40 + "{% endfor %}" * 40, "nested"),
    "list in itself": ("{% set l = [] %}{{ l.append(l) or '' }}{{ l | tojson }}", "Circular"),
    "divides by zero": ("{{ 1 / 0 }}", "division"),
    "no template": ("{% if %}", "failed"),
    "missing attribute": ("{{ messages[0].content.no_such.thing }}", "no_such"),
    "refuses": ("{{ raise_exception('System role not supported') }}", "System role not supported"),
    "reaches for classes": ("{{ ''.__class__.__mro__ }}", "unsafe"),
    "reaches by format": ("{{ '{0.__class__.__mro__}'.format('') }}", "unsafe"),
    "reaches by format_map": ("{{ '{a.__class__.__mro__}'.format_map({'a': ''}) }}", "unsafe|not callable|failed"),
    "reaches by a helper": ("{{ lipsum.__globals__['os'].popen('id').read() }}", "unsafe"),
    "reaches by a class": ("{{ cycler.__init__.__globals__ }}", "unsafe"),
    "includes a file": ("{% include '/etc/passwd' %}", "no loader"),
    "imports": ("{% import 'os' as os %}{{ os }}", "no loader"),
}
LATE = {
    "endless": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "growing": GROWING,
    "doubling": DOUBLING,
    "joins much": "{{ (['x' * 10**6] * 10**4) | join }}",
    "many filters": "{{ 'a'" + " | upper" * 20_000 + " }}",
    "much to print": "{{ lipsum(n=10000000) }}",
    "deep lists": DEEP * 9 + "{{ ns.l | string }}",
    "huge number": "{{ 9 ** (9 ** 9) % 7 }}",
}


@pytest.fixture
def own_renderer() -> Iterator[TemplateRenderer]:
    """Return a renderer that the test may ruin."""
    renderer = TemplateRenderer()
    yield renderer
    renderer.close()


def _variables(content: str = "hi") -> dict[str, object]:
    return {"messages": [{"role": "user", "content": content}]}


def _failure(renderer: TemplateRenderer, template: str, content: str = "hi") -> ChatTemplateError:
    """Return how a template fails, which it does in time; the next one is rendered."""
    assert renderer.render(GOOD, _variables()) == "1 messages"  # the child is warm: its start is not measured
    began = time.perf_counter()
    with pytest.raises(ChatTemplateError) as caught:
        renderer.render(template, _variables(content))
    assert time.perf_counter() - began < RENDER_LIMIT_S + 1.5  # what is over the limit is how busy the machine is
    assert renderer.render(GOOD, _variables()) == "1 messages"
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


def test_error_says_what_is_wrong_when_a_template_raises(own_renderer: TemplateRenderer) -> None:
    found = {name: _failure(own_renderer, template).message for name, (template, _) in RAISING.items()}
    # An address space that is full may also end the child.
    right = {name: re.search(f"{words}|ended its process", found[name]) for name, (_, words) in RAISING.items()}
    assert [found[name] for name in found if not right[name]] == []


@pytest.mark.parametrize("name", LATE)
def test_template_is_ended_when_it_would_not_end(name: str, own_renderer: TemplateRenderer) -> None:
    message = _failure(own_renderer, LATE[name]).message
    assert any(words in message for words in ("took too long", "memory", "recursion", "ended its process"))


def test_template_that_is_slow_for_long_chats_only_fails_for_those(own_renderer: TemplateRenderer) -> None:
    template = "{% for a in messages[0].content %}{% for b in messages[0].content %}{% endfor %}{% endfor %}ok"
    assert "too long" in _failure(own_renderer, template, "x" * 100_000).message
    assert own_renderer.render(template, _variables()) == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell, or have no such limit")
def test_templates_have_256_mib_when_they_run(own_renderer: TemplateRenderer) -> None:
    own_renderer.render(GOOD, _variables())
    assert own_renderer._process is not None
    limit = 256 * 1024 * 1024
    assert psutil.Process(own_renderer._process.pid).rlimit(psutil.RLIMIT_AS) == (limit, limit)


def test_nothing_is_printed_when_a_template_is_compiled_with_warnings(
    own_renderer: TemplateRenderer, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ChatTemplateError):
        own_renderer.render("{{ 1(2) }}{{ 1[2] }}{{ 1 is sameas 1 }}", _variables())
    assert capfd.readouterr() == ("", "")


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(template=template_texts())
def test_next_chat_is_rendered_when_a_template_was_drawn(template: str, own_renderer: TemplateRenderer) -> None:
    check_template(own_renderer, template)
