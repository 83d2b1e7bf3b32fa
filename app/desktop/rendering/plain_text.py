"""PlainText: text exactly as it was written, in the widget for untrusted text."""

from PySide6.QtGui import QTextBlockFormat, QTextCursor

from app.desktop.rendering.plain import visible
from app.desktop.rendering.safe_browser import SafeBrowser


class PlainText(SafeBrowser):
    """Text exactly as typed: no mark-up, every blank and line break kept."""

    _font_size = 15
    _line_height = 23

    def set_text(self, text: str) -> None:
        """Show `text`."""
        self.set_html(text)  # the source of this document is the text itself

    def _style(self) -> None:
        super()._style()
        self.document().setDefaultFont(self._theme.font(self._font_size))

    def _fill(self, source: str) -> None:
        document = self.document()
        document.setPlainText(visible(source))
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))
        cursor = QTextCursor(document)
        cursor.select(QTextCursor.SelectionType.Document)
        line = QTextBlockFormat()
        line.setLineHeight(self._theme.px(self._line_height), QTextBlockFormat.LineHeightTypes.MinimumHeight.value)
        cursor.mergeBlockFormat(line)


class DimText(PlainText):
    """The same, smaller and in the muted colour of the stylesheet, for what stands behind the rest."""

    _font_size = 14
    _line_height = 21
