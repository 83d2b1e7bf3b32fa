"""llama.cpp behind the Backend protocol; the only place in the engine that imports it."""

from engine.backend_llama.loading import LlamaLoader

__all__ = ["LlamaLoader"]
