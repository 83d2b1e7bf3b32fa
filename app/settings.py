"""The user's settings: declared once, kept as TOML, read from whatever is in the file without ever failing the start.

To add one, add a field to Settings: its annotation is what pages, validation and documentation derive from.
"""

import contextlib
import dataclasses
import datetime
import enum
import functools
import logging
import os
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tomli_w

from app.atomic_file import write_atomically
from app.errors import SettingsError
from app.setting_info import SettingInfo, check_depth
from app.settings_table import table_of, values_of
from engine import MAX_DRAFT, DraftMode

_LOG = logging.getLogger(__name__)
_MAX_FILE_BYTES = 1 << 20


class Theme(enum.Enum):
    """How the window is coloured."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class FollowMode(enum.Enum):
    """What the conversation does while a reply is written."""

    END = "end"  # stays with the newest text
    START = "start"  # goes on until the beginning of the reply is at the top
    OFF = "off"


class SendKey(enum.Enum):
    """What sends a message."""

    ENTER = "enter"
    MOD_ENTER = "mod-enter"  # Ctrl+Enter, or Cmd+Enter on macOS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything the user chose.

    Attributes:
        unknown: what the file holds beside, written back unchanged: another version may know it.
    """

    last_model: Annotated[
        str | None,
        SettingInfo(type=str, label="Last model", help="The model used last: `starter` or the path of a file."),
    ] = None
    theme: Annotated[
        Theme,
        SettingInfo(
            type=Theme,
            label="Theme",
            help="Light, dark, or as the rest of the desktop is.",
            choices=("As the system", "Light", "Dark"),
            section="Appearance",
        ),
    ] = Theme.SYSTEM
    zoom: Annotated[
        float,
        SettingInfo(
            type=float,
            label="Size",
            help="Size of everything in the window.",
            minimum=0.8,
            maximum=2.0,
            step=0.1,
            unit="×",
            section="Appearance",
        ),
    ] = 1.0
    send_key: Annotated[
        SendKey,
        SettingInfo(
            type=SendKey,
            label="Send with",
            help="The key that sends a message; the other one begins a new line.",
            choices=("Enter", "Ctrl+Enter"),
            section="Conversation",
        ),
    ] = SendKey.ENTER
    follow: Annotated[
        FollowMode,
        SettingInfo(
            type=FollowMode,
            label="While a reply is written",
            help="What the conversation does when you are at its end. Scrolling up always lets go.",
            choices=("Stay with the newest text", "Keep the beginning of the reply in view", "Do not move"),
            section="Conversation",
        ),
    ] = FollowMode.END
    retention_days: Annotated[
        int,
        SettingInfo(
            type=int,
            label="Keep deleted chats for",
            help="After that, what is in the trash is removed for good. Takes effect at the next start.",
            minimum=1,
            maximum=3650,
            unit="days",
            unit_of_one="day",
            section="Chats",
        ),
    ] = 30
    chat_memory_mib: Annotated[
        int,
        SettingInfo(
            type=int,
            label="Memory for chats",
            help="Going back to a chat reads nothing again. 0 keeps none; automatic takes up to a quarter of what is "
            "free.",
            minimum=-1,
            maximum=16_777_216,
            step=256,
            unit="MiB",
            lowest="automatic",
            section="Prompt cache",
        ),
    ] = -1
    chat_disk_mib: Annotated[
        int,
        SettingInfo(
            type=int,
            label="Disk for chats",
            help="Chats go on at once after a restart. 0 writes nothing and deletes what there is; automatic takes up "
            "to 8 GiB, or 5 % of the free disk.",
            minimum=-1,
            maximum=16_777_216,
            step=1024,
            unit="MiB",
            lowest="automatic",
            section="Prompt cache",
        ),
    ] = -1
    read_opened: Annotated[
        bool,
        SettingInfo(
            type=bool,
            label="Read opened chats ahead",
            help="When a chat is opened of which little is kept, the model reads it before you ask, while nothing "
            "else is computed.",
            section="Prompt cache",
        ),
    ] = True
    response_cache: Annotated[
        bool,
        SettingInfo(
            type=bool,
            label="Keep whole replies",
            help="The same question, at temperature 0 or with a fixed seed, gets its reply again at once, marked as "
            "from the cache. Off keeps none and deletes what there is.",
            section="Prompt cache",
        ),
    ] = False
    read_ahead_above: Annotated[
        int,
        SettingInfo(
            type=int,
            label="On battery, read ahead above",
            help="When a reply has ended, what closes its turn is read at once, so that the next one starts sooner.",
            minimum=0,
            maximum=101,
            unit="%",
            section="Power",
        ),
    ] = 50
    power_watts: Annotated[
        float,
        SettingInfo(
            type=float,
            label="Power while computing",
            help="What this computer draws, for the energy of a reply, where it cannot be read here. 0 is unknown.",
            minimum=0.0,
            maximum=2000.0,
            step=5.0,
            unit="W",
            section="Cost",
        ),
    ] = 0.0
    electricity_price: Annotated[
        float,
        SettingInfo(
            type=float,
            label="Price of electricity",
            help="For a kilowatt hour, in your currency. 0 is unknown.",
            minimum=0.0,
            maximum=1000.0,
            step=0.01,
            unit="/kWh",
            section="Cost",
        ),
    ] = 0.0
    draft_mode: Annotated[
        DraftMode,
        SettingInfo(
            type=DraftMode,
            label="Draft ahead",
            help="Guesses the next tokens and checks several at a time, while that is measurably not slower. A model "
            "can have a choice of its own, in the inspector.",
            choices=("Off", "Automatic", "Own text", "Draft model", "Both"),
            section="Drafting",
        ),
    ] = DraftMode.AUTO
    draft_max: Annotated[
        int,
        SettingInfo(
            type=int,
            label="Most drafted tokens",
            help="Tokens drafted at a time; automatic chooses by what steps take and how many are accepted.",
            minimum=0,
            maximum=MAX_DRAFT,
            lowest="automatic",
            section="Drafting",
        ),
    ] = 0
    draft_strict: Annotated[
        bool,
        SettingInfo(
            type=bool,
            label="Strict",
            help="At temperature 0 the text is that of plain decoding to the token; slower.",
            section="Drafting",
        ),
    ] = False
    draft_tint: Annotated[
        bool,
        SettingInfo(type=bool, label="Tint drafts", help="Shows which text of a reply came from accepted drafts."),
    ] = False
    drafting: Annotated[
        Mapping[str, Any],
        SettingInfo(
            type=dict, label="Drafting by model", help="What drafts: `mode`, `path`, `gpu_layers`.", is_nested=True
        ),
    ] = dataclasses.field(default_factory=dict)
    read_bandwidth: Annotated[
        Mapping[str, Any],
        SettingInfo(
            type=dict,
            label="Memory bandwidth",
            help="Bytes a second, as measured here, by the number of threads.",
            is_nested=True,
        ),
    ] = dataclasses.field(default_factory=dict)
    sampling: Annotated[
        Mapping[str, Any],
        SettingInfo(type=dict, label="Sampling", help="Sampling settings of all chats, by name.", is_nested=True),
    ] = dataclasses.field(default_factory=dict)
    model_sampling: Annotated[
        Mapping[str, Any],
        SettingInfo(type=dict, label="Sampling by model", help="Sampling settings of a model.", is_nested=True),
    ] = dataclasses.field(default_factory=dict)
    load_params: Annotated[
        Mapping[str, Any],
        SettingInfo(type=dict, label="Loading by model", help="How a model is loaded, by model.", is_nested=True),
    ] = dataclasses.field(default_factory=dict)
    window: Annotated[
        Mapping[str, Any],
        SettingInfo(type=dict, label="Window", help="Where the window was, and what it showed.", is_nested=True),
    ] = dataclasses.field(default_factory=dict)
    models_used: Annotated[
        Mapping[str, Any],
        SettingInfo(
            type=dict, label="Last use", help="When a model file was loaded last, by its path.", is_nested=True
        ),
    ] = dataclasses.field(default_factory=dict)
    chat_formats: Annotated[
        Mapping[str, str],
        SettingInfo(type=dict, label="Chat formats", help="The chat format chosen for a model, by model."),
    ] = dataclasses.field(default_factory=dict)
    adapter_files: Annotated[
        Mapping[str, str],
        SettingInfo(type=dict, label="Adapter files", help="LoRA adapters that were added by hand: path and name."),
    ] = dataclasses.field(default_factory=dict)
    unknown: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)


