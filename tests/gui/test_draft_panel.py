"""The panel of what drafts: rows of files, hostile names, keys, sizes and words."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.desktop.theme.theme import Theme
from app.desktop.widgets.draft_panel import DraftPanel
from app.desktop.widgets.draft_row import DraftRow
from app.desktop.widgets.inspector import WIDTH
from app.draft_models import DraftCandidate, DraftCheck
from engine import DraftMode
from tests.gui.translated import MarkingTranslator, untranslated


def candidate(title: str, **check: object) -> DraftCandidate:
    return DraftCandidate(
        path=Path(f"/a/{title[:40]}.gguf"),
        name=title,
        title=title,
        file_bytes=1,
        check=DraftCheck(**check),  # type: ignore[arg-type]
    )


GOOD, OTHER = candidate("good", memory_bytes=131 << 20), candidate("other", memory_bytes=1 << 30)
ALIEN = candidate("alien", reason="alien.gguf is an embedding model.", hint="Choose another.")


def new_panel(theme: Theme, qtbot: QtBot) -> tuple[QWidget, DraftPanel]:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(theme.px(WIDTH), 700)
    panel = DraftPanel(theme, host)
    panel.resize(theme.px(WIDTH - 32), 600)
    with qtbot.waitExposed(host):
        host.show()
    host.activateWindow()
    return host, panel  # the host lives as long


@pytest.fixture
def panel(theme: Theme, qtbot: QtBot) -> Iterator[DraftPanel]:
    _host, panel = new_panel(theme, qtbot)
    yield panel


def offer(panel: DraftPanel, qtbot: QtBot, *candidates: DraftCandidate, **words: str) -> None:
    panel.set_found(candidates, **words)
    qtbot.waitUntil(lambda: panel.is_filled)


def row(panel: DraftPanel, title: str) -> DraftRow:
    return next(row for row in panel.rows if row.title == title)


def test_choice_is_shown_and_is_no_choice_of_the_person(panel: DraftPanel, qtbot: QtBot) -> None:
    chosen: list[object] = []
    panel.mode_chosen.connect(chosen.append)
    panel.draft_chosen.connect(chosen.append)
    panel.tint_chosen.connect(chosen.append)
    panel.set_choice(DraftMode.BOTH, str(OTHER.path))
    panel.set_tinted(True)
    offer(panel, qtbot, GOOD, OTHER, ALIEN)
    assert [row.title for row in panel.rows if row.box.isChecked()] == ["other"]
    assert (panel.summary, chosen) == ("Both", [])


def test_one_at_most_is_chosen(panel: DraftPanel, qtbot: QtBot) -> None:
    offer(panel, qtbot, GOOD, OTHER)
    for title, expected in (("good", str(GOOD.path)), ("other", str(OTHER.path)), ("other", "")):
        with qtbot.waitSignal(panel.draft_chosen) as caught:
            QTest.mouseClick(row(panel, title).box, Qt.MouseButton.LeftButton)
        assert caught.args == [expected]
    assert not any(row.box.isChecked() for row in panel.rows)


def test_hundreds_are_built_a_few_at_a_time(panel: DraftPanel, qtbot: QtBot) -> None:
    many = [candidate(f"n{number}", reason="It is an adapter." if number % 2 else "") for number in range(300)]
    panel.set_found(many)
    assert len(panel.rows) == 0
    qtbot.waitUntil(lambda: panel.is_filled)
    assert len(panel.rows) == 8 + 4


def test_chosen_file_is_seen_whatever_has_become_of_it(panel: DraftPanel, qtbot: QtBot) -> None:
    panel.set_choice(DraftMode.MODEL, str(ALIEN.path))
    offer(panel, qtbot, *(candidate(f"n{number}") for number in range(20)), ALIEN)
    assert row(panel, "alien").box.isEnabled()


def test_tab_goes_from_top_to_bottom(panel: DraftPanel, qtbot: QtBot) -> None:
    offer(panel, qtbot, GOOD, ALIEN)
    offer(panel, qtbot, OTHER, GOOD, ALIEN)
    panel.mode.box.setFocus()
    seen = []
    for _ in range(5):
        widget = QApplication.focusWidget()
        assert widget is not None
        seen.append(widget)
        QTest.keyClick(widget, Qt.Key.Key_Tab)
    tops = [widget.mapTo(panel, widget.rect().center()).y() for widget in seen]
    assert all(below > above for above, below in itertools.pairwise(tops))
    assert seen[0] is panel.mode.box and seen[-1] is panel.add_button


@pytest.mark.parametrize("zoom", [0.8, 1.0, 2.0])
def test_nothing_is_wider_than_the_inspector(panel: DraftPanel, theme: Theme, qtbot: QtBot, zoom: float) -> None:
    theme.set_zoom(zoom)
    long = "w" * 200
    panel.set_choice(DraftMode.MODEL, "")
    panel.set_status(f"{long} drafts: Q4_0, 131 MiB of memory.", problem=f"{long} does not fit.")
    offer(panel, qtbot, candidate(long, notes=(long,)), candidate(f"x{long}", reason=long), note=long, suggestion=long)
    assert panel.minimumSizeHint().width() <= theme.px(WIDTH - 32)


def test_hostile_names_are_plain_text(panel: DraftPanel, qtbot: QtBot) -> None:
    evil = "<b>x</b>\u202e&"
    panel.set_status(evil, problem=evil)
    offer(panel, qtbot, candidate(evil, reason=evil, hint=evil), note=evil, suggestion=evil)
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in panel.findChildren(QLabel))
    assert "&lt;b&gt;" in panel.rows[0].box.toolTip()
    assert panel.rows[0].box.line.startswith("\u2068")
    assert all("\u202e" not in text or text.startswith("\u2068") for text in (panel.status, panel.rows[0].note))


def test_every_text_is_translated(theme: Theme, qapp: QApplication, qtbot: QtBot) -> None:
    translator = MarkingTranslator()
    qapp.installTranslator(translator)
    try:
        _host, panel = new_panel(theme, qtbot)
        offer(panel, qtbot, GOOD, ALIEN)
        data = {"good", "alien", ALIEN.check.reason, f"{ALIEN.path}\nChoose another.", str(GOOD.path)}
        assert untranslated(panel, lambda text: text in data) == []
    finally:
        qapp.removeTranslator(translator)
