"""What text may hold before it crosses a border: always valid Unicode."""

import unicodedata

# Letters, a sign and marks that leave no ink: fillers, the empty Braille cell, joiners and variation selectors.
_BLANK_LETTERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
_TEXT_NAMES = ("text", "input_text", "refusal")
_TEXT_KINDS = (None, "text", "input_text", "output_text", "refusal")


def clean_text(text: str) -> str:
    """Return `text` with surrogate pairs joined and unpaired surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def is_blank(text: str) -> bool:
    """Return whether nothing of `text` can be seen: blanks, line breaks, zero-width characters."""
    return all(c.isspace() or unicodedata.category(c) in ("Cc", "Cf") or c in _BLANK_LETTERS for c in text)


def text_of_content(content: object) -> str:
    """Return the text of a message's content as other programs write it: text, parts, or nothing.

    Parts are joined by line breaks; one that is no text is replaced by a note that can be seen.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return clean_text(content)
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        content = content["parts"]
    parts = content if isinstance(content, list | tuple) else [content]
    return "\n".join(text for text in map(_text_of_part, parts) if text)


def _text_of_part(part: object) -> str:
    if part is None or isinstance(part, str):
        return clean_text(part or "")
    kind = None
    if isinstance(part, dict):
        kind = part.get("type", part.get("content_type"))
        text = next((part[name] for name in _TEXT_NAMES if isinstance(part.get(name), str)), None)
        if kind in _TEXT_KINDS and text is not None:
            return clean_text(text)
    if not isinstance(kind, str) or not kind.strip():
        return "[content that is no text left out]"
    shown = "".join(c if c.isprintable() else " " for c in clean_text(kind))
    name = " ".join(shown.split())[:40].removesuffix("_url").removeprefix("input_")
    return f"[{name} left out]"
