"""Which version of the engine this is."""

import importlib.metadata


def engine_version() -> str:
    """Return the version of the installed distribution."""
    try:
        return importlib.metadata.version("fireside-chat")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
