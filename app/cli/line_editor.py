"""The line editor of the chat in a terminal: several lines, history, and its keys."""

import os
import sys
from collections.abc import Callable
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from app.paths import Paths


class LineEditor:
    """Reads one message after the other.

    Args:
        toolbar: gives what stands at the foot of the screen.
    """

    def __init__(self, paths: Paths, toolbar: Callable[[], Any]) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=_history(paths),
            multiline=True,  # Enter is bound below; this keeps the line breaks of a pasted text
            key_bindings=_key_bindings(),
            bottom_toolbar=toolbar,
            prompt_continuation="  ",
        )

    def read(self) -> str:
        """Return what the user typed.

        Raises:
            EOFError, KeyboardInterrupt: the user wants to leave.
        """
        return self._session.prompt("> ")


def _history(paths: Paths) -> History:
    path = paths.terminal_history_file
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        path.chmod(0o600)  # it may have been there with other rights
    except OSError as error:
        print(f"fireside: What you type is not remembered: {error.strerror}.", file=sys.stderr)
        return InMemoryHistory()
    return FileHistory(str(path))


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def _break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c")
    def _clear(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    @bindings.add("c-d")
    def _leave(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            event.app.exit(exception=EOFError, style="class:exiting")

    return bindings
