"""Which targets of untrusted text may be opened at all."""

from urllib.parse import urlsplit

_SCHEMES = frozenset(("http", "https", "mailto"))


def is_allowed(target: str) -> bool:
    """Tell whether a link to `target` may be offered; whether to follow it is then asked each time."""
    try:
        parts = urlsplit(target)
    except ValueError:  # for example an unclosed bracket in the host
        return False
    if parts.scheme not in _SCHEMES or any(c.isspace() or not c.isprintable() for c in target):
        return False
    return bool(parts.path) if parts.scheme == "mailto" else bool(parts.hostname)
