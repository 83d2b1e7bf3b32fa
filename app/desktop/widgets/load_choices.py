"""What the choices of the load settings are called."""

import enum
from collections.abc import Sequence

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.desktop.rendering.plain import isolated, shortened
from app.desktop.widgets.choice_row import Option
from app.desktop.widgets.figures import bytes_text
from app.desktop.widgets.kv_memory import memory_share
from engine import CACHE_TYPES, Device, FlashAttention, LoadMode, RopeScaling, SplitMode

_CONTEXT = "LoadChoices"
TITLES = {
    "type_k": QT_TRANSLATE_NOOP("LoadChoices", "K cache"),
    "type_v": QT_TRANSLATE_NOOP("LoadChoices", "V cache"),
    "flash_attn": QT_TRANSLATE_NOOP("LoadChoices", "Flash attention"),
    "device": QT_TRANSLATE_NOOP("LoadChoices", "Device"),
    "split_mode": QT_TRANSLATE_NOOP("LoadChoices", "Several devices"),
    "load_mode": QT_TRANSLATE_NOOP("LoadChoices", "Weights"),
    "rope_scaling": QT_TRANSLATE_NOOP("LoadChoices", "RoPE scaling"),
}
HELP = {
    "type_k": QT_TRANSLATE_NOOP(
        "LoadChoices", "How the keys of the context are stored. Smaller types save memory and cost some accuracy."
    ),
    "type_v": QT_TRANSLATE_NOOP(
        "LoadChoices", "How the values of the context are stored. Quantised types need flash attention."
    ),
    "flash_attn": QT_TRANSLATE_NOOP(
        "LoadChoices", "Computes attention in one go, with less memory. A quantised V cache needs it."
    ),
    "device": QT_TRANSLATE_NOOP("LoadChoices", "What computes."),
    "split_mode": QT_TRANSLATE_NOOP("LoadChoices", "How a model is shared out among several graphics processors."),
    "load_mode": QT_TRANSLATE_NOOP("LoadChoices", "How the weights come from the file."),
    "rope_scaling": QT_TRANSLATE_NOOP("LoadChoices", "How positions beyond the trained context are squeezed into it."),
}
_ENUMS: dict[enum.Enum, object] = {
    FlashAttention.AUTO: QT_TRANSLATE_NOOP("LoadChoices", "auto"),
    FlashAttention.ON: QT_TRANSLATE_NOOP("LoadChoices", "on"),
    FlashAttention.OFF: QT_TRANSLATE_NOOP("LoadChoices", "off"),
    SplitMode.NONE: QT_TRANSLATE_NOOP("LoadChoices", "one has it all"),
    SplitMode.LAYER: QT_TRANSLATE_NOOP("LoadChoices", "by layers"),
    SplitMode.ROW: QT_TRANSLATE_NOOP("LoadChoices", "by rows"),
    LoadMode.AUTO: QT_TRANSLATE_NOOP("LoadChoices", "auto"),
    LoadMode.MMAP: QT_TRANSLATE_NOOP("LoadChoices", "mapped"),
    LoadMode.READ: QT_TRANSLATE_NOOP("LoadChoices", "read"),
    LoadMode.DIRECT: QT_TRANSLATE_NOOP("LoadChoices", "direct"),
    RopeScaling.AUTO: QT_TRANSLATE_NOOP("LoadChoices", "auto"),
    RopeScaling.NONE: QT_TRANSLATE_NOOP("LoadChoices", "none"),
    RopeScaling.LINEAR: QT_TRANSLATE_NOOP("LoadChoices", "linear"),
    RopeScaling.YARN: QT_TRANSLATE_NOOP("LoadChoices", "YaRN"),
}
_LOSSES = {
    "q8_0": QT_TRANSLATE_NOOP("LoadChoices", "Replies hardly change."),
    "q5_1": QT_TRANSLATE_NOOP("LoadChoices", "A small loss of quality."),
    "q5_0": QT_TRANSLATE_NOOP("LoadChoices", "A small loss of quality."),
    "q4_1": QT_TRANSLATE_NOOP("LoadChoices", "A loss that can be noticed, most of all in long chats."),
    "q4_0": QT_TRANSLATE_NOOP("LoadChoices", "A loss that can be noticed, most of all in long chats."),
    "iq4_nl": QT_TRANSLATE_NOOP("LoadChoices", "A loss that can be noticed, most of all in long chats."),
}
_MAX_NAME = 60


def choice_title(name: str) -> str:
    """Return what a person calls a setting."""
    return QCoreApplication.translate(_CONTEXT, str(TITLES.get(name, name)))


def choice_help(name: str) -> str:
    """Return what a setting does."""
    return QCoreApplication.translate(_CONTEXT, str(HELP[name])) if name in HELP else ""


def options_of(default: object, devices: Sequence[Device]) -> list[Option]:
    """Return what a setting offers, told by its default: an enum, a cache type, or else a device."""
    if isinstance(default, enum.Enum):
        return [
            Option(member, QCoreApplication.translate(_CONTEXT, str(_ENUMS.get(member, member.value))))
            for member in type(default)
        ]
    if default in CACHE_TYPES:
        return [Option(name, name, _cache_type_help(name)) for name in CACHE_TYPES]
    return [Option("", QCoreApplication.translate(_CONTEXT, "auto")), *map(_device_option, devices)]


def _cache_type_help(name: str) -> str:
    share = QCoreApplication.translate(_CONTEXT, "{share} % of the memory of f16").format(
        share=f"{memory_share(name) * 100:.0f}"
    )
    loss = _LOSSES.get(name)
    return f"{share}. {QCoreApplication.translate(_CONTEXT, str(loss))}" if loss else share


def _device_option(device: Device) -> Option:
    label = isolated(shortened(device.name, _MAX_NAME))
    description = isolated(shortened(device.description, 200))
    if device.total_bytes is None:
        return Option(device.name, label, description)
    if device.free_bytes is None:
        memory = QCoreApplication.translate(_CONTEXT, "{total} of memory").format(total=bytes_text(device.total_bytes))
    else:
        memory = QCoreApplication.translate(_CONTEXT, "{free} of {total} free").format(
            free=bytes_text(device.free_bytes), total=bytes_text(device.total_bytes)
        )
    return Option(device.name, label, f"{description}\n{memory}")
