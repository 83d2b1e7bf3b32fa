"""The tree that is printed is the one a screen reader gets: roles, names, texts, states, and what has no name."""

import pytest
from PySide6.QtWidgets import QCheckBox, QLabel, QLineEdit, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from tests.support.accessibility_tree import dump


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    window = QWidget()
    qtbot.addWidget(window)
    layout = QVBoxLayout(window)
    layout.setSizeConstraint(QVBoxLayout.SizeConstraint.SetNoConstraint)  # else Qt warns without a display
    window.setWindowTitle("Window")
    label, box, line, hidden = QLabel("A label"), QCheckBox("Box"), QLineEdit("typed"), QPushButton("Secret")
    text = QPlainTextEdit("x" * 150)
    text.setAccessibleName("Long")
    box.setChecked(True)
    box.setAccessibleDescription("what it does")
    for widget in (label, box, line, text, hidden):
        layout.addWidget(widget)
    hidden.hide()
    window.show()
    window.activateWindow()
    box.setFocus()
    qtbot.waitActive(window)
    return window


def test_roles_names_texts_and_states_are_listed_by_depth(window: QWidget) -> None:
    lines = dump(window).split("\n")
    assert lines[0] == 'Client "Window"'
    assert '  StaticText "A label" [readOnly]' in lines
    assert "  CheckBox \"Box\" description='what it does' [focused checked]" in lines
    assert "  EditableText NO NAME text='typed'" in lines
    assert any(line.startswith('  EditableText "Long" text=') and "(150 characters)" in line for line in lines)


def test_what_is_hidden_is_left_out_unless_asked_for(window: QWidget) -> None:
    assert "Secret" not in dump(window)
    assert '  (Button "Secret")' in dump(window, includes_hidden=True).split("\n")
