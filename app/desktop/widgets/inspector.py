"""Inspector: the side bar with the readouts and the sampling settings."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.sampling_panel import SamplingPanel

WIDTH = 284


class Inspector(QFrame):
    """Two sections that scroll together."""

    def __init__(
        self, theme: Theme, readouts: Readouts, sampling: SamplingPanel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("inspector")
        self.setAccessibleName("Inspector")
        body = QWidget()
        body.setObjectName("inspectorBody")
        self._box = QVBoxLayout(body)
        for title, widget in (("LIVE", readouts), ("SAMPLING", sampling)):
            label = QLabel(title)
            label.setProperty("role", "section")
            self._box.addWidget(label)
            self._box.addWidget(widget)
            self._box.addSpacing(theme.px(14))
        self._box.addStretch()
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(body)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(1, 0, 0, 0)
        outer.addWidget(area)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._box.setContentsMargins(px(16), px(16), px(16), px(16))
        self._box.setSpacing(px(8))
