"""What several of these modules share."""

from collections.abc import Iterator

import pytest

from engine.template_renderer import TemplateRenderer
from tests.unit.engine.recorder import Recorder


@pytest.fixture(scope="module")
def renderer() -> Iterator[TemplateRenderer]:
    """Return a warm renderer for templates that behave; those that do not need one of their own."""
    renderer = TemplateRenderer()
    renderer.warm_up()
    yield renderer
    renderer.close()


@pytest.fixture
def recorder() -> Recorder:
    """Return what collects a client's events."""
    return Recorder()
