"""Shelf: what the Models page needs of the files on this computer, whoever knows them."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.bridge.model_jobs import Job
from app.desktop.itemmodels.model_rows import (
    FolderRow,
    Inspection,
    MadeLevel,
    ModelRow,
    QuantiseOffer,
    QuantiseOrder,
    ScanOutcome,
)
from app.desktop.session.user_settings import UserSettings


class Shelf(Protocol):
    """The files and what is done with them; every method may take its time and is called beside the window's thread.

    What goes wrong is raised as an error with a `message` and a `hint`.
    """

    def known(self) -> Sequence[ModelRow]:
        """Return what the last scan found."""

    def scan(self, job: Job) -> ScanOutcome:
        """Look for models; reports ScanCount."""

    def fits(self, job: Job) -> Sequence[ModelRow]:
        """Return what the last scan found, with what each file needs and what is free now; reports the same so far."""

    def folders(self) -> Sequence[FolderRow]:
        """Return where models are looked for."""

    def add_folder(self, path: str) -> None:
        """Look into a folder from the next scan on."""

    def remove_folder(self, path: str) -> None:
        """Look into it no more."""

    def inspect(self, path: str) -> Inspection:
        """Return what a file holds."""

    def verify(self, path: str, job: Job) -> int:
        """Check every block of a file, and return how many tensors were checked; reports the share that is done."""

    def offer(self, path: str, job: Job) -> QuantiseOffer:
        """Return what can be made of a file; reports the same with the usual levels only, as soon as they are known."""

    def quantise(self, order: QuantiseOrder, job: Job) -> Sequence[MadeLevel]:
        """Make levels of a file; reports MakeProgress."""

    def remove(self, path: str) -> object:
        """Put a file into the trash, and return what `undo` takes."""

    def undo(self, removed: Any) -> None:
        """Put a file back."""


MakeShelf = Callable[[UserSettings, EngineBridge], Shelf]
"""Makes a shelf that knows the settings and the engine of the window."""
