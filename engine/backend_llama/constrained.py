"""Keeps a reply inside its grammar: looks at what was chosen, and has it chosen again from what is allowed.

To find all tokens that are allowed costs some milliseconds, to look at one some microseconds, and most choices fit.
"""

from typing import Protocol

from engine.backend import Proposal
from engine.errors import GrammarError
from engine.grammar import Indices, Matcher


class Chooser(Protocol):
    """A sampler in two halves: a choice may be dropped."""

    def sample(self, row: int) -> int:
        """Choose and remember."""

    def choose(self, row: int, allowed: Indices | None = None) -> int:
        """Return a token from the logits of a row, one of `allowed` if that is given, without remembering it."""

    def accept(self, token: int) -> None:
        """Remember the token that was taken."""

    def close(self) -> None:
        """Free native memory."""


class ConstrainedSampler:
    """See Sampler.

    Args:
        asks_first: whether the chooser may choose freely before it is shown what is allowed.
        is_thinking: whether the grammar waits for `end_thinking`.
    """

    def __init__(self, chooser: Chooser, matcher: Matcher, *, asks_first: bool, is_thinking: bool) -> None:
        self._chooser = chooser
        self._matcher = matcher
        self._asks_first = asks_first
        self._is_thinking = is_thinking

    def sample(self, row: int, proposal: Proposal | None = None) -> int:
        """See Sampler.

        Raises:
            GrammarError: no token of this model can follow, or the grammar has become too ambiguous.
        """
        if self._is_thinking:
            return self._chooser.sample(row)
        if self._asks_first:
            token = self._chooser.choose(row)
            if self._matcher.take(token):
                self._chooser.accept(token)
                return token
        allowed = self._matcher.allowed()
        if not len(allowed):
            raise GrammarError(
                "The reply cannot go on: no token of this model fits its grammar.", "Use another grammar or model."
            )
        token = self._chooser.choose(row, allowed)
        is_taken = self._matcher.take(token)
        assert is_taken
        self._chooser.accept(token)
        return token

    @property
    def is_complete(self) -> bool:
        """See Sampler."""
        return not self._is_thinking and self._matcher.is_complete

    def end_thinking(self) -> None:
        """See Sampler."""
        self._is_thinking = False

    def close(self) -> None:
        """See Sampler."""
        self._chooser.close()
