"""Surroundings: what every conversation of a window works with."""

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from PySide6.QtCore import QCoreApplication

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.chat_adapters import made_with
from app.desktop.session.chat_recorder import ChatRecorder
from app.desktop.session.chat_settings import ChatSettings
from app.desktop.session.model_session import ModelSession
from app.desktop.session.reply_costs import ReplyCosts
from app.desktop.session.turns import ReplyTurn
from engine import SamplingParams, SpeculativeParams


class Surroundings(NamedTuple):
    """The shared parts.

    Attributes:
        sampling: gives the settings for the next reply of a chat.
        chat_format: gives the format that the user chose for the model, None for its own.
        clock: monotonic seconds.
        costs: what replies draw; None where nobody asks.
        speculative: tells how the next reply drafts, by its settings.
    """

    bridge: EngineBridge
    model: ModelSession
    recorder: ChatRecorder
    sampling: Callable[[ChatSettings], SamplingParams]
    chat_format: Callable[[], str | None]
    clock: Callable[[], float] = time.monotonic
    costs: ReplyCosts | None = None
    speculative: Callable[[SamplingParams], SpeculativeParams] = lambda _: SpeculativeParams()

    def describe_making(self, reply: ReplyTurn, settings: ChatSettings) -> None:
        """Let a reply tell by which model it is made, and with which settings."""
        chosen = self.model.chosen
        reply.model_name = self.model.label or QCoreApplication.translate("Conversation", "Assistant")
        reply.model_fingerprint = getattr(chosen, "fingerprint", "")
        reply.template_hash = getattr(chosen, "template_hash", "")
        adapters = made_with(settings.adapters)
        reply.settings = {
            "sampling": msgspec.to_builtins(self.sampling(settings)),
            "system_prompt": settings.system_prompt,
            "chat_format": self.chat_format() or "",
            **({"adapters": adapters} if adapters else {}),
        }
