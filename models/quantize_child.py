"""The process in which llama.cpp quantises: its start, what it answers, and its death, which is told as a reason."""

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from models.errors import QuantizeError, QuantizeRefused
from models.gguf_info import printable
from models.quantize_messages import Answer, DryRunRequest, LastWords, NotMade, Planned, Request
from models.quantize_types import QuantizeType

DRY_RUN_LIMIT_S = 60.0  # reading headers from a slow disk; a sound file takes well below a second for each type
_POLL_S = 0.05
_EXIT_WAIT_S = 5.0

_decoder = msgspec.msgpack.Decoder(Answer)


class ChildDied(Exception):
    """The process ended, or was ended, without its last answer.

    Attributes:
        cause: "SIGABRT", "exit code 3"; "time" where its time was up, "start" where it could not be started.
        last_words: what llama.cpp said before.
    """

    def __init__(self, cause: str, last_words: Sequence[str] = ()) -> None:
        super().__init__(cause)
        self.cause = cause
        self.last_words = tuple(last_words)


def answers_of(
    request: Request,
    is_wanted: Callable[[], bool] = lambda: True,
    *,
    limit_s: float | None = None,
    run: Callable[[Connection], None] | None = None,
) -> Generator[Answer, None, None]:
    """Yield what a process of its own answers to a request; it is ended with the iterator, or once it is not wanted.

    Args:
        limit_s: how long it may take in all; None is no limit.
        run: what the process does instead of `run_child`.

    Raises:
        ChildDied: it ended, did not start, or its time is up.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=True)
    process = context.Process(target=run or run_child, args=(theirs,), name="fireside-quantise", daemon=True)
    # A RuntimeError is left alone: it ends a script that does all its work again in the child.
    try:
        process.start()
    except OSError as error:  # no memory, or no process left
        ours.close()
        theirs.close()
        raise ChildDied("start", (str(error),)) from error
    theirs.close()
    words: list[str] = []
    ends_at = None if limit_s is None else time.monotonic() + limit_s
    try:
        ours.send_bytes(msgspec.msgpack.encode(request))
        while is_wanted():
            if ends_at is not None and time.monotonic() >= ends_at:
                raise ChildDied("time", words)
            if not ours.poll(_POLL_S):
                continue
            answer = _decoder.decode(ours.recv_bytes())
            if isinstance(answer, LastWords):
                words = [*words[-9:], answer.text]
            else:
                yield answer
    except msgspec.MsgspecError as error:
        raise ChildDied("it sent what is no message", words) from error
    except (EOFError, OSError) as error:
        process.join(_EXIT_WAIT_S)
        if process.exitcode == 0 and isinstance(error, EOFError):
            return  # it has said all
        raise ChildDied(_cause(process.exitcode), words) from error
    finally:
        ours.close()
        process.kill()
        process.join()
        process.close()


def run_child(connection: Connection) -> None:
    """Answer one request; in the child."""
    from models.quantize_worker import run_worker  # loads llama.cpp, which is not for the front end

    run_worker(connection)


def _cause(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-exit_code).name
    return f"exit code {exit_code}"


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What a dry run told.

    Attributes:
        planned: by llama.cpp's number of the type.
        failure: why the others are not there.
    """

    planned: dict[int, Planned | QuantizeError]
    failure: QuantizeError | None

    def of(self, kind: QuantizeType) -> Planned | QuantizeError:
        """Return the plan of a type, or why there is none."""
        found = self.planned.get(kind.file_type, self.failure)
        return found or QuantizeError(f"Nothing was found out about {kind.name}.", "Try again.")


def dry_run(
    parts: Sequence[Path],
    types: Sequence[QuantizeType],
    *,
    imatrix: Path | None = None,
    builds_imatrix: bool = False,
    run: Callable[[Connection], None] | None = None,
) -> DryRun:
    """Have llama.cpp choose the types of all tensors of a model, for each of some types; writes nothing.

    Args:
        parts: the files of the model, in their order.
    """
    source = parts[0]
    numbers = tuple(dict.fromkeys(kind.file_type for kind in types))
    request = DryRunRequest(
        parts=tuple(os.fspath(part) for part in parts),
        file_types=numbers,
        imatrix=None if imatrix is None else os.fspath(imatrix),
        builds_imatrix=builds_imatrix,
    )
    planned: dict[int, Planned | QuantizeError] = {}
    try:
        with contextlib.closing(answers_of(request, limit_s=DRY_RUN_LIMIT_S, run=run)) as given:
            for number, answer in zip(numbers, given, strict=False):
                planned[number] = answer if isinstance(answer, Planned) else failure_of(source, answer)
        return DryRun(planned, None)
    except ChildDied as death:
        return DryRun(planned, death_of(source, death))


def failure_of(source: Path, answer: Answer) -> QuantizeError:
    """Return the error that an answer stands for which is no success."""
    if not isinstance(answer, NotMade):
        return QuantizeError("The quantising process answered out of turn.", "Try again.")
    if answer.is_imatrix:
        return QuantizeRefused(
            answer.reason, "Give the importance matrix of this very model, or let it be built.", "\n".join(answer.lines)
        )
    hint = "Choose another type, or check the file with `fireside models inspect`."
    reason = answer.reason.strip().rstrip(".")
    return QuantizeError(f"{printable(source.name)} cannot be quantised: {reason}.", hint, "\n".join(answer.lines))


def death_of(source: Path, death: ChildDied) -> QuantizeError:
    """Return the error that the end of the process stands for."""
    name, details = printable(source.name), "\n".join(death.last_words)
    if death.cause == "start":
        return QuantizeError("The quantising process could not be started.", "Close other programs.", details)
    if death.cause == "time":
        return QuantizeError(f"{name} could not be read in time.", "Check the disk, or copy the file.", details)
    if death.cause == "SIGKILL":
        hint = "It may have run out of memory: close other programs and try again."
    elif death.cause == "SIGBUS":
        hint = "The file was cut off or its disk failed while it was read: check both, and try again."
    else:
        hint = "The file may be damaged: download or copy it again."
    return QuantizeError(f"The process that quantised {name} ended unexpectedly ({death.cause}).", hint, details)
