"""MainWindow: places the parts, and tells when it was painted and when it is closed. It decides nothing."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QRect, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QDragEnterEvent,
    QDropEvent,
    QKeyEvent,
    QMoveEvent,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QMainWindow, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.chat_view import MAX_COLUMN, ChatView
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.escape_key import is_escape_offered
from app.desktop.widgets.inspector import Inspector
from app.desktop.widgets.notices import NoticeArea
from app.desktop.widgets.side_panels import SidePanels
from app.desktop.widgets.sides import SideName
from app.desktop.widgets.top_bar import TopBar
from app.desktop.window_state import WindowState, fitted_geometry

_COMPOSER_SHARE = 0.4
_MIN_CHAT = 40
_LAYOUT_EVENTS = (
    QEvent.Type.Resize,
    QEvent.Type.LayoutRequest,
    QEvent.Type.ShowToParent,
    QEvent.Type.HideToParent,
)


class _Surface(QWidget):
    """The area of the window; tells its first paint.

    Signals:
        painted: something is on the screen.
        resized: it has another size.
    """

    painted = Signal()
    resized = Signal()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        self.painted.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()


class MainWindow(QMainWindow):
    """The window.

    Args:
        sidebar: at the left; None for a window without one.
        find_bar: a line above the conversation while it is not hidden.

    Signals:
        first_painted: once, when the window can be seen and used.
        model_dropped: path of a model file that was dropped on it.
        files_dropped: paths of other files.
        state_changed: place, size or sides changed.
        page_changed: another page stands in the place of the conversation, or none.
    """

    first_painted = Signal()
    model_dropped = Signal(str)
    files_dropped = Signal(list)
    state_changed = Signal()
    page_changed = Signal(object)

    def __init__(
        self,
        theme: Theme,
        *,
        top_bar: TopBar,
        chat_view: ChatView,
        notices: NoticeArea,
        composer: Composer,
        inspector: Inspector,
        sidebar: QWidget | None = None,
        find_bar: QWidget | None = None,
    ) -> None:
        super().__init__()
        self._theme = theme
        self.top_bar = top_bar
        self.chat_view = chat_view
        self.notices = notices
        self.composer = composer
        self.inspector = inspector
        self.sidebar = sidebar
        self.find_bar = find_bar
        self._page: QWidget | None = None
        self._focus_before: QWidget | None = None
        self._was_painted = False
        self._is_arranging = False
        self._surface = _Surface(self)
        self._panels = SidePanels(theme, self._surface, sidebar, inspector)
        for part in (top_bar, find_bar, chat_view, notices, composer):
            if part is not None:
                part.setParent(self._surface)
        self.setCentralWidget(self._surface)
        self.setWindowTitle("Fireside")
        self.setMinimumSize(400, 360)
        self.setAcceptDrops(True)
        top_bar.sidebar.setVisible(sidebar is not None)
        self._surface.painted.connect(self._on_painted)
        self._surface.resized.connect(self._arrange)
        self._panels.changed.connect(self._arrange)
        self._panels.changed.connect(self.state_changed)
        self._panels.overlay_closed.connect(self._focus_centre)
        top_bar.inspector_toggled.connect(self.toggle_inspector)
        top_bar.sidebar_toggled.connect(self.toggle_sidebar)
        notices.height_changed.connect(self._arrange)
        for part in (composer, find_bar):
            if part is not None:
                part.installEventFilter(self)
        theme.changed.connect(self._arrange)
        self.resize(1240, 820)
        composer.text_edit.setFocus()

    @property
    def is_inspector_visible(self) -> bool:
        """Whether the inspector is seen."""
        return self._panels.is_shown(SideName.INSPECTOR, self._surface.width())

    @property
    def is_sidebar_visible(self) -> bool:
        """Whether the sidebar is seen."""
        return self._panels.is_shown(SideName.SIDEBAR, self._surface.width())

    @property
    def page(self) -> QWidget | None:
        """What stands in the place of the conversation."""
        return self._page

    def toggle_inspector(self) -> None:
        """Show or hide the inspector."""
        self._panels.toggle(SideName.INSPECTOR, self._surface.width())

    def toggle_sidebar(self) -> None:
        """Show or hide the sidebar."""
        if self.sidebar is not None:
            self._panels.toggle(SideName.SIDEBAR, self._surface.width())

    def state(self) -> WindowState:
        """Return what is worth keeping of the window itself."""
        place = self.normalGeometry()
        return WindowState(
            geometry=place if place.isValid() else self.geometry(),
            is_maximized=self.isMaximized(),
            sidebar=self._panels.state(SideName.SIDEBAR),
            inspector=self._panels.state(SideName.INSPECTOR),
        )

    def restore(self, state: WindowState) -> None:
        """Make the window as it was, if it can be seen there."""
        place = fitted_geometry(state.geometry)
        if place is not None:
            self.setGeometry(place)
        else:
            self.resize(self.size().boundedTo(self.screen().availableSize()))
        if state.is_maximized:
            self.setWindowState(self.windowState() | Qt.WindowState.WindowMaximized)
        self._panels.restore(SideName.SIDEBAR, state.sidebar)
        self._panels.restore(SideName.INSPECTOR, state.inspector)
        self._arrange()

    def show_page(self, page: QWidget | None) -> None:
        """Show a page in the place of the conversation; None shows the conversation again.

        The window never deletes a page. Focus goes to it, and back to where it was.
        """
        if page is self._page:
            return
        self.close_overlay()
        if self._page is None:
            self._focus_before = self.focusWidget()
        else:
            self._page.hide()
        self._page = page
        if page is not None:
            page.setParent(self._surface)
            page.lower()
        self._arrange()
        if page is not None:
            page.show()
            page.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self._focus_centre()
        self.page_changed.emit(page)

    def close_overlay(self) -> bool:
        """Hide the side that lies over the conversation, and tell whether there was one."""
        return self._panels.close_overlay(self._surface.width())

    def come_to_front(self) -> None:
        """Show the window above all others, also from the task bar."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized | Qt.WindowState.WindowActive)
        self.show()
        self.raise_()
        self.activateWindow()

    def announce(self, text: str) -> None:
        """Let a screen reader say something without moving the focus."""
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, text))

    def focusNextPrevChild(self, is_next: bool) -> bool:
        """Go from chats to composer, conversation and inspector, in whatever order the widgets were made."""
        stops = self._stops()
        now = self.focusWidget()
        if not stops:
            return False
        at = stops.index(now) if now in stops else (-1 if is_next else 0)
        target = stops[(at + (1 if is_next else -1)) % len(stops)]
        target.setFocus(Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason)
        return True

    def event(self, event: QEvent) -> bool:
        """Take the Escape key before the shortcuts of the window do while a side lies over the conversation."""
        if is_escape_offered(event) and self._panels.overlay is not None:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Close the side that lies over the conversation."""
        if event.key() != Qt.Key.Key_Escape or not self.close_overlay():
            super().keyPressEvent(event)

    def eventFilter(self, watched: object, event: QEvent) -> bool:
        """Arrange again when a part changes its height."""
        if event.type() in _LAYOUT_EVENTS:
            self._arrange()
        return False

    def moveEvent(self, event: QMoveEvent) -> None:
        """See QWidget."""
        super().moveEvent(event)
        self.state_changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self.state_changed.emit()

    def changeEvent(self, event: QEvent) -> None:
        """See QWidget."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self.state_changed.emit()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take files."""
        if _files(event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Take the first model file, or all others."""
        event.acceptProposedAction()
        files = _files(event.mimeData().urls())
        models = [file for file in files if Path(file).suffix.lower() == ".gguf"]
        if models:
            self.model_dropped.emit(models[0])
        elif files:
            self.files_dropped.emit(files)

    def _on_painted(self) -> None:
        if not self._was_painted:
            self._was_painted = True
            QTimer.singleShot(0, self, self.first_painted.emit)

    def _focus_centre(self) -> None:
        before, self._focus_before = self._focus_before, None
        if self._page is not None:
            self._page.setFocus(Qt.FocusReason.OtherFocusReason)
        elif before is not None and before.isVisibleTo(self) and before.isEnabled():
            before.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.composer.text_edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def _stops(self) -> list[QWidget]:
        """Return where the Tab key stops, in order; what lies below a side is left out."""
        centre: list[QWidget | None] = [self._page] if self._page else [self.composer, self.find_bar, self.chat_view]
        if self._panels.overlay is not None:
            centre = []
        parts = (self.sidebar, *centre, self.notices, self.inspector, self.top_bar, *self._panels.edges)
        stops: list[list[QWidget]] = [[] for _ in parts]
        for widget in self._focus_chain():
            can_stop = widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.focusProxy() is None
            if not can_stop or not widget.isEnabled() or not widget.isVisible():
                continue
            for index, part in enumerate(parts):
                if part is not None and (part is widget or part.isAncestorOf(widget)):
                    stops[index].append(widget)
                    break
        return [widget for part in stops for widget in part]

    def _focus_chain(self) -> list[QWidget]:
        chain: list[QWidget] = []
        widget = self.nextInFocusChain()
        while widget is not None and widget is not self:
            chain.append(widget)
            widget = widget.nextInFocusChain()
        return chain

    def _arrange(self) -> None:
        if self._is_arranging:
            return
        self._is_arranging = True
        focus = self.focusWidget()
        sides = [side for side in (self.sidebar, self.inspector) if side is not None and not side.isHidden()]
        side = next((side for side in sides if focus is not None and side.isAncestorOf(focus)), None)
        try:
            area = self._panels.arrange(self.top_bar.height())
            self._arrange_centre(area)
        finally:
            self._is_arranging = False
        self.top_bar.sidebar.setChecked(self.is_sidebar_visible)
        self.top_bar.inspector.setChecked(self.is_inspector_visible)
        if side is not None and side.isHidden():  # a narrower window took it: Qt would give the keys to any neighbour
            self._focus_centre()

    def _arrange_centre(self, area: QRect) -> None:
        px = self._theme.px
        self.top_bar.setGeometry(area.left(), 0, area.width(), self.top_bar.height())
        top = self.top_bar.height()
        is_wide = area.width() > px(560)
        bar = self.chat_view.verticalScrollBar().sizeHint().width()
        column = min(px(MAX_COLUMN), area.width() - 2 * px(24 if is_wide else 14) - bar) + px(20)
        left = area.left() + (area.width() - bar - column) // 2
        bottom = area.height() - px(16 if is_wide else 8)
        for part in (self.composer, self.chat_view):
            part.setVisible(self._page is None)
        if self._page is None:
            bottom = self._arrange_composer(left, column, bottom, top) - px(10)
        else:
            bottom = area.height() - (0 if self.notices.isHidden() else px(8))
        bottom = self._arrange_notices(left, column, bottom, top)
        if self._page is not None:
            self._page.setGeometry(area.left(), top, area.width(), max(0, bottom - top))
            return
        # While it is being shown, Qt would not tell it of another size; afterwards it is arranged once more.
        if self.find_bar is not None and self.find_bar.isVisible():
            height = self.find_bar.sizeHint().height()
            self.find_bar.setGeometry(area.left(), top, area.width(), height)
            top += height
        self.chat_view.setGeometry(area.left(), top, area.width(), max(0, bottom - top))

    def _arrange_composer(self, left: int, column: int, bottom: int, top: int) -> int:
        composer = self.composer
        composer.set_max_height(round(self._surface.height() * _COMPOSER_SHARE))
        composer.resize(column, composer.height())  # its height may follow the width
        y = max(bottom - composer.height(), top)
        composer.move(left, y)
        return y

    def _arrange_notices(self, left: int, column: int, bottom: int, top: int) -> int:
        """Put the notices above `bottom`, and return where they begin."""
        if self.notices.isHidden():
            return bottom
        px = self._theme.px
        room = max(0, bottom - top)
        if self._page is None and room > px(3 * _MIN_CHAT):
            room -= px(_MIN_CHAT)  # something of the conversation is seen, unless there is hardly room at all
        height = min(self.notices.height_for(column), room)
        self.notices.setGeometry(left, bottom - height, column, height)
        return bottom - height - px(8)


def _files(urls: Sequence[QUrl]) -> list[str]:
    return [url.toLocalFile() for url in urls if url.isLocalFile()]
