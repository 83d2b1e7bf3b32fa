"""How likely a drafted token is accepted: counts that fade, of the chat and of everything the model was asked so far.

Each estimate is the mean of a Beta distribution: accepted tokens over tokens judged, drawn towards a prior by as much
as some tokens would. A chat's prior is what was seen over all chats of the model, whose own prior is below.
"""

import math
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
# Largest probability the draft model gave to any token, known before one is drawn. Low guesses: a Q4_0 of SmolLM2-135M
# had 0.43, 0.68, 0.73, 0.76, 0.93, 0.94, 1 and 1 with its F16 as the target (690 tokens of text and of replies).
_CONFIDENCE_EDGES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
_CONFIDENCE_PRIORS = (0.3, 0.45, 0.55, 0.65, 0.75, 0.83, 0.9, 0.96)

_MATCH_BUCKETS = [bisect_right(_MATCH_EDGES, length) for length in range(200)]
_PLACE_BUCKETS = [bisect_right(_PLACE_EDGES, place) for place in range(100)]

_PRIOR_TOKENS = 4.0  # the fixed prior counts as much as so many tokens
# What was seen in all chats counts, for one chat, as so many at most: chats differ in what they repeat more than in how
# well a draft model follows them.
_MATCH_WEIGHT, _MODEL_WEIGHT = 12.0, 40.0
_LEAST_WEIGHT, _TAKE_OVER = 6.0, 0.4  # so far down goes that weight, by so much for each token judged in the chat
_MATCH_KEEP, _MODEL_KEEP, _WIDE_KEEP = 0.96, 0.981, 0.997  # of the counts, at each further token
_CAUTION, _HOPE = 1.0, 3.0  # standard deviations
_DEVIATIONS, _WIDE_TRUST = 1.5, 0.25
_RISKY_TOKENS = 8.0
_CURIOSITY = 0.2
_EMPTY_KEEP, _EMPTY_DRAFTS = 0.9, 2.0  # of its counts, at each draft; it is drawn to none by as much as so many
_PRIOR_STEPS, _LEAST_PRIOR_STEPS, _WIDE_STEPS = 100.0, 10.0, 30.0
_STEP_DEVIATION, _SURPRISE = 0.4, 7.0  # of the speed of a step; squared deviations of the mean, beyond which it counts
_CHAT_STEP_KEEP, _WIDE_STEP_KEEP = 0.988, 0.995
_DOUBT = 0.3  # deviation of the speed of one step with the draft model
_ENOUGH_STEPS, _ENOUGH_TOKENS = 4.0, 8.0
_CLEAR_LOSS = 0.75  # speed of a reply's steps with drafts
FIRST_PROBE_STEPS = 8


class _Counts:
    """Fading counts by bucket, over all chats."""

    def __init__(self, priors: Sequence[float]) -> None:
        self.priors = priors
        self.accepted = [0.0] * len(priors)
        self.judged = [0.0] * len(priors)
        self.numbers = [0] * len(priors)  # of tokens judged, unfaded

    def note(self, bucket: int, keep: float, *, is_accepted: bool) -> None:
        self.numbers[bucket] += 1
        self.accepted[bucket] = self.accepted[bucket] * keep + is_accepted
        self.judged[bucket] = self.judged[bucket] * keep + 1.0


