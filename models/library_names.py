"""Which entries of a library a person means: by name, by file, by what another program calls it, or by part of that."""

from collections.abc import Callable, Iterable

from models.grouping import plain
from models.library_entry import LibraryEntry

_MIN_ID_DIGITS = 6


def match_entries(entries: Iterable[LibraryEntry], text: str) -> tuple[LibraryEntry, ...]:
    """Return the entries that `text` can mean: one where it is clear, several where it is not, none where nothing fits.

    What fits exactly hides what fits only in part: name or id, then the name of a file or another program's name, then
    model and level in any spelling, the model alone, the beginning of a name, and all words of the text in any order.
    Among several that fit equally well, the only one that can chat is meant.
    """
    entries = tuple(entries)
    wanted, folded, words = plain(text), text.strip().casefold(), _words(text)
    if not wanted:
        return ()
    rules: tuple[Callable[[LibraryEntry], bool], ...] = (
        lambda entry: folded in (entry.name, entry.id),
        lambda entry: folded in (entry.path.name.casefold(), entry.path.stem.casefold(), entry.alias.casefold()),
        lambda entry: wanted in (plain(entry.name), plain(entry.title)),
        lambda entry: wanted == plain(entry.group_title),
        lambda entry: plain(entry.name).startswith(wanted),
        lambda entry: words <= _words(entry.name),
        lambda entry: len(folded) >= _MIN_ID_DIGITS and entry.id.startswith(folded),
    )
    for rule in rules:
        found = tuple(entry for entry in entries if rule(entry))
        if found:
            able = tuple(entry for entry in found if entry.can_chat)
            return able if len(able) == 1 else found
    return ()


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in text.casefold()).split())
