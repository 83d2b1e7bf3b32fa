"""Markdown rules for formulas: what a formula is, so that its source reaches the screen untouched.

Delimiters are backslash-parenthesis, backslash-bracket, `$$` and `$`. A single `$` opens only before a non-blank and
closes only after a non-blank and not before a digit, so prices stay prices; nor between a sign that no formula ends
with and a name, so variables of a shell stay what they are.
"""

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

MAX_FORMULA_CHARS = 2_000
OPEN_END = "open_end"  # key in `env`: text may still be appended, so an unclosed formula holds what follows it

_CLOSERS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_NOT_LAST = ":/=,;.|<>+-&\"'([{"
_BACKSLASH_PAIRS = ("\\(", "\\)", "\\[", "\\]")


def add_formula_rules(markdown: MarkdownIt) -> None:
    """Register both rules with a parser."""
    markdown.inline.ruler.before("escape", "formula", _inline_formula)
    markdown.block.ruler.before(
        "fence", "formula_block", _formula_block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )


def _inline_formula(state: StateInline, silent: bool) -> bool:
    opener = state.src[state.pos : state.pos + 2]
    if not opener.startswith(("\\", "$")):
        return False
    end = _formula_end(state.src, state.pos, state.posMax, opener)
    kind = "formula"
    if end is None:
        if opener not in _BACKSLASH_PAIRS:
            return False
        kind, end = "text", state.pos + 2
    if not silent:
        token = state.push(kind, "", 0)
        token.content = state.src[state.pos : end]
    state.pos = end
    return True


def _formula_end(source: str, start: int, limit: int, opener: str) -> int | None:
    limit = min(limit, start + MAX_FORMULA_CHARS)
    closer = _CLOSERS.get(opener)
    if closer is not None:
        found = source.find(closer, start + 2, limit)
        return None if found <= start + 1 else found + 2
    return _dollar_end(source, start, limit) if opener.startswith("$") else None


def _dollar_end(source: str, start: int, limit: int) -> int | None:
    if start + 1 >= limit or source[start + 1].isspace():
        return None
    found = source.find("$", start + 1, limit)
    while found != -1:
        if source[found - 1] != "\\":
            before, after = source[found - 1], source[found + 1 : found + 2]
            is_next_name = before in _NOT_LAST and (after.isalpha() or after in tuple("_{("))
            return None if before.isspace() or after.isdigit() or is_next_name else found + 1
        found = source.find("$", found + 1, limit)
    return None


def _formula_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    if state.level or state.blkIndent or state.is_code_block(start_line):
        return False
    start = state.bMarks[start_line] + state.tShift[start_line]
    opener = state.src[start : start + 2]
    if opener not in ("\\[", "$$"):
        return False
    line = _closing_line(state, start, start_line, end_line, _CLOSERS[opener])
    if line is None:
        return False
    if not silent:
        is_open = line == end_line
        state.line = min(line + 1, end_line)
        token = state.push("formula_block", "", 0)
        token.content = state.getLines(start_line, state.line, 0, False)
        token.map = [start_line, state.line]
        token.meta = {"is_open": is_open}
    return True


def _closing_line(state: StateBlock, start: int, start_line: int, end_line: int, closer: str) -> int | None:
    """Return the line that closes the formula, `end_line` while it may still be closed, None if it is no formula."""
    found = state.src.find(closer, start + 2, start + MAX_FORMULA_CHARS)
    if found == -1:
        may_close = bool(state.env.get(OPEN_END)) and len(state.src) - start < MAX_FORMULA_CHARS
        return end_line if may_close else None
    line = start_line
    while line < end_line and state.eMarks[line] < found + 2:
        line += 1
    if line == end_line or state.src[found + 2 : state.eMarks[line]].strip():
        return None
    return line
