"""Formulas and the names under which a document asks for their pictures."""

import base64
import dataclasses

SCHEME = "math:"


@dataclasses.dataclass(frozen=True)
class Formula:
    """A formula as it stands in the text.

    Attributes:
        source: with its delimiters.
        is_display: set large, on a line of its own.
    """

    source: str
    is_display: bool

    @property
    def tex(self) -> str:
        """The source without its delimiters."""
        return tex_of(self.source)


def tex_of(source: str) -> str:
    """Return a formula without its delimiters."""
    size = 1 if source.startswith("$") and not source.startswith("$$") else 2
    return source[size:-size].strip()


def formula_name(source: str, *, is_display: bool) -> str:
    """Return the resource name under which a document asks for a formula."""
    coded = base64.urlsafe_b64encode(source.encode("utf-8", "surrogatepass")).decode()
    return f"{SCHEME}{'d' if is_display else 'i'}{coded}"


def formula_of(name: str) -> Formula | None:
    """Return the formula of a resource name, with or without its look; None for any other name."""
    if not name.startswith(SCHEME):
        return None
    kind, coded = name[len(SCHEME) : len(SCHEME) + 1], name[len(SCHEME) + 1 :].partition(",")[0]
    try:
        return Formula(base64.urlsafe_b64decode(coded).decode("utf-8", "surrogatepass"), kind == "d")
    except ValueError:
        return None
