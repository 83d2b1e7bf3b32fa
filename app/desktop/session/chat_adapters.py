"""The adapters of a chat: which are in use and how strongly, as the store keeps it and as the engine takes it."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from engine import Adapter

MAX_SCALE = 10.0
MAX_IN_USE = 8  # of one request, as the engine takes it
_MAX_KEPT = 64
_MAX_PATH = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChatAdapter:
    """An adapter that a chat uses, or once did.

    Attributes:
        path: absolute.
        scale: strength, kept while it is not in use.
        stamp: of the file when it was chosen, see `app.adapter_files`; empty where it was not looked at.
    """

    path: str
    scale: float = 1.0
    is_on: bool = True
    stamp: str = ""


def adapters_in_use(adapters: Iterable[ChatAdapter]) -> tuple[ChatAdapter, ...]:
    """Return those that change a reply; a strength of 0 is none."""
    return tuple(adapter for adapter in adapters if adapter.is_on and adapter.scale)


def stored_adapters(adapters: Iterable[ChatAdapter]) -> list[dict[str, Any]]:
    """Return adapters as the store keeps them."""
    return [dataclasses.asdict(adapter) for adapter in adapters]


def read_adapters(stored: object) -> tuple[ChatAdapter, ...]:
    """Return adapters out of the store; what is not understood is left out."""
    entries = stored[:_MAX_KEPT] if isinstance(stored, list) else []
    found: dict[str, ChatAdapter] = {}
    for entry in entries:
        match entry:
            case {"path": str() as path, "scale": float() | int() as scale, "is_on": bool() as is_on}:
                if _is_path(path) and math.isfinite(scale) and 0 <= scale <= MAX_SCALE:
                    stamp = entry.get("stamp")
                    found[path] = ChatAdapter(
                        path=path, scale=float(scale), is_on=is_on, stamp=stamp if isinstance(stamp, str) else ""
                    )
    return tuple(found.values())


def _is_path(text: str) -> bool:
    is_text = not any("\ud800" <= letter <= "\udfff" for letter in text)  # the engine takes nothing else
    return is_text and 0 < len(text) <= _MAX_PATH


def made_with(adapters: Iterable[ChatAdapter]) -> list[dict[str, Any]]:
    """Return what a reply is to remember of the adapters it is made with."""
    return [{"path": adapter.path, "scale": adapter.scale} for adapter in adapters_in_use(adapters)]


def engine_adapters(settings: Mapping[str, Any]) -> Sequence[Adapter]:
    """Return the adapters that a reply with these settings is asked for with; see `made_with`."""
    return msgspec.convert(settings.get("adapters", []), tuple[Adapter, ...])
