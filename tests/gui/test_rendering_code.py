"""Code: copied exactly wherever it stands, wrapped, saved and folded on request, harmless whatever it holds."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.desktop.bridge.background import Background
from app.desktop.rendering.code_anchors import code_of
from app.desktop.rendering.code_block import CodeBlock, suggested_file_name
from app.desktop.rendering.code_display import MAX_LINE_CHARS, MAX_LINES, CodeDisplay
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.renderer import Renderer
from app.desktop.rendering.safe_browser import SafeBrowser
from app.desktop.theme.theme import Theme

LONG = "\n".join(f"x{n} = {n}" for n in range(60))


@pytest.fixture
def block(theme: Theme, qtbot: QtBot) -> Iterator[CodeBlock]:
    parent = QWidget()
    qtbot.addWidget(parent)
    background = Background(parent)
    block = CodeBlock(theme, CodeLexer(background), parent)
    parent.show()
    block.show()
    yield block
    background.close()


@pytest.fixture
def browser(theme: Theme, qtbot: QtBot) -> SafeBrowser:
    browser = SafeBrowser(theme)
    qtbot.addWidget(browser)
    return browser


def show_markdown(browser: SafeBrowser, text: str) -> None:
    browser.set_html("".join(part.html for part in Renderer().blocks(text)))
    browser.resize(500, browser.fit(500))


def copy_links(browser: SafeBrowser) -> list[str]:
    found = []
    block = browser.document().begin()
    while block.isValid():
        pieces = block.begin()
        if not pieces.atEnd() and code_of(pieces.fragment().charFormat().anchorHref()) is not None:
            found.append(pieces.fragment().charFormat().anchorHref())
        block = block.next()
    return found


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("- a\n  ```py\n  if x:\n      y = '\u00a0<&>\"'\n\n  z\n  ```\n- b", "if x:\n    y = '\u00a0<&>\"'\n\nz"),
        ("> ~~~\n> \tx  \n> ~~~", "\tx  "),
        ("1. a\n\n         indented\n", "  indented"),
        ("- ```\n  \x1b[31mred\n  ```", "\x1b[31mred"),
    ],
    ids=["list", "quote", "indented", "escape"],
)
def test_code_inside_other_blocks_is_copied_exactly(browser: SafeBrowser, qtbot: QtBot, text: str, code: str) -> None:
    show_markdown(browser, text)
    (target,) = copy_links(browser)
    with qtbot.assertNotEmitted(browser.link_activated):
        browser.anchorClicked.emit(QUrl(target))
    assert QGuiApplication.clipboard().text() == code
    assert "Copied" in browser.toPlainText()


def test_copy_link_is_no_part_of_what_is_selected(browser: SafeBrowser) -> None:
    show_markdown(browser, "- a\n  ```\n  code\n  ```\n- b")
    browser.selectAll()
    assert browser.createMimeDataFromSelection().text() == "a\ncode\nb"


def test_copy_link_shows_no_target(browser: SafeBrowser, qtbot: QtBot) -> None:
    show_markdown(browser, "> ```\n> code\n> ```")
    with qtbot.waitSignal(browser.link_hovered) as caught:
        browser.highlighted.emit(QUrl(copy_links(browser)[0]))
    assert caught.args == [""]


def test_link_of_the_model_does_not_copy(browser: SafeBrowser) -> None:
    show_markdown(browser, "[Copy code](copy:YQ==)")
    assert copy_links(browser) == []


def test_long_code_that_is_whole_is_folded(block: CodeBlock, qtbot: QtBot) -> None:
    block.set_code(LONG, "python", is_growing=False)
    folded = block.fit(400)
    assert block.is_folded
    foot = block.foot_button
    assert foot is not None
    assert foot.text() == "Show all 60 lines"
    assert block.text_widget.document().blockCount() == 40
    with qtbot.waitSignal(block.resized):
        qtbot.mouseClick(foot, Qt.MouseButton.LeftButton)
    assert block.fit(400) > folded
    assert block.text_widget.toPlainText() == LONG
    assert block.foot_button is None


def test_code_that_grew_is_not_folded(block: CodeBlock) -> None:
    for end in range(0, len(LONG), 50):
        block.set_code(LONG[:end], "python", is_growing=True)
    block.set_code(LONG, "python", is_growing=False)
    assert not block.is_folded
    assert block.text_widget.toPlainText() == LONG


def test_folded_code_is_copied_whole(block: CodeBlock) -> None:
    block.set_code(LONG, "", is_growing=False)
    block.copy()
    assert QGuiApplication.clipboard().text() == LONG


def test_wrapped_code_is_higher_and_not_wider(block: CodeBlock, qtbot: QtBot) -> None:
    block.set_code("word " * 100, "", is_growing=False)
    flat = block.fit(300)
    with qtbot.waitSignal(block.resized):
        qtbot.mouseClick(block.head_buttons[0], Qt.MouseButton.LeftButton)
    wrapped = block.fit(300)
    assert wrapped > flat + 50
    assert block.fit(600) < wrapped
    assert block.text_widget.horizontalScrollBar().maximum() == 0
    qtbot.mouseClick(block.head_buttons[0], Qt.MouseButton.LeftButton)
    assert block.fit(300) == flat


def test_save_hands_out_the_exact_code(block: CodeBlock, qtbot: QtBot) -> None:
    block.set_code(LONG, "Python", is_growing=False)
    with qtbot.waitSignal(block.save_requested) as caught:
        qtbot.mouseClick(block.head_buttons[1], Qt.MouseButton.LeftButton)
    assert caught.args == [LONG, "code.py"]


@pytest.mark.parametrize(
    ("language", "name"),
    [("python", "code.py"), ("rs", "code.rs"), ("", "code.txt"), ("../../x", "code.txt"), ("C++", "code.cpp")],
)
def test_suggested_name_follows_the_language(language: str, name: str) -> None:
    assert suggested_file_name(language) == name


def test_buttons_are_reached_by_keyboard(block: CodeBlock, qtbot: QtBot) -> None:
    block.set_code("x", "py", is_growing=True)
    assert [button.text() for button in block.head_buttons] == ["Copy"]
    block.set_code("x", "py", is_growing=False)
    block.fit(400)
    block.grab()
    wrap, save, copy = block.head_buttons
    assert [button.focusPolicy() == Qt.FocusPolicy.StrongFocus for button in (wrap, save, copy)] == [False, False, True]
    copy.setFocus()
    qtbot.keyClick(copy, Qt.Key.Key_Left)
    assert save.hasFocus()
    qtbot.keyClick(save, Qt.Key.Key_Left)
    assert wrap.hasFocus()
    qtbot.keyClick(wrap, Qt.Key.Key_Right)
    assert save.hasFocus()
    assert all(button.accessibleName() and button.toolTip() for button in (wrap, save, copy))
    assert block.text_widget.accessibleName() == "Code, py"


@pytest.mark.parametrize("sizes", [[1], [3, 1, 7], [5_000]], ids=["letters", "mixed", "whole"])
def test_display_does_not_depend_on_the_pieces(sizes: list[int]) -> None:
    code = "a\x1b[0m\n" + "x" * (MAX_LINE_CHARS + 5) + "\n\u202eb\ud800\n"
    whole = CodeDisplay().feed(code)
    display, shown, position = CodeDisplay(), "", 0
    while position < len(code):
        size = sizes[position % len(sizes)]
        shown += display.feed(code[position : position + size])
        position += size
    assert shown == whole == "a\u241b[0m\n" + "x" * MAX_LINE_CHARS + "\n\ufffdb\ufffd\n"
    assert display.num_cut_lines == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [("x" * 2_000_000, "A line is too long"), ("x\n" * (MAX_LINES + 10), "Only the first 3000 lines")],
    ids=["long line", "many lines"],
)
def test_what_is_not_shown_is_said_and_copied(block: CodeBlock, code: str, said: str) -> None:
    block.set_code("x", "", is_growing=True)
    block.set_code(code, "", is_growing=False)
    foot = block.foot_button
    assert foot is not None
    assert foot.text().startswith(said)
    assert len(block.text_widget.toPlainText()) < 8_000
    block.copy()
    assert QGuiApplication.clipboard().text() == code
