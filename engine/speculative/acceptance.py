"""How likely a drafted token is accepted: counts that fade, of the chat and of everything the model was asked so far.

Each estimate is the mean of a Beta distribution: accepted tokens over tokens judged, drawn towards a prior by as much
as some tokens would. A chat's prior is what was seen over all chats of the model, whose own prior is below.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence

_MAX_CHATS = 64

# What precedes a proposal from the chat itself: tokens that match, or matched when the ones before it were accepted.
_MATCH_EDGES = (4, 6, 9, 13, 25)
_MATCH_PRIORS = (0.35, 0.5, 0.65, 0.8, 0.9, 0.95)
# Place in the draft of a draft model.
_PLACE_EDGES = (1, 2, 3, 5, 9)
_PLACE_PRIORS = (0.6, 0.6, 0.6, 0.6, 0.6, 0.6)
# Largest probability the draft model gave to any token, known before one is drawn.
_CONFIDENCE_EDGES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
_CONFIDENCE_PRIORS = (0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.93)

_MATCH_BUCKETS = [bisect_right(_MATCH_EDGES, length) for length in range(200)]
_PLACE_BUCKETS = [bisect_right(_PLACE_EDGES, place) for place in range(100)]

_PRIOR_TOKENS = 4.0  # the fixed prior counts as much as so many tokens
_WIDE_TOKENS = 8.0  # and what was seen in all chats, for one chat, as so many at most
_CHAT_KEEP, _WIDE_KEEP = 0.96, 0.997  # of the counts, at each further token
_PRIOR_STEPS, _WIDE_STEPS = 3.0, 4.0
_CHAT_STEP_KEEP, _WIDE_STEP_KEEP = 0.9, 0.98
FIRST_PROBE_STEPS = 8


class _Rates:
    """Fading counts by bucket."""

    def __init__(self, edges: Sequence[float], priors: Sequence[float]) -> None:
        self.edges, self.priors = edges, priors
        self.accepted = [0.0] * len(priors)
        self.judged = [0.0] * len(priors)

    def note(self, bucket: int, keep: float, *, is_accepted: bool) -> None:
        self.accepted[bucket] = self.accepted[bucket] * keep + is_accepted
        self.judged[bucket] = self.judged[bucket] * keep + 1.0

    def mean(self, bucket: int, prior: float, weight: float) -> float:
        return (self.accepted[bucket] + weight * prior) / (self.judged[bucket] + weight)


class _Evidence:
    def __init__(self) -> None:
        self.match = _Rates(_MATCH_EDGES, _MATCH_PRIORS)
        self.place = _Rates(_PLACE_EDGES, _PLACE_PRIORS)
        self.confidence = _Rates(_CONFIDENCE_EDGES, _CONFIDENCE_PRIORS)
        self.worth = self.spent = self.steps = 0.0  # of steps with the draft model, in plain steps; they fade

    def note_steps(self, worth: float, spent: float, keep: float) -> None:
        self.worth = self.worth * keep + worth
        self.spent = self.spent * keep + spent
        self.steps = self.steps * keep + 1.0


class Acceptance:
    """What one chat at one class of temperatures has shown, filled up with what all chats have.

    Attributes:
        worth, spent: of all steps with drafts in this chat: what plain steps for their tokens would have taken, and
            what they took, in plain steps.
        num_steps: steps with drafts in this chat.
        num_until_probe: steps after a draft that did not pay until the draft model is tried again.
    """

    def __init__(self, wide: _Evidence) -> None:
        self._wide = wide
        self._chat = _Evidence()
        self.worth = self.spent = 0.0
        self.num_steps = 0
        self.num_until_probe = FIRST_PROBE_STEPS

    def after_match(self, length: int, number: int) -> list[float]:
        """Return the probabilities of the tokens that follow a match of so many, each if those before are accepted."""
        means = self._means(self._chat.match, self._wide.match)
        return [means[bucket] for bucket in _MATCH_BUCKETS[length : length + number]]

    def of_draft(self, number: int) -> list[float]:
        """Return the probabilities of the tokens of a model's draft, each if those before it are accepted."""
        means = self._means(self._chat.place, self._wide.place)
        return [means[bucket] for bucket in _PLACE_BUCKETS[:number]]

    def of_confidence(self, confidence: float) -> float:
        """Return the probability for a token of the draft model by its confidence, those before it accepted."""
        bucket = bisect_right(_CONFIDENCE_EDGES, confidence)
        return self._mean(self._chat.confidence, self._wide.confidence, bucket)

    def note_match(self, length: int, proposed: Sequence[int], tokens: Sequence[int]) -> None:
        """Learn from tokens of the reply that a continuation of a match had foretold, drafted or not."""
        for place, (guess, token) in enumerate(zip(proposed, tokens, strict=False)):
            bucket = bisect_right(_MATCH_EDGES, length + place)
            self._chat.match.note(bucket, _CHAT_KEEP, is_accepted=guess == token)
            self._wide.match.note(bucket, _WIDE_KEEP, is_accepted=guess == token)
            if guess != token:
                return

    def note_draft(self, num_drafted: int, num_accepted: int, confidences: Sequence[float] = ()) -> None:
        """Learn from a verified draft of the draft model; what comes after the first rejection tells nothing."""
        for place in range(min(num_drafted, num_accepted + 1)):
            is_accepted = place < num_accepted
            bucket = bisect_right(_PLACE_EDGES, place)
            self._chat.place.note(bucket, _CHAT_KEEP, is_accepted=is_accepted)
            self._wide.place.note(bucket, _WIDE_KEEP, is_accepted=is_accepted)
            if place < len(confidences):
                bucket = bisect_right(_CONFIDENCE_EDGES, confidences[place])
                self._chat.confidence.note(bucket, _CHAT_KEEP, is_accepted=is_accepted)
                self._wide.confidence.note(bucket, _WIDE_KEEP, is_accepted=is_accepted)

    def note_model_step(self, worth: float, spent: float) -> None:
        """Learn what a step with the draft model was worth, in plain steps, drafting and all included."""
        self._chat.note_steps(worth, spent, _CHAT_STEP_KEEP)
        self._wide.note_steps(worth, spent, _WIDE_STEP_KEEP)

    def model_speed(self, worth: float, spent: float) -> float:
        """Return how many times as fast as plain steps those with the draft model are.

        Args:
            worth, spent: what the next one is expected to be; it counts the less the more was seen.
        """
        worth, spent = worth * _PRIOR_STEPS, spent * _PRIOR_STEPS
        if self._wide.steps:
            share = min(1.0, _WIDE_STEPS / self._wide.steps)
            worth, spent = worth + share * self._wide.worth, spent + share * self._wide.spent
        return (worth + self._chat.worth) / (spent + self._chat.spent)

    @property
    def num_model_steps(self) -> float:
        """Steps with the draft model that are remembered, of this chat or of all, whichever are more."""
        return max(self._chat.steps, self._wide.steps)

    def _means(self, chat: _Rates, wide: _Rates) -> list[float]:
        return [self._mean(chat, wide, bucket) for bucket in range(len(wide.priors))]

    @staticmethod
    def _mean(chat: _Rates, wide: _Rates, bucket: int) -> float:
        prior = wide.mean(bucket, wide.priors[bucket], _PRIOR_TOKENS)
        return chat.mean(bucket, prior, min(_WIDE_TOKENS, _PRIOR_TOKENS + wide.judged[bucket]))


class AcceptanceMemory:
    """What a target with its drafters has shown since it was loaded, at temperature 0 and above."""

    def __init__(self) -> None:
        self._wide = {False: _Evidence(), True: _Evidence()}
        self._chats: OrderedDict[tuple[str, bool], Acceptance] = OrderedDict()

    def of_chat(self, chat_id: str | None, *, temperature: float) -> Acceptance:
        """Return what a chat has shown, kept for the last chats; without an id it begins anew."""
        is_drawn = temperature > 0
        if chat_id is None:
            return Acceptance(self._wide[is_drawn])
        key = (chat_id, is_drawn)
        if key not in self._chats:
            self._chats[key] = Acceptance(self._wide[is_drawn])
            if len(self._chats) > _MAX_CHATS:
                self._chats.popitem(last=False)
        self._chats.move_to_end(key)
        return self._chats[key]

    def forget(self, chat_id: str) -> None:
        """Drop what is known of a chat."""
        for is_drawn in (False, True):
            self._chats.pop((chat_id, is_drawn), None)
