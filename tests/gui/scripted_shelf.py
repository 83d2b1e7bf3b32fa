"""A library of models that does what a test says: what it holds, how long it takes, and what goes wrong."""

import threading
from collections.abc import Sequence
from typing import Any

from app.desktop.bridge.model_jobs import Job
from app.desktop.itemmodels.model_rows import (
    Fact,
    FileRow,
    Fit,
    FolderRow,
    Inspection,
    LevelChoice,
    MadeLevel,
    MakeProgress,
    Matrix,
    ModelRow,
    QuantiseOffer,
    QuantiseOrder,
    ScanCount,
    ScanOutcome,
    Section,
    TensorRow,
)

GIB = 1 << 30
_LEVELS = (("F16", 16.0), ("Q8_0", 8.5), ("Q6_K", 6.56), ("Q4_K_M", 4.89), ("Q2_K", 3.16))
_OWNERS = ("", "Hugging Face", "LM Studio", "Ollama")


class ScriptedShelf:
    """Implements Shelf.

    Attributes:
        models: what a scan finds.
        error: what the next call raises, by the name of the method.
        gate: closed while work is to go on; open it to let it end. Cancelled work ends by itself.
        calls: name and argument of what was asked, in order.
    """

    def __init__(self, models: Sequence[ModelRow] = ()) -> None:
        self.models = tuple(models)
        self.cached: tuple[ModelRow, ...] = ()
        self.problems: tuple[str, ...] = ()
        self.added: list[str] = []
        self.error: dict[str, Exception] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.calls: list[tuple[str, object]] = []
        self.was_cancelled: list[str] = []
        self.made: tuple[MadeLevel, ...] | None = None
        self._removed: list[tuple[ModelRow, FileRow]] = []

    def count(self, name: str) -> int:
        """Return how often something was asked."""
        return sum(call == name for call, _ in self.calls)

    def known(self) -> Sequence[ModelRow]:
        return self.cached

    def scan(self, job: Job) -> ScanOutcome:
        self._begin("scan", None)
        job.report(ScanCount(12, "/home/a/models"))
        self._wait("scan", job)
        return ScanOutcome(self.models, self.problems)

    def fits(self, job: Job) -> Sequence[ModelRow]:
        self._begin("fits", None)
        return self.models

    def folders(self) -> Sequence[FolderRow]:
        own = FolderRow("/home/a/.local/share/fireside/models", "Fireside", num_files=3)
        other = FolderRow("/home/a/.lmstudio/models", "LM Studio", num_files=1)
        return (own, other, *(FolderRow(path, path.rpartition("/")[2], is_added=True) for path in self.added))

    def add_folder(self, path: str) -> None:
        self._begin("add_folder", path)
        self.added.append(path)

    def remove_folder(self, path: str) -> None:
        self._begin("remove_folder", path)
        self.added.remove(path)

    def inspect(self, path: str) -> Inspection:
        self._begin("inspect", path)
        return Inspection(
            facts=(Fact("Architecture", "llama"), Fact("Layers", "30"), Fact("File", path)),
            metadata=tuple(Fact(f"general.key_{number}", f"value {number}") for number in range(40)),
            tensors=tuple(
                TensorRow(f"blk.{number}.attn_q.weight", "Q4_K" if number % 2 else "Q6_K", "576 × 576", 186_624)
                for number in range(270)
            ),
            template="{% for message in messages %}{{ message.content }}{% endfor %}",
            licence="apache-2.0",
        )

    def verify(self, path: str, job: Job) -> int:
        self._begin("verify", path)
        job.report(0.42)
        self._wait("verify", job)
        return 272

    def offer(self, path: str, job: Job) -> QuantiseOffer:
        self._begin("offer", path)
        levels = (
            LevelChoice("Q8_0", 145 << 20, 8.5, note="Cannot be told from the original."),
            LevelChoice("Q4_K_M", (105 << 20) + 12_345, 4.89, note="Small loss: the usual choice."),
            LevelChoice("Q3_K_L", 95 << 20, 4.3, is_usual=False, note="Noticeable loss."),
            LevelChoice("IQ3_XXS", 88 << 20, 3.25, needs_matrix=True, note="Large loss."),
            LevelChoice("Q2_K", 0, why_not="model.Q2_K.gguf is there already."),
        )
        return QuantiseOffer(path, "SmolLM2 135M Instruct F16", levels, 2 * GIB, "/home/a/models", "", tuple(Matrix))

    def quantise(self, order: QuantiseOrder, job: Job) -> Sequence[MadeLevel]:
        self._begin("quantise", order)
        job.report(MakeProgress(order.types[0], 1, len(order.types), 0.25, 42.0))
        self._wait("quantise", job)
        if self.made is not None:
            return self.made
        return [MadeLevel(name, f"/home/a/models/made.{name}.gguf") for name in order.types]

    def remove(self, path: str) -> object:
        self._begin("remove", path)
        model = next(model for model in self.models if any(file.path == path for file in model.files))
        file = next(file for file in model.files if file.path == path)
        rest = tuple(other for other in model.files if other is not file)
        self.models = tuple(
            other._replace(files=rest) if other is model else other
            for other in self.models
            if other is not model or rest
        )
        return model, file

    def undo(self, removed: Any) -> None:
        self._begin("undo", removed[1].path)
        model, _ = removed
        self.models = (*(other for other in self.models if other.name != model.name), model)

    def _begin(self, name: str, argument: object) -> None:
        self.calls.append((name, argument))
        if name in self.error:
            raise self.error.pop(name)

    def _wait(self, name: str, job: Job) -> None:
        while not self.gate.wait(0.005):
            if job.is_cancelled:
                self.was_cancelled.append(name)
                return


