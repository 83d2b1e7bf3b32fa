"""Replies on recorded step times: what would be accepted is drawn before, so that every way to draft meets the same."""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.speculative.acceptance import AcceptanceMemory
from engine.speculative.account import Arm, RefereeReport
from engine.speculative.ngram import NgramProposal
from engine.speculative.referee import Choice, Referee
from engine.speculative.step_times import CALIBRATION_ROWS, DraftTimes, StepTimes

# Milliseconds of one row, and times that for 2, 3, 4, 6, 8 and 16 rows; recorded on an idle machine.
RECORDED = {
    "q8_0-1thread": (7.2, (3.7, 4.7, 5.6, 7.1, 6.8, 8.6)),
    "q8_0-2threads": (6.5, (2.3, 3.3, 3.6, 4.5, 4.5, 5.5)),
    "q4_0-1thread": (5.7, (2.3, 3.1, 3.1, 5.2, 4.7, 7.1)),
    "q4_0-2threads": (5.2, (1.6, 1.9, 2.0, 3.2, 2.9, 4.2)),
    "q4_k_m-2threads": (6.8, (1.6, 2.9, 2.1, 3.0, 3.1, 4.7)),
    "f16-2threads": (7.9, (1.4, 1.7, 1.8, 2.2, 3.1, 4.0)),
    "deep-f16-2threads": (29.0, (1.4, 1.7, 1.8, 2.2, 3.1, 4.0)),
    "gemma-q4_k_m-2threads": (10.0, (2.5, 3.1, 3.4, 5.4, 4.5, 6.1)),
    "flat": (10.0, (1.01, 1.02, 1.03, 1.05, 1.07, 1.15)),
}
NUM_PROMPT = 40  # tokens of each message
_NUMBERS = {Arm.NGRAM: (1, 2, 3, 5, 7, 11, 15, 23, 31), Arm.MODEL: (1, 2, 3, 4, 5, 7, 11, 15)}
FRESH = 32  # tokens that a draft model begins anew with
_ROWS = (1, 2, 3, 4, 6, 8, 16)


class Machine:
    """A target's and a draft model's times.

    Args:
        draft: time of the draft model for a token, as a share of a plain step.
        read: for each token it reads before.
    """

    def __init__(self, name: str, *, draft: float = 0.17, read: float = 0.045, seed: int = 0) -> None:
        plain_ms, ratios = RECORDED[name]
        points = list(zip(_ROWS, (1.0, *ratios), strict=True))
        slope = (points[-1][1] - points[-2][1]) / 8
        points.append((64, points[-1][1] + 48 * slope))
        self.seconds = [0.0] * 65
        for (first, low), (last, high) in itertools.pairwise(points):
            for rows in range(first, last + 1):
                self.seconds[rows] = plain_ms / 1000 * (low + (high - low) * (rows - first) / (last - first))
        self.draft_s, self.read_s = draft * self.seconds[1], read * self.seconds[1]
        self._random = random.Random(seed)

    def noisy(self, seconds: float) -> float:
        """Return what a clock says of it: 3 % noise, and one step in a hundred is interrupted."""
        noise = math.exp(self._random.gauss(0, 0.03))
        return seconds * noise * (self._random.uniform(1.5, 3) if self._random.random() < 0.01 else 1.0)

    def drafted(self, num_drafted: int, num_behind: int) -> float:
        """Return what drafting takes."""
        return max(num_drafted, 1) * self.draft_s + max(num_behind - 1, 0) * self.read_s

    def calibrated(self) -> StepTimes:
        """Return times that have seen a few steps."""
        times = StepTimes()
        for rows in CALIBRATION_ROWS:
            times.observe(rows, self.noisy(self.seconds[rows]))
        return times


class Reply(NamedTuple):
    """What drafts would meet at each token.

    Attributes:
        matches: length of the match before each token, and how many tokens its continuation foretells rightly.
        is_right: whether the draft model's token would be accepted, those before it given.
        confidences: the draft model's.
    """

    matches: list[tuple[int, int]]
    is_right: list[bool]
    confidences: list[float]

    def proposal(self, place: int) -> NgramProposal | None:
        """Return what the chat foretells; a wrong token is -1."""
        length, num_right = self.matches[place]
        if not length:
            return None
        return NgramProposal(tuple([*range(place, place + num_right), *[-1] * 64][:32]), length)

    def num_accepted(self, arm: Arm, place: int, number: int) -> int:
        """Return how many of a draft's tokens are accepted."""
        if arm is Arm.NGRAM:
            return min(self.matches[place][1], number, len(self.matches) - place)
        right = self.is_right[place : place + number]
        return right.index(False) if False in right else len(right)


class Outcome(NamedTuple):
    """Seconds of each reply as the machine takes them on average, and the referees' reports."""

    seconds: list[float]
    reports: list[RefereeReport]

    @property
    def total(self) -> float:
        return sum(self.seconds)


