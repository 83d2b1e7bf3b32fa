"""What a setting declares of itself: its type, its words and its limits."""

import dataclasses
import enum
import itertools
import math
from collections.abc import Mapping
from typing import Any

_MAX_DEPTH = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class SettingInfo:
    """What a person is shown about one setting, and what it may hold.

    Attributes:
        type: type of the value; an enum is stored by its value.
        choices: what the values of an enum are called, in the order of its members.
        minimum, maximum, step: of a number.
        unit, unit_of_one: what follows a number, and the number one where that differs.
        lowest: what the smallest number is called, where it stands for no amount.
        section: heading of the settings page it stands under; "" for one that the page does not show, because the
            window sets it where it is used.
        is_nested: whether the values of a table may be tables, lists, numbers and truth values too, not texts alone.
        default: None means that the setting may be absent.
        name: filled in from the field.
    """

    type: type[Any]
    label: str
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    step: float = 1
    unit: str = ""
    unit_of_one: str = ""
    lowest: str = ""
    section: str = ""
    is_nested: bool = False
    name: str = ""
    default: Any = None

    def from_toml(self, value: Any) -> Any:
        """Return the value of the setting.

        Raises:
            ValueError: `value` is not what this setting may hold.
        """
        if issubclass(self.type, enum.Enum):
            return self.type(value)
        if self.type is float and isinstance(value, int):
            value = value if isinstance(value, bool) else float(value)
        if not isinstance(value, self.type) or (isinstance(value, bool) and self.type is not bool):
            raise ValueError(f"{self.name} is no {self.type.__name__}")
        if self.type is dict and not self.is_nested and not all(isinstance(item, str) for item in value.values()):
            raise ValueError(f"{self.name} holds something that is no text")
        if self.minimum is not None and not self.minimum <= value <= (self.maximum or math.inf):
            raise ValueError(f"{self.name} is outside {self.minimum} to {self.maximum}")
        return value


def check_depth(table: Mapping[str, Any]) -> None:
    """Raise ValueError where a table is nested so deeply that it could not be written again."""
    level: list[Any] = [table]
    for _ in range(_MAX_DEPTH):
        tables = (item.values() for item in level if isinstance(item, Mapping))
        arrays = (item for item in level if isinstance(item, list))
        level = [*itertools.chain.from_iterable(itertools.chain(tables, arrays))]
    if level:
        raise ValueError("it is nested too deeply")
