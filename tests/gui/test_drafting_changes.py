"""Drafting in the window when things change in between: other drafts, other models, files from elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.desktop.session.model_session import ModelState
from app.desktop.widgets.draft_panel import DraftPanel
from app.draft_models import DraftCandidate, DraftCheck, FoundDrafts
from app.errors import ModelFileMissing
from app.settings import Settings
from engine import DraftDescription, DraftMode, DraftSet, LoadModel, ModelLoaded, SetDraft
from tests.gui.scripted_engine import Choice, Desk, describe

pytestmark = pytest.mark.qt_log_ignore("plugin does not support", "propagateSizeHints")

GOOD, OTHER, ALIEN, AWAY = "/models/good.gguf", "/models/other.gguf", "/models/alien.gguf", "/away/far.gguf"
REFUSED = DraftCheck(reason="alien.gguf is an adapter, so it cannot draft.", hint="Choose a text model.")


def _candidate(path: str, check: DraftCheck) -> DraftCandidate:
    return DraftCandidate(path=Path(path), name=path, title=Path(path).stem, file_bytes=1, check=check)


class Files:
    """Stands in for what looks at files: all are usable but one, and one is in no folder that is looked at."""

    def __init__(self) -> None:
        self.checked: list[Path] = []
        self.missing: set[str] = set()

    def find(self, target: Path, **_: Any) -> FoundDrafts:
        found = (_candidate(path, self._look(path)) for path in (GOOD, OTHER, ALIEN))
        return FoundDrafts(target=None, candidates=tuple(found))  # type: ignore[arg-type]

    def check(self, target: Path, draft: Path, **_: Any) -> DraftCheck:
        self.checked.append(target)
        return self._look(str(draft))

    def _look(self, path: str) -> DraftCheck:
        if path in self.missing:
            return DraftCheck(reason="There is no file any more.", hint="Choose another.")
        return REFUSED if path == ALIEN else DraftCheck(memory_bytes=131 << 20)


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def open_desk(make_desk: Callable[..., Desk], files: Files) -> Callable[..., Desk]:
    def choose(name: str | None) -> Choice:
        if name == "gone":
            raise ModelFileMissing("There is no such model.", "Choose another.")
        name = name or "starter"
        return Choice(Path(f"/models/{name}.gguf"), name, name)

    def open_one(**settings: object) -> Desk:
        desk = make_desk(choose, Settings(**settings), lambda: files)  # type: ignore[arg-type]
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


def press(desk: Desk, title: str) -> None:
    panel = panel_of(desk)
    desk.qtbot.waitUntil(lambda: panel.is_filled and title in [row.title for row in panel.rows])
    next(row for row in panel.rows if row.title == title).box.click()


def checked(desk: Desk) -> list[str]:
    return [row.title for row in panel_of(desk).rows if row.box.isChecked()]


def accept(desk: Desk, path: str) -> None:
    """Let the engine take a draft model."""
    desk.qtbot.waitUntil(lambda: desk.client.count(SetDraft) > 0 and desk.client.last(SetDraft).path == path)
    draft = DraftDescription(
        path=path, name=path, type_name="Q4_0", device="CPU", weight_bytes=1, total_bytes=1 << 20, load_s=0.1
    )
    desk.client.emit(DraftSet(request_id=desk.client.last(SetDraft).request_id, draft=draft))
    desk.qtbot.waitUntil(lambda: "drafts: 1 MiB" in panel_of(desk).status)


def test_draft_before_is_freed_when_the_next_one_is_refused_by_its_header(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(drafting={"starter": {"mode": "model", "path": GOOD}})
    accept(desk, GOOD)
    panel_of(desk).draft_chosen.emit(ALIEN)
    desk.qtbot.waitUntil(lambda: panel_of(desk).problem.startswith(REFUSED.reason))
    assert desk.client.last(SetDraft).path is None
    press(desk, "good")
    accept(desk, GOOD)
    assert panel_of(desk).problem == ""


@pytest.mark.parametrize("is_loaded", [True, False], ids=["loaded", "on-its-way"])
def test_status_is_that_of_the_draft_in_use_when_a_person_goes_back_to_it(
    is_loaded: bool, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk()
    press(desk, "good")
    desk.qtbot.waitUntil(lambda: desk.client.count(SetDraft) == 1)
    if is_loaded:
        accept(desk, GOOD)
    panel_of(desk).draft_chosen.emit(OTHER)  # before it was looked at
    panel_of(desk).draft_chosen.emit(GOOD)
    if not is_loaded:
        assert panel_of(desk).status == "Loading the draft model …"
        accept(desk, GOOD)
    assert "good drafts" in panel_of(desk).status
    assert desk.client.count(SetDraft) == 1


def test_chosen_file_is_listed_wherever_it_lies_and_can_be_let_go_of(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(drafting={"starter": {"mode": "model", "path": AWAY}})
    accept(desk, AWAY)
    desk.qtbot.waitUntil(lambda: checked(desk) == ["far"])
    press(desk, "far")
    desk.qtbot.waitUntil(lambda: desk.client.last(SetDraft).path is None)
    assert checked(desk) == []


def test_chosen_file_stays_listed_when_the_panel_is_seen_again(open_desk: Callable[..., Desk], files: Files) -> None:
    desk = open_desk()
    desk.parts.drafts.add(AWAY)
    accept(desk, AWAY)
    files.missing.add(AWAY)
    desk.window.toggle_inspector()
    desk.window.toggle_inspector()
    panel = panel_of(desk)
    desk.qtbot.waitUntil(lambda: any("no file any more" in row.note for row in panel.rows))
    assert checked(desk) == ["far"]


@pytest.mark.parametrize("how", ["refused", "cancelled"])
def test_draft_stays_known_when_the_model_stays_after_all(how: str, open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(drafting={"starter": {"mode": "model", "path": GOOD}})
    accept(desk, GOOD)
    desk.parts.actions.choose_model("gone" if how == "refused" else "b")
    if how == "cancelled":
        desk.parts.model.cancel()
    desk.qtbot.waitUntil(lambda: desk.parts.model.state is ModelState.READY)
    assert "good drafts" in panel_of(desk).status
    assert desk.client.count(SetDraft) == 1
    panel_of(desk).mode_chosen.emit(DraftMode.OFF)
    desk.qtbot.waitUntil(lambda: desk.client.last(SetDraft).path is None)


def test_draft_looked_at_for_a_model_is_not_set_for_the_next_one(
    open_desk: Callable[..., Desk], files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk()
    jobs: list[Callable[[], None]] = []
    presenter = desk.parts.drafts
    monkeypatch.setattr(presenter._background, "run", lambda job, done, failed: jobs.append(lambda: done(job())))
    panel_of(desk).draft_chosen.emit(GOOD)
    presenter.add(AWAY)
    desk.parts.actions.choose_model("b")
    desk.qtbot.waitUntil(lambda: desk.client.last(LoadModel).path == "/models/b.gguf")
    for job in list(jobs):
        job()
    command = desk.client.last(LoadModel)
    desk.client.emit(ModelLoaded(request_id=command.request_id, description=describe()))
    desk.qtbot.waitUntil(lambda: desk.parts.model.state is ModelState.READY)
    assert desk.client.count(SetDraft) == 0
    assert presenter.choice.path == ""


def test_notice_about_a_draft_goes_when_another_is_chosen(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(drafting={"starter": {"mode": "model", "path": ALIEN}})
    desk.qtbot.waitUntil(lambda: [notice.key for notice in desk.window.notices.notices] == ["draft"])
    press(desk, "good")
    accept(desk, GOOD)
    assert desk.window.notices.notices == []


def test_rows_stay_where_they_are_when_one_is_chosen(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    panel = panel_of(desk)
    desk.qtbot.waitUntil(lambda: panel.is_filled and len(panel.rows) == 3)
    places = [panel.rows[0].pos().y()]
    press(desk, "good")
    desk.qtbot.waitUntil(lambda: panel.status == "Loading the draft model …")
    places.append(panel.rows[0].pos().y())
    accept(desk, GOOD)
    places.append(panel.rows[0].pos().y())
    assert len(set(places)) == 1


def test_draft_is_called_as_in_the_list(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    press(desk, "good")
    accept(desk, GOOD)
    assert panel_of(desk).status == "good drafts: 1 MiB of memory."


def test_nothing_can_be_chosen_without_a_model(make_desk: Callable[..., Desk], files: Files) -> None:
    desk = make_desk(draft_files=lambda: files)
    panel = panel_of(desk)
    assert not panel.add_button.isEnabled() and not panel.mode.isEnabled()
    desk.load()
    assert panel.add_button.isEnabled() and panel.mode.isEnabled()


def test_no_mode_is_cut(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    box = panel_of(desk).mode.box
    for number in range(box.count()):
        box.setCurrentIndex(number)
        desk.qtbot.waitUntil(lambda: box.width() >= box.sizeHint().width())
    assert box.sizeHint().width() >= box.fontMetrics().horizontalAdvance("Draft model") + 30
