"""Code of a reply as a file: exactly the code, and a sentence where that does not work."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from tests.gui.scripted_engine import Desk

CODE = "def f():\n\treturn 'é日👍'  # \u00a0"


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_code_is_saved_where_the_user_says(desk: Desk, tmp_path: Path) -> None:
    desk.reply("go", f"```python\n{CODE}\n```\n")
    desk.view.save_requested.emit(CODE, "code.py")
    [dialog] = desk.window.findChildren(QFileDialog)
    assert dialog.isVisible()
    dialog.fileSelected.emit(str(tmp_path / "mine.py"))
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    desk.qtbot.waitUntil(lambda: any(n.key == "code-saved" for n in desk.window.notices.notices))
    assert (tmp_path / "mine.py").read_bytes() == CODE.encode()


def test_failure_to_save_is_told(desk: Desk, tmp_path: Path) -> None:
    desk.parts.saving.save(CODE, tmp_path / "missing" / "mine.py")
    desk.qtbot.waitUntil(lambda: any(n.is_error for n in desk.window.notices.notices))
    assert "could not be saved" in desk.window.notices.notices[-1].text
