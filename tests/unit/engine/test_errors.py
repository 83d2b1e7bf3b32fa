"""Errors cross the process border as values and come back as what they were."""

import pytest

from engine import errors
from engine.errors import EngineError, ErrorInfo, error_from_info, overflow_error


def _classes(root: type[EngineError] = EngineError) -> list[type[EngineError]]:
    return [root, *(found for child in root.__subclasses__() for found in _classes(child))]


@pytest.mark.parametrize("error_type", _classes(), ids=lambda error_type: error_type.__name__)
def test_error_comes_back_as_itself_when_it_crosses_the_border(error_type: type[EngineError]):
    sent = error_type("It happened.", "Do this.", "line 1\nline 2")
    back = error_from_info(sent.info())
    assert type(back) is error_type
    assert (back.message, back.hint, back.details) == ("It happened.", "Do this.", "line 1\nline 2")
    assert str(back) == "It happened."


def test_error_is_still_shown_when_its_name_is_unknown():
    back = error_from_info(ErrorInfo("FromTheFuture", "It happened.", "Do this."))
    assert type(back) is EngineError
    assert back.message == "It happened."


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        ("InvalidParams", "EngineError"),
        ("ModelLoadError", "EngineError"),
        ("ModelFileMissing", "ModelLoadError"),
        ("UnsupportedModel", "ModelLoadError"),
        ("NotAChatModel", "ModelLoadError"),
        ("OutOfMemory", "ModelLoadError"),
        ("RequestError", "EngineError"),
        ("ContextOverflow", "RequestError"),
        ("ChatTemplateError", "RequestError"),
        ("DecodeFailed", "RequestError"),
        ("EngineUnavailable", "EngineError"),
        ("EngineStartFailed", "EngineUnavailable"),
        ("EngineDied", "EngineUnavailable"),
        ("ProtocolMismatch", "EngineUnavailable"),
    ],
)
def test_error_is_caught_by_its_kind_when_a_caller_handles_kinds(name: str, parent: str):
    assert getattr(errors, name).__base__ is getattr(errors, parent)


@pytest.mark.parametrize(
    ("is_estimate", "expected"), [(False, "The prompt has 5,000"), (True, "The prompt has at least 5,000")]
)
def test_overflow_tells_both_numbers_and_the_way_out_when_a_prompt_is_too_long(is_estimate: bool, expected: str):
    error = overflow_error(5000, 4096, is_estimate=is_estimate)
    assert error.message.startswith(expected)
    assert "4,096" in error.message
    assert "904 tokens" in error.hint
