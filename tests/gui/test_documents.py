"""Documents in the window, as a person attaches, prepares, sends, edits and finds them again."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QLabel

from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.message_rows import UserRow
from app.desktop.widgets.settings_page import SettingsPage
from app.document_text import document, join_documents
from engine import (
    Abort,
    CacheDescribed,
    CacheSource,
    ChatMessage,
    Counted,
    CountTokens,
    DescribeCache,
    ErrorInfo,
    Failed,
    ForgetNamed,
    Generate,
    KeptPrompt,
    LoadModel,
    ModelLoaded,
    PrefillProgress,
    Prepare,
    PrepareCancelled,
    Prepared,
    PromptMode,
    Role,
)
from tests.gui.scripted_engine import Desk, describe
from tests.gui.test_chats_kept import open_desk, reopen
from tests.support.pdf_files import pdf_of

__all__ = ["open_desk"]

POLICY = document("policy.md", "Whoever comes late rings twice.")
REPORT = document("report.pdf", "Sales went up.")
BOTH = join_documents([POLICY, REPORT], "")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "policy.md").write_text(POLICY.text)
    (tmp_path / "report.pdf").write_bytes(pdf_of(REPORT.text))
    return [str(tmp_path / "policy.md"), str(tmp_path / "report.pdf")]


def drop(desk: Desk, paths: list[str]) -> None:
    """Drop files on the window as a desktop does."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path) for path in paths])
    action, button, key = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    entered = QDragEnterEvent(QPoint(50, 50), action, data, button, key)
    QApplication.sendEvent(desk.window, entered)
    assert entered.isAccepted()
    QApplication.sendEvent(desk.window, QDropEvent(QPoint(50, 50).toPointF(), action, data, button, key))


def attach(desk: Desk, paths: list[str]) -> None:
    """Attach files one after the other, so that their order is known."""
    for path in paths:
        before = len(desk.composer.pasted.documents)
        drop(desk, [path])
        _wait_for_documents(desk, before + 1)


def _wait_for_documents(desk: Desk, count: int) -> None:
    desk.qtbot.waitUntil(lambda: len(desk.composer.pasted.documents) == count)


def line(desk: Desk) -> str:
    return desk.composer.pasted.reading.text


def chips(desk: Desk) -> list[str]:
    return [label.text() for row in desk.composer.pasted.rows.rows for label in row.findChildren(QLabel)]


def press(desk: Desk, name: str) -> None:
    """Press a button of the composer by its name, with the keyboard."""
    buttons = desk.composer.findChildren(QAbstractButton)
    button = next(b for b in buttons if name in (b.accessibleName(), b.text()) and b.isVisible())
    button.setFocus()
    QTest.keyClick(button, Qt.Key.Key_Space)


def prepare(desk: Desk) -> Prepare:
    before = desk.client.count(Prepare)
    press(desk, "Prepare")
    desk.qtbot.waitUntil(lambda: desk.client.count(Prepare) > before)
    return desk.client.last(Prepare)


def progress(desk: Desk, order: Prepare, done: int, total: int) -> None:
    desk.client.emit(
        PrefillProgress(
            request_id=order.request_id, num_done_tokens=done, num_total_tokens=total + 1, num_cached_tokens=0
        )
    )


def prepared(desk: Desk, order: Prepare, num_tokens: int = 3012) -> None:
    desk.client.emit(
        Prepared(
            request_id=order.request_id,
            name=order.name,
            num_tokens=num_tokens,
            num_cached_tokens=0,
            source=CacheSource.NONE,
            num_bytes=1,
            is_in_ram=True,
            is_for_disk=True,
            seconds=1.0,
        )
    )
    desk.qtbot.waitUntil(lambda: line(desk) == f"Read ahead: {num_tokens:,} tokens")


def last_content(desk: Desk) -> str:
    return desk.client.last(Generate).messages[-1].content


# --- attaching ---


def test_dropped_files_stand_before_the_message(desk: Desk, files: list[str]) -> None:
    attach(desk, files)
    assert chips(desk)[0].startswith("policy.md · ") and chips(desk)[1].startswith("report.pdf · ")
    desk.say("When do I ring?")
    assert last_content(desk) == BOTH + "When do I ring?"
    assert desk.composer.is_blank and desk.composer.pasted.isHidden()
    assert desk.window.top_bar.title == "When do I ring?"


def test_files_keep_their_order_when_one_takes_longer(desk: Desk, files: list[str]) -> None:
    drop(desk, list(reversed(files)))  # a PDF is read in a process of its own
    desk.qtbot.waitUntil(lambda: len(desk.composer.pasted.documents) == 2)
    assert "".join(desk.composer.pasted.documents) == join_documents([REPORT, POLICY], "")