class _ChatCounts(_Counts):
    """Fading counts of one chat, drawn towards what all chats showed when its reply began."""

    def __init__(self, wide: _Counts, most_weight: float, keep: float, *, is_wide_own: bool = False) -> None:
        super().__init__(wide.priors)
        self._wide, self._most_weight, self._keep = wide, most_weight, keep
        self._weight = [most_weight] * len(wide.priors)
        self._is_wide_own = is_wide_own  # whether what a chat has shown counts for it among all chats too
        self._own = _Counts(wide.priors)  # this chat's share of the wide counts: not to be counted twice
        self._others = [0] * len(wide.priors)  # tokens of other chats
        self.begin()

    def begin(self) -> None:
        wide, own, priors = self._wide, self._own, self.priors
        for bucket, number in enumerate(wide.numbers):
            others = number - own.numbers[bucket]
            fade = _WIDE_KEEP ** (others - self._others[bucket])
            own.accepted[bucket] *= fade
            own.judged[bucket] *= fade
            self._others[bucket] = others
        accepted = [max(yes - mine, 0.0) for yes, mine in zip(wide.accepted, own.accepted, strict=True)]
        judged = [max(all_ - mine, 0.0) for all_, mine in zip(wide.judged, own.judged, strict=True)]
        triples = zip(accepted, judged, priors, strict=True)
        self._prior = [(yes + _PRIOR_TOKENS * prior) / (all_ + _PRIOR_TOKENS) for yes, all_, prior in triples]
        most = [min(self._most_weight, _PRIOR_TOKENS + all_) for all_ in judged]
        weights = zip(self._weight, most, self.judged, strict=True)
        self._weight = [min(weight, least) if own_ else least for weight, least, own_ in weights]
        self._known = [1.0 + _WIDE_TRUST * all_ for all_ in judged]

    def learn(self, bucket: int, *, is_accepted: bool) -> None:
        self.note(bucket, self._keep, is_accepted=is_accepted)
        if self._weight[bucket] > _LEAST_WEIGHT:  # the chat's own evidence takes over
            self._weight[bucket] -= _TAKE_OVER
        self._wide.note(bucket, _WIDE_KEEP, is_accepted=is_accepted)
        if not self._is_wide_own:
            self._own.note(bucket, _WIDE_KEEP, is_accepted=is_accepted)

    def mean(self, bucket: int) -> float:
        weight = self._weight[bucket]
        return (self.accepted[bucket] + weight * self._prior[bucket]) / (self.judged[bucket] + weight)

    def means(self) -> list[float]:
        return [self.mean(bucket) for bucket in range(len(self.priors))]

    def cautious_means(self) -> list[float]:
        means = []
        for bucket, mean in enumerate(self.means()):
            spread = math.sqrt(mean * (1.0 - mean) / (self.judged[bucket] + self._weight[bucket]))
            means.append(mean - _CAUTION * spread)
        return means

    def number(self, bucket: int) -> float:
        """Return how many tokens were judged, those of other chats counting less."""
        return self.judged[bucket] + self._known[bucket]


class _Steps:
    """Fading sums over steps with the draft model: what they were worth and what they cost, in plain steps."""

    def __init__(self) -> None:
        self.worth = self.spent = self.number = 0.0
        self.count = 0  # unfaded

    def note(self, worth: float, spent: float, keep: float) -> None:
        self.count += 1
        self.worth = self.worth * keep + worth
        self.spent = self.spent * keep + spent
        self.number = self.number * keep + 1.0

    def fade(self, share: float) -> None:
        self.worth, self.spent, self.number = self.worth * share, self.spent * share, self.number * share


class _Wide:
    """What all chats at one class of temperatures have shown."""

    def __init__(self) -> None:
        self.match, self.place = _Counts(_MATCH_PRIORS), _Counts(_PLACE_PRIORS)
        self.confidence = _Counts(_CONFIDENCE_PRIORS)
        self.steps = _Steps()


