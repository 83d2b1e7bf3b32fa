"""QuantisePanel: which levels are to be made of a file, how large each will be, and with what importance matrix."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.desktop.itemmodels.model_list import shown_name
from app.desktop.itemmodels.model_rows import LevelChoice, Matrix, QuantiseOffer, QuantiseOrder
from app.desktop.rendering.plain import isolated, shortened, tool_tip_text
from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.look import set_look
from app.desktop.theme.theme import Theme
from app.desktop.widgets.check_box import CheckBox
from app.desktop.widgets.figures import bytes_text
from app.desktop.widgets.file_dialog import ask_for_file
from app.desktop.widgets.models_details import breakable
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.scroll_area import scroll_area
from app.desktop.widgets.still_combo_box import StillComboBox

_MAX_TEXT = 400
_MIB = 1 << 20


class LevelBox(CheckBox):
    """A level that can be chosen; its size stands at the end of its line."""

    def __init__(self, theme: Theme, level: LevelChoice) -> None:
        name = shown_name(level.type_name)
        super().__init__(theme, name)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)  # rather the other text is wrapped
        self.level = level
        bits = self.tr("{bits} bits per weight").format(bits=f"{level.bits_per_weight:.2f}")
        self.size_text = exact_text(level.num_bytes)
        self._needs = self.tr("needs a matrix")
        self._short_why_not = self.tr("cannot be made")
        texts = [text for text in (bits if level.bits_per_weight else "", level.note, level.why_not) if text]
        self.setToolTip(tool_tip_text("; ".join(texts)))
        self._spoken = ", ".join((name, self.size_text, *texts))
        self.setAccessibleName(self._spoken)
        self.size_label = plain_label(self.size_text, role="muted")
        self.size_label.setAlignment(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)

    def set_matrix(self, *, has_matrix: bool) -> None:
        """Say whether it can be made now."""
        why_not = self.level.why_not
        if not why_not and self.level.needs_matrix and not has_matrix:
            why_not = self._needs
        if why_not:
            self.setChecked(False)
        self.setEnabled(not why_not)
        self.size_label.setText(self._short_why_not if self.level.why_not else why_not or self.size_text)
        self.setAccessibleName(f"{self._spoken}, {why_not}" if why_not else self._spoken)


class QuantisePanel(QWidget):
    """Draws an offer, and sends what was chosen of it.

    Signals:
        ordered: QuantiseOrder.
        back_asked: the user wants the list again.
    """

    ordered = Signal(object)
    back_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._offer: QuantiseOffer | None = None
        self._matrix_path = ""
        self.boxes: dict[str, LevelBox] = {}
        self.setObjectName("modelDetails")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(self.tr("Quantise"))
        self.back_button = GlyphButton(theme, "back", self.tr("Back to the list (Esc)"), size=28)
        self._title = plain_label(self.tr("Quantise"), role="title")
        self._name = plain_label(role="muted")
        self._warning = plain_label(role="problem")
        self._state = plain_label(role="muted")
        self._levels_head = plain_label(self.tr("Levels to make").upper(), role="section")
        self.more_button = QPushButton(self.tr("More levels"))
        self.more_button.setProperty("kind", "outline")
        self.more_button.setCheckable(True)
        self._matrix_head = plain_label(self.tr("Importance matrix").upper(), role="section")
        self.matrix = StillComboBox(theme)
        self.matrix.setAccessibleName(self.tr("Importance matrix"))
        self._matrix_note = plain_label(role="meta")
        self.file_button = QPushButton()
        self.file_button.setProperty("kind", "outline")
        self._disk = plain_label(role="muted")
        self.start_button = QPushButton(self.tr("Make"))
        self.start_button.setProperty("kind", "primary")
        self._build()
        self.back_button.clicked.connect(self.back_asked)
        self.more_button.toggled.connect(self._on_more)
        self.matrix.currentIndexChanged.connect(self._update)
        self.file_button.clicked.connect(self._choose_file)
        self.start_button.clicked.connect(self._on_start)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self.show_waiting("")

    @property
    def path(self) -> str:
        """The file it is about, empty before its offer is there."""
        return self._offer.path if self._offer is not None else ""

    @property
    def texts(self) -> str:
        """What is said beside the levels."""
        labels = (self._name, self._warning, self._state, self._matrix_note, self._disk)
        return "\n".join(label.text() for label in labels if not label.isHidden())

    @property
    def order(self) -> QuantiseOrder | None:
        """What is chosen; None while that is nothing, or cannot be made."""
        offer = self._offer
        types = tuple(name for name, box in self.boxes.items() if box.isChecked())
        kind = self._matrix_kind
        needs_path = kind in (Matrix.TEXT, Matrix.FILE)
        if offer is None or not types or self._needed > offer.free_bytes or (needs_path and not self._matrix_path):
            return None
        return QuantiseOrder(offer.path, types, kind, self._matrix_path if needs_path else "")

    def show_waiting(self, name: str) -> None:
        """Say that what can be made of a file is being worked out."""
        self._offer = None
        self._clear()
        self._name.setText(shown_name(name))
        self._say(self._warning, "")
        self._say(self._state, self.tr("Working out the exact sizes …"), role="muted")
        self._update()

    def show_problem(self, message: str, hint: str) -> None:
        """Say why nothing can be made."""
        self._say(self._state, f"{message} {hint}".strip(), role="problem")

    def show_offer(self, offer: QuantiseOffer) -> None:
        """Show what can be made of a file."""
        is_same = self._offer is not None and self._offer.path == offer.path
        chosen = {name for name, box in self.boxes.items() if is_same and box.isChecked()}
        matrix = self._matrix_kind if is_same else Matrix.NONE
        self._offer = offer
        self._clear()
        self._name.setText(shown_name(offer.name))
        self._say(self._warning, offer.warning)
        self._say(self._state, "")
        self.matrix.clear()
        for kind, label in self._matrices():
            if kind in offer.matrices:
                self.matrix.addItem(label, kind)
        self.matrix.setCurrentIndex(max(0, self.matrix.findData(matrix)))
        for level in offer.levels:
            box = self.boxes[level.type_name] = LevelBox(self._theme, level)
            row = QHBoxLayout()
            row.addWidget(box)
            row.addWidget(box.size_label, 1)
            self._levels.addLayout(row)
            box.setChecked(level.type_name in chosen)
            box.toggled.connect(self._update)
        self._on_more(self.more_button.isChecked())
        self._update()

    def set_alone(self, *, is_alone: bool) -> None:
        """Offer the way back."""
        self.back_button.setVisible(is_alone)

    def set_matrix_path(self, path: str) -> None:
        """Take the text or the matrix that was chosen."""
        self._matrix_path = path
        self._update()

    def _matrices(self) -> tuple[tuple[Matrix, str], ...]:
        return (
            (Matrix.NONE, self.tr("None")),
            (Matrix.BUNDLED, self.tr("From the text that comes with Fireside")),
            (Matrix.TEXT, self.tr("From a text of mine")),
            (Matrix.FILE, self.tr("From a matrix file")),
        )

    @property
    def _matrix_kind(self) -> Matrix:
        kind = self.matrix.currentData()
        return kind if isinstance(kind, Matrix) else Matrix.NONE

    @property
    def _needed(self) -> int:
        return sum(box.level.num_bytes for box in self.boxes.values() if box.isChecked())

    def _clear(self) -> None:
        self.boxes = {}
        while (item := self._levels.takeAt(0)) is not None:
            row = item.layout()
            while row is not None and (part := row.takeAt(0)) is not None:
                if (widget := part.widget()) is not None:
                    widget.hide()
                    widget.deleteLater()

    def _on_more(self, is_open: bool) -> None:
        self.more_button.setText(self.tr("Fewer levels") if is_open else self.tr("More levels"))
        for box in self.boxes.values():
            is_shown = is_open or box.level.is_usual or box.isChecked()
            box.setVisible(is_shown)
            box.size_label.setVisible(is_shown)

    def _update(self) -> None:
        offer, kind = self._offer, self._matrix_kind
        for box in self.boxes.values():
            box.set_matrix(has_matrix=kind is not Matrix.NONE)
        has_more = any(not box.level.is_usual for box in self.boxes.values())
        self.more_button.setVisible(has_more)
        for part in (self._levels_head, self._matrix_head, self.matrix, self._matrix_note, self.start_button):
            part.setVisible(offer is not None)
        self._say(self._matrix_note, self._matrix_text(kind) if offer is not None else "")
        is_file = kind in (Matrix.TEXT, Matrix.FILE)
        self.file_button.setVisible(offer is not None and is_file)
        chosen = shortened(self._matrix_path.replace("\\", "/").rpartition("/")[2], 40)
        self.file_button.setText(isolated(chosen).replace("&", "&&") if chosen else self.tr("Choose a file …"))
        self.file_button.setToolTip(tool_tip_text(self._matrix_path))
        num_chosen = sum(box.isChecked() for box in self.boxes.values())
        self.start_button.setText(
            self.tr("Make a ladder of {count}").format(count=num_chosen) if num_chosen > 1 else self.tr("Make")
        )
        self.start_button.setEnabled(self.order is not None)
        self._show_disk(offer)

    def _show_disk(self, offer: QuantiseOffer | None) -> None:
        if offer is None:
            self._say(self._disk, "")
            return
        sizes = {"needed": exact_text(self._needed), "free": bytes_text(offer.free_bytes)}
        is_short = self._needed > offer.free_bytes
        text = self.tr("There is no room: {needed} are needed, {free} are free in {folder}.")
        if not is_short:
            text = self.tr("{needed} of the {free} that are free in {folder}.")
            if not self._needed:
                text = self.tr("{free} are free in {folder}.")
        folder = breakable(isolated(shortened(offer.folder, _MAX_TEXT)))
        self._say(self._disk, text.format(**sizes, folder=folder), role="problem" if is_short else "muted")

    def _matrix_text(self, kind: Matrix) -> str:
        return {
            Matrix.NONE: self.tr("Levels below four bits lose much without one."),
            Matrix.BUNDLED: self.tr("The model reads a short text first, to learn which weights matter."),
            Matrix.TEXT: self.tr("The model reads your text first: best is one like what you will ask it."),
            Matrix.FILE: self.tr("A file that was made for this model, as some publish it beside theirs."),
        }[kind]

    def _choose_file(self) -> None:
        is_text = self._matrix_kind is Matrix.TEXT
        texts, matrices = self.tr("Texts (*.txt *.md)"), self.tr("Importance matrices (*.gguf *.dat *.imatrix)")
        kinds = f"{texts if is_text else matrices};;{self.tr('All files (*)')}"
        ask_for_file(self.window(), self.tr("Choose a file"), self.set_matrix_path, kinds=kinds)

    def _on_start(self) -> None:
        order = self.order
        if order is not None:
            self.ordered.emit(order)

    def _say(self, label: QLabel, text: str, *, role: str = "") -> None:
        label.setText(shortened(text, 2 * _MAX_TEXT))
        label.setVisible(bool(text))
        if role:
            set_look(label, "role", role)

    def _build(self) -> None:
        body = QWidget()
        body.setObjectName("modelDetailsBody")
        self._box = QVBoxLayout(body)
        names = QVBoxLayout()
        names.setSpacing(0)
        names.addWidget(self._title)
        names.addWidget(self._name)
        self._head = QHBoxLayout()
        self._head.addWidget(self.back_button, 0, Qt.AlignmentFlag.AlignTop)
        self._head.addLayout(names, 1)
        self._levels = QVBoxLayout()
        self._box.addLayout(self._head)
        for label in (self._warning, self._state, self._levels_head):
            self._box.addWidget(label)
        self._box.addLayout(self._levels)
        parts = (self.more_button, self._matrix_head, self.matrix, self._matrix_note, self.file_button)
        for part in (*parts, self._disk, self.start_button):
            self._box.addWidget(part)
        self._box.addStretch(1)
        area = scroll_area(body)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)
        self.setFocusProxy(self.back_button)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(16), px(12), px(16), px(16))
        self._box.setSpacing(px(8))
        self._levels.setSpacing(px(2))
        self._head.setSpacing(px(6))
        for heading in (self._levels_head, self._matrix_head):
            heading.setContentsMargins(0, px(8), 0, 0)


def exact_text(num_bytes: int) -> str:
    """Return a size to a tenth of a unit, which tells neighbouring levels apart."""
    if num_bytes < 1024 * _MIB:
        return f"{num_bytes / _MIB:.1f} MiB"
    return f"{num_bytes / (1024 * _MIB):.2f} GiB"
