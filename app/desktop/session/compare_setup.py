"""What a person chooses on the Compare page, as values: columns, prompts, and how replies are made."""

from typing import NamedTuple

from app.compare.results import Mode
from engine import ChatMessage

MIN_COLUMNS, MAX_COLUMNS = 2, 8
MAX_SAMPLES = 16  # as many lanes as can be looked at
MAX_REPEATS = 20
MAX_THREADS = 64
CACHE_TYPES = ("f16", "q8_0", "q4_0")

TYPED, SHORT, WHOLE, CHATS = "typed", "short", "whole", "chats"


class ModelOption(NamedTuple):
    """A model that can be chosen.

    Attributes:
        name: what finds it: `starter`, or a path.
        num_bytes: of its file; 0 where that is not known.
        group: the same for all levels of one model; empty where that is not known.
    """

    name: str
    label: str
    num_bytes: int = 0
    group: str = ""


class ColumnSetup(NamedTuple):
    """One column.

    Attributes:
        model: see ModelOption.
        cache: element type of the KV cache.
        temperature: 0 takes the likeliest token.
        n_threads: 0 lets the engine choose.
        adapter: path of a LoRA adapter; empty for none.
        scale: strength of the adapter.
    """

    model: str
    cache: str = "f16"
    temperature: float = 0.0
    n_threads: int = 0
    adapter: str = ""
    scale: float = 1.0


PastChat = tuple[str, tuple[ChatMessage, ...]]
"""A chat that was: its title, and what was said."""


class CompareSetup(NamedTuple):
    """What is to be compared.

    Attributes:
        prompts: TYPED, SHORT, WHOLE, CHATS, or the path of a file.
        text: the prompt, where it is typed.
        repeats: how often each is asked; of samples, how many there are.
        chats: ids of the past chats that are the prompts, where they are.
    """

    columns: tuple[ColumnSetup, ...]
    mode: Mode = Mode.FAIR
    prompts: str = TYPED
    text: str = ""
    repeats: int = 1
    max_tokens: int = 256
    chats: tuple[str, ...] = ()


class Interrupted(NamedTuple):
    """A run that can be gone on with."""

    id: str
    created_at: str
    num_done: int
    num_total: int
