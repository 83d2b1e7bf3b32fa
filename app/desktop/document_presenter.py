"""DocumentPresenter: files come to the composer as documents, are counted, and are read ahead where it is wanted."""

import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog

from app.desktop.bridge.background import Background
from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.session.chats import Chats
from app.desktop.session.conversation import Conversation
from app.desktop.session.model_session import ModelSession
from app.desktop.session.opened_reading import OpenedReading
from app.desktop.session.preparing import Preparing, Reading, ReadingState
from app.desktop.widgets.composer_draft import Draft, read_draft
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.notices import Notice
from app.document_text import join_documents, names_of, split_documents
from app.documents import ReadDocument, read_document
from app.errors import AttachmentError
from engine import ChatMessage, ErrorInfo, PromptMode, PromptOptions, Role

_KEY = "attach"
_MAX_AT_ONCE = 20
_PLAIN = PromptOptions(mode=PromptMode.COMPLETION)


class _Read(NamedTuple):
    """What a file has become, and how that stands in a message: made beside the window's thread."""

    document: ReadDocument
    block: str


class _Opening:
    """A file that is being read.

    Attributes:
        outcome: what came of it; None until then.
    """

    def __init__(self, name: str, conversation: Conversation) -> None:
        self.name = name
        self.conversation = conversation
        self.is_given_up = threading.Event()
        self.outcome: _Read | Exception | None = None

    def is_wanted(self) -> bool:
        """Whether its text is still to be had."""
        return not self.is_given_up.is_set()


