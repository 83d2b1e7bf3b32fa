"""SentHistory: the way back through the sent messages, on which nothing that was typed is lost."""

from collections.abc import Sequence

from app.desktop.widgets.composer_draft import Draft


class SentHistory:
    """A walk through sent messages that begins and ends at the message being written."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._at: int | None = None  # None: at the message being written
        self._kept: dict[int | None, Draft] = {}  # what was left behind at each place

    def set_texts(self, texts: Sequence[str]) -> None:
        """Take the sent messages, oldest first; one that repeats the one before counts once."""
        present = self._texts[self._at] if self._at is not None else None
        self._texts = [text for i, text in enumerate(texts) if i == 0 or text != texts[i - 1]]
        self._kept = {None: self._kept[None]} if None in self._kept else {}
        if present is not None:
            self._at = self._texts.index(present) if present in self._texts else None

    def is_unchanged(self, text: str) -> bool:
        """Tell whether `text` is the sent message the walk stands at."""
        return self._at is not None and self._texts[self._at] == text

    def step(self, direction: int, present: Draft) -> Draft | None:
        """Go on by one message.

        Args:
            direction: -1 to an older one, 1 to a newer one.
            present: what is left behind; it is there again on the way back.

        Returns:
            What to show, None where the walk ends.
        """
        end = len(self._texts)
        place = (end if self._at is None else self._at) + direction
        if not 0 <= place <= end:
            return None
        self._kept[self._at] = present
        self._at = None if place == end else place
        kept = self._kept.pop(self._at, None)
        if kept is not None:
            return kept
        return Draft() if self._at is None else Draft(self._texts[self._at]).fitted()

    def forget(self) -> None:
        """End the walk; what was typed on it is sent, or replaced."""
        self._at = None
        self._kept.clear()
