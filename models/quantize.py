"""Quantising supervised: a temporary file made by a process of its own, verified, and only then given its name.

A run that is cancelled, fails or is killed leaves nothing that looks like a model.
"""

import contextlib
import dataclasses
import enum
import errno
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import psutil

from models.errors import GGUFError, QuantizeError
from models.gguf_info import printable, read_gguf_info
from models.quantize_child import ChildDied, answers_of, death_of, failure_of
from models.quantize_messages import Answer, Made, MakeRequest, NotMade, TensorBegun
from models.quantize_plan import QuantizePlan, stamp_of

_LOG = logging.getLogger(__name__)

_PREFIX, _SUFFIX = ".fireside-", ".quantising"  # no scan takes it for a model
_MIN_SHARE_FOR_ESTIMATE = 0.02

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class QuantizeProgress:
    """How far a run is.

    Attributes:
        index, num_plans: 0-based number of the file that is being made, of how many.
        num_tensors_done: of the plan's tensors.
        share: of this file's weights that are done, 0 to 1.
        written_bytes: about, without what is before the tensors.
        remaining_s: for this file, as fast as so far; None while that says nothing.
    """

    plan: QuantizePlan
    index: int
    num_plans: int
    num_tensors_done: int
    share: float
    written_bytes: int
    elapsed_s: float
    remaining_s: float | None


class QuantizeEnd(enum.Enum):
    """How the making of one file ended."""

    MADE = "made"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True)
class QuantizeResult:
    """What became of one plan.

    Attributes:
        error: why it failed, None where it did not.
    """

    plan: QuantizePlan
    index: int
    end: QuantizeEnd
    seconds: float
    error: QuantizeError | None = None


class QuantizeRun:
    """Makes the files of some plans, one after another; one that fails does not stop the others.

    Args:
        plans: at least one.
        imatrix: of the plans that have one that was still to be built.
        on_progress, on_result, on_end: called from the run's own thread: now and then, once for each plan in order, and
            at last with all results.
        n_threads: 0 takes the processors this process may use.
    """

    def __init__(
        self,
        plans: Sequence[QuantizePlan],
        *,
        imatrix: Path | None = None,
        on_progress: Callable[[QuantizeProgress], None] = lambda progress: None,
        on_result: Callable[[QuantizeResult], None] = lambda result: None,
        on_end: Callable[[tuple[QuantizeResult, ...]], None] = lambda results: None,
        n_threads: int = 0,
    ) -> None:
        self._plans = tuple(plans)
        self._imatrix = imatrix
        self._on_progress = on_progress
        self._on_result = on_result
        self._on_end = on_end
        self._n_threads = n_threads or _num_processors()
        self._cancelled = threading.Event()
        self._results: list[QuantizeResult] = []
        self._thread = threading.Thread(target=self._work, name="quantise", daemon=True)
        self.child_entry: Callable[[Connection], None] | None = None  # stands in for the worker in tests

    def start(self) -> None:
        """Begin, and return at once."""
        self._thread.start()

    def cancel(self) -> None:
        """Give up what is being made and all that is still to be made; returns at once."""
        self._cancelled.set()

    def wait(self, timeout_s: float | None = None) -> tuple[QuantizeResult, ...] | None:
        """Return all results once the run has ended, None where it has not in time."""
        self._thread.join(timeout_s)
        return None if self._thread.is_alive() else tuple(self._results)

    def _work(self) -> None:
        for index, plan in enumerate(self._plans):
            began = time.monotonic()
            end, failure = QuantizeEnd.MADE, None
            try:
                if not self._make(index, plan):
                    end = QuantizeEnd.CANCELLED
            except QuantizeError as error:
                end, failure = QuantizeEnd.FAILED, error
            except Exception as error:
                _LOG.exception("quantising ended by a fault of the program")
                end = QuantizeEnd.FAILED
                failure = QuantizeError("Quantising met a fault of its own.", "The log holds the details.", repr(error))
            result = QuantizeResult(plan, index, end, time.monotonic() - began, failure)
            self._results.append(result)
            self._tell(self._on_result, result)
        self._tell(self._on_end, tuple(self._results))

    def _tell(self, callback: Callable[[_T], None], what: _T) -> None:
        try:
            callback(what)
        except Exception:  # a listener's fault must not cost the files that are still to be made
            _LOG.exception("a listener of quantising failed")

    def _make(self, index: int, plan: QuantizePlan) -> bool:
        """Make one file; False where it was cancelled."""
        if self._cancelled.is_set():
            return False
        plan.check_room()
        _check_source(plan, "planned", may_be_gone=False)
        remove_leftovers(plan.output.parent)
        with _temporary_file(plan.output) as temporary:
            if not self._write(index, plan, temporary):
                return False
            _verify(plan, temporary)
            _check_source(plan, "read", may_be_gone=True)
            if self._cancelled.is_set():
                return False
            _give_name(temporary, plan)
        return True

    def _write(self, index: int, plan: QuantizePlan, temporary: Path) -> bool:
        imatrix = plan.imatrix or (self._imatrix if plan.has_imatrix else None)
        if plan.has_imatrix and imatrix is None:
            raise QuantizeError("The importance matrix was not built.", "Build it first, or give a file of one.")
        request = MakeRequest(
            source=os.fspath(plan.source),
            output=os.fspath(temporary),
            file_type=plan.type.file_type,
            imatrix=None if imatrix is None else os.fspath(imatrix),
            n_threads=self._n_threads,
        )
        progress = _Progress(plan, index, len(self._plans))
        self._tell(self._on_progress, progress.at(0))
        given = answers_of(request, lambda: not self._cancelled.is_set(), run=self.child_entry)
        try:
            with contextlib.closing(given):
                for answer in given:
                    if isinstance(answer, TensorBegun):
                        self._tell(self._on_progress, progress.at(answer.number - 1))
                    elif isinstance(answer, Made):
                        self._tell(self._on_progress, progress.at(len(plan.tensors)))
                        return True
                    else:
                        raise _write_failure(plan, answer) or failure_of(plan.source, answer)
        except ChildDied as death:
            raise death_of(plan.source, death) from death
        if self._cancelled.is_set():
            return False
        raise QuantizeError("The quantising process ended without a word.", "Try again.")


