"""The Theme object: which look is on, at which zoom, and how it is put on the application."""

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.desktop.theme.stylesheet import application_stylesheet, document_stylesheet
from app.desktop.theme.tokens import DARK, LIGHT, Colours
from app.settings import Theme as ThemeMode

MIN_ZOOM, MAX_ZOOM = 0.8, 2.0
_ZOOM_STEPS = (MIN_ZOOM, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, MAX_ZOOM)
_MONOSPACE = ("Cascadia Mono", "SF Mono", "Menlo", "Consolas", "Noto Sans Mono", "DejaVu Sans Mono", "monospace")


class Theme(QObject):
    """Colours, sizes and fonts of the window, changed in one place.

    Args:
        application: gets the palette, font and stylesheet.
        mode: the user's choice.
        family: interface font; None takes the system's.
        zoom: factor on all sizes to begin with.

    Signals:
        changed: look or zoom changed; everything painted or rendered from the theme is out of date.
        zoom_changed: the zoom that is on from now on.
    """

    changed = Signal()
    zoom_changed = Signal(float)

    def __init__(
        self,
        application: QApplication,
        mode: ThemeMode = ThemeMode.SYSTEM,
        *,
        family: str | None = None,
        zoom: float = 1.0,
    ) -> None:
        super().__init__(application)
        self._application = application
        self._mode = mode
        self._zoom = _within_limits(zoom)
        self._pixels: dict[float, int] = {}  # asked for thousands of times when a long chat is opened
        self._family = family or QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont).family()
        application.setStyle("Fusion")
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._on_system_changed)
        self._apply()

    @property
    def mode(self) -> ThemeMode:
        """The user's choice."""
        return self._mode

    @property
    def colours(self) -> Colours:
        """The look that is on."""
        if self._mode is ThemeMode.SYSTEM:
            is_dark = QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark
            return DARK if is_dark else LIGHT
        return DARK if self._mode is ThemeMode.DARK else LIGHT

    @property
    def zoom(self) -> float:
        """Factor on all sizes, 0.8 to 2."""
        return self._zoom

    @property
    def document_stylesheet(self) -> str:
        """CSS for documents of messages."""
        return document_stylesheet(self.colours, self.px, _css_families(_MONOSPACE))

    def px(self, size: float) -> int:
        """Return a size of the design in device-independent pixels at this zoom."""
        pixels = self._pixels.get(size)
        if pixels is None:
            pixels = self._pixels[size] = max(1, round(size * self._zoom))
        return pixels

    def colour(self, role: str) -> QColor:
        """Return the colour of a role named in Colours."""
        return QColor(getattr(self.colours, role))

    def series(self, number: int) -> QColor:
        """Return the colour of one of some columns or lines, by its place from 0."""
        return QColor(self.colours.series[number % len(self.colours.series)])

    def font(self, size: float, *, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        """Return the interface font at a size of the design."""
        font = QFont(self._family)
        font.setPixelSize(self.px(size))
        font.setWeight(weight)
        return font

    def code_font(self) -> QFont:
        """Return the font of code."""
        font = QFont()
        font.setFamilies(list(_MONOSPACE))
        font.setStyleHint(QFont.StyleHint.Monospace)
        font.setPixelSize(self.px(13))
        return font

    def set_mode(self, mode: ThemeMode) -> None:
        """Switch the look."""
        if mode is not self._mode:
            self._mode = mode
            self._apply()

    def set_zoom(self, zoom: float) -> None:
        """Make everything `zoom` times its designed size, within the limits."""
        zoom = _within_limits(zoom)
        if zoom != self._zoom:
            self._zoom = zoom
            self._pixels.clear()
            self._apply()
            self.zoom_changed.emit(zoom)

    def zoom_in(self) -> None:
        """Make everything one step larger."""
        self.set_zoom(min((z for z in _ZOOM_STEPS if z > self._zoom), default=self._zoom))

    def zoom_out(self) -> None:
        """Make everything one step smaller."""
        self.set_zoom(max((z for z in _ZOOM_STEPS if z < self._zoom), default=self._zoom))

    def reset_zoom(self) -> None:
        """Go back to the designed sizes."""
        self.set_zoom(1.0)

    def _on_system_changed(self) -> None:
        if self._mode is ThemeMode.SYSTEM:
            self._apply()

    def _apply(self) -> None:
        self._application.setPalette(_palette(self.colours))
        self._application.setFont(self.font(13))
        self._application.setStyleSheet(application_stylesheet(self.colours, self.px))
        self.changed.emit()


def _within_limits(zoom: float) -> float:
    return round(min(max(zoom, MIN_ZOOM), MAX_ZOOM), 2)


def _palette(colours: Colours) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for target, name in (
        (role.Window, "bg"),
        (role.WindowText, "text"),
        (role.Base, "bg"),
        (role.AlternateBase, "surface"),
        (role.Text, "text"),
        (role.Button, "raised"),
        (role.ButtonText, "text"),
        (role.BrightText, "error"),
        (role.ToolTipBase, "raised"),
        (role.ToolTipText, "text"),
        (role.PlaceholderText, "muted"),
        (role.Highlight, "selection"),
        (role.HighlightedText, "text"),
        (role.Link, "link"),
        (role.LinkVisited, "link"),
        (role.Mid, "border"),
        (role.Accent, "accent"),
    ):
        palette.setColor(target, QColor(getattr(colours, name)))
    for target in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, target, QColor(colours.muted))
    return palette


def _css_families(families: tuple[str, ...]) -> str:
    return ",".join(f"'{family}'" for family in families)
