"""How much of prompts the engine keeps, as the user has set it: for the window and for the terminal alike."""

from app.settings import Settings
from engine import CacheParams


def cache_params(settings: Settings, folder: str) -> CacheParams:
    """Return the limits that the user set; a negative amount is the engine's to choose.

    Args:
        folder: where the engine may write; empty is nowhere.
    """
    memory, disk = settings.chat_memory_mib, settings.chat_disk_mib
    return CacheParams(
        ram_mib=None if memory < 0 else memory,
        disk_mib=None if disk < 0 else disk,
        folder=folder,
        responses=settings.response_cache,
    )
