"""A run as lines for a person, and beside another run."""

from app.bench.measures import BUSY, BYTES, BYTES_RATE, FLOP_RATE, RATE, SECONDS, SHARE, TIMES, TOKENS, TOKENS_A_STEP
from app.bench.plan import GROWTH
from app.bench.record import Measure, RunRecord
from app.bench.statistics import Summary, is_within_noise, median_ratio, summarise

Row = tuple[str, ...]

_LABELS = {
    "load": "load",
    "cold_ttft": "first token, long prompt",
    "follow_ttft": "first token, follow-up",
    "switch_ttft": "first token, back to a chat in the context",
    "prefill_short": "prefill, short prompt",
    "prefill_long": "prefill, long prompt",
    "decode_short": "decode, short context",
    "decode_long": "decode, long context",
    "stop_in_prefill": "stop while a prompt is read",
    "parallel_2": "two replies at once",
    "parallel_4": "four replies at once",
    "parallel_8": "eight replies at once",
    "bandwidth": "memory bandwidth",
    "matmul": "matrix product",
    "bandwidth_share": "share of the bandwidth",
    "edit_ttft": "first token, last message edited",
    "edit_evaluated": "tokens read for that",
    "switch_ram_ttft": "first token, back to a chat in memory",
    "restart_ttft": "first token, chat on disk after a restart",
    "snapshot_bytes": "size of that chat on disk",
    "write_gap": "longest gap of a reply while a chat is written",
    "quiet_gap": "longest gap of a reply else",
    **{
        f"{kind}_{name}": f"{text}, {label}"
        for kind, text in {"story": "a story", "copy": "a text told again"}.items()
        for name, label in {
            "plain": "plain",
            "drafted": "drafted",
            "speedup": "speed-up by drafting",
            "acceptance": "accepted of the drafted",
            "length": "tokens a drafted step",
            "net_speedup": "speed-up as reported",
        }.items()
    },
    **{f"growth_{size // 1024}k": f"first token, follow-up on {size:,} tokens" for size in GROWTH},
}
_UNITS = {
    BYTES_RATE: ("GB/s", 1e-9, 1),
    FLOP_RATE: ("GFLOP/s", 1e-9, 0),
    RATE: ("tokens/s", 1.0, 1),
    TOKENS: ("tokens", 1.0, 0),
    BYTES: ("MB", 1e-6, 1),
    TIMES: ("x", 1.0, 2),
    TOKENS_A_STEP: ("tokens", 1.0, 1),
}
_LESS_IS_BETTER = (SECONDS, TOKENS, BYTES)
_BUSY_LOAD = 0.5  # of the processors: more of them busy before the run than that leaves no quiet one
_NAMED = 3


def measure_rows(record: RunRecord) -> list[Row]:
    """Return a row for each measure: label, median, range, spread, and the ratio to the bare loop."""
    return [_row(measure) for measure in record.measures]


def compared_rows(now: RunRecord, before: RunRecord) -> list[Row]:
    """Return a row for each measure of both: label, before, now, ratio, and what it means."""
    rows: list[Row] = []
    for measure in now.measures:
        other = before.measure(measure.name)
        new, old = summarise(measure.values), summarise(other.values) if other else None
        if other is None or other.unit != measure.unit or new is None or old is None:
            continue
        ratio = new.median / old.median if old.median else None
        shown = "" if ratio is None else f"{ratio:.2f}"
        texts = (shown_value(old.median, measure.unit), shown_value(new.median, measure.unit))
        rows.append((label_of(measure.name), *texts, shown, _verdict(measure, new, old)))
    return rows


def differences(now: RunRecord, before: RunRecord) -> list[str]:
    """Return what makes two runs hard to compare, a sentence each."""
    pairs = {
        "The other run is of another model": (now.model.fingerprint, before.model.fingerprint),
        "The other run was made on another processor": (now.machine.processor, before.machine.processor),
        "The other run used another llama.cpp": (now.engine.library, before.engine.library),
        "The other run used another number of threads": (
            now.model.description.n_threads,
            before.model.description.n_threads,
        ),
        "The other run had a prompt of another length": (now.plan.prompt_tokens, before.plan.prompt_tokens),
        "The other run was on another source of power": (
            now.machine.before.power_source,
            before.machine.before.power_source,
        ),
    }
    return [f"{sentence}." for sentence, (one, other) in pairs.items() if one != other]


def noise_warning(record: RunRecord) -> str | None:
    """Return a sentence where the machine was too busy, or too hot, for the figures to say much; else None."""
    noisy = [
        label_of(measure.name)
        for measure in record.measures
        if (summary := summarise(measure.values)) is not None and summary.is_noisy
    ]
    before, after = record.machine.before, record.machine.after
    if before.num_throttled is not None and (after.num_throttled or 0) > before.num_throttled:
        return "The processor was slowed down by heat meanwhile: let it cool, and measure again."
    if len(noisy) > len(record.measures) // _NAMED:
        names = ", ".join(noisy[:_NAMED])
        return f"The machine was too noisy to say ({names} and others vary widely): close other programs, and repeat."
    if before.load_average is not None and before.load_average > _BUSY_LOAD * before.num_processors:
        return f"Other programs were computing when it began (load {before.load_average:.1f}): close them, and repeat."
    if noisy:
        return f"These vary too widely to be compared: {', '.join(noisy)}."
    return None


def label_of(name: str) -> str:
    """Return what a measure is called."""
    busy = name.startswith(BUSY)
    label = _LABELS.get(name.removeprefix(BUSY), name)
    return f"{label} (busy)" if busy else label


def shown_value(value: float, unit: str) -> str:
    """Return a value with its unit, in the size a person reads."""
    if unit == SECONDS:
        return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.{0 if value >= 0.01 else 1}f} ms"
    if unit == SHARE:
        return f"{100 * value:.0f} %"
    name, factor, digits = _UNITS.get(unit, (unit, 1.0, 2))
    return f"{value * factor:.{digits}f} {name}"


def _row(measure: Measure) -> Row:
    summary = summarise(measure.values)
    if summary is None:
        return (label_of(measure.name), "not measured", "", "", "")
    is_single = summary.num_values == 1
    low, high = shown_value(summary.minimum, measure.unit), shown_value(summary.maximum, measure.unit)
    shared = low.rpartition(" ")[0] if low.rpartition(" ")[2] == high.rpartition(" ")[2] else low
    ratio = median_ratio(measure.values, measure.bare)
    return (
        label_of(measure.name),
        shown_value(summary.median, measure.unit),
        "" if is_single else f"{shared} .. {high}",
        "" if is_single else f"{100 * summary.spread:.0f} %",
        "" if ratio is None else f"{ratio:.2f}",
    )


def _verdict(measure: Measure, new: Summary, old: Summary) -> str:
    if min(new.num_values, old.num_values) < 2:
        return "measured once, so nothing can be said"
    if is_within_noise(new, old):
        return "no difference beyond the noise"
    is_more = new.median > old.median
    return "better" if is_more != (measure.unit in _LESS_IS_BETTER) else "worse"
