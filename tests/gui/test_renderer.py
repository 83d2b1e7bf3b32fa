"""What untrusted Markdown becomes: nothing is fetched, nothing is lost, prices stay prices."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt, QUrl
from PySide6.QtGui import QImage, QMouseEvent, QTextCursor, QTextDocument, QTextFormat
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.desktop.rendering.links import is_allowed
from app.desktop.rendering.plain import has_visible_text, isolated, tool_tip_text
from app.desktop.rendering.renderer import Renderer
from app.desktop.rendering.reply_stream import MAX_BLOCK_CHARS
from app.desktop.rendering.safe_browser import SafeBrowser, selected_text
from app.desktop.theme.theme import Theme


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer()


@pytest.fixture
def browser(theme: Theme, qtbot: QtBot) -> SafeBrowser:
    browser = SafeBrowser(theme)
    qtbot.addWidget(browser)
    return browser


@pytest.fixture
def server() -> Iterator[tuple[int, list[str]]]:
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    httpd = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield httpd.server_port, seen
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def html_of(renderer: Renderer, text: str) -> str:
    return "".join(block.html for block in renderer.blocks(text))


def plain_of(renderer: Renderer, text: str) -> str:
    document = QTextDocument()
    document.setHtml(html_of(renderer, text))
    cursor = QTextCursor(document)
    cursor.select(QTextCursor.SelectionType.Document)
    return selected_text(cursor)


HOSTILE = [
    "![a](file:///etc/hostname)",
    "![a](http://127.0.0.1:{port}/x.png)",
    "<img src='http://127.0.0.1:{port}/y.png'>",
    "<img src=file:///etc/hostname>",
    "<script>alert(1)</script>",
    "<style>body{{background:url(http://127.0.0.1:{port}/z)}}</style>",
    "<a href='javascript:x()'>a</a>",
    "[x](file:///etc/passwd)",
    "[x](smb://h/s)",
    "[x](javascript:alert(1))",
    "![r][ref]\n\n[ref]: http://127.0.0.1:{port}/ref.png",
    "![a](data:image/png;base64,AAAA)",
    "| a |\n|---|\n| ![a](file:///etc/hostname) |",
    "[![a](http://127.0.0.1:{port}/in.png)](http://127.0.0.1:{port}/page)",
]


def test_no_reply_reads_a_file_or_opens_a_connection(
    renderer: Renderer,
    theme: Theme,
    qtbot: QtBot,
    server: tuple[int, list[str]],
) -> None:
    port, seen = server
    asked: list[str] = []

    class Recording(SafeBrowser):
        def loadResource(self, kind: int, name: QUrl | str) -> object:
            asked.append(str(name))
            return super().loadResource(kind, name)

    browser = Recording(theme)
    qtbot.addWidget(browser)
    browser.show()
    for text in HOSTILE:
        browser.set_html(html_of(renderer, text.format(port=port)))
        browser.fit(400)
        browser.grab()
        QApplication.processEvents()
    assert asked == []
    assert seen == []


@pytest.mark.parametrize(
    "source", ["file:///etc/hostname", "/etc/hostname", "FILE:///etc/hostname", "http://x.example/a"]
)
def test_every_resource_is_one_transparent_pixel(browser: SafeBrowser, source: str) -> None:
    for kind in (QTextDocument.ResourceType.ImageResource, QTextDocument.ResourceType.HtmlResource):
        answer = browser.loadResource(kind.value, QUrl(source))
        assert isinstance(answer, QImage)
        assert not answer.isNull()
        assert answer.pixelColor(0, 0).alpha() == 0
    browser.set_html(f"<img src='{source}'><table background='{source}'><tr><td>x</td></tr></table>")
    assert browser.document().resource(QTextDocument.ResourceType.ImageResource.value, QUrl(source)).width() == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_reply_keeps_its_words(renderer: Renderer, text: str) -> None:
    html = html_of(renderer, text.format(port=9))
    assert "<img" not in html.replace('<img src="math:', "")
    assert "<script" not in html
    assert "<style" not in html
    for target in ("javascript:", "file:", "smb:", "data:"):
        assert f'href="{target}' not in html


def test_refused_link_shows_its_target(renderer: Renderer) -> None:
    assert plain_of(renderer, "[x](file:///etc/passwd)") == "x (file:///etc/passwd)"


def test_image_becomes_a_link(renderer: Renderer) -> None:
    assert '<a href="https://x.example/a.png">alt</a>' in html_of(renderer, "![alt](https://x.example/a.png)")


def test_huge_data_image_is_cut(renderer: Renderer) -> None:
    assert plain_of(renderer, f"![a](data:image/png;base64,{'A' * 4_000})").startswith("a (data:image/png")
    for size in (9_000, 5_000_000):
        text = plain_of(renderer, f"![a](data:image/png;base64,{'A' * size})")
        assert len(text) <= MAX_BLOCK_CHARS + 2


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("http://x.example/a", True),
        ("https://x.example", True),
        ("mailto:a@x.example", True),
        ("HTTPS://x.example", True),
        ("javascript:alert(1)", False),
        ("java\nscript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("smb://h/s", False),
        ("ms-settings:display", False),
        ("//x.example/a", False),
        ("page.html", False),
        ("https://", False),
        ("https://[x", False),
        ("https://x.example/\u202eevil", False),
        ("", False),
    ],
)
def test_only_three_schemes_are_links(target: str, expected: bool) -> None:
    assert is_allowed(target) is expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$25 is more than $24", "$25 is more than $24"),
        ("from $2bn to $4bn", "from $2bn to $4bn"),
        ("US$5, $AAPL, $HOME", "US$5, $AAPL, $HOME"),
        ("**$1.50** and $2", "$1.50 and $2"),
        ("$PATH:$HOME/bin", "$PATH:$HOME/bin"),
        ('"$A"/"$B"', '"$A"/"$B"'),
        ("$a-${b} and $(c),$(d)", "$a-${b} and $(c),$(d)"),
        ("$5-$10, US$5/US$6", "$5-$10, US$5/US$6"),
        (r"\(x^2\)", r"\(x^2\)"),
        (r"\(a_1 * b_2 * c\)", r"\(a_1 * b_2 * c\)"),
        ("$$x^2$$", "$$x^2$$"),
        ("$x_i * y_i$ and $z_*$", "$x_i * y_i$ and $z_*$"),
        (r"\[y\]", r"\[y\]"),
        (r"a lone \( stays", r"a lone \( stays"),
        (r"costs \$5", "costs $5"),
        ("`$a$` and `\\(b\\)`", "$a$ and \\(b\\)"),
        ("\\[\nx\n= y \\\\\n- z\n\\]", "\\[\nx\n= y \\\\\n- z\n\\]"),
    ],
)
def test_prices_and_formulas_are_copied_as_typed(renderer: Renderer, text: str, shown: str) -> None:
    assert plain_of(renderer, text) == shown


def test_deep_nesting_is_survived(renderer: Renderer) -> None:
    for text in (">" * 3000 + " x", "- " * 2000 + "x", "[" * 3000, "*" * 3000 + "a", "`" * 3000, "\\(" * 2000):
        # Every character is in some block; a line break at the end may be counted that was not there.
        assert sum(block.size for block in renderer.blocks(text)) - len(text) in (0, 1)


@pytest.mark.parametrize(
    ("text", "directions"),
    [
        ("مرحبا hello 123.", [Qt.LayoutDirection.RightToLeft]),
        ("`code` مرحبا", [Qt.LayoutDirection.RightToLeft]),
        ("hello مرحبا", [Qt.LayoutDirection.LeftToRight]),
        ("- שלום\n- hello", [Qt.LayoutDirection.RightToLeft, Qt.LayoutDirection.LeftToRight]),
        ("# שלום", [Qt.LayoutDirection.RightToLeft]),
    ],
)
def test_direction_follows_the_first_strong_letter(
    renderer: Renderer, browser: SafeBrowser, text: str, directions: list[Qt.LayoutDirection]
) -> None:
    browser.set_html(html_of(renderer, text))
    block = browser.document().begin()
    found = []
    while block.isValid():
        found.append(block.blockFormat().layoutDirection())
        block = block.next()
    assert found == directions


def test_fence_inside_a_list_is_left_to_right(renderer: Renderer, browser: SafeBrowser) -> None:
    browser.set_html(html_of(renderer, "- שלום\n  ```\n  code\n  ```"))
    block = browser.document().findBlockByNumber(1)
    assert block.text() == "code"
    assert block.blockFormat().layoutDirection() == Qt.LayoutDirection.LeftToRight


def test_direction_override_stays_in_its_line() -> None:
    assert isolated("a\u202ebc") == "\u2068a\u202ebc\u2069"
    assert isolated("plain\nname") == "plain name"


def test_tool_tip_shows_markup_literally() -> None:
    assert tool_tip_text("<img src=x>.gguf") == "<qt>&lt;img src=x&gt;.gguf</qt>"
    assert tool_tip_text("plain.gguf") == "plain.gguf"


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n\n", "\u200b", "\u200b\u2060\ufeff", "\u00a0\u3000", "\u202e", "\u2800"]
)
def test_blank_text_is_blank(text: str) -> None:
    assert not has_visible_text(text)


@pytest.mark.parametrize("text", ["a", "\u200ba", "。", "🙂", "-"])
def test_visible_text_is_seen(text: str) -> None:
    assert has_visible_text(text)


def test_selection_survives_growth(renderer: Renderer, browser: SafeBrowser) -> None:
    browser.set_html(html_of(renderer, "one two"))
    cursor = browser.textCursor()
    cursor.setPosition(0)
    cursor.setPosition(3, cursor.MoveMode.KeepAnchor)
    browser.setTextCursor(cursor)
    browser.set_html(html_of(renderer, "one two three"))
    assert browser.textCursor().selectedText() == "one"


def test_copied_selection_keeps_no_break_blanks(browser: SafeBrowser) -> None:
    browser.set_html("<p>a\u00a0b</p><p>c</p>")
    browser.selectAll()
    data = browser.createMimeDataFromSelection()
    assert data.text() == "a\u00a0b\nc"
    assert not data.hasHtml()


def test_quotes_have_bars(renderer: Renderer, browser: SafeBrowser, theme: Theme) -> None:
    browser.set_html(html_of(renderer, "> quoted"))
    assert browser.document().firstBlock().blockFormat().leftMargin() == theme.px(16)
    assert browser.document().firstBlock().blockFormat().intProperty(QTextFormat.Property.BlockQuoteLevel) == 1
    browser.resize(200, browser.fit(200))
    image = browser.grab().toImage()
    ratio = image.devicePixelRatio()
    assert image.pixelColor(int(3 * ratio), int(8 * ratio)) == theme.colour("control_border")


def test_pointer_leaving_a_link_clears_the_target(browser: SafeBrowser, qtbot: QtBot) -> None:
    browser.set_html("<p>no link</p>")
    point = QPointF(2, 2)
    none = Qt.MouseButton.NoButton
    event = QMouseEvent(QEvent.Type.MouseMove, point, point, none, none, Qt.KeyboardModifier.NoModifier)
    with qtbot.waitSignal(browser.link_hovered) as caught:
        browser.mouseMoveEvent(event)
    assert caught.args == [""]


def test_hosts_file_is_not_opened_by_stock_calls(browser: SafeBrowser, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    image = QImage(7, 7, QImage.Format.Format_RGB32)
    image.save(str(secret))
    browser.set_html(
        f"<img src='{secret}'><img src='file://{secret}'><p style=\"background-image:url({secret})\">x</p>"
    )
    assert browser.document().resource(QTextDocument.ResourceType.ImageResource.value, QUrl(str(secret))).width() == 1
    assert browser.document().size().width() < 100


def test_confirmation_shows_the_real_target(desk: Any) -> None:
    desk.parts.actions.ask_about_link("https://x.example/path?q=1")
    (notice,) = desk.window.notices.notices
    assert notice.hint == "https://x.example/path?q=1"
    assert desk.opened == []
    desk.window.notices.button("link", "Open").click()
    assert desk.opened == ["https://x.example/path?q=1"]
    desk.parts.actions.ask_about_link("file:///etc/passwd")
    assert desk.window.notices.notices == []


@pytest.mark.parametrize(
    ("text", "num_formulas"),
    [
        ("$PATH:$HOME/bin", 0),
        ('"$A"/"$B"', 0),
        ("$a-${b} and $(c),$(d)", 0),
        ("$x=$y", 0),
        ("costs $5 ($6 in $CAD)", 0),
        ("$n$th and $x$-axis", 2),
        ("$f(x)$, ($y$)", 2),
        ("$a$ $b$", 2),
        ("$x=$", 1),
    ],
)
def test_variables_are_no_formulas_and_formulas_beside_letters_are(
    renderer: Renderer, text: str, num_formulas: int
) -> None:
    assert html_of(renderer, text).count("math:") == num_formulas
