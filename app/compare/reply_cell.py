"""A reply as a cell of a comparison: all its measures by name."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from app.compare.column_worker import Reply
from app.compare.results import MEASURES, Cell
from app.reply_measures import completed
from app.settings import Settings
from engine import ModelDescription


def cell_of(
    reply: Reply,
    number: int,
    *,
    model: ModelDescription | None,
    settings: Settings,
    bandwidth: Mapping[str, Any],
    has_load: bool,
) -> Cell:
    """Return the cell of a reply that came to its end.

    Args:
        bandwidth: bytes a second by number of threads, as measured.
        has_load: whether it is the first one after its model was loaded.
    """
    finished, place = reply.finished, reply.request.place
    assert finished is not None and model is not None
    measured = dataclasses.replace(settings, read_bandwidth=bandwidth)
    values = completed(finished.metrics, model, measured, joules=reply.joules).as_dict()
    if has_load:
        values["load_s"] = model.load_s
    return Cell(
        column=place.column,
        prompt=place.prompt,
        repeat=place.repeat,
        number=number,
        values={
            name: float(value)
            for name in MEASURES
            if isinstance(value := values.get(name), int | float) and math.isfinite(value)
        },
        text=finished.text,
        thinking=finished.thinking,
        token_ids=finished.token_ids,
        finish_reason=finished.finish_reason,
        machine=reply.machine,
    )
