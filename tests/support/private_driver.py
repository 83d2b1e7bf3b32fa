"""The real program and somebody who has a chat that is kept and then a private one, on the fake engine.

`python -m tests.support.private_driver DATA_DIR LOG exit|kill`. Writes "ready" to LOG when the private chat has been
asked, edited, renamed, queued, left and come back to, a draft is typed, and one more reply of it is being written. Then
the window is closed, or stays until it is killed.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PUBLIC, PRIVATE = "kqzpublic2291", "kqzprivate7341"
_MODEL = "fake:step_s=0.002,n_words=12"
_IDLE_S = 2.6  # after which an idle engine writes its chats

Steps = Iterator[Callable[[], object]]


def live(parts: Any, cache: Path, note: Callable[[str], None], document: Path) -> Steps:
    """Do one thing after the other; each item is waited for.

    Args:
        document: a file with the private text, which is the user's own.
    """
    from app.desktop.document_presenter import DocumentPresenter

    chats, composer = parts.chats, parts.window.composer
    documents = parts.window.findChild(DocumentPresenter)
    prepared: list[object] = []
    parts.bridge.prepare_ended.connect(prepared.append)

    def say(text: str) -> None:
        composer.text_edit.setPlainText(text)
        composer.submit()

    def is_idle() -> bool:
        return not chats.current.is_busy

    def has(pattern: str) -> Callable[[], object]:
        return lambda: any(cache.glob(pattern))

    yield lambda: parts.model.description is not None and chats.recorder.store is not None
    parts.settings.set("response_cache", True)
    say(f"Tell me about the {PUBLIC} and whatever else there is to know of it, please.")
    yield is_idle
    yield has("*.reply")
    public = chats.current.chat.id
    parts.actions.new_private_chat()
    private = chats.current
    private.set_settings(dataclasses.replace(private.settings, system_prompt=f"You are {PRIVATE}, and brief."))
    say(f"Tell me about the {PRIVATE} and whatever else there is to know of it, please.")
    say(f"And this {PRIVATE} waits.")
    yield lambda: is_idle() and not private.queue
    private.edit(private.last_message.turn_id, f"Rather tell of {PRIVATE} two.")
    yield is_idle
    private.retry()
    yield is_idle
    documents.attach([str(document)])
    yield lambda: composer.pasted.documents
    documents.prepare()
    yield lambda: prepared
    say("What is in it?")
    yield is_idle
    chats.rename(private.chat.id, f"Title {PRIVATE}")
    composer.text_edit.setPlainText(f"half a {PRIVATE} thought")
    composer.flush_draft()
    chats.open(public)
    yield lambda: chats.current.chat.id == public
    chats.open(private.chat.id)
    yield lambda: chats.current is private
    began = time.monotonic()
    yield lambda: time.monotonic() - began > _IDLE_S
    yield has("*.snapshot")
    say(f"Once more: {PRIVATE}.")
    say(f"This {PRIVATE} is never sent.")
    yield lambda: private.last_reply.text
    composer.text_edit.setPlainText(f"another {PRIVATE} draft")
    composer.flush_draft()
    note("ready")


def main() -> None:
    """Open the window and live in it."""
    from PySide6.QtCore import QTimer

    from app.desktop import application
    from app.log import start_log, stop_log
    from app.paths import find_paths
    from app.settings import SettingsStore
    from engine import Command, LoadModel, ProcessClient

    data_dir, log_path, mode = sys.argv[1:4]
    paths = find_paths(data_dir)
    paths.create()
    SettingsStore(paths.settings_file).update(sampling={"temperature": 0.0, "max_tokens": 400})
    log = start_log(paths)
    build = application.build_window

    class FakeClient(ProcessClient):
        def send(self, command: Command) -> None:
            if isinstance(command, LoadModel):
                command = LoadModel(
                    request_id=command.request_id, path=_MODEL, params=command.params, cache=command.cache
                )
            super().send(command)

    def build_and_live(*args: Any, **kwargs: Any) -> Any:
        parts = build(*args, **kwargs)
        document = Path(log_path).with_name(f"{PRIVATE}.txt")
        document.write_text(f"In it stands much of the {PRIVATE}, which nobody is to know. " * 4, "utf-8")
        steps = live(parts, paths.prompt_cache_dir, lambda line: _note(log_path, line), document)
        waited: list[Callable[[], object]] = []
        timer = QTimer(parts.window)

        def go_on() -> None:
            if waited and not waited[0]():
                return
            try:
                waited[:] = [next(steps)]
            except StopIteration:
                timer.stop()
                if mode == "exit":
                    parts.window.close()

        timer.timeout.connect(go_on)
        parts.window.first_painted.connect(lambda: timer.start(10))
        return parts

    vars(application).update(ProcessClient=FakeClient, build_window=build_and_live)
    application.run_window(paths, model=None, fake_engine=True)
    stop_log(log)


def _note(path: str, line: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


if __name__ == "__main__":
    main()
