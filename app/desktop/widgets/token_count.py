"""TokenCount: the quiet line that tells how long the message is for the model."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from app.desktop.theme.look import set_look
from app.desktop.widgets.figures import count_text


class TokenCount(QLabel):
    """Shows a number of tokens, and warns where it is more than the context holds."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._texts = ("", "")  # in full, and for little room
        self._tip = ""
        self._is_narrow = False
        self.setObjectName("tokenCount")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def show_count(
        self, num_tokens: int | None, *, num_over: int = 0, n_ctx: int = 0, is_alone_too_long: bool = False
    ) -> None:
        """Show a count.

        Args:
            num_tokens: of everything the model would read; None shows nothing.
            num_over: tokens for which the context has no room.
            n_ctx: size of the context; 0 where it is not known.
            is_alone_too_long: the message has no room even without the turns before it.
        """
        tip = ""
        if num_tokens is None:
            texts = ("", "")
        elif num_over > 0:
            texts, tip = self._over(num_over, is_alone_too_long)
        elif n_ctx > 0:
            count = count_text(num_tokens)
            texts = (self.tr("{count} / {most} tokens").format(count=count, most=count_text(n_ctx)), count)
            tip = self.tr("Tokens of the conversation with this message / tokens the context holds")
        else:
            one, many, count = self.tr("1 token"), self.tr("{count} tokens"), count_text(num_tokens)
            texts = ((one if num_tokens == 1 else many).format(count=count), count)
        self._texts = texts
        self._tip = tip
        self._set_warning(num_tokens is not None and num_over > 0)
        self._show()

    def set_narrow(self, is_narrow: bool) -> None:
        """Use the shorter words."""
        if is_narrow != self._is_narrow:
            self._is_narrow = is_narrow
            self._show()

    def _over(self, num_over: int, is_alone_too_long: bool) -> tuple[tuple[str, str], str]:
        one, many = self.tr("1 token over the context"), self.tr("{count} tokens over the context")
        count = count_text(num_over)
        if is_alone_too_long:
            tip = self.tr("The message alone is longer than the context. Shorten it, or load a larger context.")
        else:
            tip = self.tr("The oldest turns will be left out, so that the message has room.")
        full = (one if num_over == 1 else many).format(count=count)
        return (full, self.tr("{count} over").format(count=count)), tip

    def _set_warning(self, is_warning: bool) -> None:
        set_look(self, "warning", is_warning)

    def _show(self) -> None:
        self.setText(self._texts[self._is_narrow])
        self.setAccessibleName(self._texts[0])
        full = self._texts[0] if self._is_narrow else ""
        self.setToolTip("\n".join(line for line in (full, self._tip) if line))
