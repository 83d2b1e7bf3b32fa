"""llama.cpp behind the Backend protocol; the only place in the engine that imports it.

`LlamaLoader` is imported when it is asked for: the probe of a file needs only a part of this, and starts a process.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.backend_llama.loading import LlamaLoader

__all__ = ["LlamaLoader"]


def __getattr__(name: str) -> Any:
    if name != "LlamaLoader":
        raise AttributeError(name)
    from engine.backend_llama.loading import LlamaLoader

    return LlamaLoader
