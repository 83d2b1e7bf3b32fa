"""SettingsPage: every setting that a person sets by hand, drawn from what the settings declare of themselves."""

from typing import Any

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from app.desktop.theme.glyphs import GlyphButton
from app.desktop.theme.theme import Theme
from app.desktop.widgets.cache_summary import CacheSummary
from app.desktop.widgets.escape_key import take_escape
from app.desktop.widgets.kept_documents import KeptDocuments
from app.desktop.widgets.plain_label import plain_label
from app.desktop.widgets.scroll_area import scroll_area
from app.desktop.widgets.setting_controls import SettingControl, build_control, fit_control, translated
from app.setting_info import SettingInfo
from app.settings import Settings, setting_infos

_COLUMN = 640
_NARROW = 480
_CACHE_ON_DISK = "chat_disk_mib"
_LAST_OF_CACHE = "response_cache"  # the summary of the cache stands below it


class SettingRow(QWidget):
    """One setting: what it is called, what it does, its control, and the way back to the default.

    Signals:
        chosen: the value.
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme, info: SettingInfo, control: SettingControl) -> None:
        super().__init__()
        self._theme = theme
        self._default = info.default
        self.control = control
        label = plain_label(translated(info.label))
        label.setObjectName("settingLabel")
        label.setBuddy(control)
        control.setAccessibleName(label.text())
        control.setAccessibleDescription(translated(info.help))
        hint = plain_label(translated(info.help), role="meta")
        text = self.tr("Back to the default: {value}").format(value=control.text_of(info.default))
        self.reset_button = GlyphButton(theme, "retry", text, size=28)
        policy = self.reset_button.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.reset_button.setSizePolicy(policy)
        self.reset_button.hide()
        self._texts = QVBoxLayout()
        self._texts.addWidget(label)
        self._texts.addWidget(hint)
        self._right = QHBoxLayout()
        self._right.addWidget(control)
        self._right.addWidget(self.reset_button)
        self._box = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.addLayout(self._texts, 1)
        self._box.addLayout(self._right)
        control.chosen.connect(self._on_chosen)
        self.reset_button.clicked.connect(self._on_reset)
        self.restyle()

    def set_value(self, value: Any) -> None:
        """Show a value."""
        self.control.set_value(value)
        self.reset_button.setVisible(value != self._default)

    def fit(self, width: int) -> None:
        """Put the control beside the text, or below it where there is little room."""
        is_narrow = width < self._theme.px(_NARROW)
        fit_control(self._theme, self.control, width - self.inset)
        down, beside = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._box.setDirection(down if is_narrow else beside)
        side = Qt.AlignmentFlag.AlignLeft if is_narrow else Qt.AlignmentFlag.AlignRight
        self._right.setAlignment(side)

    @property
    def inset(self) -> int:
        """How much before the right end of the row its control ends: what the reset button takes."""
        return self.reset_button.width() + self._right.spacing()

    def restyle(self) -> None:
        """Take the sizes of the theme."""
        px = self._theme.px
        self._texts.setSpacing(px(2))
        self._right.setSpacing(px(4))
        self._box.setSpacing(px(8))

    def _on_chosen(self, value: Any) -> None:
        self.reset_button.setVisible(value != self._default)
        self.chosen.emit(value)

    def _on_reset(self) -> None:
        self.control.setFocus()  # the button goes away
        self.set_value(self._default)
        self.chosen.emit(self._default)


class SettingsPage(QWidget):
    """All settings; each change applies at once.

    Signals:
        changed: name and value of a setting.
        clear_requested: what is cached of chats is to go.
        closed: the user is done.
    """

    clear_requested = Signal()
    changed = Signal(str, object)
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: dict[str, SettingRow] = {}
        self.cache = CacheSummary(theme)
        self.cache.clear_requested.connect(self.clear_requested)
        self.cache.off_requested.connect(lambda: self.changed.emit(_CACHE_ON_DISK, 0))
        self.documents = KeptDocuments(theme)
        self.setObjectName("settingsPage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(self.tr("Settings"))
        self.back_button = GlyphButton(theme, "back", self.tr("Back (Esc)"), size=32)
        self.back_button.clicked.connect(self.closed)
        self.setFocusProxy(self.back_button)
        head = QFrame()
        head.setObjectName("pageHead")
        title = plain_label(self.tr("Settings"), role="title")
        self._head_row = QHBoxLayout(head)
        self._head_row.addWidget(self.back_button)
        self._head_row.addWidget(title, 1)
        body = QWidget()
        body.setObjectName("settingsBody")
        self._column = QWidget()
        self._box = QVBoxLayout(self._column)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._headings: list[QLabel] = []
        self._add_rows()
        self._file = QLineEdit()
        self._file.setReadOnly(True)
        self._file.setProperty("quiet", True)
        self._file.setAccessibleName(self.tr("The settings file"))
        self._file_label = plain_label(self.tr("The settings are kept in this file:"), role="meta")
        self._box.addWidget(self._file_label)
        self._box.addWidget(self._file)
        self._box.addStretch()
        self._middle = QHBoxLayout(body)
        self._middle.addStretch()
        self._middle.addWidget(self._column)
        self._middle.addStretch()
        self._area = scroll_area(body)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(head)
        outer.addWidget(self._area, 1)
        self.show_file("")
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def show_settings(self, settings: Settings) -> None:
        """Show the values that hold."""
        for name, row in self._rows.items():
            row.set_value(getattr(settings, name))
        self.cache.set_disk_on(settings.chat_disk_mib != 0)

    def show_file(self, path: str) -> None:
        """Say where the settings are kept."""
        self._file.setText(path)
        self._file.setCursorPosition(0)
        self._file.setVisible(bool(path))
        self._file_label.setVisible(bool(path))

    def row(self, name: str) -> SettingRow:
        """Return the row of a setting."""
        return self._rows[name]

    def event(self, event: QEvent) -> bool:
        """Take the Escape key before the shortcuts of the window do."""
        return take_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Close by Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See QWidget."""
        super().resizeEvent(event)
        self._fit()

    def _add_rows(self) -> None:
        section = ""
        for name, info in setting_infos().items():
            control = build_control(self._theme, info) if info.section else None
            if control is None:
                continue
            if info.section != section:
                section = info.section
                self._add_heading(section)
            row = SettingRow(self._theme, info, control)
            row.chosen.connect(lambda value, name=name: self.changed.emit(name, value))
            row.set_value(info.default)
            self._rows[name] = row
            self._box.addWidget(row)
            if name == _LAST_OF_CACHE:
                self._box.addWidget(self.cache)
                self._box.addWidget(self.documents)

    def _add_heading(self, section: str) -> None:
        heading = plain_label(translated(section).upper(), role="section")
        self._headings.append(heading)
        self._box.addWidget(heading)

    def _on_theme_changed(self) -> None:
        px = self._theme.px
        self._head_row.setContentsMargins(px(8), px(4), px(8), px(4))
        self._head_row.setSpacing(px(8))
        self._box.setSpacing(px(14))
        for heading in self._headings:
            heading.setContentsMargins(0, px(10), 0, 0)
        for row in self._rows.values():
            row.restyle()
        self.cache.restyle()
        self.documents.restyle()
        self._fit()

    def _fit(self) -> None:
        px = self._theme.px
        margin = px(24 if self.width() > px(560) else 14)
        self._middle.setContentsMargins(margin, px(8), margin, px(24))
        bar = self._area.verticalScrollBar().sizeHint().width()
        column = min(px(_COLUMN), self.width() - 2 * margin - bar)
        self._column.setFixedWidth(max(column, 1))
        for row in self._rows.values():
            row.fit(column)
        is_narrow = column < px(_NARROW)
        self.documents.set_inset(0 if is_narrow else next(iter(self._rows.values())).inset)