class _Progress:
    """Turns the number of finished tensors into a share of the work: it goes with the weights, not with the tensors."""

    def __init__(self, plan: QuantizePlan, index: int, num_plans: int) -> None:
        self._plan, self._index, self._num_plans = plan, index, num_plans
        self._began = time.monotonic()

    def at(self, num_done: int) -> QuantizeProgress:
        """Return the progress once so many tensors are done."""
        plan = self._plan
        done = plan.tensors[:num_done]
        share = sum(tensor.num_elements for tensor in done) / max(1, plan.num_parameters)
        elapsed = time.monotonic() - self._began
        return QuantizeProgress(
            plan=plan,
            index=self._index,
            num_plans=self._num_plans,
            num_tensors_done=len(done),
            share=share,
            written_bytes=sum(tensor.num_bytes for tensor in done),
            elapsed_s=elapsed,
            remaining_s=elapsed * (1 - share) / share if share >= _MIN_SHARE_FOR_ESTIMATE else None,
        )


# --- the file ---


def remove_leftovers(folder: Path) -> None:
    """Remove what runs left in a folder whose processes were killed."""
    try:
        found = [path for path in folder.iterdir() if path.name.startswith(_PREFIX) and path.name.endswith(_SUFFIX)]
    except OSError:
        return
    for path in found:
        number = path.name[len(_PREFIX) :].partition("-")[0]
        if number.isdigit() and int(number) != os.getpid() and not psutil.pid_exists(int(number)):
            with contextlib.suppress(OSError):
                path.unlink()


@contextlib.contextmanager
def _temporary_file(output: Path) -> Iterator[Path]:
    """Make a file beside `output`, on the same disk, and remove it unless it was given a name."""
    path = output.with_name(f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}")
    try:
        path.open("xb").close()
    except OSError as error:
        raise _cannot_write(output, error) from error
    try:
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _verify(plan: QuantizePlan, path: Path) -> None:
    """Raise unless the file is exactly what was planned: header, every tensor in its place, size to the byte."""
    hint = "Try again; if it happens again, check the disk."
    try:
        info = read_gguf_info(path)
    except (GGUFError, OSError) as error:
        raise QuantizeError(f"{printable(plan.output.name)} was not written whole.", hint, str(error)) from error
    found = (info.file_bytes, info.num_tensors, info.num_parameters, info.type_name, info.split_count)
    wanted = (plan.output_bytes, len(plan.tensors), plan.num_parameters, plan.type.name, 1)
    if found != wanted:
        raise QuantizeError(
            f"{printable(plan.output.name)} came out other than it was planned.", hint, f"{found} instead of {wanted}"
        )


def _check_source(plan: QuantizePlan, since: str, *, may_be_gone: bool) -> None:
    """Raise if the source is not what was planned for. One that was removed while it was read was read whole."""
    name = printable(plan.source.name)
    try:
        stamp = stamp_of(plan.source_parts)
    except OSError as error:
        if may_be_gone and isinstance(error, FileNotFoundError):
            return
        raise QuantizeError(f"{name} is not there any more.", "Choose the file again.", str(error)) from error
    if stamp != plan.source_stamp:
        raise QuantizeError(f"{name} has changed since it was {since}.", "Quantise it again.")


def _give_name(temporary: Path, plan: QuantizePlan) -> None:
    """Make what was written last, then let it appear under its name in one step."""
    output = plan.output
    try:
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if plan.overwrites:
            temporary.replace(output)
        else:
            _link(temporary, output)
        _sync_folder(output.parent)
    except FileExistsError as error:
        raise QuantizeError(
            f"{printable(output.name)} was made by somebody else meanwhile.", "Choose another name."
        ) from error
    except OSError as error:
        raise _cannot_write(output, error) from error


def _link(temporary: Path, output: Path) -> None:
    """Give a file its name unless there is one of that name."""
    try:
        os.link(temporary, output)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links
        if os.path.lexists(output):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        temporary.rename(output)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(output: Path, error: OSError) -> QuantizeError:
    hint = "Choose another folder, or change its rights."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "Free some space, or choose a folder on another disk."
    return QuantizeError(f"{printable(output.name)} cannot be written: {error.strerror}.", hint, str(error))


def _write_failure(plan: QuantizePlan, answer: Answer) -> QuantizeError | None:
    """Return the error of a write that failed: all that the C++ library says of one is that a stream has failed."""
    if not isinstance(answer, NotMade) or "iostream" not in answer.reason:
        return None
    name = printable(plan.output.name)
    return QuantizeError(
        f"{name} could not be written: its disk is full, or took no more.",
        "Free some space, or choose a folder on another disk.",
        answer.reason,
    )


def _num_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