@pytest.mark.qt_log_ignore("propagateSizeHints")
def test_files_are_chosen_with_the_button(desk: Desk, files: list[str]) -> None:
    press(desk, "Attach a text, code or PDF file")
    dialog = desk.window.findChild(QFileDialog)
    assert dialog is not None
    dialog.filesSelected.emit(files[:1])
    dialog.reject()
    desk.qtbot.waitUntil(lambda: desk.composer.pasted.documents == (join_documents([POLICY], ""),))


def test_document_is_removed_and_comes_back_with_undo(desk: Desk, files: list[str]) -> None:
    attach(desk, files[:1])
    QTest.keyClicks(desk.composer.text_edit, "hi")
    press(desk, f"Remove: {chips(desk)[0]}")
    assert desk.composer.pasted.documents == () and desk.composer.text == "hi"
    QTest.keySequence(desk.composer.text_edit, "Ctrl+Z")
    assert desk.composer.text == join_documents([POLICY], "hi")


def test_tokens_of_each_document_are_told(desk: Desk, files: list[str]) -> None:
    attach(desk, files)
    asked = [c for c in desk.client.sent if isinstance(c, CountTokens) and c.options.mode is PromptMode.COMPLETION]
    assert [command.messages[0].content for command in asked] == list(desk.composer.pasted.documents)
    desk.client.emit(
        Counted(request_id=asked[0].request_id, num_tokens=3012),
        Failed(request_id=asked[1].request_id, error=ErrorInfo("ContextOverflow", "Too long.", "Shorten it.")),
    )
    desk.qtbot.waitUntil(lambda: "longer than the context" in chips(desk)[1])
    assert chips(desk)[0].endswith("· 3,012 tokens")


