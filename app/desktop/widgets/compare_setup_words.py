"""The words of the set-up of a comparison: what a mode does, and what it will take."""

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication

from app.compare.results import Mode
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.compare_setup import CompareSetup
from app.desktop.widgets.figures import bytes_text


def mode_help(mode: Mode) -> str:
    """Return what a mode is good for."""
    if mode is Mode.RACE:
        return _tr("All models are loaded together and share the processor. Good for reading, not for measuring.")
    if mode is Mode.SAMPLES:
        return _tr("The same prompt, each reply with a seed of its own: shows how much replies differ.")
    return _tr("Each model has the computer to itself, and the order changes with each repeat.")


def summary(setup: CompareSetup, sizes: Sequence[int], loaded: str) -> str:
    """Return what a comparison will take, in one line.

    Args:
        sizes: bytes of the files of its columns; 0 where that is not known.
        loaded: the model that the chat has in memory; empty for none.
    """
    mode, count = setup.mode, len(setup.columns)
    if mode is Mode.FAIR:
        num_bytes = max(sizes, default=0)
        words = _tr("One model in memory at a time, {size} at most; {loads} loads.")
    elif mode is Mode.RACE:
        num_bytes = sum(sizes)
        words = _tr("{loads} models in memory together: {size}.")
    else:
        num_bytes = sum(sizes)
        words = _tr("One model in memory: {size}.")
    loads = count * (setup.repeats if mode is Mode.FAIR else 1)
    size = bytes_text(num_bytes) if num_bytes and all(sizes) else _tr("size not known")
    parts = [words.format(size=size, loads=loads)]
    if loaded:
        told = _tr("The model of the chat, {name}, stays in memory as well.")
        parts.append(told.format(name=isolated(shortened(loaded, 60))))
    return " ".join(parts)


def _tr(text: str) -> str:
    return QCoreApplication.translate("CompareSetup", text)