class Acceptance:
    """What one chat at one class of temperatures has shown, filled up with what all chats have.

    Attributes:
        worth, spent: of all steps with drafts in this chat: what plain steps for their tokens would have taken, and
            what they took, in plain steps.
        num_steps: steps with drafts in this chat.
        num_losses: replies in a row, up to the last one, in which they clearly lost.
        since_model: steps since the draft model drafted.
        num_until_probe: steps after a draft that did not pay until the draft model is tried again.
    """

    def __init__(self, wide: _Wide) -> None:
        self._match = _ChatCounts(wide.match, _MATCH_WEIGHT, _MATCH_KEEP, is_wide_own=True)
        self._place = _ChatCounts(wide.place, _MODEL_WEIGHT, _MODEL_KEEP)
        self._confidence = _ChatCounts(wide.confidence, _MODEL_WEIGHT, _MODEL_KEEP)
        self._steps, self._wide_steps = _Steps(), wide.steps
        self._own_steps, self._other_steps = _Steps(), 0  # this chat's share of the wide steps; the number of others
        self.worth = self.spent = self._worth_before = self._spent_before = 0.0
        self.num_steps = self.num_losses = 0
        self._empty = self._started = 0.0
        self.since_model = self.num_until_probe = FIRST_PROBE_STEPS  # the first try need not wait
        self.begin()

    def begin(self) -> None:
        """Take what other chats have shown since the last reply, and what drafts did in that."""
        worth, spent = self.worth - self._worth_before, self.spent - self._spent_before
        if spent:
            self.num_losses = self.num_losses + 1 if worth < _CLEAR_LOSS * spent else 0
        self._worth_before, self._spent_before = self.worth, self.spent
        for counts in (self._match, self._place, self._confidence):
            counts.begin()
        wide, own = self._wide_steps, self._own_steps
        others = wide.count - own.count
        own.fade(_WIDE_STEP_KEEP ** (others - self._other_steps))
        self._other_steps = others
        self._num_before = max(wide.number - own.number, 0.0)
        share = min(1.0, _WIDE_STEPS / self._num_before) if self._num_before else 0.0
        self._prior_worth, self._prior_spent = share * (wide.worth - own.worth), share * (wide.spent - own.spent)

    def after_match(self, length: int, number: int) -> list[float]:
        """Return the probabilities of the tokens that follow a match of so many, each if those before are accepted.

        They are low estimates: what is foretold is judged whether it is drafted or not, so that caution forgoes no
        knowledge.
        """
        means = self._match.cautious_means()
        return [means[bucket] for bucket in _MATCH_BUCKETS[length : length + number]]

    def risk_after_match(self, length: int) -> float:
        """Return how likely the token after a match is rejected, at worst: near 1 until some were judged."""
        bucket = _MATCH_BUCKETS[length]
        miss, number = 1.0 - self._match.mean(bucket), self._match.number(bucket)
        return min(1.0, miss + _DEVIATIONS * math.sqrt(miss * (1.0 - miss) / number) + 1.0 / number)

    def risk_of_draft(self) -> float:
        """Return how far the draft model is unknown here: 1 until some of its tokens were judged."""
        return min(1.0, _RISKY_TOKENS / self._place.number(0))

    def of_draft(self, number: int) -> list[float]:
        """Return the probabilities of the tokens of a model's draft, each if those before it are accepted."""
        means = self._place.means()
        return [means[bucket] for bucket in _PLACE_BUCKETS[:number]]

    @property
    def empty_share(self) -> float:
        """Share of the draft model's drafts that end before their first token, for want of confidence."""
        return self._empty / (self._started + _EMPTY_DRAFTS)

    def hope_of_draft(self) -> float:
        """Return the most that the probability of a draft's first token may be."""
        mean, number = self._place.mean(0), self._place.number(0)
        return mean + _HOPE * math.sqrt(mean * (1.0 - mean) / number)

    def of_confidence(self, confidence: float) -> float:
        """Return the probability for a token of the draft model by its confidence, those before it accepted."""
        bucket = bisect_right(_CONFIDENCE_EDGES, confidence)
        # What is never drafted is never judged: where little was seen, it is taken to be better.
        return min(1.0, self._confidence.mean(bucket) + _CURIOSITY / self._confidence.number(bucket))

    def note_match(self, length: int, proposed: Sequence[int], tokens: Sequence[int]) -> int:
        """Learn from tokens of the reply that a match had foretold, drafted or not; return how many were right."""
        num_right = 0
        for guess, token in zip(proposed, tokens, strict=False):
            self._match.learn(_MATCH_BUCKETS[length + num_right], is_accepted=guess == token)
            if guess != token:
                break
            num_right += 1
        return num_right

    def note_draft(self, num_drafted: int, num_accepted: int, confidences: Sequence[float] = ()) -> None:
        """Learn from a verified draft of the draft model; what comes after the first rejection tells nothing."""
        self._empty = self._empty * _EMPTY_KEEP + (0.0 if num_drafted else 1.0)
        self._started = self._started * _EMPTY_KEEP + 1.0
        for place in range(min(num_drafted, num_accepted + 1)):
            is_accepted = place < num_accepted
            self._place.learn(_PLACE_BUCKETS[place], is_accepted=is_accepted)
            if place < len(confidences):
                bucket = bisect_right(_CONFIDENCE_EDGES, confidences[place])
                self._confidence.learn(bucket, is_accepted=is_accepted)

    def note_model_step(self, worth: float, spent: float) -> None:
        """Learn what a step with the draft model was worth, in plain steps, drafting and all included."""
        self._steps.note(worth, spent, _CHAT_STEP_KEEP)
        self._wide_steps.note(worth, spent, _WIDE_STEP_KEEP)
        self._own_steps.note(worth, spent, _WIDE_STEP_KEEP)

    def model_speed(self, worth: float, spent: float) -> float:
        """Return how many times as fast as plain steps those with the draft model are.

        Args:
            worth, spent: what the next one is expected to be; it counts the less the more was seen.
        """
        # Steps say little that the tokens judged in them do not say better, unless they clearly say something else.
        steps, weight = self._steps, _PRIOR_STEPS
        off = (worth * steps.spent / (spent * steps.worth) - 1.0) / _STEP_DEVIATION if steps.worth else 0.0
        if (surprise := off * off * steps.number / _SURPRISE) > 1.0:
            weight = max(weight / surprise, _LEAST_PRIOR_STEPS)
        worth = worth * weight + self._prior_worth + self._steps.worth
        return worth / (spent * weight + self._prior_spent + self._steps.spent)

    def doubt(self) -> float:
        """Return by how much the speed with the draft model may be more than it seems."""
        return _DOUBT / math.sqrt(1.0 + self._steps.number + self._num_before / 4)

    def doubt_before(self) -> float:
        """Return by how much it may be less, by what was judged in drafts and before."""
        return _DOUBT / math.sqrt(1.0 + self._steps.number + (self._num_before + self._place.number(0)) / 4)

    @property
    def has_drafted(self) -> bool:
        """Whether enough drafts of the draft model were verified to trust their speed."""
        return self._num_before + self._steps.number >= _ENOUGH_STEPS

    @property
    def knows_draft(self) -> bool:
        """Whether enough of the draft model's tokens were judged, in drafts or before, to trust their probability."""
        return self.has_drafted or self._place.number(0) >= _ENOUGH_TOKENS


class AcceptanceMemory:
    """What a target with its drafters has shown since it was loaded, at temperature 0 and above."""

    def __init__(self) -> None:
        self._wide = {False: _Wide(), True: _Wide()}
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
        self._chats[key].begin()
        return self._chats[key]

    def note_agreement(self, is_right: Sequence[bool], confidences: Sequence[float] = ()) -> None:
        """Learn before the first reply, from a text that both models read, how often the draft model agrees.

        Args:
            is_right: for each token, whether the target would have accepted the draft model's.
            confidences: the draft model's.
        """
        for wide in self._wide.values():
            for right in is_right:
                for bucket in range(len(_PLACE_PRIORS)):
                    wide.place.note(bucket, _WIDE_KEEP, is_accepted=right)
            for right, confidence in zip(is_right, confidences, strict=False):
                bucket = bisect_right(_CONFIDENCE_EDGES, confidence)
                wide.confidence.note(bucket, _WIDE_KEEP, is_accepted=right)

    def forget(self, chat_id: str | None) -> None:
        """Drop what is known of a chat, or of each."""
        if chat_id is None:
            self._chats.clear()
            return
        for is_drawn in (False, True):
            self._chats.pop((chat_id, is_drawn), None)