def fixed(machine: Machine, replies: list[Reply], arm: Arm, number: int) -> Outcome:
    """Return what drafting so many tokens at every step takes, as far as there are any."""
    seconds, behind = [], 0
    for reply in replies:
        place, spent = 0, 0.0
        behind += NUM_PROMPT
        while place < len(reply.matches):
            drafted = number if arm is Arm.MODEL or reply.matches[place][0] else 0
            accepted = reply.num_accepted(arm, place, drafted) if drafted else 0
            spent += machine.seconds[1 + drafted]
            behind += 1
            if arm is Arm.MODEL and drafted:
                spent += machine.drafted(drafted, behind)
                behind = 0
            place += accepted + 1
        seconds.append(spent)
    return Outcome(seconds, [])


def best_fixed(machine: Machine, replies: list[Reply]) -> Outcome:
    """Return the fastest way to draft a fixed number in hindsight, none included."""
    ways = [(Arm.PLAIN, 0), *[(arm, number) for arm in (Arm.NGRAM, Arm.MODEL) for number in _NUMBERS[arm]]]
    return min((fixed(machine, replies, arm, number) for arm, number in ways), key=lambda outcome: outcome.total)


def refereed(
    machine: Machine,
    replies: list[Reply],
    *,
    allowed: tuple[Arm, ...] = (Arm.NGRAM, Arm.MODEL),
    agreement: tuple[Sequence[bool], Sequence[float]] = ((), ()),
    watch: Callable[[int, Choice, int, int], None] | None = None,
) -> Outcome:
    """Return what a chat takes when a referee chooses.

    Args:
        agreement: tokens of a text read before the first reply: whether the draft model was right, and how sure.
        watch: gets place, choice, drafted and accepted tokens of each step.
    """
    times, memory, draft_times = machine.calibrated(), AcceptanceMemory(), DraftTimes()
    for num_read, num_drafted in ((1, 1), (1, 3), (33, 1), (1, 2)):
        draft_times.observe(num_read, num_drafted, machine.noisy(machine.drafted(num_drafted, num_read)))
    memory.note_agreement(*agreement)
    seconds, reports, behind = [], [], 0
    for reply in replies:
        acceptance = memory.of_chat("chat", temperature=0.0)
        referee = Referee(times, draft_times, acceptance, allowed=frozenset(allowed))
        place, spent = 0, 0.0
        behind += NUM_PROMPT
        while place < len(reply.matches):
            left = len(reply.matches) - place
            choice = referee.choose(
                num_threads=1,
                ngram=reply.proposal(place),
                num_draft_behind=behind + 1,
                num_draft_fresh=min(behind + 1, FRESH),
                num_expected_tokens=left,
                num_room=left,
            )
            drafted, draft_s, num_read = choice.num_tokens, 0.0, 0
            confidences: list[float] = []
            if choice.arm is Arm.MODEL:
                drafted = num_steps = 0
                # The draft model follows its own tokens: past a wrong one its confidence is that of another text.
                while drafted < choice.num_tokens and (not drafted or referee.steps_on(drafted)):
                    num_steps += 1
                    confidence = reply.confidences[(place + drafted) % len(reply.confidences)]
                    if not referee.goes_on(drafted, confidence):
                        break
                    confidences.append(confidence)
                    drafted += 1
                num_read = min(behind + 1, FRESH) if choice.is_fresh else behind + 1
                draft_s = machine.drafted(num_steps, num_read)
                behind = 0
            accepted = reply.num_accepted(choice.arm, place, drafted) if drafted else 0
            step_s = machine.seconds[1 + drafted]
            spent += step_s + draft_s
            tokens = range(place, min(place + accepted + 1, len(reply.matches)))
            noisy_s = machine.noisy(step_s)
            times.observe(1 + drafted, noisy_s)
            referee.note(
                choice,
                tokens,
                step_s=noisy_s,
                draft_s=machine.noisy(draft_s) if draft_s else 0.0,
                num_drafted=drafted,
                num_accepted=accepted,
                confidences=confidences,
                num_draft_read=num_read,
            )
            if watch is not None:
                watch(place, choice, drafted, accepted)
            if choice.arm is not Arm.MODEL:
                behind += accepted + 1
            place += accepted + 1
        seconds.append(spent)
        reports.append(referee.report())
    return Outcome(seconds, reports)


# --- what replies are like ---


def copying(seed: int, *, num_tokens: int = 200, mean_run: float = 30, mean_gap: float = 6) -> Reply:
    """A text that is copied with edits: runs that the chat foretells, gaps where it foretells little."""
    chance = random.Random(seed)
    matches: list[tuple[int, int]] = []
    while len(matches) < num_tokens:
        for _ in range(1 + int(chance.expovariate(1 / mean_gap))):
            is_short = chance.random() < 0.3
            matches.append((chance.randint(3, 5), int(chance.random() < 0.25)) if is_short else (0, 0))
        run = 3 + int(chance.expovariate(1 / mean_run))
        matches += [(min(place, 64), run - place) if place >= 3 else (0, 0) for place in range(run)]
    return _with_model(matches[:num_tokens], chance, lambda place: 0.6)


