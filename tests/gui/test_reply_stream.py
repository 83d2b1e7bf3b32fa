"""A reply that streams ends as the same blocks as the whole text, whatever the pieces."""

import random

import pytest

from app.desktop.rendering import reply_stream
from app.desktop.rendering.blocks import Block, BlockKind, normalized
from app.desktop.rendering.renderer import Renderer
from app.desktop.rendering.reply_stream import ReplyStream

PIECES = [
    "# Head\n",
    "Setext\n===\n",
    "para *a* **b**\nline\n\n",
    "- a\n- b\n\n  c\n",
    "1. a\n\n2. b\n",
    "```py\nx = 1\n\ny\n```\n",
    "~~~\nopen\n",
    "> q\nlazy\n",
    "> - a\n> b\n\n",
    "| a | b |\n|---|--:|\n| 1 | 2 |\n",
    "\\[\nx\n= y\n\\]\n",
    "$$\na\n\nb\n$$\n",
    "$$ open\n",
    "text:\n\\[ a\n",
    "    code\n\n    more\n",
    "---\n",
    "[l][r] and [r]\n\n",
    "[r]: http://x.example 'ti\ntle'\n",
    "a  \nb\n",
    "\r\n",
    "\n\n",
    "$25 is $24\n",
    "- x\n  ```js\n  a\n  ```\n",
    "   ```\n   ind\n  x\n   ```\n",
    "````\n```\n````\n",
    "1) one\n2) two\n",
    "half **bo",
    "[a](ht",
    "``",
    "|a|",
    "\\(x\\)",
    "مرحبا `c`\n",
    "\t- tab\n",
    "  - i\n    - j\n",
    "2",
    "2. z\n",
    "```a`b\n",
    "&amp; <b>x</b>\n",
    "x\\\r",
    "$x^2$ and $\\ce{x}$ ",
    "$$x$$\n",
    "\\[ \\frac{a}{b} \\]\n",
    "> ```\n> q\n> ```\n",
    "1. x\n\n   ~~~\n   y\n   ~~~\n",
    "~~~~ py\n~~~\nz\n~~~~\n",
    "| a |\n|--",
    "-|\n| 1 |\n",
    "[l]: <http://late.example>\n\n",
    "a\r\nb\r\n\r\n",
    "~~gone~~ __b__",
    "\0\x1b[31mred\u202e",
    "![i](http://x.example/i.png)\n",
    "###### six\n",
    "***\n",
]

UNFINISHED = [
    "text\n\n```python\nprint(1)\n\nprint(2)\n```\nafter\n",
    "~~~\na\n~~~\nb",
    "before **bold** after",
    "see [a](http://x.example/y) now",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\nend",
    "> quote\n> - one\n> - two\n\nend",
    "```\nan odd fence\n",
    "1. a\n   ```\n   b\n   ```\n2. c\n",
]


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer()


def streamed(renderer: Renderer, pieces: list[str]) -> list[Block]:
    stream = ReplyStream(renderer)
    blocks: list[Block] = []
    for piece in pieces:
        blocks += stream.append(piece).settled
    growth = stream.finish_tail()
    return list(stream.finish()) if growth is None else blocks + list(growth.settled)


def cut(text: str, rng: random.Random, longest: int) -> list[str]:
    pieces = []
    while text:
        size = rng.randint(1, longest)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@pytest.mark.parametrize("longest", [1, 3, 12, 80])
def test_stream_equals_whole_for_random_pieces(renderer: Renderer, longest: int) -> None:
    for seed in range(120):
        rng = random.Random(seed * 100 + longest)
        text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 9)))
        assert streamed(renderer, cut(text, rng, longest)) == renderer.blocks(normalized(text)), repr(text)


@pytest.mark.parametrize("longest", [1, 7, 60, 1_000])
def test_stream_equals_whole_when_blocks_are_cut(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setattr(reply_stream, "MAX_BLOCK_CHARS", 90)
    monkeypatch.setattr(reply_stream, "MAX_BLOCK_LINES", 5)
    # A definition whose title goes over the cut is text in one way and a definition in the other.
    whole_pieces = [piece for piece in PIECES if "ti\ntle" not in piece]
    pieces = [
        *whole_pieces,
        "word " * 30,
        "x" * 200 + "\n",
        "- item\n" * 12,
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 14,
    ]
    for seed in range(150):
        rng = random.Random(seed * 100 + longest)
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 9)))
        assert streamed(renderer, cut(text, rng, longest)) == renderer.blocks(normalized(text)), repr(text)


@pytest.mark.parametrize("text", UNFINISHED)
def test_stream_equals_whole_when_it_stops_anywhere(renderer: Renderer, text: str) -> None:
    for end in range(1, len(text) + 1):
        assert streamed(renderer, list(text[:end])) == renderer.blocks(normalized(text[:end]))


@pytest.mark.parametrize("text", UNFINISHED)
def test_every_letter_is_shown_at_each_step(renderer: Renderer, text: str) -> None:
    stream = ReplyStream(renderer)
    settled: list[Block] = []
    for end, character in enumerate(text, 1):
        growth = stream.append(character)
        settled += growth.settled
        shown = "".join(block.html + block.code + block.language for block in (*settled, *growth.tail))
        hidden = "python" if "```python" in text[:end] else ""
        for word in text[:end].replace("```python", "").split():
            letters = "".join(c for c in word if c.isalpha())
            assert not word.isalpha() or letters in shown + hidden, (text[:end], shown)


def test_open_fence_is_code_at_once(renderer: Renderer) -> None:
    growth = ReplyStream(renderer).append("```python\nx = 1\n")
    assert [(block.kind, block.code, block.language) for block in growth.tail] == [(BlockKind.CODE, "x = 1", "python")]


def test_settled_blocks_are_parsed_once(renderer: Renderer) -> None:
    sizes: list[int] = []

    class Counting:
        def blocks(self, source: str, env: object = None, *, is_open: bool = False) -> list[Block]:
            sizes.append(len(source))
            return renderer.blocks(source, env, is_open=is_open)  # type: ignore[arg-type]

        def last_block_start(self, source: str, env: object) -> int:
            sizes.append(len(source))
            return renderer.last_block_start(source, env)  # type: ignore[arg-type]

    stream = ReplyStream(Counting())
    for number in range(200):
        stream.append(f"Paragraph number {number}.\n\n")
    assert max(sizes) < 200


def test_growing_fence_is_not_parsed_again(renderer: Renderer) -> None:
    stream = ReplyStream(renderer)
    stream.append("```\n")
    calls = []
    original = renderer.blocks
    renderer.blocks = lambda *args, **kwargs: calls.append(1) or original(*args, **kwargs)  # type: ignore
    try:
        for number in range(500):
            stream.append(f"line {number}\n")
    finally:
        del renderer.blocks
    assert calls == []
