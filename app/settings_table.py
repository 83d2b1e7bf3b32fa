"""The table of the settings file: what each entry makes of a setting, and what a setting makes of its entry."""

import enum
from collections.abc import Mapping
from typing import Any

from app.setting_info import SettingInfo

SCHEMA_VERSION = 1

_SCHEMA_KEY = "schema_version"


def values_of(table: Mapping[str, Any], infos: Mapping[str, SettingInfo]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings by name, with what is unknown as `unknown`, and what was wrong with the others."""
    values: dict[str, Any] = {}
    faults: list[str] = []
    if not isinstance(table.get(_SCHEMA_KEY, SCHEMA_VERSION), int):
        faults.append(f"{_SCHEMA_KEY} is no number")
    for name, value in table.items():
        if name in infos:
            try:
                values[name] = infos[name].from_toml(value)
            except ValueError as error:
                faults.append(str(error))
    unknown = {name: value for name, value in table.items() if name not in infos and name != _SCHEMA_KEY}
    return {**values, "unknown": unknown}, faults


def table_of(settings: Any, infos: Mapping[str, SettingInfo]) -> dict[str, Any]:
    """Return the entries of the settings that the user chose; others follow the defaults of later versions."""
    table: dict[str, Any] = {_SCHEMA_KEY: SCHEMA_VERSION}
    for name, info in infos.items():
        value = getattr(settings, name)
        if value != info.default:
            table[name] = value.value if isinstance(value, enum.Enum) else value
    return table | dict(settings.unknown)
