"""Exit codes, and how errors are shown."""

import json

import pytest

import app.errors
import engine
import models
from app.cli.outcome import ExitCode, dropped_sentence, exit_code_of, report
from engine import TurnsDropped


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (engine.ContextOverflow("x"), 1),
        (engine.ChatTemplateError("x"), 1),
        (engine.InternalError("x"), 1),
        (engine.InvalidParams("x"), 2),
        (app.errors.UsageError("x"), 2),
        (app.errors.DataFolderError("x"), 2),
        (engine.UnsupportedModel("x"), 3),
        (engine.OutOfMemory("x"), 3),
        (models.TruncatedGGUF("x"), 3),
        (models.NotAChatModel("x"), 3),
        (app.errors.ModelFileMissing("x"), 3),
        (app.errors.StarterMissing("x"), 3),
        (engine.EngineDiedError("x"), 4),
        (engine.EngineStartFailed("x"), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_exit_code_follows_the_error(error: app.errors.AppError, code: int) -> None:
    assert exit_code_of(error) == code


def test_error_is_a_sentence_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(engine.UnsupportedModel("No.", "Choose."), as_json=False, debug=False) == ExitCode.MODEL
    assert capsys.readouterr() == ("", "fireside: No.\nChoose.\n")


def test_error_is_an_event_as_well_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    report(models.NotGGUF("é.", "Choose."), as_json=True, debug=False)
    out, err = capsys.readouterr()
    assert json.loads(out) == {"event": "failed", "error": "NotGGUF", "message": "é.", "hint": "Choose."}
    assert err.startswith("fireside: é.")


def test_traceback_is_shown_only_with_debug(capsys: pytest.CaptureFixture[str]) -> None:
    error = engine.UnsupportedModel("No.", details="native line")
    report(error, as_json=False, debug=False)
    assert "native line" not in capsys.readouterr().err
    report(error, as_json=False, debug=True)
    assert "native line" in capsys.readouterr().err


def test_bug_is_shown_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(KeyError("k"), as_json=True, debug=False) == ExitCode.REQUEST_FAILED
    out, err = capsys.readouterr()
    assert json.loads(out)["error"] == "KeyError"
    assert "bug in Fireside" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("num_messages", "is_reply_cut", "expected"),
    [
        (1, False, "The context is full: 1 earlier message was left out."),
        (12, False, "The context is full: 12 earlier messages were left out."),
        (2, True, "The context is full: the model sees only the last part of its reply."),
    ],
)
def test_what_was_left_out_is_said_when_a_chat_was_cut(num_messages: int, is_reply_cut: bool, expected: str):
    dropped = TurnsDropped(request_id="a", num_messages=num_messages, num_tokens=9, is_reply_cut=is_reply_cut)
    assert dropped_sentence(dropped) == expected
