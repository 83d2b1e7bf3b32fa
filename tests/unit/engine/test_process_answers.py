"""The client of a worker knows every command that is answered, and every event that ends one."""

import typing

from engine import process
from engine.messages import Command, Event

NOT_ANSWERED = {"CancelLoad", "Abort"}  # what they end is answered
ON_THE_WAY = {"LoadProgress", "StateChanged", "TurnsDropped", "PrefillProgress", "Delta", "ImportanceProgress"}


def with_id(union: typing.Any) -> set[str]:
    """Return the messages that name a request."""
    return {kind.__name__ for kind in typing.get_args(union) if "request_id" in kind.__struct_fields__}


def test_every_command_with_an_answer_is_waited_for() -> None:
    assert {kind.__name__ for kind in process._ASKING} == with_id(Command) - NOT_ANSWERED


def test_every_event_that_is_not_on_the_way_is_the_last_of_its_request() -> None:
    assert {kind.__name__ for kind in process._FINAL} == with_id(Event) - ON_THE_WAY
