"""SendButtons: the button that sends, queues or stops, and the small one that stops while the other queues."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.key_names import key_name
from app.settings import SendKey


class SendButtons(QWidget):
    """What can be done with the message and the reply.

    Attributes:
        main: sends, queues, or stops where there is nothing to queue.
        stop: stops; seen only while the other one queues.

    Signals:
        main_clicked: send or queue the message, or stop the reply.
        stop_clicked: stop the reply.
    """

    main_clicked = Signal()
    stop_clicked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._state = (False, True, SendKey.ENTER)
        self.stop = QPushButton(self.tr("Stop"))
        self.stop.setProperty("kind", "outline")
        self.stop.setToolTip(self.tr("Stop the reply (Esc)"))
        self.stop.clicked.connect(self.stop_clicked)
        self.main = QPushButton()
        self.main.setProperty("kind", "primary")
        self.main.clicked.connect(self.main_clicked)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.addStretch(1)
        self._row.addWidget(self.stop)
        self._row.addWidget(self.main)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def show_state(self, *, is_busy: bool, is_blank: bool, send_key: SendKey) -> None:
        """Offer what is possible now."""
        if (is_busy, is_blank, send_key) != self._state:
            self._state = (is_busy, is_blank, send_key)
            self._show()

    def _on_theme_changed(self) -> None:
        self._row.setSpacing(self._theme.px(8))
        widths = []
        for label in (self.tr("Send"), self.tr("Queue"), self.tr("Stop")):
            self.main.setText(label)
            self.main.ensurePolished()
            widths.append(self.main.sizeHint().width())
        self.main.setMinimumWidth(max(widths))  # its neighbours stay in place when it changes
        self._show()

    def _show(self) -> None:
        is_busy, is_blank, send_key = self._state
        key = key_name("Return" if send_key is SendKey.ENTER else "Ctrl+Return")
        if is_busy and is_blank:
            label, tip = self.tr("Stop"), self.tr("Stop the reply (Esc)")
        elif is_busy:
            label, tip = self.tr("Queue"), self.tr("Send when the reply ends ({key})").format(key=key)
        else:
            label, tip = self.tr("Send"), self.tr("Send ({key})").format(key=key)
        self.main.setText(label)
        self.main.setToolTip(tip)
        self.main.setEnabled(is_busy or not is_blank)
        self.stop.setVisible(is_busy and not is_blank)
