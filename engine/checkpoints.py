"""Checkpoints: small states from which a sequence can go on where its memory cannot be cut back; plain lists, one a
slot, by rising number of tokens. Slots that share a beginning share its checkpoints."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from engine.backend import StateBytes

_numbers = itertools.count()


class Checkpoint(NamedTuple):
    """What a sequence needs beside its cells to go on after its first `num_tokens`.

    Attributes:
        number: rises with each one made.
        is_rolling: whether it only guards against a step that is broken off: the next one takes its place.
    """

    num_tokens: int
    state: StateBytes
    number: int
    is_rolling: bool


def new_checkpoint(num_tokens: int, state: StateBytes, *, is_rolling: bool) -> Checkpoint:
    """Return a checkpoint with the next number."""
    return Checkpoint(num_tokens, state, next(_numbers), is_rolling)


def with_checkpoint(held: Iterable[Checkpoint], new: Checkpoint) -> list[Checkpoint]:
    """Return a slot's checkpoints with one more, which takes the place of a rolling one."""
    kept = (item for item in held if item.num_tokens < new.num_tokens and not item.is_rolling)
    return [*kept, new]


def up_to(held: Iterable[Checkpoint], num_tokens: int) -> list[Checkpoint]:
    """Return those of at most `num_tokens`."""
    return [item for item in held if item.num_tokens <= num_tokens]


def too_many(lists: Iterable[list[Checkpoint]], max_bytes: int) -> set[int]:
    """Return the numbers of the oldest checkpoints, so many that the others take at most `max_bytes`; never the
    newest."""
    all_of_them = sorted({item.number: item for held in lists for item in held}.values(), key=lambda i: -i.number)
    total, given_up = 0, set[int]()
    for item in all_of_them:
        total += len(item.state)
        if total > max_bytes and item is not all_of_them[0]:
            given_up.add(item.number)
    return given_up
