"""DiffView: two replies word by word, what each has alone marked, beginning with the first difference."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QColor, QResizeEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.compare.word_diff import Change, WordDiff
from app.desktop.rendering.plain import isolated, shortened, visible
from app.desktop.theme.theme import Theme
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.still_combo_box import StillComboBox

_MAX_CHARS = 60_000
_LABEL_CHARS = 40
_NARROW = 560


class DiffView(QFrame):
    """See above.

    Signals:
        pair_chosen: the places of the two lanes whose replies are to be compared.
    """

    pair_chosen = Signal(int, int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._diff: WordDiff | None = None
        self._first = -1
        self.setObjectName("compareDiff")
        self.setAccessibleName(self.tr("Differences"))
        self.one_box, self.other_box = StillComboBox(theme), StillComboBox(theme)
        self.one_box.setAccessibleName(self.tr("First reply"))
        self.other_box.setAccessibleName(self.tr("Second reply"))
        for box in (self.one_box, self.other_box):
            box.activated.connect(self._on_chosen)
        self._note = plain_label(role="meta")
        self.first_button = QPushButton(self.tr("First difference"))
        self.first_button.setProperty("kind", "small")
        self.first_button.clicked.connect(self.go_to_first)
        self.text_edit = QPlainTextEdit()
        self.text_edit.setReadOnly(True)
        self.text_edit.setObjectName("diffText")
        self.text_edit.setAccessibleName(self.tr("Both replies, with what differs marked"))
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._boxes, self._buttons = QHBoxLayout(), QHBoxLayout()
        self._boxes.addWidget(self.one_box, 1)
        self._boxes.addWidget(self.other_box, 1)
        self._buttons.addWidget(self.first_button)
        self._row.addLayout(self._boxes, 1)
        self._row.addLayout(self._buttons)
        self._box = QVBoxLayout(self)
        self._box.addLayout(self._row)
        self._box.addWidget(self._note)
        self._box.addWidget(self.text_edit, 1)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def note(self) -> str:
        """How much is the same."""
        return self._note.text()

    def add_button(self, button: QPushButton) -> None:
        """Add a button at the end of the row."""
        self._buttons.addWidget(button)
        self._buttons.addStretch(0)

    def set_lanes(self, labels: Sequence[str]) -> None:
        """Offer the replies of these lanes."""
        for place, box in enumerate((self.one_box, self.other_box)):
            before = box.currentIndex()
            box.clear()
            box.addItems([isolated(shortened(label, _LABEL_CHARS)) for label in labels])
            box.setCurrentIndex(before if 0 <= before < len(labels) else min(place, len(labels) - 1))

    def ask(self) -> None:
        """Ask for the pair that is chosen."""
        self._on_chosen()

    def show_diff(self, diff: WordDiff | None) -> None:
        """Show what differs; None where a reply is missing."""
        self._diff = diff
        self.text_edit.clear()
        self._first = -1
        self.first_button.setEnabled(False)
        if diff is None:
            self._note.setText(self.tr("One of the replies is not there."))
            return
        if all(piece.change is Change.SAME for piece in diff.pieces):
            words = self.tr("Both replies are the same, word for word.")
        else:
            words = self.tr(
                "{share} of the words are the same. Struck out: only the first reply; marked: only the second."
            )
            words = words.format(share=f"{diff.similarity:.0%}")
        if not diff.is_complete:
            words += " " + self.tr("The replies are long: their middles were compared in part only.")
        self._note.setText(words)
        self._fill(diff)

    def go_to_first(self) -> None:
        """Bring the first difference into view."""
        if self._first >= 0:
            cursor = self.text_edit.textCursor()
            cursor.setPosition(self._first)
            self.text_edit.setTextCursor(cursor)
            self.text_edit.centerCursor()
            self.text_edit.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget; the buttons stand below where there is little room."""
        super().resizeEvent(event)
        is_narrow = self.width() < self._theme.px(_NARROW)
        down, beside = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._row.setDirection(down if is_narrow else beside)

    def _fill(self, diff: WordDiff) -> None:
        cursor = QTextCursor(self.text_edit.document())
        num_chars = 0
        for piece in diff.pieces:
            if piece.is_first and self._first < 0:
                self._first = cursor.position()
                cursor.insertText("▶ ", self._format(Change.SAME, is_first=True))
            text = visible(piece.text)
            cursor.insertText(text, self._format(piece.change))
            num_chars += len(text)
            if num_chars > _MAX_CHARS:
                cursor.insertText("\n" + self.tr("The rest is not shown."), self._format(Change.SAME))
                break
        self.first_button.setEnabled(self._first >= 0)
        self.text_edit.moveCursor(QTextCursor.MoveOperation.Start)
        if self._first >= 0:
            start = self.text_edit.textCursor()
            start.setPosition(self._first)
            self.text_edit.setTextCursor(start)
            self.text_edit.ensureCursorVisible()

    def _format(self, change: Change, *, is_first: bool = False) -> QTextCharFormat:
        style = QTextCharFormat()
        style.setFont(self._theme.font(14))
        style.setForeground(self._theme.colour("text"))
        if is_first:
            style.setForeground(self._theme.colour("accent"))
        elif change is Change.REMOVED:
            style.setForeground(self._theme.colour("error"))
            style.setFontStrikeOut(True)
        elif change is Change.ADDED:
            style.setForeground(self._theme.colour("ok"))
            style.setFontUnderline(True)
            shade = QColor(self._theme.colour("ok"))
            shade.setAlphaF(0.12)
            style.setBackground(shade)
        return style

    def _on_chosen(self) -> None:
        self.pair_chosen.emit(self.one_box.currentIndex(), self.other_box.currentIndex())

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(16), px(8), px(16), px(12))
        self._box.setSpacing(px(8))
        for row in (self._row, self._boxes, self._buttons):
            row.setSpacing(px(8))
        if self._diff is not None:
            self.show_diff(self._diff)
