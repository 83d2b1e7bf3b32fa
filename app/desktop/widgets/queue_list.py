"""QueueList: the messages that wait for the end of the reply, above the text that is being written."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.session.message_queue import QueuedMessage
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.figures import count_text
from app.desktop.widgets.scrolled_rows import ScrolledRows
from app.document_text import summary_of

_MAX_LINE_CHARS = 300
_MAX_NAME_CHARS = 80
_MAX_TIP_CHARS = 600


class QueueList(QWidget):
    """Lists the queued messages; takes no place while there are none.

    Signals:
        edit_requested: id of the message to write further.
        drop_requested: id of the message not to send.
    """

    edit_requested = Signal(str)
    drop_requested = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._messages: tuple[QueuedMessage, ...] = ()
        self._title = QLabel(self.tr("Sent when the reply ends"))
        self._title.setProperty("role", "meta")
        self._more = QLabel()
        self._more.setProperty("role", "meta")
        self.rows = ScrolledRows(theme)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        head = QHBoxLayout()
        head.addWidget(self._title, 1)
        head.addWidget(self._more)
        self._box.addLayout(head)
        self._box.addWidget(self.rows)
        theme.changed.connect(self._build)
        self.hide()

    @property
    def messages(self) -> tuple[QueuedMessage, ...]:
        """What waits, in the order of sending."""
        return self._messages

    @property
    def more_text(self) -> str:
        """What is said of those not in view; empty where all are."""
        return self._more.text()

    def set_messages(self, messages: Sequence[QueuedMessage]) -> None:
        """Show other messages."""
        if tuple(messages) != self._messages:
            self._messages = tuple(messages)
            self._build()

    def set_max_rows(self, num_rows: int) -> None:
        """Choose how many messages are seen at a time."""
        self.rows.set_max_rows(num_rows)
        self._update_more()

    def _build(self) -> None:
        self._box.setSpacing(self._theme.px(4))
        self.rows.set_rows([self._row(number, message) for number, message in enumerate(self._messages, 1)])
        self._update_more()
        self.setVisible(bool(self._messages))

    def _update_more(self) -> None:
        num_hidden = self.rows.num_hidden
        self._more.setText(self.tr("and {count} more").format(count=count_text(num_hidden)) if num_hidden else "")
        self._more.setVisible(num_hidden > 0)

    def _row(self, number: int, message: QueuedMessage) -> QWidget:
        px = self._theme.px
        row = QFrame()
        row.setObjectName("queuedMessage")
        text = summary_of(message.text)
        name = isolated(shortened(text[:_MAX_LINE_CHARS].strip(), _MAX_NAME_CHARS))
        line = ElidedLabel()
        line.set_whole(isolated(text[:_MAX_LINE_CHARS]))
        line.setToolTip(tool_tip_text(shortened(text, _MAX_TIP_CHARS)))
        line.setAccessibleName(
            self.tr("Queued message {number} of {count}: {text}").format(
                number=number, count=len(self._messages), text=name
            )
        )
        edit = self._button(self.tr("Edit"), self.tr("Write the queued message further"))
        edit.setAccessibleName(self.tr("Edit the queued message: {text}").format(text=name))
        edit.clicked.connect(lambda: self.edit_requested.emit(message.id))
        drop = self._button(self.tr("Drop"), self.tr("Do not send the queued message"))
        drop.setAccessibleName(self.tr("Drop the queued message: {text}").format(text=name))
        drop.clicked.connect(lambda: self.drop_requested.emit(message.id))
        box = QHBoxLayout(row)
        box.setContentsMargins(px(10), px(2), px(4), px(2))
        box.setSpacing(px(2))
        box.addWidget(line, 1)
        box.addWidget(edit)
        box.addWidget(drop)
        return row

    def _button(self, label: str, tip: str) -> QPushButton:
        button = QPushButton(label)
        button.setProperty("kind", "small")
        button.setToolTip(tip)
        return button
