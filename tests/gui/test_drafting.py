"""Drafting in the window: chosen for a model, loaded with it, refused with a reason, told live, and tinted."""

import functools
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QTextEdit
from pytestqt.qtbot import QtBot

from app.desktop.session.turns import ReplyTurn
from app.desktop.widgets.details_card import DetailsCard
from app.desktop.widgets.draft_panel import DraftPanel
from app.desktop.widgets.draft_row import DraftRow
from app.draft_models import DraftCandidate, DraftCheck, DraftFiles
from app.settings import Settings
from engine import (
    Delta,
    DraftDescription,
    DrafterStats,
    DraftMode,
    DraftSet,
    DraftState,
    ErrorInfo,
    Failed,
    FinishReason,
    Generate,
    ModelParams,
    SetDraft,
    SpeculativeParams,
    SpeculativeStats,
    TextSpan,
)
from tests.gui.scripted_engine import Choice, Desk, finished
from tests.support.refused_drafts import REFUSED, write_refused

# Menus and dialogs: the platform of the tests cannot do all that a desktop does.
pytestmark = pytest.mark.qt_log_ignore("plugin does not support", "propagateSizeHints")

GOOD, LARGE, ALIEN = "/models/good.gguf", "/models/large.gguf", "/models/alien.gguf"
REASON = "alien.gguf has another vocabulary: token 7 is another text."
MISMATCH = ErrorInfo("DraftMismatch", "The draft model has another vocabulary.", "Choose one of the same family.")
STATS = SpeculativeStats(
    state=DraftState.ON,
    net_speedup=1.42,
    drafters=(
        DrafterStats(drafter="ngram", num_drafts=4, num_drafted_tokens=20, num_accepted_tokens=16),
        DrafterStats(drafter="model", num_drafts=12, num_drafted_tokens=28, num_accepted_tokens=15),
    ),
)
SLOWER = SpeculativeStats(state=DraftState.SLOWER, net_speedup=0.99, drafting_speedup=0.88, drafters=STATS.drafters)


def candidate(path: str, **check: object) -> DraftCandidate:
    name = Path(path).stem
    return DraftCandidate(
        path=Path(path),
        name=name,
        title=name,
        file_bytes=1,
        check=DraftCheck(**check),  # type: ignore[arg-type]
    )


class Files:
    """Stands in for what looks at files."""

    def __init__(self) -> None:
        self.checks: dict[str, DraftCheck] = {}
        self.candidates = (
            candidate(GOOD, memory_bytes=131 << 20),
            candidate(LARGE, memory_bytes=402 << 20, notes=("It is not much smaller.",)),
            candidate(ALIEN, reason=REASON, hint="Choose a smaller model of the same family."),
        )

    def find(self, target: Path, **_: Any) -> types.SimpleNamespace:
        return types.SimpleNamespace(
            reason="", hint="", notes=(), candidates=self.candidates, suggestion=self.candidates[0]
        )

    def check(self, target: Path, draft: Path, **_: Any) -> DraftCheck:
        return self.checks.get(str(draft), DraftCheck(memory_bytes=1))


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def open_desk(make_desk: Callable[..., Desk], files: Files) -> Callable[..., Desk]:
    """Open a window in which the drafting of the model can be seen."""

    def open_one(**settings: object) -> Desk:
        desk = make_desk(settings=Settings(**settings), draft_files=lambda: files)  # type: ignore[arg-type]
        desk.window.resize(1300, 900)
        if not desk.window.is_inspector_visible:
            desk.window.toggle_inspector()
        desk.window.inspector.set_collapsed(["system_prompt", "sampling", "adapters", "model"])
        desk.load()
        return desk

    return open_one


def panel_of(desk: Desk) -> DraftPanel:
    [panel] = desk.window.inspector.findChildren(DraftPanel)
    return panel


def row(desk: Desk, title: str) -> DraftRow:
    panel = panel_of(desk)
    desk.qtbot.waitUntil(lambda: panel.is_filled and title in [row.title for row in panel.rows])
    return next(row for row in panel.rows if row.title == title)


def press(desk: Desk, title: str) -> None:
    QTest.mouseClick(row(desk, title).box, Qt.MouseButton.LeftButton)


def choose_mode(desk: Desk, mode: DraftMode) -> None:
    box = panel_of(desk).mode.box
    index = next(index for index in range(box.count()) if box.itemData(index) is mode)
    box.setFocus()
    box.setCurrentIndex(index)
    box.activated.emit(index)


def wait_for_draft(desk: Desk, path: str | None) -> SetDraft:
    desk.qtbot.waitUntil(lambda: desk.client.count(SetDraft) > 0 and desk.client.last(SetDraft).path == path)
    return desk.client.last(SetDraft)


