"""Standard input and output as they are found: closed, missing, in another encoding, or cut off by the reader."""

import codecs
import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TextIO

from app.errors import UsageError
from app.text_decoding import decode_text

_MAX_TEXT_BYTES = 64 << 20  # a device has no end
_BY_SIGNAL = 128  # what shells add to the number of a signal


def open_standard_streams() -> None:
    """Give descriptors 0, 1 and 2 something to stand for, and sys.stdin, sys.stdout and sys.stderr as well.

    Else the next file that is opened, a log or a database, would get the number that native code prints to.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)
    if not hasattr(sys.stdin, "read"):
        sys.stdin = _stream(0, "r")
    if not hasattr(sys.stdout, "write"):
        sys.stdout = _stream(1, "w")
    if not hasattr(sys.stderr, "write"):
        sys.stderr = _stream(2, "w")


def _stream(descriptor: int, mode: str) -> TextIO:
    # Not closed with the object: a stream that nobody uses any more must not take the descriptor with it.
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, encoding="utf-8", errors="replace", line_buffering=mode == "w")


def is_terminal(stream: TextIO) -> bool:
    """Return whether a person sits at a stream."""
    try:
        return stream.isatty()
    except (OSError, ValueError, AttributeError):
        return False


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Let the signals that end a program do so by an exception: the terminal is put right, and what came is kept.

    A second one ends it at once.
    """
    before = {
        number: signal.getsignal(number)
        for name in ("SIGTERM", "SIGHUP")
        if (number := getattr(signal, name, None)) is not None
    }

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(_BY_SIGNAL + number)

    # One that is ignored, as `nohup` has it, stays so.
    taken = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


@contextlib.contextmanager
def without_echo() -> Iterator[None]:
    """Keep what is typed meanwhile out of what is printed; the next prompt gets it."""
    if sys.platform == "win32" or not is_terminal(sys.stdin):
        yield
        return
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    quiet = list(before)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


def speak_utf_8() -> None:
    """Begin again in Python's UTF-8 mode where the locale knows nothing but ASCII.

    Else a name or a prompt with an accent arrives as bytes that no file, setting or message can hold.
    """
    if os.name != "posix" or getattr(sys, "frozen", False) or os.environ.get("PYTHONUTF8") == "1":
        return
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def never_fail_to_print() -> None:
    """Let characters that the terminal's encoding lacks become question marks instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def abandon_output() -> None:
    """Send what is still to be printed nowhere: the reader has gone, and the interpreter flushes at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def read_text_file(name: str) -> str:
    """Return the text in a file that the command line names.

    Raises:
        UsageError: it cannot be read, or has no end in sight.
    """
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(_MAX_TEXT_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name} cannot be read: {reason}.", "Give the path of a text file.") from error
    if len(data) > _MAX_TEXT_BYTES:
        raise UsageError(f"{name} is larger than {_MAX_TEXT_BYTES >> 20} MiB.", "Give a smaller file.")
    text, notice = decode_text(data)
    if notice:
        print(f"fireside: {notice}", file=sys.stderr)
    return text


def read_standard_input() -> tuple[str, str | None]:
    """Return all of standard input, and a sentence where its encoding had to be guessed."""
    buffer = getattr(sys.stdin, "buffer", None)
    return decode_text(buffer.read()) if buffer is not None else (sys.stdin.read(), None)
