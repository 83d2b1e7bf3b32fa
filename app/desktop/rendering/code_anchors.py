"""Code inside lists and quotes: a link below it that copies its exact text."""

import base64
import html
import re

_SCHEME = "copy:"
_LINK = re.compile(rf'(<a href="({_SCHEME}[^"]*)">)</a>')
_CUT = '<p class="cut"></p>'


def copy_target(code: str) -> str:
    """Return the link target that stands for copying `code`."""
    return _SCHEME + base64.urlsafe_b64encode(code.encode("utf-8", "surrogatepass")).decode()


def code_of(target: str) -> str | None:
    """Return the code that a link copies, None where it is another link."""
    if not target.startswith(_SCHEME):
        return None
    try:
        return base64.urlsafe_b64decode(target[len(_SCHEME) :]).decode("utf-8", "surrogatepass")
    except ValueError:
        return None


def labelled(source: str, *, copy: str, copied: str, last_copied: str, cut: str) -> str:
    """Return HTML of the Renderer with words in the places that it leaves to the widget.

    Args:
        copy, copied: label of the links, and of the one that was followed last.
        last_copied: its target.
        cut: sentence after a line that is not shown whole.
    """
    if _CUT in source:
        source = source.replace(_CUT, f"<p><small>{html.escape(cut)}</small></p>")
    if f'"{_SCHEME}' not in source:
        return source
    return _LINK.sub(
        lambda match: f"{match[1]}<small>{html.escape(copied if match[2] == last_copied else copy)}</small></a>", source
    )
