"""SetupView: what is to be compared: models with their settings, the prompts, and how the replies are made."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.compare.results import Mode
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.compare_setup import (
    CHATS,
    MAX_REPEATS,
    MAX_SAMPLES,
    SHORT,
    TYPED,
    WHOLE,
    CompareSetup,
    Interrupted,
    ModelOption,
)
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_chat_choice import ChatChoice
from app.desktop.widgets.compare_setup_cards import ColumnCards
from app.desktop.widgets.compare_setup_words import mode_help, summary
from app.desktop.widgets.file_dialog import ask_for_file
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.still_combo_box import StillComboBox
from app.desktop.widgets.still_spin_box import StillSpinBox

_COLUMN = 720
_NARROW = 480
_MAX_TOKENS = 8192
_SAMPLE_TEMPERATURE = 0.8


class SetupView(QScrollArea):
    """See above.

    Signals:
        start_requested: CompareSetup.
        resume_requested: id of a run that was interrupted.
        unload_requested: the chat's model is to leave memory.
        chats_requested: the past chats are to be listed.
        changed: something else is chosen.
    """

    start_requested = Signal(object)
    resume_requested = Signal(str)
    unload_requested = Signal()
    chats_requested = Signal()
    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._interrupted: Interrupted | None = None
        self._loaded = ""
        self._is_running = False
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._make_parts()
        self._build()
        for part in (self.columns, self.chats):
            part.changed.connect(self._on_changed)
        self.prompt_edit.textChanged.connect(self._on_changed)
        for box in (self.mode_box, self.prompts_box):
            box.activated.connect(self._on_changed)
        for spin in (self.repeats_spin, self.tokens_spin):
            spin.valueChanged.connect(self._on_changed)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self._on_changed()

    @property
    def setup(self) -> CompareSetup:
        """What is chosen."""
        return CompareSetup(
            self.columns.columns,
            self._mode(),
            str(self.prompts_box.currentData() or TYPED),
            self.prompt_edit.toPlainText(),
            self.repeats_spin.value(),
            self.tokens_spin.value(),
            self.chats.chosen,
        )

    @property
    def summary(self) -> str:
        """What it will take, in one line."""
        return self._summary.text()

    @property
    def fault(self) -> str:
        """Why it could not begin."""
        return self._fault.text()

    def show_models(self, options: Sequence[ModelOption]) -> None:
        """Offer these models; each column that has none gets one of its own, as far as there are some."""
        self.columns.show_models(options)

    def show_interrupted(self, run: Interrupted | None) -> None:
        """Offer to go on with a run."""
        self._interrupted = run
        self._resume.setVisible(run is not None)
        if run is not None:
            words = self.tr("A comparison of {moment} was interrupted: {done} of {total} replies are there.")
            moment = run.created_at.replace("T", " ")[:16]
            self._resume_text.setText(words.format(moment=moment, done=run.num_done, total=run.num_total))

    def show_loaded(self, label: str, *, is_in_use: bool = False) -> None:
        """Say which model the chat has loaded, empty for none, and whether replies are made with it."""
        self._loaded = label
        self.unload_button.setVisible(bool(label))
        self.unload_button.setEnabled(not is_in_use)
        free = self.tr("Its memory is given back; the next message of a chat loads it again")
        self.unload_button.setToolTip(self.tr("A reply is being made with it") if is_in_use else free)
        self._on_changed()

    def show_fault(self, message: str, hint: str = "") -> None:
        """Say why it could not begin."""
        self._fault.setText(shortened(f"{message} {hint}".strip(), 800))
        self._fault.setVisible(bool(message))

    def set_running(self, *, is_running: bool) -> None:
        """Tell whether a comparison runs; another one cannot begin meanwhile."""
        self._is_running = is_running
        self.resume_button.setEnabled(not is_running)
        self._on_changed()

    def choose(self, setup: CompareSetup) -> None:
        """Choose everything as it was."""
        self.columns.choose(setup.columns)
        self.mode_box.setCurrentIndex(self.mode_box.findData(setup.mode))
        if self.prompts_box.findData(setup.prompts) < 0:
            self._offer_file(setup.prompts)
        self.prompts_box.setCurrentIndex(self.prompts_box.findData(setup.prompts))
        self.prompt_edit.setPlainText(setup.text)
        self.chats.choose(setup.chats)
        self._on_changed()
        self.repeats_spin.setValue(setup.repeats)
        self.tokens_spin.setValue(setup.max_tokens)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._fit()

    def _make_parts(self) -> None:
        theme = self._theme
        self._resume = QFrame()
        self._resume.setObjectName("notice")
        self._resume_text = plain_label()
        self.resume_button = QPushButton(self.tr("Go on"))
        self.resume_button.setProperty("kind", "outline")
        self.resume_button.clicked.connect(self._on_resume)
        self.later_button = QPushButton(self.tr("Not now"))
        self.later_button.setProperty("kind", "small")
        self.later_button.clicked.connect(lambda: self.show_interrupted(None))
        self.columns = ColumnCards(theme)
        self.mode_box = StillComboBox(theme)
        self.mode_box.setAccessibleName(self.tr("How the replies are made"))
        self.mode_box.addItem(self.tr("Fair: one after the other, each alone"), Mode.FAIR)
        self.mode_box.addItem(self.tr("Race: all at once; speeds are not comparable"), Mode.RACE)
        self.mode_box.addItem(self.tr("Samples: several replies of one model, in one batch"), Mode.SAMPLES)
        self._mode_help = plain_label(role="meta")
        self.prompts_box = StillComboBox(theme)
        self.prompts_box.setAccessibleName(self.tr("Prompts"))
        self.prompts_box.addItem(self.tr("One prompt, written here"), TYPED)
        self.prompts_box.addItem(self.tr("The short set: one prompt of each kind"), SHORT)
        self.prompts_box.addItem(self.tr("The whole set"), WHOLE)
        self.prompts_box.addItem(self.tr("From past chats"), CHATS)
        self.prompts_box.addItem(self.tr("A file of prompts …"), None)
        self.prompt_edit = QPlainTextEdit()
        self.prompt_edit.setObjectName("comparePrompt")
        self.prompt_edit.setTabChangesFocus(True)
        self.prompt_edit.setPlaceholderText(self.tr("What are the models to be asked?"))
        self.prompt_edit.setAccessibleName(self.tr("Prompt"))
        self.repeats_spin, self.tokens_spin = StillSpinBox(), StillSpinBox()
        self.repeats_spin.setRange(1, MAX_REPEATS)
        self.tokens_spin.setRange(1, _MAX_TOKENS)
        self.tokens_spin.setValue(256)
        self.tokens_spin.setAccessibleName(self.tr("Longest reply, in tokens"))
        self._repeats_label = QLabel()
        self._repeats_label.setBuddy(self.repeats_spin)
        self._tokens_label = QLabel(self.tr("Longest reply, in tokens"))
        self._tokens_label.setBuddy(self.tokens_spin)
        self.chats = ChatChoice(theme)
        self._summary = plain_label(role="muted")
        self.unload_button = QPushButton(self.tr("Unload it"))
        self.unload_button.setProperty("kind", "outline")
        self.unload_button.clicked.connect(self.unload_requested)
        self.unload_button.hide()
        self._fault = plain_label(role="error", is_selectable=True)
        self._fault.hide()
        self.start_button = QPushButton(self.tr("Start"))
        self.start_button.setProperty("kind", "primary")
        self.start_button.clicked.connect(lambda: self.start_requested.emit(self.setup))

    def _build(self) -> None:
        self._body = QWidget()
        self._body.setObjectName("compareBody")
        self._column = QWidget()
        self._box = QVBoxLayout(self._column)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._resume_row = QHBoxLayout(self._resume)
        self._resume_row.addWidget(self._resume_text, 1)
        self._resume_row.addWidget(self.resume_button)
        self._resume_row.addWidget(self.later_button)
        self._resume.hide()
        self._box.addWidget(self._resume)
        self._headings: list[QLabel] = []
        self._heading(self.tr("Models"))
        self._box.addWidget(self.columns)
        self._heading(self.tr("Prompts"))
        self._box.addWidget(self.prompts_box)
        self._box.addWidget(self.prompt_edit)
        self._box.addWidget(self.chats)
        self._heading(self.tr("How"))
        self._box.addWidget(self.mode_box)
        self._box.addWidget(self._mode_help)
        self._numbers = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        pairs = ((self._repeats_label, self.repeats_spin), (self._tokens_label, self.tokens_spin))
        self._pairs = [QHBoxLayout() for _ in pairs]
        for row, (label, spin) in zip(self._pairs, pairs, strict=True):
            row.addWidget(label)
            row.addWidget(spin)
            row.addStretch(1)
            self._numbers.addLayout(row)
        self._numbers.addStretch(1)
        self._box.addLayout(self._numbers)
        self._memory_row = QHBoxLayout()
        self._memory_row.addWidget(self._summary, 1)
        self._memory_row.addWidget(self.unload_button, 0, Qt.AlignmentFlag.AlignTop)
        self._box.addLayout(self._memory_row)
        self._box.addWidget(self._fault)
        foot = QHBoxLayout()
        foot.addWidget(self.start_button)
        foot.addStretch(1)
        self._box.addLayout(foot)
        self._box.addStretch(1)
        self._middle = QHBoxLayout(self._body)
        self._middle.addStretch(1)
        self._middle.addWidget(self._column)
        self._middle.addStretch(1)
        self.setWidget(self._body)

    def _heading(self, text: str) -> None:
        heading = plain_label(text.upper(), role="section")
        self._headings.append(heading)
        self._box.addWidget(heading)

    def _mode(self) -> Mode:
        mode = self.mode_box.currentData()
        return mode if isinstance(mode, Mode) else Mode.FAIR

    def _on_resume(self) -> None:
        if self._interrupted is not None:
            run_id = self._interrupted.id
            self.show_interrupted(None)
            self.resume_requested.emit(run_id)

    def _on_changed(self) -> None:
        if self.prompts_box.currentData() is None and self.prompts_box.count():
            self.prompts_box.setCurrentIndex(0)
            self._open_prompts()
        mode = self._mode()
        is_samples = mode is Mode.SAMPLES
        if is_samples and self.repeats_spin.maximum() != MAX_SAMPLES:
            self.repeats_spin.setRange(2, MAX_SAMPLES)
            self.repeats_spin.setValue(4)
            self.columns.set_temperature(0.0, _SAMPLE_TEMPERATURE)
        elif not is_samples and self.repeats_spin.maximum() != MAX_REPEATS:
            self.repeats_spin.setRange(1, MAX_REPEATS)
            self.repeats_spin.setValue(1)
            self.columns.set_temperature(_SAMPLE_TEMPERATURE, 0.0)
        words = self.tr("Samples") if is_samples else self.tr("Repeats")
        self._repeats_label.setText(words)
        self.repeats_spin.setAccessibleName(words)
        self.columns.set_one(is_one=is_samples)
        prompts = self.prompts_box.currentData()
        self.prompt_edit.setVisible(prompts == TYPED)
        was_hidden = self.chats.isHidden()
        self.chats.setVisible(prompts == CHATS)
        if prompts == CHATS and was_hidden:
            self.chats_requested.emit()
        self._mode_help.setText(mode_help(mode))
        setup = self.setup
        self._summary.setText(summary(setup, self.columns.sizes, self._loaded))
        said = {TYPED: self.prompt_edit.toPlainText().strip(), CHATS: self.chats.chosen}
        has_prompt = bool(said.get(prompts, True))
        has_models = all(column.model for column in self.setup.columns)
        self.start_button.setEnabled(has_prompt and has_models and not self._is_running)
        self.start_button.setToolTip(self._start_waits_for(prompts, has_prompt=has_prompt, has_models=has_models))
        self.changed.emit()

    def _start_waits_for(self, prompts: object, *, has_prompt: bool, has_models: bool) -> str:
        if self._is_running:
            return self.tr("A comparison is running")
        if not has_models:
            return self.tr("Choose a model for each column first")
        if not has_prompt:
            return self.tr("Choose a chat first") if prompts == CHATS else self.tr("Write a prompt first")
        return ""

    def _open_prompts(self) -> None:
        kinds = f"{self.tr('Prompts')} (*.txt *.md *.json *.jsonl);;{self.tr('All files')} (*)"
        ask_for_file(self.window(), self.tr("Open a file of prompts"), self._on_prompts_chosen, kinds=kinds)

    def _offer_file(self, path: str) -> None:
        if self.prompts_box.findData(path) < 0:
            self.prompts_box.insertItem(self.prompts_box.count() - 1, isolated(shortened(Path(path).name, 60)), path)

    def _on_prompts_chosen(self, path: str) -> None:
        self._offer_file(path)
        self.prompts_box.setCurrentIndex(self.prompts_box.findData(path))
        self._on_changed()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setSpacing(px(10))
        self._numbers.setSpacing(px(16))
        for row in self._pairs:
            row.setSpacing(px(8))
        self._resume_row.setContentsMargins(px(14), px(8), px(8), px(8))
        self._resume_row.setSpacing(px(8))
        self._memory_row.setSpacing(px(8))
        for heading in self._headings:
            heading.setContentsMargins(0, px(12), 0, 0)
        self.prompt_edit.setFixedHeight(px(110))
        for spin in (self.repeats_spin, self.tokens_spin):
            spin.setFixedWidth(px(80))
            spin.lineEdit().setTextMargins(px(6), 0, 0, 0)
        self._fit()

    def _fit(self) -> None:
        px = self._theme.px
        margin = px(24 if self.width() > px(560) else 14)
        self._middle.setContentsMargins(margin, px(12), margin, px(24))
        width = min(px(_COLUMN), self.viewport().width() - 2 * margin)
        self._column.setFixedWidth(max(width, 1))
        self.columns.fit(width)
        down, beside = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._numbers.setDirection(down if width < px(_NARROW) else beside)