def test_file_that_is_no_text_is_told_and_nothing_changes(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    drop(desk, [str(path), str(tmp_path / "missing.md")])
    desk.qtbot.waitUntil(lambda: "missing.md cannot be read" in _notices(desk) or "is no text" in _notices(desk))
    assert desk.composer.pasted.documents == ()


def _notices(desk: Desk) -> str:
    return " ".join(label.text() for label in desk.window.notices.findChildren(QLabel))


def test_file_that_is_opened_belongs_to_the_chat_it_was_dropped_on(
    desk: Desk, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[tuple[Callable, Callable]] = []
    monkeypatch.setattr(
        "app.desktop.bridge.background.Background.run",
        lambda self, call, on_result, on_error: held.append((call, on_result)),
    )
    desk.reply("first", "answer")
    first = desk.parts.conversation
    drop(desk, files[:1])
    assert line(desk) == "Opening policy.md"
    desk.parts.actions.new_chat()
    call, on_result = held[-1]
    on_result(call())
    assert desk.composer.pasted.documents == ()
    assert join_documents([POLICY], "") in first.draft


def test_file_is_given_up_when_it_is_not_wanted_any_more(
    desk: Desk, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[tuple[Callable, Callable]] = []
    monkeypatch.setattr(
        "app.desktop.bridge.background.Background.run",
        lambda self, call, on_result, on_error: held.append((call, on_result)),
    )
    drop(desk, files[:1])
    press(desk, "Stop")
    call, on_result = held[-1]
    on_result(call())
    assert desk.composer.pasted.documents == () and desk.composer.pasted.isHidden()


# --- reading ahead ---


def test_what_is_prepared_is_what_the_question_begins_with(desk: Desk, files: list[str]) -> None:
    attach(desk, files)
    assert line(desk).startswith("Not read yet")
    order = prepare(desk)
    assert order.messages == (ChatMessage(Role.USER, BOTH),)
    assert (order.name, order.chat_id) == ("policy.md, report.pdf", None), "it belongs to nobody"
    progress(desk, order, 1024, 3012)
    desk.qtbot.waitUntil(lambda: line(desk) == "Reading ahead: 1,024 of 3,012 tokens")
    prepared(desk, order)
    desk.say("When do I ring?")
    assert last_content(desk) == order.messages[0].content + "When do I ring?"
    assert desk.client.last(Generate).options == order.options


def test_another_chat_with_the_same_document_says_that_it_is_read(desk: Desk, files: list[str]) -> None:
    attach(desk, files[:1])
    prepared(desk, prepare(desk))
    desk.reply("When do I ring?", "Twice.")
    desk.parts.actions.new_chat()
    assert desk.composer.pasted.reading.isHidden()
    attach(desk, files[:1])
    assert line(desk) == "Read ahead: 3,012 tokens"
    attach(desk, files[1:])
    assert line(desk).startswith("Not read yet")


def test_reading_is_stopped_and_can_be_begun_again(desk: Desk, files: list[str]) -> None:
    attach(desk, files[:1])
    order = prepare(desk)
    press(desk, "Stop")
    assert desk.client.last(Abort).request_id == order.request_id
    desk.client.emit(PrepareCancelled(request_id=order.request_id))
    assert line(desk).startswith("Not read yet")
    press(desk, "Prepare")
    assert desk.client.count(Prepare) == 2


def test_failure_is_told_and_the_message_stays(desk: Desk, files: list[str]) -> None:
    attach(desk, files[:1])
    order = prepare(desk)
    error = ErrorInfo("ContextOverflow", "The prompt has 9,000 tokens; the context holds 4,096.", "Shorten it.")
    desk.client.emit(Failed(request_id=order.request_id, error=error))
    desk.qtbot.waitUntil(lambda: "9,000 tokens" in _notices(desk))
    assert line(desk).startswith("Not read yet") and len(desk.composer.pasted.documents) == 1


@pytest.mark.allow_log("the engine died")
def test_nothing_is_read_any_more_when_the_engine_dies(desk: Desk, files: list[str]) -> None:
    attach(desk, files[:1])
    prepared(desk, prepare(desk))
    attach(desk, files[1:])
    press(desk, "Prepare")
    desk.die(desk.client.last(Prepare).request_id)
    assert line(desk).startswith("Not read yet")


def test_model_is_loaded_first_when_there_is_none(desk: Desk, files: list[str]) -> None:
    desk.parts.model.unload()
    attach(desk, files[:1])
    press(desk, "Prepare")
    assert line(desk) == "The model is loaded first"
    desk.qtbot.waitUntil(lambda: desk.client.count(LoadModel) == 2)
    assert desk.client.count(Prepare) == 0
    desk.client.emit(ModelLoaded(request_id=desk.client.last(LoadModel).request_id, description=describe()))
    desk.qtbot.waitUntil(lambda: desk.client.count(Prepare) == 1)
    prepared(desk, desk.client.last(Prepare))


def test_model_that_is_not_asked_for_yet_is_waited_for(make_desk: Callable[..., Desk], files: list[str]) -> None:
    desk = make_desk()
    attach(desk, files[:1])
    press(desk, "Prepare")
    desk.load()
    desk.qtbot.waitUntil(lambda: desk.client.count(Prepare) == 1)


def test_reply_in_progress_goes_first_and_that_is_said(desk: Desk, files: list[str]) -> None:
    request_id = desk.say("first")
    attach(desk, files[:1])
    press(desk, "Prepare")
    assert line(desk) == "Read when the reply has ended"
    desk.finish(request_id, "answer")


def test_system_prompt_is_read_ahead_with_the_key(desk: Desk) -> None:
    QTest.keySequence(desk.window, "Ctrl+Shift+P")
    assert "There is nothing to read ahead." in _notices(desk)
    conversation = desk.parts.conversation
    conversation.set_settings(dataclasses.replace(conversation.settings, system_prompt="Be kind."))
    QTest.keySequence(desk.window, "Ctrl+Shift+P")
    order = desk.client.last(Prepare)
    assert order.messages == (ChatMessage(Role.SYSTEM, "Be kind."),)
    progress(desk, order, 10, 40)
    desk.qtbot.waitUntil(lambda: line(desk) == "Reading ahead: 10 of 40 tokens")
    assert not desk.composer.pasted.isHidden()
    desk.client.emit(PrepareCancelled(request_id=order.request_id))
    desk.qtbot.waitUntil(lambda: desk.composer.pasted.isHidden())


def test_nothing_is_written_when_the_chat_is_private(open_desk: Callable[[], Desk], files: list[str]) -> None:
    desk = open_desk()
    for is_private, file in ((False, files[0]), (True, files[1])):
        desk.parts.chats.new_chat(is_private=is_private)
        attach(desk, [file])
        assert prepare(desk).is_private is is_private


# --- afterwards ---


def test_sent_message_shows_names_and_words_and_copies_all(desk: Desk, files: list[str]) -> None:
    attach(desk, files)
    desk.finish(desk.say("When do I ring?"), "Twice.")
    row = next(row for row in desk.view.rows if isinstance(row, UserRow))
    assert row.text_widget.toPlainText() == "When do I ring?"
    assert [item.name for item in row.documents] == ["policy.md", "report.pdf"]
    row.copy()
    assert QApplication.clipboard().text() == BOTH + "When do I ring?"


def test_documents_stay_when_a_message_is_edited_and_asked_again(desk: Desk, files: list[str]) -> None:
    attach(desk, files)
    desk.finish(desk.say("When do I ring?"), "Twice.")
    desk.parts.presenter.edit_last_message()
    row = next(row for row in desk.view.rows if isinstance(row, UserRow))
    assert row.editor is not None and row.editor.text_edit.toPlainText() == "When do I ring?"
    row.editor.text_edit.setPlainText("How often?")
    desk.press(row.editor.submit_button)
    assert last_content(desk) == BOTH + "How often?"
    desk.finish(desk.client.last(Generate).request_id, "Twice.")
    before = desk.client.count(Generate)
    desk.parts.presenter.retry()
    desk.qtbot.waitUntil(lambda: desk.client.count(Generate) > before)
    assert last_content(desk) == BOTH + "How often?"


def test_documents_wait_with_their_message_and_come_back_with_it(desk: Desk, files: list[str]) -> None:
    request_id = desk.say("first")
    attach(desk, files[:1])
    desk.composer.text_edit.setPlainText("second")
    desk.composer.submit()
    shown = [label.text() for label in desk.composer.queue.findChildren(QLabel)]
    assert "policy.md · second" in shown
    desk.parts.presenter.stop()
    assert desk.composer.text == join_documents([POLICY], "second")
    assert len(desk.composer.pasted.documents) == 1 and desk.composer.text_edit.text == "second"
    desk.finish(request_id, "answer")


def test_documents_are_there_after_a_restart(open_desk: Callable[[], Desk], files: list[str]) -> None:
    desk = open_desk()
    attach(desk, files)
    desk.finish(desk.say("When do I ring?"), "Twice.")
    attach(desk, files[:1])
    QTest.keyClicks(desk.composer.text_edit, "draft")
    chat_id = desk.parts.conversation.chat.id
    desk.parts.close()
    again = open_desk()
    reopen(again, chat_id)
    row = next(row for row in again.view.rows if isinstance(row, UserRow))
    assert [item.text for item in row.documents] == [POLICY.text, REPORT.text]
    assert again.window.top_bar.title == "When do I ring?"
    assert again.composer.text == join_documents([POLICY], "draft")
    assert len(again.composer.pasted.documents) == 1


def test_only_words_are_found_in_the_chat(desk: Desk, files: list[str]) -> None:
    attach(desk, files[:1])
    desk.finish(desk.say("late, I know"), "So late.")
    desk.parts.find.open("late")
    desk.qtbot.waitUntil(lambda: "2" in " ".join(label.text() for label in desk.parts.find_bar.findChildren(QLabel)))


def kept(name: str, source: CacheSource, num_bytes: int) -> KeptPrompt:
    return KeptPrompt(
        source=source,
        model_name="Small",
        num_tokens=3012,
        num_bytes=num_bytes,
        chat_id=None,
        last_used=None,
        name=name,
    )


def describe_cache(desk: Desk, *entries: KeptPrompt) -> None:
    request_id = desk.client.last(DescribeCache).request_id
    event = CacheDescribed(
        request_id=request_id, kept=entries, ram_bytes=0, max_ram_bytes=0, disk_bytes=0, max_disk_bytes=0
    )
    with desk.qtbot.waitSignal(desk.parts.kept.described):
        desk.client.emit(event)


def test_what_is_kept_is_listed_by_name_and_forgotten(desk: Desk, files: list[str]) -> None:
    attach(desk, files[:1])
    prepared(desk, prepare(desk))
    desk.parts.actions.show_settings()
    page = desk.window.findChild(SettingsPage)
    assert page is not None
    entries = (kept("policy.md", CacheSource.RAM, 64 << 20), kept("policy.md", CacheSource.DISK, 65 << 20))
    describe_cache(desk, *entries, kept("other.md", CacheSource.DISK, 5 << 20))
    lines = [label.whole for label in page.documents.findChildren(ElidedLabel)]
    assert lines == [
        "policy.md · 3,012 tokens · 64 MiB in memory · 65 MiB on disk",
        "other.md · 3,012 tokens · 5 MiB on disk",
    ]
    assert line(desk).startswith("Read ahead")
    button = next(b for b in page.documents.rows.buttons if b.accessibleName() == "Forget: policy.md")
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert desk.client.last(ForgetNamed).names == ("policy.md",)
    describe_cache(desk)
    assert page.documents.isHidden()
    assert line(desk).startswith("Not read yet")
