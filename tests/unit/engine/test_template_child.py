"""The environment in which a stranger's template runs: what it offers, and what it withholds."""

import datetime

import jinja2
import pytest

from engine.template_child import new_environment


def _render(template: str, **variables: object) -> str:
    return new_environment().from_string(template).render(**variables)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "1"),
        ("a{% generation %}b{{ 1 }}{% endgeneration %}c", "ab1c"),
        ("{{ {'b': 1, 'a': 'é'} | tojson }}", '{"b": 1, "a": "é"}'),
        ("{{ 'é' | tojson(ensure_ascii=True) }}", '"\\u00e9"'),
        ("{{ [1, 2] | map('string') | tojson }}", '["1", "2"]'),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ {'b': 1, 'a': [2, 3]} | tojson(separators=(',', ':'), sort_keys=True) }}", '{"a":[2,3],"b":1}'),
        ("{{ {'a': [1] | map('string')} | tojson }}", '{"a": ["1"]}'),
        ("{% set ns = namespace(n=1) %}{% for x in [2, 3] %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}", "6"),
        ("{% set l = [1] %}{{ l.append(2) or '' }}{{ l.pop(0) }}{{ l }}", "1[2]"),
        ("{{ messages.append({'content': 'c'}) or '' }}{{ messages | map(attribute='content') | join }}", "abc"),
        ("{{ strftime_now is defined }} {{ functions is defined }} {{ missing or 'falsy' }}", "True False falsy"),
        ("{{ '<b>' | tojson }}", '"<b>"'),
        ("{% if true %}\nx\n{% endif %}\ny", "x\ny"),
        ("    {% if true %}x{% endif %}", "x"),
        ("{{ tools is defined }} {{ missing }}", "False "),
        ("{% for m in messages %}{{ loop.previtem.content if loop.previtem }}-{% endfor %}", "-a-"),
    ],
    ids=[
        "continue", "break", "generation", "tojson", "tojson in ASCII", "tojson of a generator", "tojson indented",
        "tojson sorted", "tojson of a nested generator", "namespace", "list", "messages as a list", "what is defined",
        "tojson without escapes", "trimmed blocks", "stripped blocks", "undefined names", "loop items",
    ],
)  # fmt: skip
def test_template_prints_what_its_author_expects_when_it_uses(template: str, expected: str):
    assert _render(template, messages=[{"content": "a"}, {"content": "b"}]) == expected


def test_today_is_printed_when_a_template_asks_for_the_date():
    before = datetime.datetime.now().astimezone().date().isoformat()
    today = _render("{{ strftime_now('%Y-%m-%d') }}")
    assert before <= today <= datetime.datetime.now().astimezone().date().isoformat()


def test_error_of_its_own_is_raised_when_a_template_refuses():
    with pytest.raises(jinja2.TemplateError, match="no system role"):
        _render("{{ raise_exception('no system role') }}")


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ strftime_now.__globals__.json }}",
        "{{ raise_exception.__globals__.json }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{% set f = '{0.__class__.__mro__}' %}{{ f.format('') }}{{ ''['__class__'].__mro__ }}",
        "{{ messages.append.__self__.copy() }}",
        "{{ (messages | map(attribute='__class__') | first).__mro__ }}",
        "{{ messages | map('upper') | tojson(default='{0.__class__}'.format) }}",
        "{{ [] | tojson(cls=cycler) }}",
        "{% for i in range(1000000) %}{% endfor %}",
        "{% include 'other' %}",
        "{% import 'os' as os %}",
    ],
)
def test_template_gets_nothing_when_it_reaches_beyond_its_sandbox(template: str):
    messages = [{"content": "a"}]
    with pytest.raises((jinja2.TemplateError, OverflowError, TypeError)):
        _render(template, messages=messages)
    assert messages == [{"content": "a"}]
