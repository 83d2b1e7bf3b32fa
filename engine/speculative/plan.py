"""What a step with drafts is expected to cost and to bring.

Expected tokens of a step with k drafted ones are 1 + a1 + a1 a2 + ... + a1...ak (Leviathan, Kalman and Matias 2023,
"Fast Inference from Transformers via Speculative Decoding", equation 1, with an acceptance for each place in place of
one for all). Its time is that of 1 + k rows, and of drafting. With neighbours in the step, which all wait for its
longest part, tokens and times are those of all.
"""

from collections.abc import Sequence
from typing import NamedTuple

_LOOK_AHEAD = 4  # times rise in stairs: several further tokens may pay where one does not


class Draft(NamedTuple):
    """A draft of fixed length.

    Attributes:
        tokens: that it is expected to bring, in units of what a plain step brings.
        seconds: of the step and of drafting.
    """

    length: int
    tokens: float
    seconds: float


class Plan(NamedTuple):
    """The costs one choice is made by.

    Attributes:
        table: seconds of a step by its rows.
        num_rows: of the plain step: this reply's and its neighbours'.
        num_others: tokens the neighbours get.
        most: tokens that may be drafted.
        token_s, read_s: of the draft model, for each token it drafts and for each it reads before.
        speed: expected, over plain steps.
        is_exploring: whether the draft is not known to pay.
    """

    table: list[float]
    num_rows: int
    num_others: float
    most: int
    token_s: float
    read_s: float
    speed: float = 1.0
    is_exploring: bool = False

    @property
    def base(self) -> float:
        """Seconds of a plain step."""
        return self.table[self.num_rows]

    def seconds_of(self, num_drafted: int) -> float:
        """Return the seconds of a step with so many tokens of the draft model, drafting them included."""
        return self.table[self.num_rows + num_drafted] + self.token_s * max(num_drafted, 1)

    def reading_s(self, num_read: int) -> float:
        """Return what the draft model takes for the tokens it has missed, beyond its first step."""
        return self.read_s * max(num_read - 1, 0)

    def speed_of(self, draft: Draft) -> float:
        """Return how many times as fast as plain steps a draft is."""
        return draft.tokens * self.base / draft.seconds

    def worth(self, num_tokens: int) -> float:
        """Return how many plain steps would have brought all replies what this step brought."""
        return (num_tokens + self.num_others) / (1.0 + self.num_others)

    def best_foretold(self, chances: Sequence[float], *, dearest_s: float) -> Draft:
        """Return the best draft from the chat; of length 0 where none may be so long.

        Args:
            chances: acceptance by place, those before accepted.
            dearest_s: what the step may cost at most.
        """
        table, rows = self.table, self.num_rows
        reach, tokens = 1.0, 1.0 + self.num_others
        best, best_tokens, best_seconds = 0, tokens, table[rows]
        for number, chance in enumerate(chances, 1):
            reach *= chance
            tokens += reach
            seconds = table[rows + number]
            if seconds <= dearest_s and tokens * best_seconds > best_tokens * seconds:
                best, best_tokens, best_seconds = number, tokens, seconds
        return Draft(best, best_tokens / (1.0 + self.num_others), best_seconds)

    def best_drafted(self, chances: Sequence[float]) -> Draft:
        """Return the best draft of fixed length by the draft model.

        What the draft model has to read before, spread over the tokens of the reply, does not change which is best.
        """
        table, rows, token_s = self.table, self.num_rows, self.token_s
        reach, tokens = 1.0, 1.0 + self.num_others
        best, best_tokens, best_seconds = 0, tokens, self.seconds_of(0)
        for number, chance in enumerate(chances, 1):
            reach *= chance
            tokens += reach
            seconds = table[rows + number] + token_s * number
            if tokens * best_seconds > best_tokens * seconds:
                best, best_tokens, best_seconds = number, tokens, seconds
        return Draft(best, best_tokens / (1.0 + self.num_others), best_seconds)

    def often_empty(self, draft: Draft, share: float) -> Draft:
        """Return what drafts bring on average when a share of them ends before the first token."""
        tokens = draft.tokens + share * (1.0 - draft.tokens)
        return Draft(draft.length, tokens, draft.seconds + share * (self.seconds_of(0) - draft.seconds))

    def pays(self, place: int, reach: float, chances: Sequence[float], *, drafting_s: float = 0.0) -> bool:
        """Return whether some of the next tokens bring a draft more than its average.

        Args:
            place: of the next token in the draft.
            reach: probability that the tokens before are accepted.
            chances: acceptance of the next tokens, each if those before are accepted.
            drafting_s: that the first of them still takes.
        """
        needed = self.speed * (1.0 + self.num_others) / self.base  # tokens a second
        before, gained = self.table[self.num_rows + place], 0.0
        for last, chance in enumerate(chances[:_LOOK_AHEAD], self.num_rows + place + 1):
            reach *= chance
            gained += reach
            if gained >= needed * (self.table[last] - before + drafting_s):
                return True
            drafting_s += self.token_s
        return False
