"""The window as a whole: loading, queueing, stopping, failing and going on."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton

from app.desktop.session.model_session import ModelState
from engine import (
    Abort,
    CancelLoad,
    EngineError,
    ErrorInfo,
    FinishReason,
    Generate,
    LoadModel,
    LoadProgress,
    ModelLoaded,
    PrefillProgress,
    RequestState,
    Role,
    StateChanged,
)
from tests.gui.scripted_engine import describe, find_default_model

DECODE_FAILED = ErrorInfo("DecodeFailed", "The model could not compute a step.", "Try again.")


def begin_load(desk: Any) -> str:
    desk.parts.actions.choose_model(None)
    desk.qtbot.waitUntil(lambda: desk.parts.model.state is ModelState.LOADING)
    return str(desk.client.last(LoadModel).request_id)


def end_load(desk: Any, request_id: str, description: Any) -> None:
    desk.client.emit(ModelLoaded(request_id=request_id, description=description))
    desk.qtbot.waitUntil(lambda: desk.parts.model.state is ModelState.READY)


@pytest.fixture
def description() -> Any:

    return describe()


def test_first_view_is_calm_and_ready_to_write(make_desk: Callable[[], Any]) -> None:
    desk = make_desk()
    assert desk.view.empty_state.isVisible()
    assert "stays here" in desk.view.empty_state.text
    assert desk.composer.text_edit.isEnabled()
    assert desk.window.notices.notices == []


def test_load_shows_progress_and_can_be_cancelled(make_desk: Callable[[], Any]) -> None:
    desk = make_desk()
    request_id = begin_load(desk)
    desk.client.emit(LoadProgress(request_id=request_id, progress=0.42))
    desk.qtbot.waitUntil(lambda: "42 %" in desk.parts.picker.label)
    assert desk.parts.picker.cancel_button.isVisible()
    desk.parts.picker.cancel_button.click()
    assert desk.client.last(CancelLoad).request_id == request_id
    assert desk.parts.model.state is ModelState.NONE
    assert not desk.parts.picker.cancel_button.isVisible()


def test_message_typed_while_loading_waits_visibly_and_is_sent(make_desk: Callable[[], Any], description: Any) -> None:
    desk = make_desk()
    request_id = begin_load(desk)
    desk.composer.text_edit.setPlainText("early question")
    desk.composer.submit()
    assert len(desk.view.rows) == 2
    assert "Waiting for the model" in desk.view.rows[-1].meta_text
    assert desk.client.count(Generate) == 0
    end_load(desk, request_id, description)
    assert [m.content for m in desk.client.last(Generate).messages] == ["early question"]


def test_stopping_a_waiting_message_gives_it_back(make_desk: Callable[[], Any]) -> None:
    desk = make_desk()
    begin_load(desk)
    desk.composer.text_edit.setPlainText("early question")
    desk.composer.submit()
    QTest.keyClick(desk.window, Qt.Key.Key_Escape)
    assert desk.view.rows == []
    assert desk.composer.text == "early question"
    assert desk.client.count(Generate) == 0


def test_choosing_another_model_keeps_the_waiting_message(make_desk: Callable[[], Any], description: Any) -> None:
    desk = make_desk()
    first = begin_load(desk)
    desk.composer.text_edit.setPlainText("early question")
    desk.composer.submit()
    desk.parts.actions.choose_model("/models/other.gguf")
    desk.qtbot.waitUntil(lambda: desk.client.count(LoadModel) == 2)
    assert desk.client.last(CancelLoad).request_id == first
    end_load(desk, desk.client.last(LoadModel).request_id, description)
    assert desk.client.count(Generate) == 1


def test_model_is_chosen_beside_the_window_thread(make_desk: Callable[..., Any]) -> None:

    threads: list[threading.Thread] = []

    def choose(wanted: str | None) -> Any:
        threads.append(threading.current_thread())
        return find_default_model(wanted)

    desk = make_desk(choose)
    desk.load()
    assert threads[0] is not threading.main_thread()
    assert ("last_model", "starter") in desk.saved


def test_missing_model_is_told_with_one_next_step(make_desk: Callable[..., Any]) -> None:
    def choose(wanted: str | None) -> Any:
        if wanted == "starter":
            return find_default_model(wanted)
        raise EngineError("There is no file <b>gone.gguf</b>.", "Choose another file.")

    desk = make_desk(choose)
    desk.parts.actions.choose_model("gone.gguf")
    desk.qtbot.waitUntil(lambda: desk.parts.model.state is ModelState.FAILED)
    assert "There is no file <b>gone.gguf</b>." in desk.view.empty_state.text
    desk.view.empty_state._starter.click()
    desk.qtbot.waitUntil(lambda: desk.client.count(LoadModel) == 1)


@pytest.mark.allow_log("choosing a model failed")
def test_fault_while_choosing_is_told_as_such(make_desk: Callable[..., Any]) -> None:
    def choose(wanted: str | None) -> Any:
        raise ZeroDivisionError("boom")

    desk = make_desk(choose)
    desk.parts.actions.choose_model(None)
    desk.qtbot.waitUntil(lambda: desk.parts.model.state is ModelState.FAILED)
    assert "fault in Fireside" in desk.view.empty_state.text


def test_message_waiting_for_a_model_that_fails_shows_the_error_in_place(make_desk: Callable[..., Any]) -> None:
    def choose(wanted: str | None) -> Any:
        raise EngineError("The file is damaged.", "Download it again.")

    desk = make_desk(choose)
    desk.parts.actions.choose_model(None)
    desk.composer.text_edit.setPlainText("question")
    desk.composer.submit()
    desk.qtbot.waitUntil(lambda: desk.view.rows[-1].error.isVisible())
    assert desk.view.rows[-1].error.message == "The file is damaged."
    assert desk.view.rows[-1].error.load_button.isVisible()
    assert desk.window.notices.notices == []


def test_model_notices_are_shown(make_desk: Callable[[], Any]) -> None:
    desk = make_desk()
    desk.load(notices=("The context was reduced to 4,096 tokens.",))
    assert [notice.text for notice in desk.window.notices.notices] == ["The context was reduced to 4,096 tokens."]
    assert not desk.window.notices.notices[0].is_error


def test_conversation_is_sent_in_turns(desk: Any) -> None:
    desk.reply("one", "first answer")
    desk.say("two\u00a0b")
    sent = desk.client.last(Generate)
    assert [(m.role, m.content) for m in sent.messages] == [
        (Role.USER, "one"),
        (Role.ASSISTANT, "first answer"),
        (Role.USER, "two\u00a0b"),
    ]


def test_settings_of_the_panel_are_sent(desk: Any) -> None:
    desk.parts.sampling.rows[0].slider.setValue(0)
    desk.say("one")
    assert desk.client.last(Generate).sampling.temperature == 0.0


@pytest.mark.parametrize(
    ("state", "words"),
    [(RequestState.QUEUED, "Waiting for its turn"), (RequestState.PAUSED, "Paused"), (RequestState.PREFILL, "Sent")],
)
def test_state_of_the_request_is_told(desk: Any, state: RequestState, words: str) -> None:
    request_id = desk.say("one")
    desk.client.emit(StateChanged(request_id=request_id, state=state))
    desk.parts.bridge._drain()
    assert desk.view.rows[-1].meta_text.startswith(words)


def test_stop_aborts_and_the_text_stays(desk: Any) -> None:
    request_id = desk.say("one")
    desk.delta(request_id, "partial")
    assert desk.composer.button.text() == "Stop"
    desk.composer.button.click()
    assert desk.client.last(Abort).request_id == request_id
    desk.finish(request_id, "partial", FinishReason.ABORT)
    assert desk.view.rows[-1].meta_text.startswith("Stopped")
    assert desk.composer.button.text() == "Send"


@pytest.mark.parametrize("key", [Qt.Key.Key_Escape, Qt.Key.Key_Period])
def test_stop_keys(desk: Any, key: Qt.Key) -> None:
    request_id = desk.say("one")
    modifier = Qt.KeyboardModifier.ControlModifier if key == Qt.Key.Key_Period else Qt.KeyboardModifier.NoModifier
    QTest.keyClick(desk.composer.text_edit, key, modifier)
    assert desk.client.last(Abort).request_id == request_id


def test_prefill_is_shown_while_the_prompt_is_read(desk: Any) -> None:
    request_id = desk.say("one")
    desk.client.emit(
        PrefillProgress(request_id=request_id, num_done_tokens=512, num_total_tokens=1228, num_cached_tokens=100)
    )
    desk.qtbot.waitUntil(lambda: desk.view.rows[-1].meta_text == "Reading · 512 of 1,228 tokens")
    assert desk.parts.readouts.value("prompt") == "412 of 1,128 tokens"
    assert desk.parts.readouts.value("reused") == "100 of 1,228"


def test_error_is_shown_in_place_with_retry(desk: Any) -> None:
    request_id = desk.say("one")
    desk.delta(request_id, "partial text")
    desk.fail(request_id, DECODE_FAILED)
    row = desk.view.rows[-1]
    assert row.error.isVisible()
    assert row.error.message == DECODE_FAILED.message
    assert row.body.shown[0].html == '<p dir="ltr">partial text</p>'
    assert QApplication.activeModalWidget() is None
    row.error.retry_button.click()
    again = desk.client.last(Generate)
    assert again.request_id != request_id
    assert [m.content for m in again.messages] == ["one"]
    desk.delta(again.request_id, "whole")
    row = desk.view.rows[-1]
    assert row.body.shown[0].html == '<p dir="ltr">whole</p>'
    desk.finish(again.request_id, "whole")
    assert not row.error.isVisible()
    assert len(desk.view.rows) == 2
    desk.view.step_variant(-1)
    assert desk.view.rows[-1].body.shown[0].html == '<p dir="ltr">partial text</p>'
    assert desk.view.rows[-1].error.isVisible()


def test_details_of_an_error_can_be_copied(desk: Any) -> None:
    request_id = desk.say("one")
    desk.fail(request_id, ErrorInfo("DecodeFailed", "It failed.", "Try again.", "last log line\n<b>"))
    desk.view.rows[-1].error.copy_button.click()
    assert QGuiApplication.clipboard().text() == "last log line\n<b>"


def test_hostile_error_text_is_plain(desk: Any) -> None:
    request_id = desk.say("one")
    desk.fail(request_id, ErrorInfo("DecodeFailed", "<img src='file:///etc/hostname'><b>x</b>", "<a href=x>y</a>"))
    labels = desk.view.rows[-1].error.findChildren(QLabel)
    assert labels
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in labels)


def test_message_that_does_not_fit_goes_back_to_the_composer(desk: Any) -> None:
    text = "word " * 2000
    desk.composer.text_edit.setPlainText(text)
    desk.composer.submit()
    request_id = desk.client.last(Generate).request_id
    error = ErrorInfo("ContextOverflow", "The text has 2,010 tokens and 512 fit.", "Shorten it.")
    desk.fail(request_id, error)
    assert desk.composer.text == text
    assert desk.view.rows == []
    (notice,) = desk.window.notices.notices
    assert notice.text == error.message
    desk.composer.clear()
    desk.reply("hi", "hello")
    assert desk.window.notices.notices == []
    assert [m.content for m in desk.client.last(Generate).messages] == ["hi"]


@pytest.mark.allow_log("the engine died")
def test_death_during_a_reply_is_shown_in_place_and_survived(desk: Any, description: Any) -> None:
    request_id = desk.say("one")
    desk.delta(request_id, "partial answer")
    error = desk.die(request_id)
    row = desk.view.rows[-1]
    assert row.error.isVisible()
    assert error.message in desk.parts.crash_card.text
    assert row.error.message == ""  # the card says it
    assert row.body.shown[0].html == '<p dir="ltr">partial answer</p>'
    assert row.error.load_button.isVisible()
    assert not row.error.retry_button.isVisible()
    assert desk.window.notices.notices == []
    row.error.load_button.click()
    desk.qtbot.waitUntil(lambda: desk.client.count(LoadModel) == 2)
    assert row.body.shown[0].html == '<p dir="ltr">partial answer</p>'
    end_load(desk, desk.client.last(LoadModel).request_id, description)
    assert row.error.message == error.message  # the card has gone
    assert row.error.retry_button.isVisible()
    desk.reply("two", "fine")
    assert [m.content for m in desk.client.last(Generate).messages] == ["one", "partial answer", "two"]


@pytest.mark.allow_log("the engine died")
def test_death_between_replies_is_told_with_the_way_out(desk: Any) -> None:
    desk.reply("one", "answer")
    desk.die()
    card = desk.parts.crash_card
    assert card.isVisible()
    assert "stopped unexpectedly" in card.text
    next(button for button in card.findChildren(QPushButton) if button.text() == "Load again").click()
    desk.qtbot.waitUntil(lambda: desk.client.count(LoadModel) == 2)
    assert not card.isVisible()


@pytest.mark.allow_log("the engine died")
def test_sending_after_death_loads_the_model_by_itself(desk: Any, description: Any) -> None:
    desk.die()
    desk.composer.text_edit.setPlainText("still here")
    desk.composer.submit()
    desk.qtbot.waitUntil(lambda: desk.client.count(LoadModel) == 2)
    end_load(desk, desk.client.last(LoadModel).request_id, description)
    assert [m.content for m in desk.client.last(Generate).messages] == ["still here"]


def test_empty_reply_names_the_stop_string(desk: Any) -> None:
    request_id = desk.say("one")
    desk.finish(request_id, "", stop_string="\n", num_generated_tokens=1, decode_s=None)
    assert "began with the stop string “\\n”" in desk.view.rows[-1].meta_text
    assert desk.view.rows[-1]._retry.isVisible()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (FinishReason.LENGTH, "token limit"),
        (FinishReason.CONTEXT_FULL, "context is full"),
        (FinishReason.STOP, "11 tokens"),
    ],
)
def test_end_of_a_reply_is_told(desk: Any, reason: FinishReason, words: str) -> None:
    request_id = desk.say("one")
    desk.finish(request_id, "text", reason)
    assert words in desk.view.rows[-1].meta_text
    assert "Seed" not in desk.view.rows[-1].meta_text