class DocumentPresenter(QObject):
    """Joins the composer's documents with files, engine and the shown chat.

    Args:
        background: reads files beside the window's thread.
    """

    def __init__(
        self,
        window: MainWindow,
        *,
        chats: Chats,
        bridge: EngineBridge,
        model: ModelSession,
        background: Background,
        show_notice: Callable[[Notice], None],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._chats = chats
        self._bridge = bridge
        self._model = model
        self._background = background
        self._show_notice = show_notice
        self._preparing = Preparing(bridge, model=model, chats=chats)
        OpenedReading(self._preparing, model=model, chats=chats)
        self._openings: list[_Opening] = []
        self._counts: dict[str, int | None] = {}
        self._counting: dict[str, str] = {}  # request -> document
        self._folder = ""
        pasted = window.composer.pasted
        pasted.changed.connect(self._on_changed)
        pasted.reading.prepare_requested.connect(self.prepare)
        pasted.reading.stop_requested.connect(self._on_stop)
        window.composer.attach_requested.connect(self.ask)
        window.files_dropped.connect(self.attach)
        bridge.counted.connect(self._on_counted)
        bridge.count_failed.connect(self._on_not_counted)
        model.loaded.connect(self._on_loaded)
        self._preparing.changed.connect(self._show)
        self._preparing.failed.connect(self._on_failed)
        chats.current_changed.connect(self._show)
        chats.marks_changed.connect(self._show)  # a reply has begun or ended

    def ask(self) -> None:
        """Let the user choose files."""
        kinds = f"{self.tr('All files')} (*);;{self.tr('PDF files')} (*.pdf);;{self.tr('Text files')} (*.txt *.md)"
        dialog = QFileDialog(self._window, self.tr("Attach files"), self._folder, kinds)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.filesSelected.connect(self.attach)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def attach(self, paths: Sequence[str]) -> None:
        """Read files and put them before the message that is written."""
        self._window.show_page(None)
        self._window.composer.text_edit.setFocus()
        if len(paths) > _MAX_AT_ONCE:
            text = self.tr("At most {count} files can be attached at once.").format(count=_MAX_AT_ONCE)
            self._show_notice(Notice(key=_KEY, text=text, is_error=True))
        for path in map(Path, paths[:_MAX_AT_ONCE]):
            self._folder = str(path.parent)
            opening = _Opening(path.name, self._chats.current)
            self._openings.append(opening)
            self._background.run(
                functools.partial(_read, path, opening.is_wanted),
                functools.partial(self._on_opened, opening),
                functools.partial(self._on_opened, opening),
            )
        self._show()

    def prepare(self) -> None:
        """Have the model read the documents, and the chat before them, ahead of the question."""
        documents = self._documents
        if not documents and not self._chats.current.messages():
            text = self.tr("There is nothing to read ahead.")
            hint = self.tr("Attach a document, or write a system prompt.")
            self._show_notice(Notice(key=_KEY, text=text, hint=hint))
            return
        self._window.notices.dismiss(_KEY)
        name = names_of(split_documents(documents)[0])
        title = self._chats.current.chat.title
        self._preparing.begin(self._chats.current, documents, name or title or self.tr("System prompt"))

    @property
    def _documents(self) -> str:
        return "".join(self._window.composer.pasted.documents)

    # Files

    def _on_opened(self, opening: _Opening, outcome: _Read | Exception) -> None:
        """Take what came of a file, once those of its chat before it are there: their order is that of the prompt."""
        opening.outcome = outcome
        waiting = [item for item in self._openings if item.conversation is opening.conversation]
        while waiting and waiting[0].outcome is not None:
            first = waiting.pop(0)
            self._openings.remove(first)
            if isinstance(first.outcome, _Read):
                self._on_read(first, first.outcome)
            elif isinstance(first.outcome, Exception):
                self._on_not_read(first, first.outcome)
        self._show()

    def _on_read(self, opening: _Opening, outcome: _Read) -> None:
        if not opening.is_wanted():
            return
        (read, block), conversation = outcome, opening.conversation
        if conversation is self._chats.current:
            self._window.composer.attach([block])
            self._window.announce(self.tr("{name} is attached").format(name=read.document.name))
        elif conversation in self._chats.live:
            draft = read_draft(conversation.draft)
            conversation.save_draft(Draft(draft.typed, (*draft.pasted, block)).written)
        if read.notice:
            self._show_notice(Notice(key=_KEY, text=read.notice))

    def _on_not_read(self, opening: _Opening, error: Exception) -> None:
        if not isinstance(error, AttachmentError):
            raise error
        if opening.is_wanted():
            self._show_notice(Notice(key=_KEY, text=error.message, hint=error.hint, is_error=True))

    # What is known of documents

    def _on_changed(self) -> None:
        self._count()
        self._show()

    def _on_loaded(self, _: object) -> None:
        self._counts.clear()
        self._counting.clear()
        self._count()

    def _count(self) -> None:
        documents = self._window.composer.pasted.documents
        self._counts = {text: count for text, count in self._counts.items() if text in documents}
        if self._model.description is not None:
            for text in documents:
                if text not in self._counts and text not in self._counting.values():
                    self._counting[self._bridge.count_tokens([ChatMessage(Role.USER, text)], _PLAIN)] = text
        self._window.composer.pasted.set_counts(self._counts)

    def _on_counted(self, request_id: str, num_tokens: int) -> None:
        if (text := self._counting.pop(request_id, None)) is not None:
            self._counts[text] = num_tokens
            self._window.composer.pasted.set_counts(self._counts)

    def _on_not_counted(self, request_id: str, error: ErrorInfo) -> None:
        text = self._counting.pop(request_id, None)
        if text is not None and error.error == "ContextOverflow":
            self._counts[text] = None
            self._window.composer.pasted.set_counts(self._counts)

    # Reading ahead

    def _show(self) -> None:
        documents = self._documents
        conversation = self._chats.current
        reading = self._preparing.reading(conversation, documents)
        if not documents and reading.state is ReadingState.DONE:
            reading = Reading(ReadingState.NONE)  # each reply leaves the chat read, and nobody needs be told
        opening = next((item.name for item in self._openings if item.conversation is conversation), "")
        self._window.composer.pasted.reading.show_reading(reading, opening)

    def _on_stop(self) -> None:
        conversation = self._chats.current
        for opening in [item for item in self._openings if item.conversation is conversation]:
            opening.is_given_up.set()
            self._openings.remove(opening)  # one on a disk that never answers must not keep the next ones
        self._preparing.stop()
        self._show()
        self._window.composer.text_edit.setFocus()

    def _on_failed(self, error: ErrorInfo) -> None:
        self._show_notice(Notice(key=_KEY, text=error.message, hint=error.hint, is_error=True))


def _read(path: Path, is_wanted: Callable[[], bool]) -> _Read:
    read = read_document(path, is_wanted=is_wanted)
    return _Read(read, join_documents([read.document], ""))
