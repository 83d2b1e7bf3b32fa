"""What is read ahead and kept, where there is a lot of it: rows come a few at a time."""

import time

import msgspec
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication

from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.kept_documents import KeptDocuments
from app.desktop.widgets.settings_page import SettingsPage
from engine import CacheDescribed, CacheSource, KeptPrompt
from tests.gui.scripted_engine import Desk


def described(count: int, *, used: float = 0.0, num_bytes: int = 4) -> CacheDescribed:
    kept = tuple(
        KeptPrompt(
            source=CacheSource.RAM,
            model_name="Small",
            num_tokens=3,
            num_bytes=num_bytes,
            chat_id=None,
            last_used=used,
            name=f"{number}.md",
        )
        for number in range(count)
    )
    return CacheDescribed(request_id="", kept=kept, ram_bytes=0, max_ram_bytes=0, disk_bytes=0, max_disk_bytes=0)


def shown(desk: Desk) -> KeptDocuments:
    desk.parts.actions.show_settings()
    page = desk.window.findChild(SettingsPage)
    assert page is not None
    return page.documents


def names(documents: KeptDocuments) -> list[str]:
    labels = [label for row in documents.rows.rows for label in row.findChildren(ElidedLabel)]
    return [label.whole.split(" · ")[0] for label in labels]


def test_rows_end_where_the_settings_end(desk: Desk) -> None:
    documents = shown(desk)
    page = desk.window.findChild(SettingsPage)
    documents.show_kept(described(3))
    assert page is not None
    ends = [page.row("zoom").control, documents.rows]
    for is_wide in (True, False):
        desk.window.resize(1000 if is_wide else 420, 700)
        QApplication.processEvents()
        control, rows = (part.mapTo(page, QPoint(part.width(), 0)).x() for part in ends)
        assert (control == rows) is is_wide
        assert rows > control or is_wide, "in a narrow window they have all of it"


def test_each_turn_of_the_window_is_short_when_many_are_kept(desk: Desk) -> None:
    documents = shown(desk)
    documents.show_kept(described(3))
    usual_s, turns = _seconds(lambda: documents.show_kept(described(4))), []
    turns.append(_seconds(lambda: documents.show_kept(described(120))))
    while len(documents.rows.rows) < 120:
        turns.append(_seconds(QApplication.processEvents))
    assert max(turns) < max(5 * usual_s, 0.05), "all at once take forty times as long"
    assert names(documents) == [f"{number}.md" for number in range(120)]


def test_rows_are_those_of_the_last_answer_when_it_comes_before_all_are_there(desk: Desk) -> None:
    documents = shown(desk)
    documents.show_kept(described(50))
    documents.show_kept(described(9, num_bytes=5))
    desk.qtbot.waitUntil(lambda: len(documents.rows.rows) == 9)
    for _ in range(20):
        QApplication.processEvents()
    assert names(documents) == [f"{number}.md" for number in range(9)]
    documents.show_kept(None)
    assert documents.isHidden()


def test_rows_stay_when_only_their_use_has_changed(desk: Desk) -> None:
    documents = shown(desk)
    documents.show_kept(described(3))
    before = list(documents.rows.rows)
    documents.show_kept(described(3, used=5.0))
    assert list(documents.rows.rows) == before


def test_bytes_of_all_are_told_when_two_have_the_same_name(desk: Desk) -> None:
    documents = shown(desk)
    both = [msgspec.structs.replace(item, name="a.md") for item in described(2, num_bytes=1 << 20).kept]
    documents.show_kept(msgspec.structs.replace(described(0), kept=tuple(both)))
    [label] = [label for row in documents.rows.rows for label in row.findChildren(ElidedLabel)]
    assert label.whole.endswith("2 MiB in memory")


def _seconds(call) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began
