"""The text of a PDF, read in a process of its own: a hostile file can use up its time and memory, and nothing else."""

import contextlib
import json
import logging
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from app.document_text import document
from app.errors import AttachmentError

MAX_PAGES = 2_000
MAX_CHARS = 4_000_000
LIMIT_S = 60.0
_MEMORY_BYTES = 1 << 30
_POLL_S = 0.1
_MAX_ANSWER_BYTES = 64 << 20
_ENCRYPTED, _NO_TEXT, _PAGES, _CHARS, _BROKEN = "encrypted", "no_text", "pages", "chars", "broken"
_FAULTS = {
    _ENCRYPTED: ("is protected by a password.", "Attach a copy without protection."),
    _NO_TEXT: ("has no text in it: its pages are pictures.", "Let a program recognise the text (OCR) first."),
    _PAGES: (f"has more than {MAX_PAGES:,} pages.", "Attach the part that matters."),
    _CHARS: (f"has more than {MAX_CHARS:,} characters of text.", "Attach the part that matters."),
    _BROKEN: ("is damaged and cannot be read.", "Open it in a PDF program, and save a copy."),
}


def read_pdf(path: Path, name: str, *, is_wanted: Callable[[], bool] = lambda: True, limit_s: float = LIMIT_S) -> str:
    """Return the text of all pages.

    Args:
        name: what the person calls the file.
        is_wanted: asked while it is read; False gives up.
        limit_s: after which the file is given up.

    Raises:
        AttachmentError: it has no text, or cannot be read, or not in time.
    """
    name = document(name, "").name
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run_child, args=(theirs, str(path), limit_s), name="fireside-pdf", daemon=True)
    try:
        process.start()
        theirs.close()  # so that its end is seen here
        answer = _answer(ours, name, is_wanted, limit_s)
    except (OSError, RuntimeError) as error:
        raise AttachmentError(
            f"{name} cannot be read now.", "Close other programs and try again.", str(error)
        ) from error
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
        process.close()
        ours.close()
    fault = answer.get("fault")
    if fault is not None:
        what, hint = _FAULTS.get(str(fault), _FAULTS[_BROKEN])
        raise AttachmentError(f"{name} {what}", hint, str(answer.get("details", "")))
    return str(answer.get("text", ""))


def _answer(connection: Connection, name: str, is_wanted: Callable[[], bool], limit_s: float) -> dict[str, object]:
    ends_at = time.monotonic() + limit_s
    has_answered = False
    while not has_answered:
        if not is_wanted():
            raise AttachmentError(f"{name} was given up.")
        if time.monotonic() >= ends_at:
            took = f"{name} takes longer than {limit_s:.0f} seconds to read."
            raise AttachmentError(took, "Attach a part of it, or its text.")
        has_answered = connection.poll(_POLL_S)
    try:
        answer = json.loads(connection.recv_bytes(_MAX_ANSWER_BYTES))
    except (EOFError, OSError, ValueError, RecursionError):  # it ended without an answer, or by the file's will
        return {"fault": _BROKEN}
    return answer if isinstance(answer, dict) else {"fault": _BROKEN}


def run_child(connection: Connection, path: str, limit_s: float) -> None:
    """Read a file and send what was found, in the process that is made for it."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limits: there time alone is one
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        seconds = int(limit_s) + 2  # whose parent is gone
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    logging.disable()  # what a library says of a file's faults is for nobody
    try:
        answer: dict[str, object] = _extract(path)
    except (KeyboardInterrupt, SystemExit):
        return
    except BaseException as error:  # a stranger's file may lead anywhere
        answer = {"fault": _BROKEN, "details": f"{type(error).__name__}: {error}"[:500]}
    with contextlib.suppress(OSError):
        connection.send_bytes(json.dumps(answer).encode("ascii"))


def _extract(path: str) -> dict[str, object]:
    import pypdf  # takes a while, and only this process needs it
    from pypdf.errors import DependencyError, FileNotDecryptedError

    with open(path, "rb") as file:  # noqa: PTH123
        reader = pypdf.PdfReader(file)
        try:
            if reader.is_encrypted and not reader.decrypt(""):
                return {"fault": _ENCRYPTED}
            texts, num_chars = [], 0
            for number, page in enumerate(reader.pages):
                if number >= MAX_PAGES:
                    return {"fault": _PAGES}
                text = page.extract_text()
                num_chars += len(text)
                if num_chars > MAX_CHARS:
                    return {"fault": _CHARS}
                texts.append(text.strip())
        except (DependencyError, FileNotDecryptedError) as error:
            return {"fault": _ENCRYPTED, "details": str(error)}
    text = "\n\n".join(part for part in texts if part)
    return {"text": text} if text.strip() else {"fault": _NO_TEXT}
