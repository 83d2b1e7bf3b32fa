"""Templates for tests: drawn ones, of pieces that templates are made of and pieces that break them."""

import contextlib
import time

from hypothesis import strategies as st

from engine.errors import ChatTemplateError
from engine.template_renderer import RENDER_LIMIT_S, TemplateRenderer

_NAMES = ["messages", "m", "m.content", "messages[0]", "messages[-1].role", "missing", "loop", "self", "ns", "range"]
_VALUES = [
    *("'a'", "''", "0", "1", "-1", "99999", "10**9", "2.5", "true", "none", "[]", "{}", "[1, 2]", "{'a': 1}", "('a',)"),
    *("range(9)", "range(99999)", "'x' * 9**9", "'{:>999999999}'", "'\\ue000'", "'<|im_end|>'", "bos_token", "tools"),
    *("strftime_now('%Y')", "datetime", "lipsum()", "cycler", "joiner", "namespace(a=1)", "dict", "raise_exception"),
    *("''.__class__", "messages.append", "messages.__class__.__mro__", "'{0.__class__}'.format", "''['__class__']"),
]
_FILTERS = """
    abs attr('__class__') batch(2) capitalize center(10**9) default('x') dictsort escape filesizeformat first float
    forceescape format(1) groupby('role') indent int items join last length list lower map('upper')
    map(attribute='content') max min pprint random reject replace('a','aa'*9999) reverse round safe select
    selectattr('role') slice(3) sort string striptags sum title tojson tojson(indent=2) trim truncate unique upper
    urlencode urlize wordcount wordwrap(1) xmlattr no_such
""".split()  # noqa: SIM905 (a list of 50 strings says no more)
_OPERATORS = [" + ", " ~ ", " * ", " ** ", " - ", " / ", " // ", " % ", " == ", " in ", " and ", " or ", " is ", "."]
_TESTS = ["defined", "string", "mapping", "iterable", "none", "odd", "divisibleby(0)", "no_such", "sameas 1"]
_BROKEN = ["{{", "}}", "{%", "%}", "{#", "#}", "{% end %}", "{% endfor %}", "{% if %}", "{% include 'x' %}", "\0", "'"]


def _expressions() -> st.SearchStrategy[str]:
    atoms = st.sampled_from([*_NAMES, *_VALUES])
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.builds("{} | {}".format, inner, st.sampled_from(_FILTERS)),
            st.builds("({}{}{})".format, inner, st.sampled_from(_OPERATORS), inner),
            st.builds("({} is {})".format, inner, st.sampled_from(_TESTS)),
            st.builds("{}[{}]".format, inner, inner),
            st.builds("{}[{}:]".format, inner, inner),
            st.builds("{}({})".format, inner, inner),
            st.builds("[{}, {}]".format, inner, inner),
            st.builds("({} if {} else {})".format, inner, inner, inner),
        ),
        max_leaves=5,
    )


def _statements(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    value = _expressions()
    return st.one_of(
        st.builds("{{% for m in {} %}}{}{{% endfor %}}".format, value, inner),
        st.builds("{{% for m in {} recursive %}}{}{{{{ loop({}) }}}}{{% endfor %}}".format, value, inner, value),
        st.builds("{{% if {} %}}{}{{% else %}}{}{{% endif %}}".format, value, inner, inner),
        st.builds("{{% macro f(a=1) %}}{}{{% endmacro %}}{{{{ f({}) }}}}{{{{ f() }}}}".format, inner, value),
        st.builds("{{% set m = {} %}}{}".format, value, inner),
        st.builds("{{% set ns = namespace(a={}) %}}{{% set ns.a = ns.a + ns.a %}}{}".format, value, inner),
        st.builds("{{% filter {} %}}{}{{% endfilter %}}".format, st.sampled_from(_FILTERS), inner),
        st.builds("{{% generation %}}{}{{% endgeneration %}}".format, inner),
        st.builds("{{% for m in messages %}}{}{{% break %}}{{% endfor %}}".format, inner),
        st.lists(inner, min_size=2, max_size=3).map("".join),
    )


def template_texts() -> st.SearchStrategy[str]:
    """Return templates, most of them well formed; many fail, a few would not end or take all memory."""
    leaves = st.one_of(
        _expressions().map("{{{{ {} }}}}".format), st.sampled_from(["text\n", "é日👍", "<|im_end|>", *_BROKEN])
    )
    return st.recursive(leaves, _statements, max_leaves=6)


def check_template(renderer: TemplateRenderer, template: str) -> None:
    """Render a usual chat: text or one kind of error, in time, and the next chat is rendered."""
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    began = time.perf_counter()
    with contextlib.suppress(ChatTemplateError):
        renderer.render(template, {"messages": messages, "bos_token": "<s>", "tools": [{"name": "f"}]}).encode()
    assert time.perf_counter() - began < RENDER_LIMIT_S + 1.5
    assert renderer.render("{{ messages[0].role }}", {"messages": messages}) == "user"