def prose(seed: int, *, num_tokens: int = 200) -> Reply:
    """New text: the chat foretells seldom, and wrongly mostly."""
    chance = random.Random(seed)
    matches = []
    for _ in range(num_tokens):
        is_known = chance.random() < 0.25
        right = 0
        while is_known and chance.random() < 0.3:
            right += 1
        matches.append((3 + int(chance.expovariate(1)), right) if is_known else (0, 0))
    return _with_model(matches, chance, lambda place: 0.5)


def misleading(seed: int, *, num_tokens: int = 200) -> Reply:
    """Long matches that are never continued as before; the draft model is never right either."""
    chance = random.Random(seed)
    matches = [(chance.randint(12, 64), 0) for _ in range(num_tokens)]
    return _with_model(matches, chance, lambda place: 0.0)


def turning(seed: int, *, num_tokens: int = 200) -> Reply:
    """Copying that turns into text that only looks like a copy, and back."""
    chance = random.Random(seed)
    matches = []
    for place in range(num_tokens):
        if (place // 50) % 2:
            matches.append((chance.randint(12, 40), 0))
        else:
            matches.append((min(place % 50, 64), 50 - place % 50) if place % 50 >= 3 else (0, 0))
    return _with_model(matches, chance, lambda place: 0.4)


def modelled(seed: int, rate: Callable[[int], float], *, num_tokens: int = 200, tells: float = 0.5) -> Reply:
    """No matches, and a draft model that is right with a probability by place.

    Args:
        tells: how far the probability follows the confidence: 0 not at all, 1 wholly.
    """
    return _with_model([(0, 0)] * num_tokens, random.Random(seed), rate, tells=tells)


def _with_model(
    matches: list[tuple[int, int]], chance: random.Random, rate: Callable[[int], float], *, tells: float = 0.5
) -> Reply:
    is_right, confidences = [], []
    for place in range(len(matches)):
        confidence = min(max(rate(place) + 0.5 * (chance.random() - 0.5), 0.02), 0.99)
        is_right.append(chance.random() < rate(place) + tells * (confidence - rate(place)))
        confidences.append(confidence)
    return Reply(matches, is_right, confidences)


PROCESSES: dict[str, Callable[[int, int], Reply]] = {
    "copied": lambda seed, length: copying(seed, num_tokens=length),
    "copied in pieces": lambda seed, length: copying(seed, num_tokens=length, mean_run=8),
    "prose": lambda seed, length: prose(seed, num_tokens=length),
    "misleading": lambda seed, length: misleading(seed, num_tokens=length),
    "turning": lambda seed, length: turning(seed, num_tokens=length),
    "drafts never right": lambda seed, length: modelled(seed, lambda place: 0.0, num_tokens=length),
    "drafts 0.3": lambda seed, length: modelled(seed, lambda place: 0.3, num_tokens=length),
    "drafts 0.5": lambda seed, length: modelled(seed, lambda place: 0.5, num_tokens=length),
    "drafts 0.7": lambda seed, length: modelled(seed, lambda place: 0.7, num_tokens=length),
    "drafts 0.8": lambda seed, length: modelled(seed, lambda place: 0.8, num_tokens=length),
    "drafts 0.9": lambda seed, length: modelled(seed, lambda place: 0.9, num_tokens=length),
    "drafts that tell nothing": lambda seed, length: modelled(seed, lambda place: 0.8, num_tokens=length, tells=0),
    "drafts by turns": lambda seed, length: modelled(
        seed, lambda place: 0.2 if (place // 50) % 2 else 0.85, num_tokens=length
    ),
    "drafts that grow worse": lambda seed, length: modelled(
        seed, lambda place: 0.9 - 0.8 * place / length, num_tokens=length
    ),
}


class Cell(NamedTuple):
    """One machine and one kind of reply, over some chats.

    Attributes:
        regret: time over that of the best fixed draft in hindsight, less one.
        loss: the same over plain steps.
        gain: time of plain steps over that of the best fixed draft.
    """

    regret: float
    loss: float
    gain: float


def agreeing(share: float) -> tuple[list[bool], list[float]]:
    """Return what a text shows where a draft model is right as often."""
    return [number * 37 % 100 < 100 * share for number in range(100)], []


def cell(
    machine_name: str,
    process: str,
    *,
    num_chats: int,
    num_replies: int,
    num_tokens: int,
    agreement: float | None = None,
) -> Cell:
    """Return how a referee does over some chats.

    Args:
        agreement: of the draft model as it seems before; what it is in such replies where None.
    """
    write = PROCESSES[process]
    spent = best = plain = 0.0
    for chat in range(num_chats):
        machine = Machine(machine_name, seed=chat)
        replies = [write(1000 * chat + number, num_tokens) for number in range(num_replies)]
        seen = write(1000 * chat + 999, 200)
        shown = (seen.is_right[::2], seen.confidences[::2]) if agreement is None else agreeing(agreement)
        spent += refereed(machine, replies, agreement=shown).total
        best += best_fixed(machine, replies).total
        plain += fixed(machine, replies, Arm.PLAIN, 0).total
    return Cell(spent / best - 1, spent / plain - 1, plain / best)