def accept(desk: Desk, path: str) -> None:
    command = wait_for_draft(desk, path)
    draft = DraftDescription(
        path=path,
        name="Good <b>one</b>",
        type_name="Q4_0",
        device="CPU",
        weight_bytes=90 << 20,
        total_bytes=131 << 20,
        load_s=0.1,
    )
    desk.client.emit(DraftSet(request_id=command.request_id, draft=draft))
    desk.qtbot.waitUntil(lambda: "131 MiB" in panel_of(desk).status)


def wanted(desk: Desk) -> SpeculativeParams:
    return desk.client.last(Generate).speculative


# What is chosen


def test_chat_text_drafts_when_nothing_was_chosen(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    desk.reply("one", "answer")
    assert wanted(desk) == SpeculativeParams(mode=DraftMode.AUTO)
    assert desk.client.count(SetDraft) == 0
    assert desk.window.inspector.section("drafting").head.summary == "Automatic"
    row(desk, "good")
    assert "good may pay" in panel_of(desk).suggestion


def test_chosen_draft_is_loaded_kept_and_told(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    press(desk, "good")
    accept(desk, GOOD)
    assert panel_of(desk).status == "good drafts: 131 MiB of memory."
    assert ("drafting", {"starter": {"path": GOOD}}) in desk.saved
    press(desk, "large")
    assert not row(desk, "good").box.isChecked()
    assert wait_for_draft(desk, LARGE).params == ModelParams()
    press(desk, "large")
    wait_for_draft(desk, None)
    assert desk.saved[-1] == ("drafting", {})


@pytest.mark.allow_log(r"WARNING app\.desktop\.bridge\.engine_bridge: the engine died")
def test_kept_draft_is_loaded_with_its_model_and_again_after_a_death(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(drafting={"starter": {"mode": "both", "path": GOOD}}, draft_max=6, draft_strict=True)
    accept(desk, GOOD)
    desk.reply("one", "answer")
    assert wanted(desk) == SpeculativeParams(mode=DraftMode.BOTH, draft_max=6, strict=True)
    desk.die()
    assert panel_of(desk).status == ""
    before = desk.client.count(SetDraft)
    desk.load()
    desk.qtbot.waitUntil(lambda: desk.client.count(SetDraft) > before)
    assert desk.client.last(SetDraft).path == GOOD


@pytest.mark.parametrize(
    ("mode", "with_draft"), [(DraftMode.OFF, DraftMode.MODEL), (DraftMode.NGRAM, DraftMode.BOTH)], ids=["off", "ngram"]
)
def test_mode_is_used_at_once_and_takes_a_draft_that_is_chosen_later(
    mode: DraftMode, with_draft: DraftMode, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk()
    choose_mode(desk, mode)
    desk.reply("one", "answer")
    assert wanted(desk).mode is mode
    press(desk, "good")
    accept(desk, GOOD)
    desk.reply("two", "answer")
    assert wanted(desk).mode is with_draft
    assert panel_of(desk).mode.value is with_draft
    choose_mode(desk, mode)
    wait_for_draft(desk, None)
    assert row(desk, "good").box.isChecked()  # it is not forgotten
    assert panel_of(desk).status == "The draft model is not used with this choice."
    choose_mode(desk, DraftMode.AUTO)
    wait_for_draft(desk, GOOD)


def test_draft_is_asked_for_when_the_mode_needs_one(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    choose_mode(desk, DraftMode.MODEL)
    assert panel_of(desk).problem == "Choose a draft model below."
    press(desk, "good")
    accept(desk, GOOD)
    assert panel_of(desk).problem == ""


def test_default_of_the_settings_page_holds_for_models_without_a_choice(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    desk.parts.settings.set("draft_mode", DraftMode.OFF)
    desk.reply("one", "answer")
    assert (wanted(desk).mode, panel_of(desk).mode.value) == (DraftMode.OFF, DraftMode.OFF)


def test_reproducible_reply_is_not_drafted(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(sampling={"reproducible": True}, drafting={"starter": {"mode": "both", "path": GOOD}})
    desk.reply("one", "answer")
    assert wanted(desk).mode is DraftMode.OFF


def _shows(desk: Desk, name: str, mode: DraftMode) -> bool:
    chosen = desk.parts.model.chosen
    return chosen is not None and chosen.last_model == name and panel_of(desk).mode.value is mode


@pytest.mark.allow_log(r"WARNING app\.speculation: a kept way of drafting is not known: 'no such'")
def test_each_model_has_its_own_choice(make_desk: Callable[..., Desk], files: Files) -> None:
    kept = {"a": {"mode": "model", "path": GOOD}, "b": {"mode": "ngram"}, "c": {"mode": "no such", "path": 7}}
    desk = make_desk(
        lambda name: Choice(Path(f"/models/{name}.gguf"), str(name), str(name)),
        Settings(drafting=kept),
        lambda: files,
    )
    for name, mode in (("a", DraftMode.MODEL), ("b", DraftMode.NGRAM), ("c", DraftMode.AUTO)):
        desk.parts.actions.choose_model(name)
        desk.qtbot.waitUntil(functools.partial(_shows, desk, name, mode))


# What cannot be used


def test_file_that_cannot_draft_stands_below_with_its_one_reason(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    alien = row(desk, "alien")
    assert not alien.box.isEnabled()
    assert alien.note == REASON
    assert "same family" in alien.box.toolTip()
    assert row(desk, "large").note == "Takes 402 MiB of memory. It is not much smaller."
    assert [entry.title for entry in panel_of(desk).rows] == ["good", "large", "alien"]
    press(desk, "alien")
    assert desk.client.count(SetDraft) == 0


def test_reply_goes_on_without_a_draft_that_the_engine_refuses(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(drafting={"starter": {"path": GOOD}})
    command = wait_for_draft(desk, GOOD)
    desk.client.emit(Failed(request_id=command.request_id, error=MISMATCH))
    desk.qtbot.waitUntil(lambda: panel_of(desk).problem.startswith(MISMATCH.message))
    [notice] = [notice for notice in desk.window.notices.notices if notice.key == "draft"]
    assert notice.text == MISMATCH.message
    assert (notice.hint, notice.is_error) == (f"Replies go on without it. {MISMATCH.hint}", False)
    desk.reply("one", "answer")
    reply = desk.parts.conversation.last_reply
    assert reply is not None and reply.text == "answer" and reply.error is None


def test_draft_whose_file_tells_that_it_cannot_is_never_loaded(open_desk: Callable[..., Desk], files: Files) -> None:
    files.checks[ALIEN] = files.candidates[2].check
    desk = open_desk(drafting={"starter": {"path": ALIEN}})
    desk.qtbot.waitUntil(lambda: panel_of(desk).problem.startswith(REASON))
    assert desk.client.count(SetDraft) == 0
    assert row(desk, "alien").box.isChecked()
    press(desk, "alien")  # what is in use can be let go of
    assert panel_of(desk).problem == ""
    assert desk.saved[-1] == ("drafting", {})


@pytest.mark.parametrize("kind", REFUSED)
def test_each_kind_of_file_that_cannot_draft_is_listed_and_refused_with_its_sentence(
    kind: str, make_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    target, draft = write_refused(tmp_path, kind)
    settings = Settings(drafting={str(target): {"mode": "model", "path": str(draft)}})
    desk = make_desk(lambda wanted: Choice(target, "Target", str(target)), settings, DraftFiles)
    if not desk.window.is_inspector_visible:
        desk.window.toggle_inspector()
    desk.window.inspector.set_collapsed(["live", "sampling"])
    desk.load()
    refused = row(desk, draft.stem)
    assert REFUSED[kind] in refused.note
    desk.qtbot.waitUntil(lambda: panel_of(desk).problem.startswith(refused.note))
    assert [notice.text for notice in desk.window.notices.notices if notice.key == "draft"] == [refused.note]
    desk.reply("one", "answer")
    assert desk.client.count(SetDraft) == 0
    QTest.mouseClick(refused.box, Qt.MouseButton.LeftButton)  # what is in use can be let go of, and then not be chosen
    assert not refused.box.isEnabled() and not refused.box.isChecked()


# What it did


def _delta(desk: Desk, request_id: str, stats: SpeculativeStats) -> None:
    desk.client.emit(
        Delta(
            request_id=request_id,
            text="a",
            num_generated_tokens=30,
            num_context_tokens=60,
            decode_s=1.0,
            speculative=stats,
        )
    )
    desk.parts.bridge._drain()


def _meta_line(desk: Desk, reply: ReplyTurn) -> str:
    row = desk.view.reply_row(reply.turn_id)
    return row.meta_text if row is not None else ""


def test_figures_are_live_and_stay_with_the_reply(open_desk: Callable[..., Desk], qtbot: QtBot) -> None:
    desk = open_desk()
    readouts = desk.parts.readouts
    request_id = desk.say("one")
    assert not readouts.has_row("drafts")
    _delta(desk, request_id, STATS)
    assert readouts.value("drafts") == "65 % · 2.9 a step"
    assert readouts.value("speedup") == "1.4× plain"
    desk.finish(request_id, "answer", speculative=STATS, num_drafted_tokens=48, num_accepted_tokens=31)
    assert readouts.value("drafts") == "65 % · 2.9 a step"
    reply = desk.parts.conversation.last_reply
    assert isinstance(reply, ReplyTurn)
    assert "drafting 1.4× plain" in _meta_line(desk, reply)
    card = DetailsCard(desk.parts.window._theme, reply)
    qtbot.addWidget(card)
    assert card.value("Drafts accepted") == "31 of 48 (65 %)"
    assert card.value("Draft model") == "15 of 28 (54 %)"
    assert card.value("Net speed") == "1.4× plain"
    desk.parts.actions.new_chat()
    assert not readouts.has_row("drafts")


def test_drafting_that_lost_says_so_until_the_next_request(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    readouts = desk.parts.readouts
    request_id = desk.say("one")
    _delta(desk, request_id, SLOWER)
    assert readouts.drafting == "Drafting off: it was 12 % slower on this chat"
    assert not readouts.has_row("speedup")
    desk.finish(request_id, "answer", speculative=SLOWER)
    assert readouts.drafting == "Drafting off: it was 12 % slower on this chat"
    reply = desk.parts.conversation.last_reply
    assert reply is not None
    assert _meta_line(desk, reply).endswith("drafting off")
    desk.say("two")
    assert readouts.drafting == ""


def test_figures_and_drafted_text_are_there_after_a_restart(open_desk: Callable[..., Desk], tmp_path: Path) -> None:
    desk = open_desk()
    with desk.qtbot.waitSignal(desk.parts.keeping.opened):
        desk.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
    request_id = desk.say("one")
    desk.delta(request_id, "an answer")
    desk.finish(request_id, "an answer", speculative=SLOWER, drafted_spans=(TextSpan(1, 2), TextSpan(3, 9)))
    first = desk.parts.conversation.chat.id
    desk.parts.close()
    other = open_desk()
    with other.qtbot.waitSignal(other.parts.keeping.opened):
        other.parts.keeping.open(tmp_path / "chats.sqlite3", retention_days=30)
    with other.qtbot.waitSignal(other.parts.chats.current_changed):
        other.parts.chats.open(first)
    reply = other.parts.conversation.last_reply
    assert reply is not None
    assert reply.speculative == SLOWER
    assert tuple(reply.drafted_spans) == (TextSpan(1, 2), TextSpan(3, 9))
    assert other.parts.readouts.drafting == "Drafting off: it was 12 % slower on this chat"


# The tint


def _tinted(desk: Desk) -> list[str]:
    reply = desk.parts.conversation.last_reply
    assert reply is not None
    row = desk.view.reply_row(reply.turn_id)
    assert row is not None
    tinted: list[str] = []
    for _, widget in row.texts():
        for selection in widget.extraSelections():
            assert isinstance(selection, QTextEdit.ExtraSelection)
            tinted.append(selection.cursor.selectedText())
    return tinted


def _drafted_reply(desk: Desk, text: str, *words: str) -> None:
    spans = tuple(TextSpan(text.index(word), text.index(word) + len(word)) for word in words)
    request_id = desk.say("q")
    desk.delta(request_id, text)
    assert _tinted(desk) == []
    desk.client.emit(finished(request_id, text, drafted_spans=spans))
    desk.qtbot.waitUntil(lambda: not desk.parts.conversation.is_busy)


def test_tint_is_off_until_it_is_wanted_and_kept(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    _drafted_reply(desk, "Some **bold words** and more 😀 here.", "bold words", "😀 here")
    assert _tinted(desk) == []
    QTest.mouseClick(panel_of(desk).tint, Qt.MouseButton.LeftButton)
    assert _tinted(desk) == ["bold words", "😀 here"]
    assert desk.saved[-1] == ("draft_tint", True)
    QTest.mouseClick(panel_of(desk).tint, Qt.MouseButton.LeftButton)
    assert _tinted(desk) == []


def test_new_replies_are_tinted_when_they_end_and_found_text_is_marked_over_it(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(draft_tint=True)
    assert panel_of(desk).tint.isChecked()
    _drafted_reply(desk, "One\n\n```python\nfirst = 1\nsecond = 2\n```\n\n- three\n", "first = 1\nsecond", "three")
    assert _tinted(desk) == ["first = 1", "second", "three"]
    desk.view.set_highlight("three")
    assert _tinted(desk) == ["first = 1", "second", "three", "three"]
    desk.view.set_highlight("")
    assert _tinted(desk) == ["first = 1", "second", "three"]


def test_reply_that_goes_on_keeps_what_was_drafted_before(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(draft_tint=True)
    request_id = desk.say("q")
    desk.delta(request_id, "one two")
    spans = (TextSpan(0, 3),)
    desk.finish(request_id, "one two", FinishReason.LENGTH, drafted_spans=spans)
    desk.parts.presenter.continue_reply()
    desk.qtbot.waitUntil(lambda: desk.client.count(Generate) == 2)
    request_id = desk.client.last(Generate).request_id
    desk.delta(request_id, " three four")
    desk.finish(request_id, " three four", drafted_spans=(TextSpan(1, 6),))
    assert _tinted(desk) == ["one", "three"]
