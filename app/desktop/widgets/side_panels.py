"""SidePanels: puts the sidebar and the inspector on the window, with the edges that resize them."""

from PySide6.QtCore import QObject, QRect, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.side_edge import SideEdge
from app.desktop.widgets.sides import Placement, SideName, Sides
from app.desktop.window_state import SideState

_VEIL = 150  # of 255: what lies below is still recognised


class _Veil(QWidget):
    """Covers the conversation while a side lies over it.

    Signals:
        clicked: the user wants back.
    """

    clicked = Signal()

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        colour = self._theme.colour("bg")
        colour.setAlpha(_VEIL)
        painter = QPainter(self)
        painter.fillRect(self.rect(), colour)
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.clicked.emit()


class SidePanels(QObject):
    """Both sides of a window.

    Args:
        surface: what they stand on.

    Signals:
        changed: the user showed, hid or resized a side.
        overlay_closed: no side lies over the conversation any more; the focus has to go somewhere.
    """

    changed = Signal()
    overlay_closed = Signal()

    def __init__(self, theme: Theme, surface: QWidget, sidebar: QWidget | None, inspector: QWidget) -> None:
        super().__init__(surface)
        self._theme = theme
        self._surface = surface
        self._sides = Sides()
        self._sides[SideName.SIDEBAR].exists = sidebar is not None
        self._panels: dict[SideName, QWidget] = {SideName.INSPECTOR: inspector}
        if sidebar is not None:
            self._panels[SideName.SIDEBAR] = sidebar
        self._overlay: SideName | None = None
        self._width_before_drag = 0
        self._veil = _Veil(theme, surface)
        self._veil.clicked.connect(lambda: self.close_overlay(surface.width()))
        labels = {
            SideName.SIDEBAR: self.tr("Width of the sidebar"),
            SideName.INSPECTOR: self.tr("Width of the inspector"),
        }
        self._edges: dict[SideName, SideEdge] = {}
        for name, panel in self._panels.items():
            panel.setParent(surface)
            self._edges[name] = edge = SideEdge(theme, labels[name], surface)
            edge.pressed.connect(lambda name=name: self._on_pressed(name))
            edge.dragged.connect(lambda way, name=name: self._on_dragged(name, way))
            edge.stepped.connect(lambda way, name=name: self._on_stepped(name, way))
            edge.reset.connect(lambda name=name: self._resize(name, self._sides[name].usual))
            edge.released.connect(self.changed)

    @property
    def overlay(self) -> SideName | None:
        """The side that lies over the conversation."""
        return self._overlay

    @property
    def edges(self) -> tuple[SideEdge, ...]:
        """The lines that can be taken hold of."""
        return tuple(self._edges.values())

    def is_shown(self, name: SideName, width: int) -> bool:
        """Tell whether a side is seen in a window of this width."""
        return self._sides.place(width / self._theme.zoom)[name] is not Placement.HIDDEN

    def toggle(self, name: SideName, width: int) -> None:
        """Show or hide a side in a window of this width."""
        panel = self._panels[name]
        had_focus = panel.isAncestorOf(self._surface.window().focusWidget() or panel)
        was_shown = self.is_shown(name, width)
        self._sides.toggle(name, width / self._theme.zoom)
        self.changed.emit()
        if self._overlay is name:
            _focus_first(panel)
        elif was_shown and had_focus:
            self.overlay_closed.emit()

    def close_overlay(self, width: int) -> bool:
        """Hide the side that lies over the conversation; tell whether there was one."""
        if self._overlay is None:
            return False
        self._sides.toggle(self._overlay, width / self._theme.zoom)
        self.changed.emit()
        self.overlay_closed.emit()
        return True

    def state(self, name: SideName) -> SideState:
        """Return what is worth keeping of a side."""
        side = self._sides[name]
        return SideState(width=None if side.width == side.usual else side.width, is_wanted=side.is_wanted)

    def restore(self, name: SideName, state: SideState) -> None:
        """Make a side as it was."""
        side = self._sides[name]
        side.set_width(state.width or side.usual)
        side.is_wanted = state.is_wanted

    def arrange(self, top: int) -> QRect:
        """Place the sides and return the area that is left; a side over the conversation begins at `top`."""
        width, height = self._surface.width(), self._surface.height()
        places = self._sides.place(width / self._theme.zoom)
        taken = dict.fromkeys(SideName, 0)
        self._overlay = None
        for name, panel in self._panels.items():
            place = places[name]
            panel_width = min(self._theme.px(self._sides[name].width), width)
            is_over = place is Placement.OVER
            x = 0 if name is SideName.SIDEBAR else width - panel_width
            if place is not Placement.HIDDEN:
                panel.setGeometry(x, top if is_over else 0, panel_width, height - top if is_over else height)
            panel.setVisible(place is not Placement.HIDDEN)
            edge = self._edges[name]
            edge.setVisible(place is not Placement.HIDDEN)
            edge.place(panel_width - 1 if name is SideName.SIDEBAR else x, panel.y(), panel.height())
            if is_over:
                self._overlay = name
            elif place is Placement.BESIDE:
                taken[name] = panel_width
                edge.raise_()
        self._veil.setVisible(self._overlay is not None)
        if self._overlay is not None:
            self._veil.setGeometry(0, top, width, height - top)
            for part in (self._veil, self._panels[self._overlay], self._edges[self._overlay]):
                part.raise_()
        left = taken[SideName.SIDEBAR]
        return QRect(left, 0, width - left - taken[SideName.INSPECTOR], height)

    def _on_pressed(self, name: SideName) -> None:
        self._width_before_drag = self._panels[name].width()

    def _on_dragged(self, name: SideName, way: int) -> None:
        outwards = way if name is SideName.SIDEBAR else -way
        self._resize(name, round((self._width_before_drag + outwards) / self._theme.zoom))

    def _on_stepped(self, name: SideName, way: int) -> None:
        outwards = way if name is SideName.SIDEBAR else -way
        self._resize(name, round((self._panels[name].width() + outwards) / self._theme.zoom))

    def _resize(self, name: SideName, width: int) -> None:
        side = self._sides[name]
        available = self._surface.width() / self._theme.zoom
        before = side.width
        side.set_width(min(width, self._sides.room_for(name, available)))
        if side.width != before:
            self.changed.emit()


def _focus_first(panel: QWidget) -> None:
    """Put the focus on the first thing in a side that takes it."""
    for child in panel.findChildren(QWidget):
        takes_focus = child.focusPolicy() & Qt.FocusPolicy.TabFocus and child.focusProxy() is None
        if takes_focus and child.isVisible() and child.isEnabled():
            child.setFocus(Qt.FocusReason.OtherFocusReason)
            return
