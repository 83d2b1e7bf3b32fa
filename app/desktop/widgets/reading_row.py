"""ReadingRow: whether the model has read the documents of a message ahead, and the button that has it do so."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QProgressBar, QPushButton, QWidget

from app.desktop.rendering.plain import isolated
from app.desktop.session.preparing import Reading, ReadingState
from app.desktop.theme.theme import Theme
from app.desktop.widgets.elided_label import ElidedLabel
from app.desktop.widgets.figures import count_text, tokens_text

_UNDER_WAY = (ReadingState.LOADING, ReadingState.WAITING, ReadingState.READING)
_NOTHING = Reading(ReadingState.NONE)


class ReadingRow(QWidget):
    """One line; takes no place while there is nothing to read and nothing is read.

    Signals:
        prepare_requested: the documents are to be read.
        stop_requested: what is being opened or read is not wanted.
        shown: it is seen now, or not any more.
    """

    prepare_requested = Signal()
    stop_requested = Signal()
    shown = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._has_documents = False
        self._reading = _NOTHING
        self._file_name = ""
        self._label = ElidedLabel()
        self._label.setProperty("role", "meta")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._button = QPushButton()
        self._button.setProperty("kind", "small")
        self._button.clicked.connect(self._on_clicked)
        self._row = QHBoxLayout(self)
        self._row.addWidget(self._label, 1)
        self._row.addWidget(self._bar)
        self._row.addWidget(self._button)
        self._show()
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def text(self) -> str:
        """What it says."""
        return self._label.whole

    @property
    def button(self) -> QPushButton:
        """Has the documents read, or stops that."""
        return self._button

    @property
    def buttons(self) -> list[QAbstractButton]:
        """Its button, where that can be seen."""
        return [] if self.isHidden() or self._button.isHidden() else [self._button]

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to say."""
        is_read = self._reading.state in _UNDER_WAY or self._reading.state is ReadingState.DONE
        return self._has_documents or bool(self._file_name) or is_read

    def set_wanted(self, has_documents: bool) -> None:
        """Tell whether there are documents."""
        self._has_documents = has_documents
        self._show()

    def show_reading(self, reading: Reading, file_name: str = "") -> None:
        """Show how far the model is, or which file is being opened."""
        if (reading, file_name) == (self._reading, self._file_name):
            return
        was_wanted, before = self.is_wanted, self._button.isHidden()
        self._reading, self._file_name = reading, file_name
        self._show()
        if was_wanted != self.is_wanted or before != self._button.isHidden():
            self.shown.emit()

    def _show(self) -> None:
        reading = self._reading
        is_under_way = bool(self._file_name) or reading.state in _UNDER_WAY
        self._label.set_whole(self._words())
        self._bar.setVisible(reading.state is ReadingState.READING and not self._file_name)
        self._bar.setMaximum(max(reading.num_tokens, 1))
        self._bar.setValue(reading.num_done)
        self._bar.setAccessibleName(self._words())
        self._button.setText(self.tr("Stop") if is_under_way else self.tr("Prepare"))
        tip = self.tr("Let the model read this before you ask, so that its answer begins sooner")
        self._button.setToolTip(self.tr("Stop reading") if is_under_way else tip)
        self._button.setVisible(is_under_way or reading.state is not ReadingState.DONE)
        self.setVisible(self.is_wanted)

    def _words(self) -> str:
        reading = self._reading
        if self._file_name:
            return self.tr("Opening {name}").format(name=isolated(self._file_name))
        match reading.state:
            case ReadingState.LOADING:
                return self.tr("The model is loaded first")
            case ReadingState.WAITING:
                return self.tr("Read when the reply has ended")
            case ReadingState.READING:
                count, total = count_text(reading.num_done), count_text(reading.num_tokens)
                return self.tr("Reading ahead: {count} of {total} tokens").format(count=count, total=total)
            case ReadingState.DONE:
                return self.tr("Read ahead: {tokens}").format(tokens=tokens_text(reading.num_tokens))
            case ReadingState.NONE:
                return self.tr("Not read yet; the model reads it with your question")

    def _on_clicked(self) -> None:
        if self._file_name or self._reading.state in _UNDER_WAY:
            self.stop_requested.emit()
        else:
            self.prepare_requested.emit()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._row.setContentsMargins(px(2), 0, px(4), 0)
        self._row.setSpacing(px(8))
        self._bar.setFixedWidth(px(90))
