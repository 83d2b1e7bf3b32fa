"""ColumnCards: the columns that are to be compared, one card each, to be added and taken away."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.desktop.session.compare_setup import CACHE_TYPES, MAX_COLUMNS, ColumnSetup, ModelOption
from app.desktop.theme.theme import Theme
from app.desktop.widgets.compare_setup_card import ColumnCard


class ColumnCards(QWidget):
    """See above.

    Signals:
        changed: another model or setting is chosen, or there are more or fewer columns.
    """

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._options: Sequence[ModelOption] = ()
        self._is_one = False
        self._width = 0
        self.cards: list[ColumnCard] = []
        self.add_button = QPushButton(self.tr("Add a column"))
        self.add_button.clicked.connect(self._on_add)
        self.levels_button = QPushButton(self.tr("All levels of this model"))
        self.levels_button.setToolTip(self.tr("A column for each quantisation of the first model"))
        self.levels_button.clicked.connect(self._on_levels)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._card_box = QVBoxLayout()
        self._buttons = QHBoxLayout()
        for button in (self.add_button, self.levels_button):
            button.setProperty("kind", "outline")
            self._buttons.addWidget(button)
        self._buttons.addStretch(1)
        self._box.addLayout(self._card_box)
        self._box.addLayout(self._buttons)
        for _ in range(2):
            self._add()
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self._show_buttons()

    @property
    def columns(self) -> tuple[ColumnSetup, ...]:
        """What is chosen."""
        return tuple(card.setup for card in self._shown())

    @property
    def sizes(self) -> list[int]:
        """Bytes of their files; 0 where that is not known."""
        return [card.num_bytes for card in self._shown()]

    def show_models(self, options: Sequence[ModelOption]) -> None:
        """Offer these models; each column that has none gets one of its own, as far as there are some."""
        self._options = options
        taken = {card.setup.model for card in self.cards}
        for number, card in enumerate(self.cards):
            had_none = not card.setup.model
            card.show_models(options)
            if had_none:
                free = [option.name for option in options if option.name not in taken]
                cache = CACHE_TYPES[
                    0 if free else min(number, len(CACHE_TYPES) - 1)
                ]  # the same once more tells nothing
                card.choose_settings(ColumnSetup(free[0] if free else card.setup.model, cache))
                taken.add(card.setup.model)
        self._on_changed()

    def choose(self, columns: Sequence[ColumnSetup]) -> None:
        """Choose these columns."""
        while len(self.cards) < len(columns):
            self._add()
        while len(self.cards) > max(1, len(columns)):
            self._drop_last()
        for card, column in zip(self.cards, columns, strict=False):
            card.choose_settings(column)
        self._on_changed()

    def set_one(self, *, is_one: bool) -> None:
        """Let there be one column, or as many as are wanted."""
        self._is_one = is_one
        self._show_buttons()

    def set_temperature(self, before: float, after: float) -> None:
        """Change the temperature of the first column, unless it was set otherwise."""
        if self.cards[0].setup.temperature == before:
            self.cards[0].settings.temperature_box.setValue(after)

    def fit(self, width: int) -> None:
        """Lay the cards out for a width."""
        self._width = width
        for card in self.cards:
            card.fit(width)

    def _shown(self) -> list[ColumnCard]:
        return self.cards[:1] if self._is_one else self.cards

    def _levels(self) -> list[str]:
        """Return the levels of the first model, the largest first."""
        by_name = {option.name: option for option in self._options}
        first = by_name.get(self.cards[0].setup.model)
        if first is None or not first.group:
            return []
        return [option.name for option in self._options if option.group == first.group][:MAX_COLUMNS]

    def _add(self) -> ColumnCard:
        card = ColumnCard(self._theme, len(self.cards))
        card.show_models(self._options)
        card.changed.connect(self._on_changed)
        card.remove_requested.connect(lambda: self._remove(card))
        card.fit(self._width)
        self.cards.append(card)
        self._card_box.addWidget(card)
        return card

    def _on_add(self) -> None:
        before = self.cards[-1].setup
        card = self._add()
        taken = {other.setup.model for other in self.cards if other is not card}
        free = [option.name for option in self._options if option.name not in taken]
        card.choose_settings(before._replace(model=free[0]) if free else before)
        card.model_box.setFocus()
        self._on_changed()

    def _on_levels(self) -> None:
        usual = self.cards[0].setup
        self.choose([usual._replace(model=name) for name in self._levels()])

    def _remove(self, card: ColumnCard) -> None:
        columns = [other.setup for other in self.cards if other is not card]
        self.add_button.setFocus()
        self.choose(columns)  # the colours go by place

    def _drop_last(self) -> None:
        last = self.cards.pop()
        self._card_box.removeWidget(last)
        last.hide()
        last.deleteLater()

    def _on_changed(self) -> None:
        self._show_buttons()
        self.changed.emit()

    def _show_buttons(self) -> None:
        for number, card in enumerate(self.cards):
            card.setVisible(number == 0 or not self._is_one)
            card.set_removable(is_removable=len(self.cards) > 1 and not self._is_one)
        self.add_button.setVisible(not self._is_one and len(self.cards) < MAX_COLUMNS)
        self.levels_button.setVisible(not self._is_one and len(self._levels()) > 1)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setSpacing(px(10))
        self._card_box.setSpacing(px(8))
        self._buttons.setSpacing(px(8))
