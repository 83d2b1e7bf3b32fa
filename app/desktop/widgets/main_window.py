"""MainWindow: places the parts, and tells when it was painted and when it is closed. It decides nothing."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QMainWindow, QWidget

from app.desktop.theme.theme import Theme
from app.desktop.widgets.chat_view import MAX_COLUMN, ChatView
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.inspector import WIDTH as INSPECTOR_WIDTH
from app.desktop.widgets.inspector import Inspector
from app.desktop.widgets.notices import NoticeArea
from app.desktop.widgets.top_bar import TopBar

# The inspector shows itself from here on, and stands beside the conversation instead of above it.
_WIDE = 1180
_BESIDE = 760
_COMPOSER_SHARE = 0.4
_LAYOUT_EVENTS = (QEvent.Type.LayoutRequest, QEvent.Type.ShowToParent, QEvent.Type.HideToParent)


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

    Signals:
        first_painted: once, when the window can be seen and used.
        closed: the user closed it.
        model_dropped: path of a model file that was dropped on it.
    """

    first_painted = Signal()
    closed = Signal()
    model_dropped = Signal(str)

    def __init__(
        self,
        theme: Theme,
        *,
        top_bar: TopBar,
        chat_view: ChatView,
        notices: NoticeArea,
        composer: Composer,
        inspector: Inspector,
    ) -> None:
        super().__init__()
        self._theme = theme
        self.top_bar = top_bar
        self.chat_view = chat_view
        self.notices = notices
        self.composer = composer
        self.inspector = inspector
        self._is_inspector_wanted: bool | None = None
        self._was_painted = False
        self._surface = _Surface(self)
        for part in (top_bar, chat_view, notices, composer, inspector):
            part.setParent(self._surface)
        self.setCentralWidget(self._surface)
        self.setWindowTitle("Fireside")
        self.setMinimumSize(400, 360)
        self.setAcceptDrops(True)
        self._surface.painted.connect(self._on_painted)
        self._surface.resized.connect(self._arrange)
        top_bar.inspector_toggled.connect(self._on_inspector_toggled)
        notices.installEventFilter(self)
        composer.installEventFilter(self)
        theme.changed.connect(self._arrange)
        self.resize(1240, 820)
        QWidget.setTabOrder(composer, chat_view)
        QWidget.setTabOrder(chat_view, inspector)
        composer.text_edit.setFocus()

    @property
    def is_inspector_visible(self) -> bool:
        """Whether the inspector is seen."""
        wanted = self._is_inspector_wanted
        return self.width() >= self._theme.px(_WIDE) if wanted is None else wanted

    def toggle_inspector(self) -> None:
        """Show or hide the inspector, from now on whatever the width."""
        self._on_inspector_toggled(not self.is_inspector_visible)

    def announce(self, text: str) -> None:
        """Let a screen reader say something without moving the focus."""
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, text))

    def eventFilter(self, watched: object, event: QEvent) -> bool:
        """Arrange again when a part changes its height."""
        kind = event.type()
        is_composer_resized = watched is self.composer and kind == QEvent.Type.Resize
        if is_composer_resized or kind in _LAYOUT_EVENTS:
            self._arrange()
        return False

    def closeEvent(self, event: QCloseEvent) -> None:
        """See QWidget."""
        super().closeEvent(event)
        self.closed.emit()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take model files."""
        if _model_files(event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Take the first model file."""
        event.acceptProposedAction()
        self.model_dropped.emit(_model_files(event.mimeData().urls())[0])

    def _on_inspector_toggled(self, is_wanted: bool) -> None:
        self._is_inspector_wanted = is_wanted
        self._arrange()

    def _on_painted(self) -> None:
        if not self._was_painted:
            self._was_painted = True
            QTimer.singleShot(0, self.first_painted.emit)

    def _arrange(self) -> None:
        px = self._theme.px
        width, height = self._surface.width(), self._surface.height()
        has_inspector = self.is_inspector_visible
        side = min(px(INSPECTOR_WIDTH), width) if has_inspector else 0
        is_beside = width - side >= px(_BESIDE - INSPECTOR_WIDTH)
        centre = width - side if is_beside else width
        top = self.top_bar.height()
        self.top_bar.setGeometry(0, 0, centre, top)
        margin = px(24 if centre > px(560) else 14)
        column = min(px(MAX_COLUMN), centre - 2 * margin - self.chat_view.verticalScrollBar().sizeHint().width()) + px(
            20
        )
        left = (centre - self.chat_view.verticalScrollBar().sizeHint().width() - column) // 2
        self.composer.set_max_height(round(height * _COMPOSER_SHARE))
        bottom = height - px(16 if centre > px(560) else 8)
        composer_top = bottom - self.composer.height()
        self.composer.setGeometry(left, composer_top, column, self.composer.height())
        chat_bottom = composer_top - px(10)
        if not self.notices.isHidden():
            notice_height = max(self.notices.heightForWidth(column), self.notices.minimumSizeHint().height())
            chat_bottom -= notice_height
            self.notices.setGeometry(left, chat_bottom, column, notice_height)
            chat_bottom -= px(8)
        self.chat_view.setGeometry(0, top, centre, max(0, chat_bottom - top))
        self.inspector.setVisible(has_inspector)
        inspector_top = 0 if is_beside else top
        self.inspector.setGeometry(width - side, inspector_top, side, height - inspector_top)
        if not is_beside:
            self.inspector.raise_()
        self.top_bar.inspector.setChecked(has_inspector)


def _model_files(urls: Sequence[QUrl]) -> list[str]:
    files = [Path(url.toLocalFile()) for url in urls if url.isLocalFile()]
    return [str(file) for file in files if file.suffix.lower() == ".gguf"]
