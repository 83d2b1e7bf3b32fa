"""A look that the stylesheet gives by a property, changed while a widget is shown."""

from PySide6.QtWidgets import QWidget


def set_look(widget: QWidget, name: str, value: object) -> None:
    """Set a property that the stylesheet goes by; one that is not there is as good as an empty one."""
    before = widget.property(name)
    if before != value and (before or value):
        widget.setProperty(name, value)
        widget.style().unpolish(widget)
        widget.style().polish(widget)
