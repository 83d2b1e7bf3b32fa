"""The measures of a run: their names and units, and the values that come of its repeats."""

from app.bench.plan import GROWTH, PARALLEL, BenchPlan
from app.bench.record import Measure

SECONDS, RATE, BYTES_RATE, FLOP_RATE, SHARE = "s", "tokens/s", "bytes/s", "flop/s", "share"
TOKENS, BYTES, TIMES, TOKENS_A_STEP = "tokens", "bytes", "times", "tokens/step"
MEASURES = {
    "load": SECONDS,
    "cold_ttft": SECONDS,
    "follow_ttft": SECONDS,
    "switch_ttft": SECONDS,
    "prefill_short": RATE,
    "prefill_long": RATE,
    "decode_short": RATE,
    "decode_long": RATE,
    "stop_in_prefill": SECONDS,
    **{f"parallel_{count}": RATE for count in PARALLEL},
    "bandwidth": BYTES_RATE,
    "matmul": FLOP_RATE,
    "bandwidth_share": SHARE,
    "edit_ttft": SECONDS,
    "edit_evaluated": TOKENS,
    "switch_ram_ttft": SECONDS,
    "restart_ttft": SECONDS,
    "snapshot_bytes": BYTES,
    "write_gap": SECONDS,
    "quiet_gap": SECONDS,
}
GROWTH_MEASURES = {f"growth_{size // 1024}k": SECONDS for size in GROWTH}
DRAFT_KINDS = ("story", "copy")
DRAFT_MEASURES = {
    f"{kind}_{name}": unit
    for kind in DRAFT_KINDS
    for name, unit in {
        "plain": RATE,
        "drafted": RATE,
        "speedup": TIMES,
        "acceptance": SHARE,
        "length": TOKENS_A_STEP,
        "net_speedup": TIMES,
    }.items()
}
BUSY = "busy_"


class Values:
    """All values by measure."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}
        self.bare: dict[str, list[float]] = {}

    def note(self, name: str, value: float | None, bare: float | None = None) -> None:
        """Add a value; None is one that could not be measured."""
        if value is None:
            return
        self.values.setdefault(name, []).append(value)
        if bare is not None:
            self.bare.setdefault(name, []).append(bare)

    def measures(self, plan: BenchPlan) -> tuple[Measure, ...]:
        """Return every measure of such a run, those without a value too."""
        prefixes = ("", BUSY) if plan.is_busy else ("",)
        names = MEASURES | (GROWTH_MEASURES if plan.is_growing else {}) | (DRAFT_MEASURES if plan.is_drafting else {})
        return tuple(
            Measure(
                name=prefix + name,
                unit=unit,
                values=tuple(self.values.get(prefix + name, ())),
                bare=tuple(self.bare.get(prefix + name, ())),
            )
            for prefix in prefixes
            for name, unit in names.items()
        )
