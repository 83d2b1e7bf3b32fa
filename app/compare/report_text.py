"""Text on its way into a report: model output, file names and settings are hostile until they went through here."""

import html
import itertools
import re
import unicodedata
from collections.abc import Sequence

from app.compare.results import Column
from engine import clean_text

_LEAST_COMMON = 3  # less is no name

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


def escaped(text: str) -> str:
    """Return a text for HTML: nothing in it can become an element, an attribute, or an entity."""
    return html.escape(_CONTROL.sub("\ufffd", clean_text(text)), quote=True)


def name(text: str) -> str:
    """Return a name for HTML on one line, kept from turning what stands around it."""
    line = " ".join(clean_text(text).split())
    return f"<bdi>{escaped(line)}</bdi>"


def common_start(labels: Sequence[str]) -> str:
    """Return what all names of several models begin with, up to a border between words; empty where that is nothing."""
    if len(labels) < 2:
        return ""
    lines = [" ".join(clean_text(label).split()) for label in labels]
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*lines, strict=False))
    start = re.match(r".*[ \-_/.:]", "".join(letters[0] for letters in alike))
    return start[0] if start and len(start[0]) > _LEAST_COMMON else ""


def short_labels(columns: Sequence[Column]) -> dict[str, str]:
    """Return the names of columns without what all of them begin with, by id."""
    labels = {column.id: " ".join(clean_text(column.label).split()) for column in columns}
    start = len(common_start(list(labels.values())))
    return {column_id: label[start:] or label for column_id, label in labels.items()}


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