@functools.cache
def setting_infos() -> dict[str, SettingInfo]:
    """Return the declared settings by name, in the order of declaration."""
    hints = typing.get_type_hints(Settings, include_extras=True)
    infos: dict[str, SettingInfo] = {}
    for field in dataclasses.fields(Settings):
        for declared in getattr(hints[field.name], "__metadata__", ()):
            factory = field.default_factory
            default = field.default if factory is dataclasses.MISSING else factory()
            infos[field.name] = dataclasses.replace(declared, name=field.name, default=default)
    return infos


class SettingsStore:
    """The settings file.

    Args:
        path: of the TOML file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> tuple[Settings, str | None]:
        """Return the settings, and one sentence for the user when the file was damaged and had to be set aside."""
        try:
            text = self._read()
        except FileNotFoundError:
            return Settings(), None
        except (OSError, ValueError) as error:
            return Settings(), self._set_aside(error)
        try:
            table = tomllib.loads(text)
            check_depth(table)
        except (ValueError, RecursionError) as error:
            return Settings(), self._set_aside(error)
        values, faults = values_of(table, setting_infos())
        settings = Settings(**values)
        if not faults:
            return settings, None
        notice = self._set_aside(ValueError("; ".join(faults)))
        # What was sound must survive the start after this one.
        with contextlib.suppress(SettingsError):
            self.save(settings)
        return settings, notice

    def save(self, settings: Settings) -> None:
        """Write the settings so that a reader sees the old file or the new one, whole, even after a power cut.

        Raises:
            SettingsError: they could not be written; the old file is untouched.
        """
        target = Path(os.path.realpath(self._path))
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(target, tomli_w.dumps(table_of(settings, setting_infos())).encode())
        except (OSError, UnicodeEncodeError) as error:
            raise SettingsError(
                "The settings could not be saved.", f"Check that {target} can be written.", str(error)
            ) from error

    def update(self, **changes: Any) -> Settings:
        """Change some settings in the file, leaving to the others what another window may have written.

        Raises:
            SettingsError: they could not be written.
        """
        settings = dataclasses.replace(self.load()[0], **changes)
        self.save(settings)
        return settings

    def _read(self) -> str:
        if not self._path.exists():
            raise FileNotFoundError(self._path)
        if not self._path.is_file():  # opening a pipe would wait for ever
            raise ValueError("no regular file")
        with self._path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        if not data.strip() or len(data) > _MAX_FILE_BYTES:
            raise ValueError("empty or far too large")
        return data.decode("utf-8-sig")

    def _set_aside(self, reason: Exception) -> str:
        now = datetime.datetime.now().astimezone()
        aside = self._path.with_name(f"{self._path.name}.damaged-{now:%Y%m%d-%H%M%S-%f}")
        _LOG.warning("settings file is damaged: %s", reason)
        try:
            self._path.rename(aside)
        except OSError as error:
            _LOG.warning("it could not be set aside: %s", error)
            return f"The settings in {self._path} could not be read, so Fireside uses its defaults for them."
        return f"The settings were damaged, so Fireside uses defaults; the old file is kept as {aside.name}."