def file_row(path: str = "/home/a/models/small.gguf", label: str = "Q4_K_M", **changes: Any) -> FileRow:
    """Return a file that fits."""
    values: dict[str, Any] = {
        "num_bytes": 105 << 20,
        "bits_per_weight": 4.89,
        "n_ctx_train": 8192,
        "place": "Fireside",
        "is_ours": True,
        "can_quantise": True,
        "fit": Fit.FITS,
        "needed_bytes": 400 << 20,
        "free_bytes": 6 * GIB,
        "max_ctx": 8192,
        "tokens_per_s": 61.5,
        "used_at": 1_700_000_000.0,
    }
    return FileRow(path=path, label=label, **(values | changes))


def model_row(name: str = "SmolLM2 135M Instruct", *files: FileRow, **changes: Any) -> ModelRow:
    """Return a model."""
    values: dict[str, Any] = {"architecture": "llama", "num_parameters": 134_515_008, "licence": "apache-2.0"}
    return ModelRow(name=name, files=files or (file_row(),), **(values | changes))


def large_library(num_models: int = 60) -> tuple[ModelRow, ...]:
    """Return models of five levels each, and a few files of other kinds and with faults at the end."""
    models = []
    for number in range(num_models):
        files = []
        for level, (label, bits) in enumerate(_LEVELS):
            num_bytes = round((number + 1) * 0.2e9 * bits / 8)
            owner = _OWNERS[(number + level) % 4]
            needed = round(num_bytes * 1.15)
            fits = Fit.FITS if needed < 5 * GIB else Fit.TIGHT if needed < 6 * GIB else Fit.TOO_LARGE
            files.append(
                file_row(
                    f"/home/a/{owner or 'models'}/model-{number:02d}-{label}.gguf",
                    label,
                    num_bytes=num_bytes,
                    bits_per_weight=bits,
                    owner=owner,
                    place=owner or "Fireside",
                    is_ours=not owner,
                    fit=fits,
                    needed_bytes=needed,
                    tokens_per_s=12e9 / num_bytes,
                    used_at=0.0 if number % 3 else 1_700_000_000.0 + number,
                    also_in=("/home/a/Ollama",) if (number, level) == (1, 1) else (),
                    num_parts=3 if (number, level) == (2, 0) else 1,
                )
            )
        models.append(
            model_row(f"Model {number:02d} Instruct", *files, num_parameters=round((number + 1) * 0.2e9), licence="mit")
        )
    return (*models, *odd_files())


def odd_files() -> tuple[ModelRow, ...]:
    """Return files that are not for chats, and files that cannot be used."""
    missing = file_row(
        "/home/a/models/split-00001-of-00003.gguf",
        "Q8_0",
        problem="split-00001-of-00003.gguf is split into 3 files and these are missing: split-00002-of-00003.gguf.",
        hint="Put all parts into one folder under their own names.",
        missing=("split-00002-of-00003.gguf",),
        num_parts=3,
        can_chat=False,
        fit=Fit.UNKNOWN,
    )
    damaged = file_row(
        "/home/a/models/page.gguf",
        "page.gguf",
        num_bytes=14_000,
        problem="page.gguf is a web page, not a model.",
        hint="Download the file itself, not the page that offers it.",
        bits_per_weight=0.0,
        n_ctx_train=0,
        can_chat=False,
        can_quantise=False,
        fit=Fit.UNKNOWN,
        tokens_per_s=None,
    )
    projector = file_row(
        "/home/a/models/mmproj-model.gguf",
        "F16",
        kind="projector",
        can_chat=False,
        can_quantise=False,
        fit=Fit.UNKNOWN,
        tokens_per_s=None,
    )
    return (
        model_row("Split Model", missing),
        model_row("Model 01 Vision", projector, architecture="clip", section=Section.OTHER),
        model_row("page.gguf", damaged, architecture="", num_parameters=0, licence="", section=Section.UNUSABLE),
    )
