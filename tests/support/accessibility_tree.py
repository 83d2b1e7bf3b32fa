"""What a screen reader is told of a window, as an indented tree.

`python -m tests.support.accessibility_tree [QUESTION]` opens the real program on the fake engine, asks the question if
there is one, prints the tree, and ends.
"""

import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QWidget

_MAX_CHARS = 100
_STATES = ("focused", "disabled", "checked", "expanded", "collapsed", "pressed", "readOnly", "selected", "modal")


def dump(widget: QWidget, *, includes_hidden: bool = False) -> str:
    """Return a line for each accessible thing below a widget, itself included.

    A line has the role; the name in quotes, or NO NAME where something that takes the focus has none; value,
    description and text where there are any; and the states. Of long texts the beginning and the length are shown.

    Args:
        includes_hidden: list what is not on the screen as well, in parentheses.
    """
    interface = QAccessible.queryAccessibleInterface(widget)
    return "\n".join(_lines(interface, 0, includes_hidden)) if interface else ""


def _lines(interface: QAccessibleInterface, depth: int, includes_hidden: bool) -> Iterator[str]:
    is_hidden = bool(interface.state().invisible)
    if is_hidden and not includes_hidden:
        return
    line = _line(interface)
    yield "  " * depth + (f"({line})" if is_hidden else line)
    for number in range(interface.childCount()):
        child = interface.child(number)
        if child is not None and child.isValid():
            yield from _lines(child, depth + 1, includes_hidden)


def _line(interface: QAccessibleInterface) -> str:
    state = interface.state()
    parts = [interface.role().name]
    name = interface.text(QAccessible.Text.Name)
    if name:
        parts.append(f'"{_short(name)}"')
    elif state.focusable:
        parts.append("NO NAME")
    text = interface.textInterface()
    for label, content in (
        ("value", "" if text else interface.text(QAccessible.Text.Value)),
        ("description", interface.text(QAccessible.Text.Description)),
        ("keys", interface.text(QAccessible.Text.Accelerator)),
        ("text", text.text(0, text.characterCount()) if text else ""),
    ):
        if content and content != name:
            parts.append(f"{label}={_short(content)!r}")
    states = [word for word in _STATES if getattr(state, word)]
    return " ".join([*parts, f"[{' '.join(states)}]"] if states else parts)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}… ({len(text)} characters)"


def main() -> None:
    """Print the tree of the program's window."""
    from app.desktop import application
    from app.paths import find_paths

    question = " ".join(sys.argv[1:])
    build = application.build_window

    def build_and_dump(*args: Any, **kwargs: Any) -> Any:
        parts = build(*args, **kwargs)

        def show() -> None:
            print(dump(parts.window))
            parts.window.close()

        def ask() -> None:
            parts.window.composer.text_edit.setPlainText(question)
            parts.window.composer.submit()

        if question:
            parts.window.first_painted.connect(ask)
            parts.bridge.reply_finished.connect(lambda _: QTimer.singleShot(200, show))
        else:
            parts.window.first_painted.connect(lambda: QTimer.singleShot(1000, show))
        return parts

    vars(application).update(build_window=build_and_dump)
    with tempfile.TemporaryDirectory() as folder:
        application.run_window(find_paths(folder), model=None, fake_engine=True)


if __name__ == "__main__":
    main()
