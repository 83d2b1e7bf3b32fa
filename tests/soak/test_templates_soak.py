"""Thousands of drawn templates: none may keep the next chat from being rendered."""

import pytest
from hypothesis import HealthCheck, given, settings

from engine.template_renderer import TemplateRenderer
from tests.support.template_texts import check_template, template_texts

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
NUM_TEMPLATES = 2000


def test_next_chat_is_rendered_whatever_the_template_was() -> None:
    renderer = TemplateRenderer()

    @settings(max_examples=NUM_TEMPLATES, suppress_health_check=list(HealthCheck))
    @given(template=template_texts())
    def draw(template: str) -> None:
        check_template(renderer, template)

    draw()
    renderer.close()
