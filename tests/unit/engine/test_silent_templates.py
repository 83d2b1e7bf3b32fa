"""Templates that leave the system prompt out without a word: the model gets it all the same, and the user is told."""

import pytest

from engine.chat_template import ChatTemplate
from engine.messages import ChatMessage, Role
from engine.template_renderer import TemplateRenderer
from tests.unit.engine.stub_vocabulary import StubVocabulary

_CHAT = [ChatMessage(Role.SYSTEM, "Speak Latin."), ChatMessage(Role.USER, "hi")]
_SILENT = {
    "passes over": "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endfor %}",
    "knows two roles": "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}"
    "{% elif m.role == 'assistant' %}-{{ m.content }}{% endif %}{% endfor %}",
    "users alone": "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') }}",
    "cuts off": "{% if messages[0].role == 'system' %}{% set messages = messages[1:] %}{% endif %}"
    "{% for m in messages %}{{ m.content | trim }}\n{% endfor %}",
}


@pytest.mark.parametrize("template", _SILENT.values(), ids=_SILENT)
def test_system_prompt_is_in_the_prompt_once_when_the_template_leaves_it_out(template: str, renderer: TemplateRenderer):
    tried = ChatTemplate(renderer, StubVocabulary(template=template))
    tried.try_out()
    text = tried.render(_CHAT).text
    assert text.count("Speak Latin.") == 1
    assert text.count("hi") == 1
    assert ["system prompt" in notice for notice in tried.notices] == [True]


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}",
        "{{ messages[-1].content }}{{ messages[0].content }}",
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
    ],
    ids=["usual", "last alone", "changed"],
)
def test_nothing_is_told_when_the_system_prompt_is_there_or_no_message_is(template: str, renderer: TemplateRenderer):
    tried = ChatTemplate(renderer, StubVocabulary(template=template))
    tried.try_out()
    assert tried.notices == []
    assert tried.render(_CHAT).text.lower().count("speak latin.") == 1


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{% set _ = messages.pop(0) %}{% for m in messages %}{{ m.content }}{% endfor %}", "hi"),
        ("{% set _ = messages[0].update({'content': 'X'}) %}{% for m in messages %}{{ m.content }}{% endfor %}", "Xhi"),
        ("always the same", "always the same"),
    ],
    ids=["takes the first away", "writes over the first", "nothing"],
)
def test_question_stays_when_the_template_does_something_to_whatever_comes_first(
    template: str, expected: str, renderer: TemplateRenderer
):
    tried = ChatTemplate(renderer, StubVocabulary(template=template))
    tried.try_out()
    assert tried.notices == []
    assert tried.render(_CHAT).text == expected
