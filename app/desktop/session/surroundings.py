"""Surroundings: what every conversation of a window works with."""

import time
from collections.abc import Callable
from typing import NamedTuple

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.chat_recorder import ChatRecorder
from app.desktop.session.chat_settings import ChatSettings
from app.desktop.session.model_session import ModelSession
from engine import SamplingParams


class Surroundings(NamedTuple):
    """The shared parts.

    Attributes:
        sampling: gives the settings for the next reply of a chat.
        chat_format: gives the format that the user chose for the model, None for its own.
        clock: monotonic seconds.
    """

    bridge: EngineBridge
    model: ModelSession
    recorder: ChatRecorder
    sampling: Callable[[ChatSettings], SamplingParams]
    chat_format: Callable[[], str | None]
    clock: Callable[[], float] = time.monotonic
