"""Documents of a chat in the terminal: files that stand before the first question, and are read ahead of it."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from app.cli.chat_plan import ChatPlan
from app.cli.outcome import print_event
from app.cli.session import ChatSession
from app.cli.streams import is_terminal
from app.cli.terminal_text import one_line, safe_text
from app.document_text import Document, join_documents, names_of
from app.documents import read_document
from app.errors import UsageError
from engine import CacheSource, ChatMessage, PrefillProgress, Prepared, Role

_WRITE_LIMIT_S, _WRITE_POLL_S = 30.0, 0.1


def read_documents(names: Sequence[str]) -> tuple[Document, ...]:
    """Return the documents in files, in their order; what had to be guessed is said.

    Raises:
        AttachmentError: one cannot be read.
    """
    documents = []
    for name in names:
        read = read_document(_path(name))
        documents.append(read.document)
        if read.notice:
            print(f"fireside: {safe_text(read.notice)}", file=sys.stderr)
    return tuple(documents)


def beginning_of(history: Sequence[ChatMessage], documents: Sequence[Document]) -> tuple[ChatMessage, ...]:
    """Return what is to be read ahead of the next question.

    Raises:
        UsageError: there is nothing.
    """
    if not documents and not history:
        raise UsageError("There is nothing to prepare.", "Attach a document, or give a system prompt.")
    asked = ChatMessage(Role.USER, join_documents(documents, ""))
    return (*history, asked) if documents else tuple(history)


def prepare(
    session: ChatSession,
    plan: ChatPlan,
    history: Sequence[ChatMessage],
    documents: Sequence[Document],
    *,
    as_json: bool,
) -> Prepared | None:
    """Read ahead, showing how far it is; None where it was given up.

    Raises:
        UsageError, EngineError: it cannot be done.
    """
    messages = beginning_of(history, documents)
    is_system = all(message.role is Role.SYSTEM for message in history)
    name = names_of(documents) or ("system prompt" if is_system else "chat")
    shows = is_terminal(sys.stderr) and not as_json
    asked = session.prepare(messages, name, adapters=plan.adapters, options=plan.prompt_options)
    prepared: Prepared | None = None
    for item in asked:
        match item:
            case PrefillProgress() if as_json:
                print_event(
                    "prefill", done=item.num_done_tokens, total=item.num_total_tokens, cached=item.num_cached_tokens
                )
            case PrefillProgress() if shows:
                shown = f"Reading {name}: {item.num_done_tokens:,} of {item.num_total_tokens:,} tokens"
                print(f"\r{one_line(safe_text(shown))}", end="", file=sys.stderr, flush=True)
            case Prepared():
                prepared = item
            case _:
                pass
    if shows:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if prepared is None:
        return None
    if as_json:
        print_event(
            "prepared",
            name=prepared.name,
            num_tokens=prepared.num_tokens,
            num_cached_tokens=prepared.num_cached_tokens,
            source=prepared.source.value,
            num_bytes=prepared.num_bytes,
            is_in_ram=prepared.is_in_ram,
            is_for_disk=prepared.is_for_disk,
            seconds=prepared.seconds,
        )
    return prepared


def prepared_sentence(prepared: Prepared) -> str:
    """Say what was read ahead, and for how long it is kept."""
    kept = "kept on disk" if prepared.is_for_disk else "kept in memory" if prepared.is_in_ram else "not kept"
    reused = f", {prepared.num_cached_tokens:,} of them reused" if prepared.num_cached_tokens else ""
    name = safe_text(prepared.name)
    return f"{name}: {prepared.num_tokens:,} tokens read ahead in {prepared.seconds:.1f} s{reused}; {kept}."


def wait_until_written(session: ChatSession, prepared: Prepared) -> None:
    """Let a document reach the disk before the program ends, within reason."""
    ends_at = time.monotonic() + _WRITE_LIMIT_S
    while prepared.is_for_disk and time.monotonic() < ends_at:
        kept = session.describe_cache().kept
        if any(item.source is CacheSource.DISK and item.name == prepared.name for item in kept):
            return
        time.sleep(_WRITE_POLL_S)


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # no such user
        return Path(name)
