"""Renderer: untrusted Markdown to blocks of safe HTML and code; knows no widgets and no colours.

All text of a model passes here. HTML in the source is text, images become links, a link is kept only if its target is
allowed, and everything else is shown with its target as text.
"""

import html
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from app.desktop.rendering.blocks import Block, BlockKind, Env
from app.desktop.rendering.code_anchors import copy_target
from app.desktop.rendering.direction import following_direction, inline_direction
from app.desktop.rendering.formula_names import formula_name, tex_of
from app.desktop.rendering.formulas import OPEN_END, add_formula_rules
from app.desktop.rendering.links import is_allowed
from app.desktop.rendering.plain import shortened, visible
from app.desktop.rendering.reply_stream import whole_blocks
from app.desktop.rendering.tex_subset import is_supported

_MAX_SHOWN_TARGET = 200
_NUM_FORMULAS = "num_formulas"  # key in `env`: formulas of the block so far
_MAX_FORMULAS = 150  # more in one block would take long to lay out
_DISPLAY_OPENERS = ("\\[", "$$")


class Renderer:
    """Parses Markdown; one instance serves all messages."""

    def __init__(self) -> None:
        options = {"html": False, "breaks": True, "linkify": False, "typographer": False}
        self._markdown = MarkdownIt("commonmark", options, renderer_cls=_ReplyHTML).enable(["table", "strikethrough"])
        # All targets parse; the renderer decides which become links, so that a refused one is still seen.
        self._markdown.validateLink = lambda url: True  # type: ignore[method-assign]
        add_formula_rules(self._markdown)

    def blocks(self, source: str, env: Env | None = None, *, is_open: bool = False) -> list[Block]:
        """Return the blocks of normalized `source`.

        Args:
            env: link definitions; those of `source` are added. Without it `source` is a whole reply of any length.
            is_open: text may still follow.
        """
        if env is None:
            return whole_blocks(self, source)
        env[OPEN_END] = is_open
        tokens = self._markdown.parse(source, env)
        lines = source.split("\n")
        return [self._block(group, lines, env) for group in _top_level(tokens)]

    def last_block_start(self, source: str, env: Env) -> int:
        """Return where the last top-level block begins that may still change, counted in characters of `source`."""
        scratch: Env = {"references": dict(env.get("references", {})), OPEN_END: True}
        tokens: list[Token] = []
        self._markdown.block.parse(source, self._markdown, scratch, tokens)
        starts = [token for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
        # An unclosed formula may turn out to be none: then its lines belong to the block before it.
        if starts and starts[-1].meta.get("is_open"):
            starts.pop()
        if len(starts) < 2 or starts[-1].map is None:
            return 0
        return sum(len(line) + 1 for line in source.split("\n")[: starts[-1].map[0]])

    def _block(self, group: Sequence[Token], lines: Sequence[str], env: Env) -> Block:
        first = group[0]
        begin, end = first.map or (0, 0)
        size = sum(len(line) + 1 for line in lines[begin:end])
        if first.type in ("fence", "code_block"):
            language = first.info.split(maxsplit=1)[0] if first.info.strip() else ""
            return Block(kind=BlockKind.CODE, size=size, code=first.content.removesuffix("\n"), language=language)
        kind = BlockKind.TABLE if first.type == "table_open" else BlockKind.TEXT
        env[_NUM_FORMULAS] = 0
        rendered = self._markdown.renderer.render(group, self._markdown.options, env)
        # QTextDocument would turn a line break between two tags into a blank at the end of a line.
        return Block(kind=kind, size=size, html=visible(rendered).replace(">\n<", "><").removesuffix("\n"))


def _top_level(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    group: list[Token] = []
    depth = 0
    for token in tokens:
        group.append(token)
        depth += token.nesting
        if depth == 0:
            yield group
            group = []


class _ReplyHTML(RendererHTML):
    """HTML of the subset that QTextDocument lays out well; each method renders the token type it is named after."""

    def paragraph_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        if tokens[idx].hidden:
            return ""
        return f"<p{_direction(inline_direction(tokens[idx + 1]))}>"

    def paragraph_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "" if tokens[idx].hidden else "</p>"

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        name = f"h{min(int(tokens[idx].tag[1]), 3)}"
        return f'<p class="{name}"{_direction(inline_direction(tokens[idx + 1]))}>'

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</p>"

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<li{_direction(following_direction(tokens, idx))}>"

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<table border="1" cellspacing="0" cellpadding="7">'

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<th{_cell_attributes(tokens, idx)}>"

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<td{_cell_attributes(tokens, idx)}>"

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        code = tokens[idx].content.removesuffix("\n")
        copy = f'<p dir="ltr"><a href="{copy_target(code)}"></a></p>'
        return f'<pre dir="ltr">{html.escape(code)}</pre>{copy}'

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return self.fence(tokens, idx, options, env)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<code>{html.escape(tokens[idx].content)}</code>"

    def formula(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        source = tokens[idx].content
        env[_NUM_FORMULAS] += 1
        if env[_NUM_FORMULAS] > _MAX_FORMULAS or not is_supported(tex_of(source)):
            return f"<code>{html.escape(source)}</code>"
        return f'<img src="{formula_name(source, is_display=source.startswith(_DISPLAY_OPENERS))}">'

    def formula_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        source = token.content.strip()
        if not token.meta["is_open"] and is_supported(tex_of(source)):
            return f'<p align="center" dir="ltr"><img src="{formula_name(source, is_display=True)}"></p>'
        lines = html.escape(token.content).split("\n")
        return f'<p class="source" dir="ltr">{"<br>".join(lines)}</p>'

    def renderInlineAsText(self, tokens: Sequence[Token] | None, options: OptionsDict, env: EnvType) -> str:
        """Return the words of an image's label; a formula or code in it is its source."""
        words = ""
        for token in tokens or ():
            if token.type == "image":
                words += self.renderInlineAsText(token.children, options, env)
            else:
                words += " " if token.type == "softbreak" else token.content
        return words

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        target = str(token.attrGet("src") or "")
        label = html.escape(self.renderInlineAsText(token.children or (), options, env))
        if not is_allowed(target):
            return label + _target_as_text(target)
        return f'<a href="{html.escape(target)}">{label or html.escape(shortened(target, _MAX_SHOWN_TARGET))}</a>'

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        target = str(tokens[idx].attrGet("href") or "")
        return f'<a href="{html.escape(target)}">' if is_allowed(target) else ""

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        opening = next(t for t in reversed(tokens[:idx]) if t.type == "link_open" and t.level == tokens[idx].level)
        target = str(opening.attrGet("href") or "")
        if is_allowed(target):
            return "</a>"
        return "" if opening.info == "auto" else _target_as_text(target)


def _direction(direction: str | None) -> str:
    return f' dir="{direction}"' if direction else ""


def _cell_attributes(tokens: Sequence[Token], idx: int) -> str:
    style = str(tokens[idx].attrGet("style") or "")
    align = style.partition("text-align:")[2]
    sides = {"left": "left", "right": "right", "center": "center"}
    direction = inline_direction(tokens[idx + 1])
    default = "right" if direction == "rtl" else "left"
    return f' align="{sides.get(align, default)}"{_direction(direction)}'


def _target_as_text(target: str) -> str:
    return f" ({html.escape(shortened(target, _MAX_SHOWN_TARGET))})"
