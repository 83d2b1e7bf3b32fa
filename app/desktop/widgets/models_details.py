"""FileDetails: one file of the Models page: what is known of it, and what can be done with it."""

import dataclasses
import enum
import re

from PySide6.QtCore import QDateTime, QLocale, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

from app.desktop.itemmodels.model_list import shown_name
from app.desktop.itemmodels.model_rows import Fact, FileRow, Fit, ModelRow
from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.look import set_look
from app.desktop.theme.theme import Theme
from app.desktop.widgets.figures import LAST_SECOND, bytes_text, count_text, parameters_text, rate_with_unit
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.scroll_area import scroll_area

_MAX_TEXT = 400
_MAX_FACTS = 12
_MARGIN = 16
_BREAK = "\u200b"


class FileAction(enum.Enum):
    """What a person does with a file."""

    CHAT = "chat"
    INSPECT = "inspect"
    VERIFY = "verify"
    QUANTISE = "quantise"
    SHOW = "show"
    COPY_PATH = "copy_path"
    REMOVE = "remove"


@dataclasses.dataclass(frozen=True)
class _Offer:
    """Whether an action can be taken, and what is said of it where not."""

    label: str
    is_open: bool = True
    why_not: str = ""


class FileDetails(QWidget):
    """Shows one file at a time; None shows what to do.

    Signals:
        asked: path and FileAction.
        measure_asked: the speed of this computer is to be measured, for predictions.
        back_asked: the user wants the list, where there is no room for both.
    """

    asked = Signal(str, object)
    measure_asked = Signal()
    back_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._file: FileRow | None = None
        self.setObjectName("modelDetails")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(self.tr("The chosen file"))
        self.back_button = GlyphButton(theme, "back", self.tr("Back to the list (Esc)"), size=28)
        self.back_button.clicked.connect(self.back_asked)
        self._name = plain_label(role="title")
        self._level = plain_label(role="muted")
        self._fit = plain_label(role="fit")
        self._problem = plain_label(role="problem")
        self._hint = plain_label(role="muted")
        self._missing = plain_label(role="muted")
        self._whose = plain_label(role="meta")
        self._none = plain_label(self.tr("Choose a file to see what it is and what can be done with it."), role="muted")
        self.measure_button = QPushButton(self.tr("Measure this computer, to predict speeds"))
        self.measure_button.setProperty("kind", "action")
        self.measure_button.setToolTip(self.tr("Reads memory for a second, which tells how fast each model can write"))
        self.measure_button.clicked.connect(self.measure_asked)
        self.buttons = {action: QPushButton() for action in FileAction}
        self._facts: list[tuple[QLabel, QLabel]] = []
        self._num_columns = 0
        self._build()
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self.show_file(None, None)

    @property
    def path(self) -> str:
        """The file that is shown; empty for none."""
        return self._file.path if self._file is not None else ""

    @property
    def facts(self) -> dict[str, str]:
        """What is said, by label."""
        return {label.text(): value.text().replace(_BREAK, "") for label, value in self._facts if not label.isHidden()}

    @property
    def texts(self) -> str:
        """All that is said above the buttons and below them, one line each."""
        labels = (self._name, self._level, self._fit, self._problem, self._hint, self._missing, self._whose)
        return "\n".join(label.text() for label in labels if not label.isHidden())

    def show_file(self, model: ModelRow | None, file: FileRow | None) -> None:
        """Show a file of a model."""
        self._file = file
        is_shown = model is not None and file is not None
        self._none.setVisible(not is_shown)
        self._area.setVisible(is_shown)
        if model is None or file is None:
            return
        self._name.setText(shown_name(model.name))
        self._level.setText(shown_name(file.label))
        self._say(self._problem, file.problem)
        self._say(self._hint, file.hint if file.problem else file.kind)
        missing = ", ".join(isolated(shortened(name, 120)) for name in file.missing[:8])
        more = self.tr(" and {count} more").format(count=len(file.missing) - 8) if len(file.missing) > 8 else ""
        self._say(self._missing, self.tr("Missing: {names}").format(names=missing + more) if missing else "")
        self._show_fit(file)
        self._show_facts(self._facts_of(model, file))
        is_unknown = file.can_chat and file.fit is not Fit.UNKNOWN and file.tokens_per_s is None
        self.measure_button.setVisible(is_unknown)
        self._say(self._whose, "" if file.is_ours else self._whose_text(file))
        for action, offer in self._offers(file).items():
            button = self.buttons[action]
            button.setEnabled(offer.is_open)
            button.setToolTip(tool_tip_text(offer.why_not))

    def menu(self) -> QMenu:
        """Return the same actions as a menu."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if self._file is None:
            return menu
        for action, offer in self._offers(self._file).items():
            if action in (FileAction.SHOW, FileAction.REMOVE):
                menu.addSeparator()
            entry = menu.addAction(offer.label)
            entry.setEnabled(offer.is_open)
            entry.triggered.connect(lambda _=False, action=action: self._ask(action))
        return menu

    def focus_actions(self) -> None:
        """Go to the first thing that can be done."""
        for button in self.buttons.values():
            if button.isVisible() and button.isEnabled():
                button.setFocus(Qt.FocusReason.OtherFocusReason)
                return

    def set_alone(self, *, is_alone: bool) -> None:
        """Offer the way back where the list is not seen beside."""
        self.back_button.setVisible(is_alone)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._place_buttons()

    def _offers(self, file: FileRow) -> dict[FileAction, _Offer]:
        can_chat = file.can_chat and not file.problem
        why_not_chat = file.problem or file.kind
        is_whole = not file.missing
        return {
            FileAction.CHAT: _Offer(self.tr("Chat with it"), can_chat, "" if can_chat else why_not_chat),
            FileAction.INSPECT: _Offer(self.tr("Inspect")),
            FileAction.VERIFY: _Offer(self.tr("Verify file"), is_whole),
            FileAction.QUANTISE: _Offer(
                self.tr("Quantise …"),
                file.can_quantise,
                "" if file.can_quantise else self.tr("No other level can be made of this file."),
            ),
            FileAction.SHOW: _Offer(self.tr("Show in folder")),
            FileAction.COPY_PATH: _Offer(self.tr("Copy path")),
            FileAction.REMOVE: _Offer(
                self.tr("Move to trash"), file.is_ours, "" if file.is_ours else self._whose_text(file)
            ),
        }

    def _whose_text(self, file: FileRow) -> str:
        if file.owner:
            return self.tr("This file belongs to {owner}: remove it there.").format(owner=isolated(file.owner))
        return self.tr("This file lies in a folder of yours: Fireside removes only what it has put there itself.")

    def _show_fit(self, file: FileRow) -> None:
        text = ""
        if file.can_chat and not file.problem:
            sizes = {"needed": bytes_text(file.needed_bytes), "free": bytes_text(file.free_bytes)}
            text = {
                Fit.UNKNOWN: "",
                Fit.FITS: self.tr("Fits: it needs {needed} of the {free} that are free."),
                Fit.TIGHT: self.tr("Tight: it needs {needed} of the {free} that are free."),
                Fit.TOO_LARGE: self.tr("Does not fit: it needs {needed}, and {free} are free."),
            }[file.fit].format(**sizes)
        self._say(self._fit, text)
        set_look(self._fit, "fit", file.fit.value)

    def _show_facts(self, facts: list[Fact]) -> None:
        for number, (label, value) in enumerate(self._facts):
            is_used = number < len(facts)
            label.setVisible(is_used)
            value.setVisible(is_used)
            if is_used:
                label.setText(facts[number].label)
                value.setText(facts[number].value)
                spoken = facts[number].value.replace(_BREAK, "")
                value.setAccessibleName(f"{facts[number].label}: {spoken}")

    def _facts_of(self, model: ModelRow, file: FileRow) -> list[Fact]:
        parameters = parameters_text(model.num_parameters) if model.num_parameters else ""
        if model.num_active:
            active = parameters_text(model.num_active)
            parameters = self.tr("{count}, {active} for each token").format(count=parameters, active=active)
        used = QDateTime.fromSecsSinceEpoch(int(min(max(file.used_at, 0.0), LAST_SECOND)))
        bits = f"{file.bits_per_weight:.2f}" if file.bits_per_weight else ""
        speed = (
            "" if file.tokens_per_s is None else self.tr("about {rate}").format(rate=rate_with_unit(file.tokens_per_s))
        )
        every = (
            (self.tr("Size"), bytes_text(file.num_bytes)),
            (self.tr("Parameters"), parameters),
            (self.tr("Bits per weight"), bits),
            (self.tr("Trained for"), self._tokens(file.n_ctx_train)),
            (self.tr("Context that fits"), self._tokens(file.max_ctx)),
            (self.tr("Predicted speed"), speed),
            (self.tr("Parts"), count_text(file.num_parts) if file.num_parts > 1 else ""),
            (self.tr("Licence"), isolated(shortened(model.licence, 120))),
            (
                self.tr("Last used"),
                QLocale().toString(used, QLocale.FormatType.ShortFormat) if file.used_at > 0 else "",
            ),
            (self.tr("Found in"), breakable(isolated(shortened(file.place, _MAX_TEXT)))),
            (self.tr("Also in"), breakable(isolated(shortened(", ".join(file.also_in), _MAX_TEXT)))),
            (self.tr("File"), breakable(isolated(shortened(file.path, _MAX_TEXT)))),
        )
        return [Fact(label, value) for label, value in every if value]

    def _tokens(self, count: int) -> str:
        return self.tr("{count} tokens").format(count=count_text(count)) if count else ""

    def _build(self) -> None:
        self._content = QWidget()
        self._content.setObjectName("modelDetailsBody")
        self._box = QVBoxLayout(self._content)
        self._head = QHBoxLayout()
        names = QVBoxLayout()
        names.setSpacing(0)
        names.addWidget(self._name)
        names.addWidget(self._level)
        self._head.addWidget(self.back_button, 0, Qt.AlignmentFlag.AlignTop)
        self._head.addLayout(names, 1)
        self._grid = QGridLayout()
        self._facts_grid = QGridLayout()
        self._facts_grid.setColumnStretch(1, 1)
        self._box.addLayout(self._head)
        for part in (self._fit, self._problem, self._hint, self._missing):
            self._box.addWidget(part)
        self._box.addLayout(self._grid)
        self._box.addWidget(self._whose)
        self._box.addLayout(self._facts_grid)
        self._box.addWidget(self.measure_button, 0, Qt.AlignmentFlag.AlignLeft)
        self._box.addStretch(1)
        self._add_buttons()
        self._add_facts()
        self._area = scroll_area(self._content)
        self._none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._none, 1)
        outer.addWidget(self._area, 1)

    def _add_buttons(self) -> None:
        offers = self._offers(FileRow("", "", 0))
        for action, button in self.buttons.items():
            button.setText(offers[action].label)
            button.setProperty("kind", "primary" if action is FileAction.CHAT else "outline")
            button.clicked.connect(lambda _=False, action=action: self._ask(action))
            button.setMinimumWidth(1)
        self.measure_button.setMinimumWidth(1)

    def _place_buttons(self) -> None:
        """Put the buttons side by side, or below each other where they would be cut."""
        px = self._theme.px
        widest = max(button.sizeHint().width() for button in self.buttons.values())
        num_columns = 2 if 2 * widest + px(6 + 2 * _MARGIN) <= self.width() else 1
        if num_columns == self._num_columns:
            return
        self._num_columns = num_columns
        for label, _ in self._facts:
            label.setWordWrap(num_columns == 1)
        for number, (action, button) in enumerate(self.buttons.items()):
            is_first = action is FileAction.CHAT
            cell = 0 if is_first else number - 1 + num_columns
            self._grid.addWidget(button, cell // num_columns, cell % num_columns, 1, num_columns if is_first else 1)

    def _add_facts(self) -> None:
        for row in range(_MAX_FACTS):
            label, value = plain_label(role="muted"), plain_label()
            label.setWordWrap(False)
            self._facts_grid.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
            self._facts_grid.addWidget(value, row, 1)
            self._facts.append((label, value))

    def _ask(self, action: FileAction) -> None:
        if self._file is not None:
            self.asked.emit(self._file.path, action)

    def _say(self, label: QLabel, text: str) -> None:
        label.setText(isolated(shortened(text, _MAX_TEXT)))
        label.setVisible(bool(text))

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(_MARGIN), px(12), px(_MARGIN), px(16))
        self._box.setSpacing(px(10))
        self._head.setSpacing(px(6))
        self._grid.setSpacing(px(6))
        self._facts_grid.setHorizontalSpacing(px(12))
        self._facts_grid.setVerticalSpacing(px(5))
        self._none.setContentsMargins(px(24), 0, px(24), 0)
        self._place_buttons()


def breakable(text: str) -> str:
    """Return text that can be wrapped after the marks in a path, and in long words."""
    broken = re.sub(r"([/\\_.,-])", "\\1\u200b", text)
    return re.sub(r"([^\s\u200b]{12})(?=[^\s\u200b])", "\\1\u200b", broken)
