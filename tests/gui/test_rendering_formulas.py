"""Formulas: which are drawn, that they are drawn beside the window's thread, and that their source is never lost."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QImage, QTextDocument
from pytestqt.qtbot import QtBot

from app.desktop.bridge.background import Background
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.formula_outline import Outline, draw_outline
from app.desktop.rendering.renderer import Renderer
from app.desktop.rendering.safe_browser import SafeBrowser
from app.desktop.rendering.tex_subset import is_supported
from app.desktop.theme.theme import Theme
from app.settings import Theme as ThemeMode

IMAGE = QTextDocument.ResourceType.ImageResource.value


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer()


@pytest.fixture
def images(qtbot: QtBot) -> Iterator[FormulaImages]:
    background = Background()
    yield FormulaImages(background)
    background.close()
    background.deleteLater()


@pytest.fixture
def show(theme: Theme, qtbot: QtBot, renderer: Renderer, images: FormulaImages) -> Callable[[str], SafeBrowser]:
    def show(text: str, width: int = 500) -> SafeBrowser:
        browser = SafeBrowser(theme, formulas=images)
        qtbot.addWidget(browser)
        browser.set_html("".join(block.html for block in renderer.blocks(text)))
        browser.resize(width, browser.fit(width))
        qtbot.waitUntil(lambda: not browser.placement.is_pending)
        browser.resize(width, browser.fit(width))
        return browser

    return show


def picture_names(browser: SafeBrowser) -> list[str]:
    names = []
    block = browser.document().begin()
    while block.isValid():
        pieces = block.begin()
        while not pieces.atEnd():
            piece = pieces.fragment().charFormat()
            if piece.isImageFormat():
                names.append(piece.toImageFormat().name())
            pieces += 1
        block = block.next()
    return names


@pytest.mark.parametrize(
    "tex",
    [
        r"x^2",
        r"\frac{-b\pm\sqrt{b^2-4ac}}{2a}",
        r"\left(\frac{a}{b}\right)^2",
        r"\left.\frac{df}{dx}\right|_{x=0}",
        r"\begin{aligned}a&=b\\c&=d\end{aligned}",
        r"\begin{cases}x & \text{if } x\ge 0\\ -x & \text{otherwise}\end{cases}",
        r"\mathbb{R}^n",
        r"\operatorname{Var}(X)",
        r"\mathrm{softmax}(x)",
        r"\bigl(x\bigr)",
        r"π + α² ≤ ∞",
    ],
)
def test_known_tex_is_drawn(tex: str) -> None:
    assert is_supported(tex)
    drawn = draw_outline(tex, is_display=True)
    assert drawn is not None
    assert drawn.width > 0.3


@pytest.mark.parametrize(
    "tex",
    [
        "",
        r"\ce{H2O}",
        r"\foo{x}",
        r"x \tag{1}",
        r"\mathop{\mathbb E}_x",
        r"\mathbb{1}",
        r"\mathbb N",
        r"\operatorname*{arg\,max}_x",
        r"x \bmod n",
        r"\begin{align}a&=b\end{align}",
        r"\begin{array}{c|c}a&b\end{array}",
        r"\begin{cases}a",
        r"a\\b",
        r"a&b",
        r"{a",
        r"a}",
        r"\left(a",
        r"a\right)",
        r"\text{a $b$}",
        r"\text{日本}",
        r"\color{red}x",
        r"\href{http://x.example}{y}",
        r"\unicode{x41}",
        "x^{" * 9 + "x" + "}" * 9,
        r"\left(" * 9 + "x" + r"\right)" * 9,
        "a%b",
        "a\u202eb",
    ],
)
def test_other_tex_is_not_drawn(tex: str) -> None:
    assert not is_supported(tex)


def test_broken_tex_has_no_drawing() -> None:
    assert draw_outline("x_", is_display=False) is None


def test_drawing_ends_in_time() -> None:
    tex = r"\begin{pmatrix}" + r"\hat{\frac{\sqrt{x}}{\left(y\right)}}&" * 45 + r"a\end{pmatrix}"
    assert is_supported(tex)
    assert draw_outline(tex * 2, is_display=True) is None


def test_formula_is_drawn_beside_the_thread_of_the_window(
    theme: Theme, qtbot: QtBot, renderer: Renderer, images: FormulaImages
) -> None:
    threads: list[str] = []
    at_once: list[int] = []
    lock = threading.Lock()

    def draw(tex: str, *, is_display: bool) -> Outline | None:
        at_once.append(lock.acquire(blocking=False))
        threads.append(threading.current_thread().name)
        result = draw_outline(tex, is_display=is_display)
        lock.release()
        return result

    own = FormulaImages(images.parent(), draw)  # type: ignore[arg-type]
    browser = SafeBrowser(theme, formulas=own)
    qtbot.addWidget(browser)
    browser.set_html("".join(block.html for block in renderer.blocks("$a$ and $b$ and $a$ and $c$")))
    browser.fit(300)
    assert browser.placement.is_pending
    with qtbot.waitSignal(browser.refilled):
        pass
    qtbot.waitUntil(lambda: not browser.placement.is_pending)
    assert threads == ["window-background"] * 3
    assert all(at_once)


def test_second_document_has_its_formulas_at_once(
    show: Callable[[str], SafeBrowser], theme: Theme, qtbot: QtBot, images: FormulaImages
) -> None:
    first = show("$x$")
    second = SafeBrowser(theme, formulas=images)
    qtbot.addWidget(second)
    second.set_html(first.html)
    assert not second.placement.is_pending


def test_copied_selection_has_the_source(show: Callable[[str], SafeBrowser]) -> None:
    text = "𝒳 so $x^2$ and \\(y\\), $$z$$ \ufffc end $\\ce{x}$"
    browser = show(text)
    browser.selectAll()
    assert browser.createMimeDataFromSelection().text() == text
    assert browser.accessibleDescription() == text


def test_copied_block_formula_has_its_lines(show: Callable[[str], SafeBrowser]) -> None:
    browser = show("$$\nx\n= y\n$$")
    browser.selectAll()
    assert browser.createMimeDataFromSelection().text() == "$$\nx\n= y\n$$"


def test_without_images_the_source_is_shown(theme: Theme, qtbot: QtBot, renderer: Renderer) -> None:
    browser = SafeBrowser(theme)
    qtbot.addWidget(browser)
    browser.set_html(renderer.blocks("so $x^2$ is")[0].html)
    assert browser.toPlainText() == "so $x^2$ is"


def test_undrawable_formula_becomes_its_source(show: Callable[[str], SafeBrowser]) -> None:
    assert show("so $x_$ is").toPlainText() == "so $x_$ is"


def test_formula_wider_than_the_column_shrinks_or_becomes_its_source(show: Callable[[str], SafeBrowser]) -> None:
    text = "$" + "x+" * 12 + "x$"
    browser = show(text)
    (name,) = picture_names(browser)
    natural = browser.placement.width
    browser.fit(int(natural * 0.8))
    (smaller,) = picture_names(browser)
    assert smaller != name
    assert browser.document().size().width() <= natural * 0.8
    browser.fit(int(natural * 0.4))
    assert browser.toPlainText() == text
    browser.fit(500)
    assert picture_names(browser) == [name]


def test_formula_follows_look_and_zoom(show: Callable[[str], SafeBrowser], theme: Theme) -> None:
    browser = show("$x$")
    light = picture_names(browser)
    theme.set_mode(ThemeMode.DARK)
    browser.restyle()
    dark = picture_names(browser)
    theme.zoom_in()
    browser.restyle()
    assert len({*light, *dark, *picture_names(browser)}) == 3
    image = browser.document().resource(IMAGE, QUrl(picture_names(browser)[0]))
    assert isinstance(image, QImage)
    assert any(image.pixelColor(x, y).alpha() for x in range(image.width()) for y in range(image.height()))


def test_base_line_is_that_of_the_text(show: Callable[[str], SafeBrowser], theme: Theme) -> None:
    def lowest(browser: SafeBrowser) -> int:
        image = browser.grab().toImage()
        paper = theme.colour("text").lightness()
        return max(
            y
            for y in range(image.height())
            for x in range(image.width())
            if image.pixelColor(x, y).alpha() and abs(image.pixelColor(x, y).lightness() - paper) < 90
        )

    assert abs(lowest(show("x")) - lowest(show("$x$"))) <= 1
    assert abs(lowest(show("n")) - lowest(show("$\\frac{}{}n$"))) < 12


def test_selected_formula_keeps_its_contrast(show: Callable[[str], SafeBrowser], theme: Theme) -> None:
    browser = show("$\\sum\\sum\\sum$")
    browser.selectAll()
    image = browser.grab().toImage()
    darkest = min(image.pixelColor(x, y).lightness() for x in range(image.width()) for y in range(image.height()))
    assert darkest <= theme.colour("text").lightness() + 12


@pytest.mark.parametrize("name", ["math:", "math:i", "math:i%%%", "math:i,1,2", "math:iYQ==,x,y,1,1,z", "math:q"])
def test_odd_names_are_answered_with_nothing_visible(show: Callable[[str], SafeBrowser], name: str) -> None:
    answer = show("x").loadResource(IMAGE, QUrl(name))
    assert (answer.width(), answer.pixelColor(0, 0).alpha()) == (1, 0)


def test_library_is_loaded_by_the_first_formula_and_brings_nothing_heavy() -> None:
    code = """
import sys
from app.desktop.rendering import formula_images, renderer, safe_browser
assert "ziamath" not in sys.modules
from app.desktop.rendering.formula_outline import draw_outline
assert draw_outline("x", is_display=False)
heavy = {"numpy", "scipy", "matplotlib", "PIL", "lxml"}.intersection(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_open_formula_is_source_until_it_closes(renderer: Renderer) -> None:
    for text in ("so $x^2", "so \\(x^2", "$$\nx^2\n", "\\[ x^2"):
        html = "".join(block.html for block in renderer.blocks(text, is_open=True))
        assert "x^2" in html
        assert "<img" not in html
