"""What a part of a measuring run works with that is done once in every repeat."""

import dataclasses
from collections.abc import Callable

from app.bench.driver import BenchDriver
from app.bench.plan import BenchPlan
from app.bench.prompts import Prompts
from app.known_models import KnownModels

Note = Callable[[str, float | None], None]


@dataclasses.dataclass(frozen=True)
class BenchRound:
    """See above.

    Attributes:
        note: takes the name and the value of a measure.
        number: of its first chat.
        known: models that need not be tried out again.
    """

    driver: BenchDriver
    prompts: Prompts
    plan: BenchPlan
    note: Note
    _: dataclasses.KW_ONLY
    number: int
    known: KnownModels | None = None
