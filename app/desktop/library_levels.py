"""LibraryLevels: which levels can be made of a model of the library, and the making of them."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from app.desktop.bridge.model_jobs import Job
from app.desktop.itemmodels.model_rows import (
    LevelChoice,
    MadeLevel,
    MakeProgress,
    Matrix,
    QuantiseOffer,
    QuantiseOrder,
)
from models import (
    QUANTIZE_TYPES,
    LibraryEntry,
    QuantizeEnd,
    QuantizeError,
    QuantizePlan,
    QuantizeProgress,
    QuantizeRefused,
    QuantizeRun,
    default_output,
    plan_ladder,
)

USUAL_TYPES = frozenset({"Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K", "IQ3_XXS"})
_SPARE_BYTES = 64 << 20
_POLL_S = 0.1
_MIN_SHARE_FOR_ESTIMATE = 0.02

_Planned = tuple[QuantizePlan | QuantizeError, bool]


class BuildMatrix(Protocol):
    """Computes an importance matrix with the engine.

    Args:
        text_path: the user's text; None for the one that comes with Fireside.
        report: gets the share that is done.
    """

    def __call__(
        self,
        model: Path,
        output: Path,
        text_path: Path | None,
        *,
        report: Callable[[float], None],
        is_cancelled: Callable[[], bool],
    ) -> bool:
        """Write the matrix to a file, and tell whether it is there: it is not where it was given up."""


class LibraryLevels:
    """Plans and makes levels.

    Args:
        models_dir: where they are put.
        build_matrix: None where no matrix can be computed.
    """

    def __init__(self, models_dir: Path, build_matrix: BuildMatrix | None = None) -> None:
        self._models_dir = models_dir
        self._build_matrix = build_matrix

    def offer(self, entry: LibraryEntry, job: Job) -> QuantiseOffer:
        """Return what can be made of a file; reports the usual levels first."""
        self._models_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        outputs = {name: default_output(entry.path, name, self._models_dir) for name in QUANTIZE_TYPES}
        usual = {name: output for name, output in outputs.items() if name in USUAL_TYPES}
        planned = _plans(entry.path, usual)
        job.report(self._offer_of(entry, planned))
        if not job.is_cancelled:
            planned |= _plans(entry.path, {name: output for name, output in outputs.items() if name not in usual})
        return self._offer_of(entry, {name: planned[name] for name in outputs if name in planned})

    def _offer_of(self, entry: LibraryEntry, planned: dict[str, _Planned]) -> QuantiseOffer:
        levels, warning, room = [], "", 0
        for name, (plan, needs_matrix) in planned.items():
            is_usual = name in USUAL_TYPES
            if isinstance(plan, QuantizePlan):
                warning = warning or _source_warning(plan)
                room = max(0, plan.free_bytes - _SPARE_BYTES)
                bits, note = plan.bits_per_weight, plan.type.help
                levels.append(LevelChoice(name, plan.output_bytes, bits, needs_matrix, is_usual, note))
            elif is_usual:
                levels.append(LevelChoice(name, 0, is_usual=True, why_not=f"{plan.message} {plan.hint}".strip()))
        matrices = (Matrix.NONE, Matrix.FILE) if self._build_matrix is None else tuple(Matrix)
        folder = str(self._models_dir)
        return QuantiseOffer(str(entry.path), entry.title, tuple(levels), room, folder, warning, matrices)

    def make(self, entry: LibraryEntry, order: QuantiseOrder, job: Job) -> Sequence[MadeLevel]:
        """Make levels of a file; reports MakeProgress."""
        source, count = entry.path, len(order.types)
        matrix: Path | None = Path(order.matrix_path) if order.matrix is Matrix.FILE else None
        is_built = order.matrix in (Matrix.BUNDLED, Matrix.TEXT)
        outputs = {name: default_output(source, name, self._models_dir) for name in order.types}
        planned = plan_ladder(source, outputs, imatrix=matrix, builds_imatrix=is_built)
        plans = [plan for plan in planned if isinstance(plan, QuantizePlan)]
        made = [
            MadeLevel(name, error=plan.message, hint=plan.hint)
            for name, plan in zip(outputs, planned, strict=True)
            if not isinstance(plan, QuantizePlan)
        ]
        if not is_built or not plans:
            return made + self._run(plans, None, job)
        with tempfile.TemporaryDirectory(prefix="fireside-") as folder:
            built = Path(folder) / "importance"
            return made + (self._run(plans, built, job) if self._build(source, built, order, job, count) else [])

    def _run(self, plans: Sequence[QuantizePlan], built: Path | None, job: Job) -> list[MadeLevel]:
        if not plans:
            return []

        def on_progress(progress: QuantizeProgress) -> None:
            number = progress.index + 1
            job.report(
                MakeProgress(progress.plan.type.name, number, progress.num_plans, progress.share, progress.remaining_s)
            )

        run = QuantizeRun(plans, imatrix=built, on_progress=on_progress)
        run.start()
        while (results := run.wait(_POLL_S)) is None:
            if job.is_cancelled:
                run.cancel()
        made = []
        for result in results:
            if result.end is QuantizeEnd.MADE:
                made.append(MadeLevel(result.plan.type.name, str(result.plan.output)))
            elif result.error is not None:
                made.append(MadeLevel(result.plan.type.name, error=result.error.message, hint=result.error.hint))
        return made

    def _build(self, source: Path, output: Path, order: QuantiseOrder, job: Job, count: int) -> bool:
        assert self._build_matrix is not None  # no offer names it otherwise
        began = time.monotonic()

        def report(share: float) -> None:
            left = (time.monotonic() - began) * (1 - share) / share if share >= _MIN_SHARE_FOR_ESTIMATE else None
            job.report(MakeProgress("", 1, count, share, left))

        return self._build_matrix(
            source,
            output,
            Path(order.matrix_path) if order.matrix is Matrix.TEXT else None,
            report=report,
            is_cancelled=lambda: job.is_cancelled,
        )


def _plans(source: Path, outputs: dict[str, Path]) -> dict[str, _Planned]:
    """Return a plan for each type, and whether it needs an importance matrix: such are planned as if there were one."""
    plans: dict[str, _Planned] = {
        name: (plan, False) for name, plan in zip(outputs, plan_ladder(source, outputs), strict=True)
    }
    others = {name: outputs[name] for name, (plan, _) in plans.items() if isinstance(plan, QuantizeRefused)}
    if others:
        for name, plan in zip(others, plan_ladder(source, others, builds_imatrix=True), strict=True):
            plans[name] = plan, True
    return plans


def _source_warning(plan: QuantizePlan) -> str:
    return next((text for text in plan.warnings if "already quantised" in text), "")
