"""Untrusted text in places that Qt would interpret: tool tips, menus, titles, characters that are no letters."""

import html
import re

from engine import is_blank

_ISOLATES, _END_OF_ISOLATE = "\u2066\u2067\u2068", "\u2069"
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202d\u202e" + _ISOLATES + _END_OF_ISOLATE)

BREAK = "\u200b"
_LONG_WORD = re.compile(r"\S{20,}")
_WORD_PART = re.compile(r"[^/\\._\-]{0,15}[/\\._\-]|.{1,15}")

# Control characters but tab and line break, halves of characters, and the marks that QTextDocument uses itself.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def visible(text: str) -> str:
    """Return `text` with a sign in the place of each character that could not be shown or would be obeyed."""
    return _UNSHOWABLE.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def has_visible_text(text: str) -> bool:
    """Tell whether a person would see anything of `text`; zero-width characters are not seen."""
    return not is_blank(text)


def isolated(text: str) -> str:
    """Return one line of `text` whose direction controls cannot turn what stands beside it."""
    line = " ".join(text.split())
    if not _BIDI_CONTROLS.intersection(line):
        return line
    depth, kept = 0, []
    for character in line:
        if character == _END_OF_ISOLATE and not depth:
            continue  # it would end the isolate around the line
        depth += (character in _ISOLATES) - (character == _END_OF_ISOLATE)
        kept.append(character)
    return f"\u2068{''.join(kept)}{_END_OF_ISOLATE * (depth + 1)}"


def breakable(text: str) -> str:
    """Return `text` so that a narrow label can break its long words, as paths are: at their signs, or anywhere."""
    return _LONG_WORD.sub(lambda word: BREAK.join(_WORD_PART.findall(word[0])), text)


def tool_tip_text(text: str) -> str:
    """Return `text` so that a tool tip shows it literally."""
    return f"<qt>{html.escape(text)}</qt>" if "<" in text else text


def action_text(text: str) -> str:
    """Return `text` for a menu entry or button, where `&` would mark a shortcut."""
    return isolated(text).replace("&", "&&")


def shortened(text: str, length: int) -> str:
    """Return at most `length` characters of `text`, the cut marked."""
    return text if len(text) <= length else text[: length - 1] + "…"
