"""Chat templates in this process, for tests of what is around an engine: a process for each would cost most of them."""

import time
from typing import Any

import jinja2
import pytest

from engine.errors import ChatTemplateError
from engine.template_child import _render, new_environment
from engine.template_renderer import RENDER_LIMIT_S, RenderJob, TemplateRenderer


class _TemplatesHere(TemplateRenderer):
    """Renders at once and without a limit."""

    def __init__(self) -> None:
        super().__init__()
        self._environment = new_environment()
        self._compiled: dict[str, jinja2.Template] = {}

    def warm_up(self) -> None:
        """See TemplateRenderer."""

    def render(self, template: str, variables: dict[str, Any], limit_s: float = RENDER_LIMIT_S) -> str:
        """See TemplateRenderer."""
        began = time.monotonic()
        result = _render(self._environment, self._compiled, RenderJob(template, variables))
        self.spare_s = limit_s - (time.monotonic() - began)
        if result.text is None:
            raise ChatTemplateError(f"The model's chat template failed: {result.error}", "None.")
        return result.text


def render_templates_here(patch: pytest.MonkeyPatch) -> None:
    """Let engines inside this process start none for their templates."""
    patch.setattr("engine.tokenizer_thread.TemplateRenderer", _TemplatesHere)
