"""Inspector: the side bar with the live numbers and the settings of chat and model."""

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.adapter_panel import AdapterPanel
from app.desktop.widgets.draft_panel import DraftPanel
from app.desktop.widgets.fold_section import FoldSection
from app.desktop.widgets.load_panel import LoadPanel
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.sampling_panel import SamplingPanel
from app.desktop.widgets.steady_scroll import SteadyScroll
from app.desktop.widgets.system_prompt import SystemPromptEdit

WIDTH = 284
# The numbers and the sampling settings are what one looks at most.
_CLOSED_AT_FIRST = ("system_prompt", "adapters", "drafting", "model")


class Inspector(QFrame):
    """Six sections that scroll together, each under a head that opens and closes it.

    Signals:
        collapsed_changed: the user opened or closed a section, see `collapsed`.
    """

    collapsed_changed = Signal()

    def __init__(
        self,
        theme: Theme,
        readouts: Readouts,
        sampling: SamplingPanel,
        load_panel: LoadPanel,
        system_prompt: SystemPromptEdit,
        parent: QWidget | None = None,
        *,
        adapters: AdapterPanel,
        drafting: DraftPanel,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("inspector")
        self.setAccessibleName(self.tr("Inspector"))
        body = QWidget()
        body.setObjectName("inspectorBody")
        self._box = QVBoxLayout(body)
        self.sections = (
            FoldSection(theme, "live", self.tr("LIVE"), readouts),
            FoldSection(theme, "system_prompt", self.tr("SYSTEM PROMPT"), system_prompt),
            FoldSection(theme, "sampling", self.tr("SAMPLING"), sampling),
            FoldSection(theme, "adapters", self.tr("ADAPTERS"), adapters),
            FoldSection(theme, "drafting", self.tr("DRAFTING"), drafting),
            FoldSection(theme, "model", self.tr("MODEL"), load_panel),
        )
        for section in self.sections:
            self._box.addWidget(section)
            section.toggled.connect(self.collapsed_changed)
        self._box.addStretch(1)
        adapters.summary_changed.connect(self.section("adapters").head.set_summary)
        drafting.summary_changed.connect(self.section("drafting").head.set_summary)
        load_panel.summary_changed.connect(self.section("model").head.set_summary)
        self.area = QScrollArea(self)
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setWidget(body)
        SteadyScroll(self.area, readouts)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(1, 0, 0, 0)
        outer.addWidget(self.area)
        self.set_collapsed(_CLOSED_AT_FIRST)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    @property
    def collapsed(self) -> set[str]:
        """Keys of the closed sections: of "live", "system_prompt", "sampling", "adapters", "drafting" and "model"."""
        return {section.key for section in self.sections if not section.is_open}

    def set_collapsed(self, keys: Iterable[str]) -> None:
        """Close these sections and open the others; names that are no section are passed over."""
        closed = set(keys)
        for section in self.sections:
            section.set_open(section.key not in closed)

    def section(self, key: str) -> FoldSection:
        """Return a section."""
        return next(section for section in self.sections if section.key == key)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(16), px(12), px(16), px(16))
        self._box.setSpacing(px(12))
