"""ReplyBody: the text, tables and code of one reply; only the segments near the view are widgets.

While a reply streams only its last segments are touched; what is settled keeps its widgets.
"""

import time
from collections.abc import Iterator, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.desktop.rendering.blocks import Block, BlockKind
from app.desktop.rendering.code_block import CodeBlock
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.safe_browser import SafeBrowser, TableBrowser
from app.desktop.theme.theme import Theme
from app.desktop.widgets.reply_contents import Part, ReplyContents

_GAP = 10

Segment = SafeBrowser | CodeBlock


class ReplyBody(QWidget):
    """Shows Markdown that may still grow; takes no place while it is empty.

    Signals:
        height_changed: the height for the present width is another one.
        unfolded: the same, because the user folded, unfolded or wrapped code.
        segment_made: a Part, its text widget, which came into being or was filled anew.
        link_activated, link_hovered: see SafeBrowser.
        save_requested: see CodeBlock.
    """

    height_changed = Signal()
    unfolded = Signal()
    segment_made = Signal(object, object)
    link_activated = Signal(str)
    link_hovered = Signal(str)
    save_requested = Signal(str, str)

    def __init__(
        self,
        theme: Theme,
        contents: ReplyContents,
        lexer: CodeLexer,
        parent: QWidget | None = None,
        *,
        formulas: FormulaImages | None = None,
    ) -> None:
        super().__init__(parent)
        self._formulas = formulas
        self._theme = theme
        self._contents = contents
        self._lexer = lexer
        self._name = ""
        self._widgets: dict[Part, Segment] = {}
        self._filled: dict[Part, Block] = {}
        self._growing: Part | None = None
        self._width = 0

    @property
    def contents(self) -> ReplyContents:
        """What there is to show, seen or not."""
        return self._contents

    @property
    def segments(self) -> Sequence[Segment]:
        """The widgets there are, top to bottom."""
        return [self._widgets[part] for part in self._contents.parts if part in self._widgets]

    @property
    def shown(self) -> Sequence[Block]:
        """What the parsed segments show."""
        return [part.block for part in self._contents.parts if part.block is not None]

    @property
    def code_blocks(self) -> Sequence[CodeBlock]:
        """The code blocks that are widgets, top to bottom."""
        return [segment for segment in self.segments if isinstance(segment, CodeBlock)]

    def text_of(self, part: Part) -> "QWidget | None":
        """Return the widget that holds the text of a segment, if there is one at present."""
        segment = self._widgets.get(part)
        return segment.text_widget if isinstance(segment, CodeBlock) else segment

    def realised(self) -> Iterator[tuple[Part, Segment]]:
        """Give the segments that are widgets, top to bottom."""
        for part in self._contents.parts:
            if part in self._widgets:
                yield part, self._widgets[part]

    def set_name(self, name: str) -> None:
        """Name the speaker for screen readers."""
        self._name = name
        for segment in self._widgets.values():
            if isinstance(segment, SafeBrowser):
                segment.setAccessibleName(name)

    def append(self, text: str, *, is_seen: bool) -> None:
        """Take in a piece of the reply, which the turn has already."""
        self._contents.append(text, is_seen=is_seen)
        self._after_change()

    def reread(self) -> None:
        """Take the whole reply anew."""
        self._contents.read()
        self._after_change()

    def finish(self) -> None:
        """Settle the end of the reply."""
        growing, self._growing = self._growing, None
        if growing is not None:
            self._filled.pop(growing, None)  # so that code is coloured to its end
        if self._contents.finish() or growing is not None:
            self._after_change()

    def restyle(self) -> None:
        """Take the theme's present look."""
        for part in self._contents.parts:
            part.width = 0
        for segment in self._widgets.values():
            segment.restyle()

    def fit(self, width: int) -> int:
        """Stack the segments for `width` and return the height; they are measured when they are in view."""
        self._width = width
        return self._stack()

    def realise(self, top: int, bottom: int, deadline: float = float("inf")) -> bool:
        """Make widgets of the segments between `top` and `bottom`.

        Args:
            deadline: of `time.perf_counter`; after it no further one is begun.

        Returns:
            Whether the height of any segment changed.
        """
        contents, gap = self._contents, self._theme.px(_GAP)
        has_changed = False
        index, y = 0, 0
        while index < len(contents.parts) and y < bottom:
            part = contents.parts[index]
            if y + part.height <= top or self._is_ready(part):
                y += part.height + gap
                index += 1
                continue
            if time.perf_counter() > deadline:
                break
            has_changed = True
            if part.block is None:
                self._contents.parse(part)
                self._mark_growing()
            else:
                self._show_part(part)
        if has_changed:
            self._stack()
        return has_changed

    def is_realised(self, top: int, bottom: int) -> bool:
        """Tell whether all between `top` and `bottom` are widgets."""
        gap, y = self._theme.px(_GAP), 0
        for part in self._contents.parts:
            if y >= bottom:
                break
            if y + part.height > top and not self._is_ready(part):
                return False
            y += part.height + gap
        return True

    def drop_outside(self, top: int, bottom: int) -> None:
        """Remove the widgets that are neither between `top` and `bottom` nor held by focus or a selection."""
        for part, segment in list(self._widgets.items()):
            y = segment.y()
            if (y + segment.height() < top or y > bottom) and not _is_held(segment):
                self._drop(part)

    def top_of(self, part: Part) -> int | None:
        """Return where a segment begins; None where it is gone."""
        gap, y = self._theme.px(_GAP), 0
        for other in self._contents.parts:
            if other is part:
                return y
            y += other.height + gap
        return None

    def part_at(self, y: int) -> Part | None:
        """Return the segment that stands at or below `y` and is a widget."""
        gap, bottom = self._theme.px(_GAP), 0
        for part in self._contents.parts:
            bottom += part.height + gap
            if bottom > y and part in self._widgets:
                return part
        return None

    def unfold(self, part: Part) -> None:
        """Show all lines of a code block."""
        part.is_unfolded = True
        segment = self._widgets.get(part)
        if isinstance(segment, CodeBlock) and segment.is_folded and segment.foot_button is not None:
            segment.foot_button.click()

    def _on_block_resized(self, block: CodeBlock) -> None:
        if self._remeasure(block):
            self.unfolded.emit()

    def _on_refilled(self, browser: SafeBrowser) -> None:
        if self._remeasure(browser):
            self.height_changed.emit()

    def _remeasure(self, segment: Segment) -> bool:
        """Measure a segment whose height changed by itself; return whether it is still shown."""
        part = next((part for part, other in self._widgets.items() if other is segment), None)
        if part is None or not self._width:
            return False
        if isinstance(segment, CodeBlock):
            part.is_unfolded = not segment.is_folded
        self._measure(part, segment)
        self._stack()
        self.segment_made.emit(part, self.text_of(part))
        return True

    def _is_ready(self, part: Part) -> bool:
        return part.width == self._width and part in self._widgets and self._filled.get(part) is part.block

    def _after_change(self) -> None:
        """Bring widgets in line with the segments; new ones are made when they are in view."""
        kept = set(self._contents.parts)
        for part in [part for part in self._widgets if part not in kept]:
            self._drop(part)
        self._mark_growing()
        for part in list(self._widgets):
            if self._filled.get(part) is not part.block and part.block is not None:
                self._show_part(part)
        if self._width:
            self._stack()
            self.height_changed.emit()

    def _mark_growing(self) -> None:
        """Tell code that grows from code that is complete, which is coloured to its end."""
        parts = self._contents.parts
        growing = parts[-1] if parts and self._contents.is_streaming else None
        if growing is not self._growing and self._growing is not None:
            self._filled.pop(self._growing, None)
        self._growing = growing

    def _show_part(self, part: Part) -> None:
        block = part.block
        assert block is not None
        segment = self._widgets.get(part)
        if segment is not None and _kind_of(segment) is not block.kind:
            self._drop(part)
            segment = None
        if segment is None:
            segment = self._widgets[part] = self._new_segment(block.kind)
        if self._filled.get(part) is not block:
            self._filled[part] = block
            if isinstance(segment, CodeBlock):
                if part.is_unfolded and not segment.code:  # what was read as it grew, or unfolded, stays unfolded
                    segment.set_code(block.code, block.language, is_growing=True)
                segment.set_code(block.code, block.language, is_growing=part is self._growing)
                part.is_unfolded = not segment.is_folded
            else:
                segment.set_html(block.html)
            part.width = 0
        if part.width != self._width and self._width:
            self._measure(part, segment)
        text = self.text_of(part)
        self.segment_made.emit(part, text)

    def _measure(self, part: Part, segment: Segment) -> None:
        part.height, part.width = segment.fit(self._width), self._width

    def _new_segment(self, kind: BlockKind) -> Segment:
        if kind is BlockKind.CODE:
            block = CodeBlock(self._theme, self._lexer, self)
            block.resized.connect(lambda: self._on_block_resized(block))
            block.save_requested.connect(self.save_requested)
            block.show()
            return block
        make = TableBrowser if kind is BlockKind.TABLE else SafeBrowser
        browser = make(self._theme, self, formulas=self._formulas)
        browser.refilled.connect(lambda: self._on_refilled(browser))
        browser.setAccessibleName(self._name)
        browser.link_activated.connect(self.link_activated)
        browser.link_hovered.connect(self.link_hovered)
        browser.show()
        return browser

    def _drop(self, part: Part) -> None:
        segment = self._widgets.pop(part)
        self._filled.pop(part, None)
        segment.hide()
        segment.deleteLater()

    def _stack(self) -> int:
        gap, y = self._theme.px(_GAP), 0
        for part in self._contents.parts:
            segment = self._widgets.get(part)
            if segment is not None:
                segment.setGeometry(0, y, part.width or self._width, part.height)
            y += part.height + gap
        height = max(0, y - gap)
        self.resize(self._width, height)
        return height


def _kind_of(segment: Segment) -> BlockKind:
    if isinstance(segment, CodeBlock):
        return BlockKind.CODE
    return BlockKind.TABLE if isinstance(segment, TableBrowser) else BlockKind.TEXT


def _is_held(segment: Segment) -> bool:
    focus = QApplication.focusWidget()
    if focus is not None and (focus is segment or segment.isAncestorOf(focus)):
        return True
    text = segment.text_widget if isinstance(segment, CodeBlock) else segment
    return bool(text.property("held"))
