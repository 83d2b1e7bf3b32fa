"""DetailsCard: everything that is known of one reply."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.desktop.rendering.plain import tool_tip_text
from app.desktop.session.turns import ReplyTurn
from app.desktop.theme.theme import Theme
from app.desktop.widgets.reply_facts import Fact, fact_groups, reply_json, system_prompt_of, used_seed

_WIDTH = 460
_MAX_HEIGHT = 700
_LABEL_WIDTH = 130
_PROMPT_HEIGHT = 84


class DetailsCard(QDialog):
    """Shows one reply as it is now; Esc closes it.

    Signals:
        seed_pinned: the seed of the reply, larger than a Qt int can be, is to be used for its chat.
    """

    seed_pinned = Signal(object)

    def __init__(self, theme: Theme, turn: ReplyTurn, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._turn = turn
        self._values: dict[str, str] = {}
        self.pin_button: QPushButton | None = None
        self.setObjectName("detailsCard")
        self.setWindowTitle(self.tr("Details of the reply"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.copy_button = QPushButton(self.tr("Copy"))
        self.copy_button.setProperty("kind", "outline")
        self.copy_button.setToolTip(self.tr("Copy all of this as JSON"))
        self.copy_button.clicked.connect(self._on_copied)
        self.close_button = QPushButton(self.tr("Close"))
        self.close_button.setProperty("kind", "outline")
        self.close_button.clicked.connect(self.close)
        px = theme.px
        body = self._new_body()
        area = QScrollArea()
        area.setObjectName("detailsArea")
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setAccessibleName(self.windowTitle())
        area.setWidget(body)
        buttons = QHBoxLayout()
        buttons.setContentsMargins(px(20), px(10), px(20), px(16))
        buttons.setSpacing(px(8))
        buttons.addStretch()
        for button in (self.copy_button, self.close_button):
            button.setAutoDefault(False)
            buttons.addWidget(button)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(area, 1)
        outer.addLayout(buttons)
        height = body.heightForWidth(px(_WIDTH)) if body.hasHeightForWidth() else body.sizeHint().height()
        self.resize(px(_WIDTH), min(height + px(70), px(_MAX_HEIGHT)))
        area.setFocus()

    def value(self, label: str) -> str:
        """Return what stands beside a label."""
        return self._values.get(label, "")

    def _new_body(self) -> QWidget:
        px = self._theme.px
        body = QWidget()
        body.setObjectName("detailsBody")
        box = QVBoxLayout(body)
        box.setContentsMargins(px(20), px(16), px(20), px(8))
        box.setSpacing(px(16))
        for group in fact_groups(self._turn):
            grid = QGridLayout()
            grid.setHorizontalSpacing(px(12))
            grid.setVerticalSpacing(px(5))
            grid.setColumnMinimumWidth(0, px(_LABEL_WIDTH))
            grid.setColumnStretch(1, 1)
            grid.addWidget(_section(group.title), 0, 0, 1, 3)
            for row, fact in enumerate(group.facts, 1):
                self._add_fact(grid, row, fact)
            box.addLayout(grid)
        box.addWidget(_section(self.tr("System prompt")))
        box.addWidget(self._new_prompt())
        box.addStretch()
        return body

    def _add_fact(self, grid: QGridLayout, row: int, fact: Fact) -> None:
        self._values[fact.label] = fact.value
        label = QLabel(fact.label)
        label.setProperty("role", "muted")
        value = QLabel(fact.value)
        value.setWordWrap(True)
        value.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        value.setAccessibleName(f"{fact.label}: {fact.value}")
        for widget in (label, value):
            widget.setTextFormat(Qt.TextFormat.PlainText)
            widget.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            widget.setToolTip(tool_tip_text(fact.help))
        if fact.name == "seed":
            grid.addWidget(label, row, 0)
            self.pin_button = QPushButton(self.tr("Use this seed"))
            self.pin_button.setProperty("kind", "action")
            self.pin_button.setAutoDefault(False)
            self.pin_button.setToolTip(self.tr("Use this seed for every reply of this chat"))
            self.pin_button.clicked.connect(self._on_pinned)
            value.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
            grid.addWidget(value, row, 1)
            grid.addWidget(self.pin_button, row, 2)
        else:
            grid.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(value, row, 1, 1, 2)

    def _new_prompt(self) -> QWidget:
        text = system_prompt_of(self._turn)
        if not text:
            none = QLabel(self.tr("none"))
            none.setProperty("role", "muted")
            return none
        edit = QPlainTextEdit(text)
        edit.setObjectName("systemPrompt")
        edit.setReadOnly(True)
        edit.setTabChangesFocus(True)
        edit.setAccessibleName(self.tr("System prompt"))
        edit.setFixedHeight(self._theme.px(_PROMPT_HEIGHT))
        return edit

    def _on_copied(self) -> None:
        QGuiApplication.clipboard().setText(reply_json(self._turn))
        self.copy_button.setText(self.tr("Copied"))

    def _on_pinned(self) -> None:
        seed = used_seed(self._turn)
        if seed is not None:
            self.seed_pinned.emit(seed)


def _section(title: str) -> QLabel:
    label = QLabel(title.upper())
    label.setProperty("role", "section")
    return label
