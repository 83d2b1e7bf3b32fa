"""What a front end asks of the prompt cache: limits, what is kept, and that some of it goes."""

from typing import NamedTuple, assert_never

from engine.core import Engine
from engine.messages import (
    CacheDescribed,
    ClearCache,
    DescribeCache,
    ForgetChats,
    ForgetNamed,
    OpenChat,
    SetCache,
)
from engine.prompt_cache import PromptCache


class CacheSettled(NamedTuple):
    """All is deleted that was to be, and a question can be answered."""

    request_id: str


CacheCommand = SetCache | DescribeCache | ClearCache | ForgetChats | ForgetNamed | OpenChat


def forgets(command: CacheCommand, chat_id: str | None) -> bool:
    """Whether a command asks that nothing of a chat is kept."""
    return isinstance(command, ClearCache) or (isinstance(command, ForgetChats) and chat_id in command.chat_ids)


def obey(
    command: CacheCommand,
    prompt_cache: PromptCache,
    engine: Engine | None,
) -> None:
    """Do what a command asks; its answer, if it has one, is `described()` once all is deleted that was to be."""
    match command:
        case SetCache():
            prompt_cache.set_params(command.params)
            if engine is not None:
                engine.room.set_ram_bytes(prompt_cache.ram_bytes())
        case ForgetChats():
            if engine is not None:
                engine.forget(command.chat_ids)
            prompt_cache.forget(command.chat_ids)
        case ForgetNamed():
            if engine is not None:
                engine.room.forget_named(command.names)
            prompt_cache.forget_named(command.names)
        case OpenChat():
            if engine is not None:
                engine.room.opened.open(command.chat_id)
        case DescribeCache():
            pass
        case ClearCache():
            if engine is not None:
                engine.forget(None)
            prompt_cache.clear()
        case _:
            assert_never(command)


def described(request_id: str, prompt_cache: PromptCache, engine: Engine | None) -> CacheDescribed:
    """Return what is kept."""
    ram_bytes, max_ram_bytes = engine.room.ram_bytes if engine is not None else (0, 0)
    files, folder = prompt_cache.describe(), prompt_cache.folder
    return CacheDescribed(
        request_id=request_id,
        kept=(*(engine.room.describe() if engine is not None else ()), *files),
        ram_bytes=ram_bytes,
        max_ram_bytes=max_ram_bytes,
        disk_bytes=sum(file.num_bytes for file in files),
        max_disk_bytes=folder.max_bytes if folder is not None else 0,
        num_replies=prompt_cache.responses.num_replies,
        reply_bytes=prompt_cache.responses.num_bytes,
    )
