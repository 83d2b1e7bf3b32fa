"""ChatSettings: what belongs to one chat beside its messages."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from app.desktop.session.chat_adapters import ChatAdapter, read_adapters, stored_adapters
from app.store import Chat, ChatChange

_SAMPLING, _PLACE, _ADAPTERS = "sampling", "place", "adapters"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChatSettings:
    """What a chat remembers.

    Attributes:
        model: how the settings name its model; "" while it takes the one that is loaded.
        sampling: the values that were set for this chat, by name.
        adapters: those it uses, and the strength of those it used.
        place: the message at the top of the view and how far it is scrolled, where the view does not follow the end.
    """

    model: str = ""
    system_prompt: str = ""
    sampling: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    adapters: tuple[ChatAdapter, ...] = ()
    place: tuple[str, int] | None = None

    @property
    def stored(self) -> Mapping[str, Any]:
        """The part that the store keeps as one table."""
        values: dict[str, Any] = {}
        if self.sampling:
            values[_SAMPLING] = dict(self.sampling)
        if self.adapters:
            values[_ADAPTERS] = stored_adapters(self.adapters)
        if self.place is not None:
            values[_PLACE] = list(self.place)
        return values

    @property
    def change(self) -> ChatChange:
        """Everything, to be written over what the store has."""
        return ChatChange(system_prompt=self.system_prompt, model=self.model, settings=self.stored)


def settings_of(chat: Chat) -> ChatSettings:
    """Return what a stored chat remembers; what is not understood is left out."""
    sampling, place = chat.settings.get(_SAMPLING), chat.settings.get(_PLACE)
    found: tuple[str, int] | None = None
    match place:
        case [str() as turn_id, int() as offset]:
            found = (turn_id, offset)
    return ChatSettings(
        model=chat.model,
        system_prompt=chat.system_prompt,
        sampling=sampling if isinstance(sampling, Mapping) else {},
        adapters=read_adapters(chat.settings.get(_ADAPTERS)),
        place=found,
    )
