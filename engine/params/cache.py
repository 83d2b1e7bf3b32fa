"""What is kept of prompts that were read, beside the context: in memory and on disk, and how much of it."""

from typing import Annotated

import msgspec

from engine.errors import InvalidParams
from engine.params.declare import ParamInfo, check_params

_MAX_FOLDER = 4096


class CacheParams(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the prompt cache.

    Attributes:
        folder: where snapshots are written; "" writes none.
        reuse: whether what the context itself holds of a prompt is used; else each is read from its beginning.
        responses: whether whole replies are stored, and given again to just the same request; else those that are
            there go.

    Raises:
        InvalidParams: a value is out of range.
    """

    ram_mib: Annotated[
        int | None,
        ParamInfo(
            label="Memory for chats",
            help="MiB of memory for chats that make way for others, so that going back to them reads nothing again. "
            "0 keeps none; auto takes up to a quarter of what is free.",
            minimum=0,
            maximum=16_777_216,
            soft_maximum=32_768,
            step=256,
            none_label="auto",
        ),
    ] = None
    disk_mib: Annotated[
        int | None,
        ParamInfo(
            label="Disk for chats",
            help="MiB of disk for chats, so that they go on after a restart. 0 writes nothing and deletes what there "
            "is; auto takes 8 GiB, or 5 % of the free disk where that is less.",
            minimum=0,
            maximum=16_777_216,
            soft_maximum=65_536,
            step=512,
            none_label="auto",
        ),
    ] = None
    folder: str = ""
    reuse: bool = True
    responses: bool = False

    def __post_init__(self) -> None:
        check_params(self)
        if len(self.folder) > _MAX_FOLDER:
            raise InvalidParams("The name of the cache folder is too long.", "Choose another folder.")
