"""What text may hold before it crosses a border: always valid Unicode."""


def clean_text(text: str) -> str:
    """Return `text` with surrogate pairs joined and unpaired surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
