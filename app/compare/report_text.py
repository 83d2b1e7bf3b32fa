"""Text on its way into a report: model output, file names and settings are hostile until they went through here."""

import html
import re
import unicodedata

from engine import clean_text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


def escaped(text: str) -> str:
    """Return a text for HTML: nothing in it can become an element, an attribute, or an entity."""
    return html.escape(_CONTROL.sub("\ufffd", clean_text(text)), quote=True)


def name(text: str) -> str:
    """Return a name for HTML on one line, kept from turning what stands around it."""
    line = " ".join(clean_text(text).split())
    return f"<bdi>{escaped(line)}</bdi>"


def one_line(text: str) -> str:
    """Return a text on one line without characters that cannot be seen, for plain formats."""
    line = " ".join(clean_text(text).split())
    return "".join(
        character for character in line if unicodedata.category(character)[0] != "C" or character == "\u200d"
    )


def in_script(data: bytes) -> str:
    """Return JSON so that it can stand in a script element: no sequence in it can end the element."""
    text = data.decode("utf-8")
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
