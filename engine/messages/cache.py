"""What a front end and a worker say to each other about the prompt cache."""

import msgspec

from engine.errors import ErrorInfo
from engine.metrics import CacheSource
from engine.params import CacheParams


class SetCache(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Keep to these limits of the prompt cache, whichever model is loaded; a worker begins without a folder.

    No folder keeps what is on disk and uses none of it; a limit of 0 on disk deletes it.
    """

    params: CacheParams


class DescribeCache(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell what is kept of prompts; answered by CacheDescribed. Needs no model."""

    request_id: str


class ClearCache(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Drop all that is kept of prompts, on disk too; answered by CacheDescribed. What is being computed stays."""

    request_id: str


class ForgetChats(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Drop all that is kept of these chats, on disk too."""

    chat_ids: tuple[str, ...]


class ForgetNamed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Drop all that is kept under these names, of all models, on disk too."""

    names: tuple[str, ...]


class OpenChat(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Bring back what is kept of a chat while nothing is computed: it is about to be gone on with."""

    chat_id: str


class KeptPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """Something the prompt cache holds.

    Attributes:
        source: where: `slot`, `ram` or `disk`. One chat may be in several places.
        last_used: seconds since 1970; None of a slot.
        name: under which Prepare keeps it; empty where it is kept of itself.
    """

    source: CacheSource
    model_name: str
    num_tokens: int
    num_bytes: int
    chat_id: str | None
    last_used: float | None
    name: str = ""


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to Prepare: the beginning has been read, and prompts that begin so go on from there.

    Attributes:
        num_tokens: of the beginning.
        num_cached_tokens: how many of them were kept before, in `source`, and did not have to be read.
        num_bytes: that it takes where it is kept.
        is_in_ram: whether memory keeps it under its name; else it is in the context, until it must make room.
        is_for_disk: whether it is being written, or was before.
        seconds: from Prepare to this answer.
    """

    request_id: str
    name: str
    num_tokens: int
    num_cached_tokens: int
    source: CacheSource
    num_bytes: int
    is_in_ram: bool
    is_for_disk: bool
    seconds: float


class PrepareCancelled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to Prepare after Abort; what was read is in the context, under no name."""

    request_id: str


class CacheRefused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What was read cannot be kept on disk; told once, by the first thing that is refused. Replies go on."""

    error: ErrorInfo


class CacheDescribed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to DescribeCache and ClearCache, once what was to be forgotten before is deleted.

    Attributes:
        ram_bytes, max_ram_bytes: of snapshots in memory; 0 without a model.
        disk_bytes, max_disk_bytes: of files, of all models; 0 without a folder.
        num_replies, reply_bytes: whole replies that are stored, of all models, and what they take.
    """

    request_id: str
    kept: tuple[KeptPrompt, ...]
    ram_bytes: int
    max_ram_bytes: int
    disk_bytes: int
    max_disk_bytes: int
    num_replies: int = 0
    reply_bytes: int = 0
